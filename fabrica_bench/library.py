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


def load_task(name: str | Path, root: Path | str | None = None) -> Task:
    """The task of that name, or in that folder.

    Args:
        name: Published name or folder name (`ReLU-1PE`, `relu-1pe`), or the path of a task's folder.
        root: Folder of tasks to look in instead of the shipped ones.

    Raises:
        FabricaError: There is none, or its spec is broken.
    """
    from fabrica_bench.tasks import load_task as load

    return load(name, root=root)


def list_tasks(filters: Iterable[str] | Mapping[str, str] = (), root: Path | str | None = None) -> list[Task]:
    """The tasks that pass all filters, in the order of the published set.

    Args:
        filters: `FIELD=VALUE` of set, level, name, family, split or origin, e.g. `["level=1", "set=core"]`, or a
            mapping of FIELD to VALUE.
        root: Folder of tasks to list instead of the shipped ones.

    Raises:
        FabricaError: A filter or the folder is wrong, or a spec is broken.
    """
    from fabrica_bench.tasks import list_tasks as list_all

    return list(list_all(filters, root))


def score(
    task: Task | str | Path,
    candidate: Path | str | Mapping[str, str],
    *,
    toolchain: Toolchain | str = "embedded",
    arch: Arch = "wse3",
    size: str = "small",
    workflow: Workflow = "W1",
    key: HeldOutKey | None = None,
    trusted: bool = False,
) -> Valid | Invalid | NotScored:
    """Build, run and judge a candidate over 3 visible and 5 held-out inputs, in confined processes of their own.

    Args:
        task: A task, its name, or the path of its folder.
        candidate: A folder with the editable files, or their texts by name.
        toolchain: `embedded`, `sdk` or `appliance`, or a back end of your own.
        arch: Compile target, `wse3` or `wse2`.
        size: Named size of the task.
        workflow: What the candidate may change: `W1` and `W2` the compute file, `W1-C` the layout too.
        key: Held-out key; a fresh one when None, so that nobody can know the inputs beforehand. Pass one of your own
            to reveal it later.
        trusted: The candidate is the benchmark's own reference, so the check for copies of it is left out.

    Returns:
        `Valid` (with cycles, and the speed-up over the expert reference measured in the same call), `Invalid` (with
        the first predicate that fails, and why) or `NotScored` (a fault of the machine or of the benchmark). Its
        `held_out` has the key's fingerprint and a commitment to each held-out seed: `verdict.held_out.problems(key)`,
        or `fabrica-bench audit` on the verdict as JSON, compares them with the revealed key.

    Raises:
        FabricaError: The task, size, target, workflow, toolchain or folder doesn't exist, or an argument is of a wrong
            type.

    Example:
        >>> verdict = score("ReLU-1PE", "examples/relu/vector")  # doctest: +SKIP
        >>> verdict.kind  # doctest: +SKIP
        'valid'
    """
    from fabrica_bench.scoring.api import score as judge

    options = {"toolchain": toolchain, "arch": arch, "size": size, "workflow": workflow}
    return judge(task, candidate, **options, key=key, trusted=trusted)  # type: ignore[arg-type]


def accept(new: Valid | Invalid | NotScored, old: Valid | Invalid | NotScored) -> bool:
    """Is the new candidate valid and, in the lower median of its inputs, strictly faster?

    Args:
        new, old: Verdicts of the same task; an `old` that isn't valid is beaten by any valid `new`.

    Raises:
        FabricaError: One of them is no verdict.
        ValueError: The two were measured on different numbers of inputs.
    """
    from fabrica_bench.errors import wrong_type
    from fabrica_bench.scoring.metrics import accept as decide
    from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid

    for name, verdict in (("new", new), ("old", old)):
        if not isinstance(verdict, Valid | Invalid | NotScored):
            raise wrong_type(f"the {name} one", verdict, "a verdict")
    return decide(new, old)


def fast_p(verdicts: Sequence[Valid | Invalid | NotScored], p: float) -> float:
    """Share (0 to 1) of the judged candidates that are valid with a speed-up above `p`; 0 asks for correctness alone.

    Args:
        verdicts: One per task; `NotScored` ones aren't judged and don't count.
        p: Ratio of the reference's cycles to the candidate's.

    Raises:
        ValueError: `p` is negative, or nothing was judged.
    """
    from fabrica_bench.scoring.metrics import fast_p as rate

    return rate(verdicts, p)
