"""The form of a study: what is asked, and the arms in which it is measured."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from fabrica_bench.plugins import Workflow
from fabrica_bench.report.ranking import REQUIRED_CONTROLS

CONTROLS: Final = REQUIRED_CONTROLS
"""Control agents that run with every published study."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")]
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Count = Annotated[int, Field(ge=1, strict=True)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ArmBudget(_Model):
    """Limits of one attempt; what isn't named is the default of `run`.

    Attributes:
        evaluations: Compiles and visible runs together.
        wall_s: Wall-clock seconds.
        tokens: Model tokens, input and output together.
        cost_usd: US dollars for the model.
        attempts: Different programs that may be evaluated until one is valid on the visible inputs.
        optimizations: Different programs that may be evaluated after that.
    """

    model_config = ConfigDict(strict=True)  # `yes` is no number

    evaluations: int | None = Field(default=None, ge=1)
    wall_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    attempts: int | None = Field(default=None, ge=1)
    optimizations: int | None = Field(default=None, ge=0)


class Arm(_Model):
    """One condition. Its results have a denominator of their own and are never pooled with another arm's.

    Attributes:
        name: Unique in the study; also the arm's folder.
        what: What is special about it.
        filter: Tasks, as `--filter` takes them: `set=core`, `split=test`.
        workflow, arch, toolchain, size: As in `run`.
        repeat: Attempts per task.
        budget: Limits of one attempt.
        options: Options of the agent, see `--option`.
        denominator: Attempts of the arm, tasks times repeats; loading a study checks it against the catalogue.
    """

    name: Name
    what: Text
    filter: tuple[Text, ...] = Field(min_length=1)
    workflow: Workflow = "W1"
    arch: Literal["wse2", "wse3"] = "wse3"
    toolchain: str = "embedded"
    size: str = "small"
    repeat: Count = 1
    budget: ArmBudget = ArmBudget()
    options: dict[Name, str] = Field(default_factory=dict)
    denominator: Count | None = None


class Study(_Model):
    """A protocol.

    Attributes:
        name: What `study run` takes.
        title, question: For people.
        kind: `translate` lets the agent work in every arm; `replay` scores the candidates of a finished run again, once
            per arm; `proxy` lets it work and measures the candidates without running them.
        published: It stands for a published protocol: it is refused without its controls.
        controls: Control agents that run on the tasks, workflow and target of every arm.
        compare: Pairs of arms that the study compares; the first is expected to be better.
        notes: What a reader has to know, e.g. where the protocol had to be read into its description.
        arms: At least one.
    """

    schema_version: Literal[1] = 1
    name: Name
    title: Text
    question: Text
    kind: Literal["translate", "replay", "proxy"] = "translate"
    published: bool = False
    controls: tuple[Name, ...] = ()
    compare: tuple[tuple[Name, Name], ...] = ()
    notes: tuple[Text, ...] = ()
    arms: tuple[Arm, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Study:
        names = [arm.name for arm in self.arms]
        if len(set(names)) != len(names):
            raise ValueError("two arms have the same name")
        unknown = {name for pair in self.compare for name in pair} - set(names)
        if unknown:
            raise ValueError(f"compare names the arm {min(unknown)}, which doesn't exist")
        if self.published and set(CONTROLS) - set(self.controls):
            missing = ", ".join(name for name in CONTROLS if name not in self.controls)
            raise ValueError(f"a published study runs with its controls; missing: {missing}")
        return self
