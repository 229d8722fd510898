"""The scorer as a library: `score` a candidate, and decide whether to `accept` one over another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError, empty_path, wrong_type
from fabrica_bench.scoring.metrics import accept, fast_p
from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid

if TYPE_CHECKING:
    from fabrica_bench.plugins import Workflow
    from fabrica_bench.tasks import Task
    from fabrica_bench.tasks.seeds import HeldOutKey
    from fabrica_bench.tasks.spec import Arch
    from fabrica_bench.toolchains import Toolchain

__all__ = ["accept", "fast_p", "score"]


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
    """Build, run and judge a candidate over 3 visible and 5 held-out inputs.

    Args:
        task: A task, its name, or the path of its folder.
        candidate: A folder with the editable files, or their texts by name.
        toolchain: A back end, or its name.
        arch: Compile target.
        size: Named size of the task.
        workflow: What the candidate may change.
        key: Held-out key; a fresh one when None, so that nobody can know the inputs beforehand. Pass one of your own
            to reveal it later.
        trusted: The candidate is the benchmark's own reference, so the check for copies of it is left out.

    Returns:
        A verdict; only a `Valid` one has cycles. Its `held_out` has the key's fingerprint and a commitment to each
        held-out seed: `verdict.held_out.problems(key)`, or `fabrica-bench audit` on the verdict as JSON, compares them
        with the revealed key.

    Raises:
        FabricaError: The task, size, target, workflow, toolchain or folder doesn't exist.

    Example:
        >>> from fabrica_bench import load_task, score
        >>> verdict = score(load_task("ReLU-1PE"), "my-candidate/")  # doctest: +SKIP
        >>> verdict.kind  # doctest: +SKIP
        'valid'
    """
    from fabrica_bench.scoring.conditions import Conditions
    from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
    from fabrica_bench.scoring.scorer import Scorer
    from fabrica_bench.scoring.verdict import HeldOutInputs
    from fabrica_bench.tasks import Task, load_task
    from fabrica_bench.tasks.seeds import HeldOutKey
    from fabrica_bench.toolchains import get_toolchain
    from fabrica_bench.toolchains.embedded import spread
    from fabrica_bench.version import SUITE_VERSION

    resolved = task if isinstance(task, Task) else load_task(task)
    _check(candidate, key)
    _check_options(toolchain, trusted, target=arch, size=size, workflow=workflow)
    backend = spread(get_toolchain(toolchain)) if isinstance(toolchain, str) else toolchain
    resolved.size(size)
    if arch not in resolved.spec.bundle.archs:
        raise UnknownNameError(f"target of {resolved.name}", arch, resolved.spec.bundle.archs)
    secret = key or HeldOutKey.fresh()
    hidden = held_out_cases(resolved, held_out_seeds(resolved, secret))
    cases = (*visible_cases(resolved), *hidden)
    facts = HeldOutInputs(
        suite=SUITE_VERSION,
        task=resolved.name,
        key=secret.fingerprint,
        commitments=tuple(case.commitment for case in hidden),
    )
    conditions = Conditions(resolved, backend, arch, size, workflow)
    source = Path(candidate) if isinstance(candidate, str) else candidate
    with Scorer(conditions) as scorer:
        return scorer.score(source, cases, trusted=trusted).model_copy(update={"held_out": facts})


def _check(candidate: object, key: object) -> None:
    from fabrica_bench.tasks.seeds import require_key

    if not isinstance(candidate, str | Path | Mapping):
        raise wrong_type("the candidate", candidate, "a folder or a mapping of names to texts")
    if isinstance(candidate, Mapping):
        for name, text in candidate.items():
            if not isinstance(name, str):
                raise wrong_type(f"the name of the candidate's file {name!r}", name, "a text")
            if not isinstance(text, str):
                raise wrong_type(f"the candidate's file {name!r}", text, "a name and a text")
    elif candidate == "":
        raise empty_path(
            "the candidate", 'name its folder, "." for the current one, or give a mapping of names to texts'
        )
    elif isinstance(candidate, str) and "\n" in candidate:
        raise FabricaError(
            "the candidate is a program's text where the path of a folder is expected",
            remedy='give a mapping from names to texts, e.g. {"pe.csl": text}',
            code=ExitCode.USAGE,
        )
    if key is not None:
        require_key(key)


def _check_options(toolchain: object, trusted: object, **names: object) -> None:
    from fabrica_bench.toolchains import Toolchain

    if not isinstance(toolchain, str | Toolchain):
        raise wrong_type("the toolchain", toolchain, "a name or a back end")
    for what, name in names.items():
        if not isinstance(name, str):
            raise wrong_type(f"the {what}", name, "a name")
    if not isinstance(trusted, bool):  # any other text or object would be true, and leave out the check for copies
        raise wrong_type("trusted", trusted, "True or False")
