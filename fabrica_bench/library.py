"""The functions that `from fabrica_bench import ...` offers. What they need is loaded when they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabrica_bench.plugins import Workflow
    from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid
    from fabrica_bench.tasks import Task
    from fabrica_bench.tasks.seeds import HeldOutKey
    from fabrica_bench.tasks.spec import Arch
    from fabrica_bench.toolchains import Toolchain

__all__ = ["accept", "fast_p", "list_tasks", "load_task", "score"]


def load_task(name: str, root: Path | None = None) -> Task:
    """The task of that name, or in that folder; see `fabrica_bench.tasks.load_task`.

    Raises:
        FabricaError: There is none, or its spec is broken.
    """
    from fabrica_bench.tasks import load_task as load

    return load(name, root=root)


def list_tasks(filters: Iterable[str] = (), root: Path | None = None) -> list[Task]:
    """The tasks that pass all filters such as `level=1`; see `fabrica_bench.tasks.list_tasks`.

    Raises:
        FabricaError: A filter is wrong, or a spec is broken.
    """
    from fabrica_bench.tasks import list_tasks as list_all

    return list(list_all(tuple(filters), root))


def score(
    task: Task | str,
    candidate: Path | str | Mapping[str, str],
    *,
    toolchain: Toolchain | str = "embedded",
    arch: Arch = "wse3",
    size: str = "small",
    workflow: Workflow = "W1",
    key: HeldOutKey | None = None,
    trusted: bool = False,
) -> Valid | Invalid | NotScored:
    """Build, run and judge a candidate; see `fabrica_bench.scoring.api.score`.

    Raises:
        FabricaError: The task, size, toolchain or folder doesn't exist.
    """
    from fabrica_bench.scoring.api import score as judge

    options = {"toolchain": toolchain, "arch": arch, "size": size, "workflow": workflow}
    return judge(task, candidate, **options, key=key, trusted=trusted)  # type: ignore[arg-type]


def accept(new: Valid | Invalid | NotScored, old: Valid | Invalid | NotScored) -> bool:
    """Is the new candidate valid and, in the lower median of its inputs, strictly faster?

    Raises:
        ValueError: The two were measured on different numbers of inputs.
    """
    from fabrica_bench.scoring.metrics import accept as decide

    return decide(new, old)


def fast_p(verdicts: Sequence[Valid | Invalid | NotScored], p: float) -> float:
    """Share of the judged candidates that are valid with a speed-up above `p`; 0 asks for correctness alone.

    Raises:
        ValueError: `p` is negative, or nothing was judged.
    """
    from fabrica_bench.scoring.metrics import fast_p as rate

    return rate(verdicts, p)
