"""How alike honest programs are to the expert kernels, and how alike copies: what the leakage threshold rests on.

    python benchmarks/leakage.py [--filter set=core] [--json]

For each task the share of the expert kernel's distinctive fingerprints (`fabrica_bench.integrity.leakage`) that is
held by its plain kernel, by what the deterministic agent makes from the CUDA text alone, by the kernel of another task
that is most like it, and by a copy with every name changed and functions in another order. Nothing is built or run.
Exit code 1 when an honest program of the task counts as a copy, or a copy doesn't. Kernels of sister tasks share code,
and are hidden like the task's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fabrica_bench.errors import answer
from fabrica_bench.firewall.disguise import disguised
from fabrica_bench.firewall.screening import public_texts
from fabrica_bench.firewall.view import task_view
from fabrica_bench.integrity.honest_variants import reordered
from fabrica_bench.integrity.leakage import SMALL, Similarity, similarity
from fabrica_bench.plugins import AgentGaveUp, CompileOutcome, VisibleRun, find_agent
from fabrica_bench.runs.config import DEFAULT_BUDGET
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.canary import without_canary
from fabrica_bench.tasks.selection import require_tasks

KINDS = ("plain", "translation", "another task", "copy")


@dataclass(frozen=True)
class Row:
    """A program beside the expert kernel of a task."""

    task: str
    kind: str
    other: str
    share: float
    total: int
    is_copy: bool


class Tools:
    """Tools of an agent whose every program is said to be valid: only the first text counts here."""

    def compile(self, files: Mapping[str, str]) -> CompileOutcome:
        """See `fabrica_bench.plugins.AgentTools`."""
        return CompileOutcome(ok=True)

    def run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        """See `fabrica_bench.plugins.AgentTools`."""
        return VisibleRun(ok=True, outcome="valid", cycles=1000)

    def profile(self, files: Mapping[str, str]) -> str:
        return "no profile"

    def log(self, event: str, **data: Any) -> None:
        """See `fabrica_bench.plugins.AgentTools`."""


def kernels(task: Task) -> dict[str, str]:
    """Both kernels without their canaries."""
    names = (task.spec.bundle.compute, task.spec.bundle.plain)
    return {
        name: without_canary((task.bundle_dir / name).read_text(encoding="utf-8")) for name in names if name is not None
    }


def translation(task: Task) -> str | None:
    """What the deterministic agent makes of the CUDA text; None where it gives up."""
    view = task_view(task, arch="wse3", size="small", workflow="W1", toolchain="embedded")
    try:
        found = find_agent("fabrica").translate(view, Tools(), DEFAULT_BUDGET)
    except AgentGaveUp:
        return None
    return found.files.get(task.spec.bundle.compute)


def compare(task: Task, others: Mapping[str, Mapping[str, str]]) -> Iterator[Row]:
    """All pairs of one task."""
    bundle, own, public = task.spec.bundle, others[task.name], public_texts(task, "W1")
    expert = own[bundle.compute]

    def row(kind: str, other: str, text: str) -> Row:
        found: Similarity = similarity(text, expert, public)
        return Row(task.name, kind, other, found.share, found.total, found.is_copy)

    if bundle.plain is not None:
        yield row("plain", bundle.plain, own[bundle.plain])
    made = translation(task)
    if made is not None:
        yield row("translation", "fabrica", made)
    foreign = [
        row("another task", f"{name} {file}", text)
        for name, texts in others.items()
        if name != task.name
        for file, text in texts.items()
    ]
    if foreign:
        yield max(foreign, key=lambda found: found.share)
    yield row("copy", bundle.compute, disguised(reordered(expert, bundle.window), bundle.window))


def main(arguments: list[str]) -> int:
    """Print the table, and the extremes of each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", nargs="*", default=[], help="which tasks, as in `fabrica-bench list`")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    tasks = require_tasks(options.filter)
    texts = {task.name: kernels(task) for task in tasks}
    rows = [row for task in tasks for row in compare(task, texts)]
    wrong = [row for row in rows if row.kind != "another task" and row.is_copy != (row.kind == "copy")]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        for row in rows:
            print(f"{row.task:24}{row.kind:14}{row.share:6.2f} of {row.total:5}  {row.other}")
        for kind in KINDS:
            for label, chosen in (
                (f"{SMALL} fingerprints or more", [r for r in rows if r.kind == kind and r.total >= SMALL]),
                ("fewer", [r for r in rows if r.kind == kind and r.total < SMALL]),
            ):
                if chosen:
                    low, high = (pick(chosen, key=lambda found: found.share) for pick in (min, max))
                    print(
                        f"{kind}, {label}: {len(chosen)} programs, shares {low.share:.2f} to {high.share:.2f} "
                        f"({high.task})"
                    )
        for row in wrong:
            print(f"WRONG: {row.task} {row.kind} {row.other}: {row.share:.2f}")
    return int(bool(wrong) or not rows)


if __name__ == "__main__":
    sys.exit(answer(lambda: main(sys.argv[1:])))
