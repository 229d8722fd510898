"""What beside candidate and inputs decides a result: task, toolchain, target, size and workflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.plugins import Workflow
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.spec import FABRIC_OFFSETS, Arch
from fabrica_bench.toolchains.protocol import BuildOptions, Toolchain

BUILD_DEADLINE_S: Final = 120.0
"""Wall limit of a build; the compiler's own budget of comptime steps ends hostile programs long before."""


class HarnessFault(FabricaError):
    """The benchmark itself is at fault, e.g. a reference that doesn't hold: no candidate can be scored."""

    def __init__(self, message: str, *, place: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, place=place, remedy=remedy, code=ExitCode.HARNESS)


@dataclass(frozen=True)
class Conditions:
    """Everything beside candidate and inputs that decides a result.

    Attributes:
        task: The task.
        toolchain: What builds and runs.
        arch: Compile target.
        size: Named size.
        workflow: What a candidate may change.
    """

    task: Task
    toolchain: Toolchain
    arch: Arch = "wse3"
    size: str = "small"
    workflow: Workflow = "W1"

    @property
    def parameters(self) -> dict[str, int]:
        return self.task.size(self.size)

    def build_options(self) -> BuildOptions:
        """The compile command of the bundle."""
        return BuildOptions(
            arch=self.arch,
            fabric_dims=self.task.fabric_dims(self.parameters),
            fabric_offsets=FABRIC_OFFSETS,
            params=self.task.compile_params(self.parameters),
            layout=self.task.spec.bundle.layout,
            deadline_s=BUILD_DEADLINE_S,
        )
