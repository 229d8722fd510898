"""What the model-driven agent may be told with `--option NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fabrica_bench.plugins import AgentGaveUp

PREFIX: Final = "FABRICA_AGENT_"


@unique
class Mode(StrEnum):
    """What a repair is told about the failed attempt: the modes of the feedback study."""

    A = "A"
    """Nothing: every attempt is a fresh sample."""
    B = "B"
    """Its code, and which of Build, Run, Contract, Timing and Correct failed."""
    C = "C"
    """Beside that what the toolchain printed, unprocessed."""
    D = "D"
    """Beside that the review: class, cause, route (which also allows a redesign), cards on this failure."""
    T = "T"
    """As D, with the whole trail of earlier attempts and their reviews."""

    @property
    def shows_code(self) -> bool:
        return self is not Mode.A

    @property
    def shows_output(self) -> bool:
        return self in (Mode.C, Mode.D, Mode.T)

    @property
    def reviews(self) -> bool:
        return self in (Mode.D, Mode.T)


@unique
class Knowledge(StrEnum):
    """Tiers of the knowledge ablation."""

    FULL = "full"
    """Primer, retrieved cards and the user's documents, worked examples."""
    NO_RETRIEVAL = "no-retrieval"
    """The primer only."""
    NO_PRIMER = "no-primer"
    """Neither: only what the task itself shows."""


class Settings(BaseModel):
    """Options of the model-driven agent.

    Attributes:
        mode: Feedback of repairs.
        knowledge: Knowledge tier.
        candidates: Independent first programs before any repair.
        repairs: Repairs of the most promising one.
        redesigns: New designs among the repairs.
        steps: Optimization attempts of the model; 0 ends with the first valid program, without `rewrites` either.
        rewrites: Optimization attempts of the deterministic engine before those of the model.
        patience: Optimization attempts in a row without gain that end it.
        template: Starter template: `auto` chooses by layout, `off` gives none.
        examples: Worked examples in the implementer's prompt.
        cards: Retrieved cards per prompt.
        profile: Whether model and `rewrites` go by a profile; it costs an evaluation after each better program.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = Mode.D
    knowledge: Knowledge = Knowledge.FULL
    candidates: int = Field(default=2, ge=1, le=16)
    repairs: int = Field(default=6, ge=0, le=50)
    redesigns: int = Field(default=2, ge=0, le=10)
    steps: int = Field(default=6, ge=0, le=50)
    rewrites: int = Field(default=4, ge=0, le=50)
    patience: int = Field(default=3, ge=1, le=50)
    template: Literal["auto", "off"] = "auto"
    examples: int = Field(default=1, ge=0, le=8)
    cards: int = Field(default=6, ge=0, le=30)
    profile: bool = True


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings that the variables FABRICA_AGENT_MODE, ..._CANDIDATES and so on give.

    Raises:
        AgentGaveUp: A value is none of its option's.
    """
    given = {
        name: environment[PREFIX + name.upper()]
        for name in Settings.model_fields
        if PREFIX + name.upper() in environment
    }
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise AgentGaveUp([f"option {'.'.join(map(str, first['loc']))}={first['input']!r}: {first['msg']}"]) from error
