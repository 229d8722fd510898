"""The table of published cycle counts, `points.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

TABLE: Final = Path(__file__).with_name("points.yaml")


class Point(BaseModel):
    """One published figure; the fields are explained in the table's head."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    program: str
    arch: Literal["wse2", "wse3"]
    params: dict[str, int | str] = Field(default_factory=dict)
    published: float = Field(gt=0)
    split: Literal["calibration", "validation"]
    source: str
    measure: str = ""
    structure: Literal["known", "assumed"] = "known"
    slow: bool = False
    window: Literal["device", "host"] = "device"
    unmeasured: str = ""
    note: str = ""

    def number(self, name: str) -> int:
        """A parameter that is a number."""
        value = self.params[name]
        if not isinstance(value, int):
            raise TypeError(f"{self.id}: {name} is {value!r}, not a number")
        return value

    @property
    def numbers(self) -> dict[str, int]:
        """All numeric parameters."""
        return {name: value for name, value in self.params.items() if isinstance(value, int)}


class Table(BaseModel):
    """All points, their sources, and pairs of points of which the first is published as the faster one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: dict[str, str]
    faster: list[tuple[str, str]]
    points: list[Point]

    @model_validator(mode="after")
    def _check(self) -> Table:
        known = {point.id: point for point in self.points}
        if len(known) != len(self.points):
            raise ValueError("two points have the same id")
        for point in self.points:
            if point.source not in self.sources:
                raise ValueError(f"{point.id} has an unknown source {point.source!r}")
        for pair in self.faster:
            for name in pair:
                if name not in known:
                    raise ValueError(f"`faster` names {name}, which is no point")
            if known[pair[0]].published >= known[pair[1]].published:
                raise ValueError(f"`faster` says {pair[0]} < {pair[1]}, the published cycles do not")
        return self


def load_table(path: Path = TABLE) -> Table:
    """Read and check the table.

    Raises:
        ValueError: An entry is missing, unknown or contradictory.
    """
    return Table.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
