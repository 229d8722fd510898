"""How fast the deterministic agent's programs are beside the plain and the expert program of each task.

    python benchmarks/agent.py --workflow W1
    python benchmarks/agent.py --workflow W2 --filter set=w2

For every task it lets the agent work within the default budget, judges its answer on the visible and on fresh held-out
inputs, and prints cycles of the plain program, of the answer and of the expert's, all from the same toolchain. The last
line counts what the targets count. Exit code 1 if an answer isn't valid; giving up is not an error.

Evaluations bound the work, an hour the wall time: what a loaded machine finds is then what an idle one finds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

from fabrica_bench.errors import FabricaError, answer
from fabrica_bench.firewall.bundle import bundle_texts
from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import AgentGaveUp, CompileOutcome, VisibleRun, find_agent
from fabrica_bench.runs.config import DEFAULT_BUDGET
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import InputCase, held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.profiling import profile_text
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.tasks import Task
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.tasks.selection import require_tasks
from fabrica_bench.toolchains import get_toolchain

BUDGET = DEFAULT_BUDGET.model_copy(update={"wall_s": 3600.0})


@dataclass(frozen=True)
class Row:
    """One task. Cycles are None where there is no valid program; `note` says why."""

    task: str
    plain: int | None
    answer: int | None
    expert: int | None
    evaluations: int
    seconds: float
    """CPU seconds of the agent, its simulations included."""
    note: str


class Tools:
    """The agent's tools, in this process."""

    def __init__(self, scorer: Scorer, task: Task) -> None:
        self.scorer = scorer
        self.visible = visible_cases(task)
        self.evaluations = 0
        self.events: list[tuple[str, dict[str, Any]]] = []

    def compile(self, files: Mapping[str, str]) -> CompileOutcome:
        """See `fabrica_bench.plugins.AgentTools`."""
        self.evaluations += 1
        result = self.scorer.compile(dict(files))
        return CompileOutcome(ok=result.ok, diagnostics=[str(d) for d in result.diagnostics])

    def run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        """See `fabrica_bench.plugins.AgentTools`."""
        self.evaluations += 1
        found = self.scorer.evaluate(dict(files), self.visible)
        if found.ok and found.samples:
            return VisibleRun(ok=True, outcome="valid", cycles=median_low(found.samples), log=found.log[-4000:])
        failed = found.failed
        text = f"{failed.predicate}: {' | '.join(failed.evidence)}" if failed else "nothing was run"
        return VisibleRun(ok=False, outcome=text, log=found.log[-4000:])

    def profile(self, files: Mapping[str, str]) -> str:
        """See `fabrica_bench.plugins.AgentTools`."""
        self.evaluations += 1
        return profile_text(self.scorer.conditions, files, self.visible[0])

    def log(self, event: str, **data: Any) -> None:
        """See `fabrica_bench.plugins.AgentTools`."""
        self.events.append((event, data))


def study(task: Task, options: argparse.Namespace) -> Row:
    """One task."""
    toolchain = get_toolchain(options.toolchain)
    conditions = Conditions(task, toolchain, options.arch, options.size, options.workflow)
    with Scorer(conditions) as scorer:
        return _study(task, scorer, options)


def _study(task: Task, scorer: Scorer, options: argparse.Namespace) -> Row:
    tools = Tools(scorer, task)
    view = task_view(
        task, arch=options.arch, size=options.size, workflow=options.workflow, toolchain=options.toolchain
    )  # fmt: skip
    began = _cpu_seconds()
    note, answer = "", None
    try:
        candidate = find_agent(options.agent).translate(view, tools, BUDGET)
        files = dict(candidate.files)
    except AgentGaveUp as error:
        files, note = {}, f"gave up: {error}"
    seconds = _cpu_seconds() - began
    cases = visible_cases(task)
    if not options.quick:
        cases = (*cases, *held_out_cases(task, held_out_seeds(task, HeldOutKey.fresh())))
    if files:
        found = scorer.evaluate(files, cases)
        answer = median_low(found.samples) if found.ok and found.samples else None
        if answer is None:
            note = f"INVALID: {found.failed}"
        if options.keep:
            folder = options.keep / task.root.name
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (folder / name).write_text(text, encoding="utf-8")
    steps = [f"{d['name']} {d['before']}->{d['after']}" for e, d in tools.events if e == "accepted"]
    plain, expert = _references(task, scorer, cases, options)
    return Row(task.name, plain, answer, expert, tools.evaluations, seconds, note or "; ".join(steps))


def _cpu_seconds() -> float:
    """Of this process and those of its children that have ended."""
    return sum(os.times()[:4])


def _references(
    task: Task, scorer: Scorer, visible: Sequence[InputCase], options: argparse.Namespace
) -> tuple[int | None, int | None]:
    """Cycles of the plain and of the expert program: recorded ones with --quick, else measured on the same inputs."""
    if options.quick:
        recorded = task.spec.reference_cycles.cycles.get(options.arch, {}).get(options.size)
        return (recorded.plain, recorded.expert) if recorded is not None else (None, None)
    texts, bundle = bundle_texts(task), task.spec.bundle
    expert = scorer.evaluate(scorer.reference_files(), visible)
    plain = None
    if bundle.plain is not None:
        files = {**scorer.reference_files(), bundle.compute: texts[bundle.plain]}
        plain = scorer.evaluate(files, visible)
    return tuple(  # type: ignore[return-value]
        median_low(e.samples) if e is not None and e.ok and e.samples else None for e in (plain, expert)
    )


def show(row: Row) -> str:
    """A line of the table."""

    def ratio(a: int | None, b: int | None) -> str:
        return f"{a / b:7.2f}" if a and b else "      -"

    numbers = "".join(f"{n if n is not None else '-':>9}" for n in (row.plain, row.answer, row.expert))
    speed = ratio(row.plain, row.answer)
    return (
        f"{row.task:22}{numbers}{speed}{ratio(row.answer, row.expert)}{row.evaluations:5}{row.seconds:7.1f}  {row.note}"
    )


def summary(rows: list[Row]) -> str:
    """What the targets count."""
    valid = [r for r in rows if r.answer is not None]
    at_plain = [r for r in valid if r.plain and r.answer and r.answer <= r.plain]
    better = [r for r in valid if r.plain and r.answer and r.answer < r.plain]
    near = [r for r in valid if r.expert and r.answer and r.answer <= 1.25 * r.expert]
    gains = [r.plain / r.answer for r in valid if r.plain and r.answer]
    mean = math.exp(sum(map(math.log, gains)) / len(gains)) if gains else math.nan
    invalid = sum(r.note.startswith("INVALID") for r in rows)
    return (
        f"{len(valid)} of {len(rows)} valid, {invalid} invalid; {len(at_plain)} at or under the plain program's "
        f"cycles, {len(better)} under; {len(near)} within 1.25 x of the expert's; "
        f"geometric mean of plain / answer {mean:.2f}"
    )


def _read(path: Path | None) -> list[Row]:
    """Rows of an earlier run. Give each workflow, size and architecture a file of its own. Raises `FabricaError`."""
    if path is None or not path.exists():
        return []
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append(Row(**json.loads(line)))
        except (TypeError, ValueError):
            raise FabricaError(
                "not a row of this benchmark", place=f"{path}:{number}", remedy="remove the line, or name another file"
            ) from None
    return rows


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default="fabrica")
    parser.add_argument("--workflow", default="W1", choices=("W1", "W2"))
    parser.add_argument("--filter", nargs="*", default=(), help="tasks, e.g. set=w2 (default: all)")
    parser.add_argument("--tasks", type=Path, help="another tasks folder")
    parser.add_argument("--arch", default="wse3", choices=("wse2", "wse3"))
    parser.add_argument("--size", default="small")
    parser.add_argument("--toolchain", default="embedded")
    parser.add_argument("--quick", action="store_true", help="visible inputs only, recorded cycles of plain and expert")
    parser.add_argument("--keep", type=Path, help="folder to write the answers to")
    parser.add_argument("--rows", type=Path, help="JSON lines to go on with: measured tasks are skipped")
    options = parser.parse_args(arguments)
    tasks = require_tasks(options.filter, options.tasks)
    known = {r.task: r for r in _read(options.rows)}
    columns = f"{'plain':>9}{'answer':>9}{'expert':>9}{'gain':>7}{'/expert':>7}{'eval':>5}{'CPU s':>7}"
    sys.stdout.write(f"{'task':22}{columns}\n")
    rows: list[Row] = []
    for task in tasks:
        row = known.get(task.name) or study(task, options)
        if options.rows and task.name not in known:
            with options.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row)) + "\n")
        rows.append(row)
        sys.stdout.write(show(row) + "\n")
        sys.stdout.flush()
    sys.stdout.write(summary(rows) + "\n")
    return 1 if any(r.note.startswith("INVALID") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(answer(lambda: main(sys.argv[1:])))
