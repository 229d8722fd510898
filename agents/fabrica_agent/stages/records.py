"""The typed records between the model-driven stages; a model's answer is one of them or is asked again."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fabrica_agent.records import FailureKind, Route


class Answer(BaseModel):
    """Base of what models answer: members that the schema doesn't name are dropped, not refused."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Buffer(Answer):
    """An array on every PE."""

    name: str
    element: str = Field(description="CSL element type, e.g. f32")
    length: int = Field(ge=0, description="elements on one PE")


class KernelUse(Answer):
    """What one CUDA kernel does."""

    name: str
    purpose: str
    memory: str = Field(description="global, shared and register data, and who reads or writes them")
    synchronisation: str = Field(description="barriers, atomics, warp operations, order between launches")
    idioms: list[str] = Field(default_factory=list, description="GPU idioms that have no counterpart on a PE")


class SourceAnalysisG(Answer):
    """Stage 1: what the CUDA program computes, per PE."""

    summary: str
    formula: str = Field(description="the mathematics, without threads")
    kernels: list[KernelUse]
    per_pe_algorithm: list[str] = Field(description="steps that one PE takes on its own data")
    edge_cases: list[str] = Field(default_factory=list)


class Transfer(Answer):
    """Data that has to move between PEs."""

    what: str
    pattern: Literal["none", "shift", "broadcast", "reduce", "all-reduce", "gather", "scatter", "halo", "pipeline"]
    from_to: str
    words: int = Field(ge=0, description="32-bit words per PE and step")


class Communication(Answer):
    """Stage 2: the communication that the source implies."""

    transfers: list[Transfer]
    order: str = Field(description="what must be complete before what")
    on_layout: str = Field(description="how the visible layout's colors and routes carry it")


class Numbered(Answer):
    """A name with the hardware number it takes."""

    name: str
    number: int


class DesignD(Answer):
    """Stage 3: the program's plan for the mesh."""

    width: int = Field(ge=1, description="PE columns")
    height: int = Field(ge=1, description="PE rows")
    sharding: list[str] = Field(description="for each tensor, which part lies on which PE")
    buffers: list[Buffer] = Field(description="all arrays on one PE, those of the interface included")
    collectives: list[str] = Field(default_factory=list)
    steps: list[str]
    tasks: list[Numbered] = Field(default_factory=list, description="local, data and control tasks of the compute file")
    colors: list[Numbered] = Field(default_factory=list, description="colors that the compute file gets itself")
    input_queues: list[Numbered] = Field(default_factory=list)
    output_queues: list[Numbered] = Field(default_factory=list)
    risks: list[str] = Field(default_factory=list)


class ReviewNote(Answer):
    """Stage 5: a model's reading of a failure."""

    kind: FailureKind
    route: Route
    cause: str = Field(description="the one cause that explains all symptoms, naming lines of the code")
    action: str = Field(description="what to change, concretely")
    design_change: str = Field(default="", description="only for the route to the architect")


class EditChoice(Answer):
    """Stage 6: a faster version by one edit of the catalogue."""

    edit: str = Field(description="name of the catalogue's edit")
    reason: str
    files: dict[str, str] = Field(description="complete text of every editable file")


class Attempt(BaseModel):
    """One evaluated program.

    Attributes:
        number: From 1 on.
        origin: `candidate`, `repair`, or the optimization edit.
        epoch: How many designs came before; a redesign starts a new one.
        files: Its editable files.
        predicate: What failed: Build, Run, Contract, Timing or Correct; None when it is valid.
        outcome: What the toolchain or the scorer said.
        cycles: Only when valid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    origin: str
    epoch: int
    files: dict[str, str]
    predicate: str | None
    outcome: str
    cycles: int | None = None

    @property
    def valid(self) -> bool:
        return self.cycles is not None
