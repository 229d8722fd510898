"""Reports of any size, made in memory from the catalogue's tasks."""

from __future__ import annotations

from pathlib import Path

from fabrica_bench.report.data import AttemptReport, EvaluationReport, RunReport
from fabrica_bench.runs.manifest import Manifest
from fabrica_bench.runs.records import Evaluation, VerdictRecord
from fabrica_bench.runs.store import RunStore
from fabrica_bench.runs.summary import summarize
from fabrica_bench.runs.usage import Usage
from fabrica_bench.scoring.verdict import Invalid, NotScored, Predicate, PredicateResult, Valid, Verdict
from fabrica_bench.tasks import load_catalogue
from helpers.sample_run import TIME, make_manifest, make_valid

CORE = tuple(entry.name for entry in load_catalogue() if "core" in entry.sets)
FULL = tuple(entry.name for entry in load_catalogue())


def invalid(predicate: Predicate, reason: str) -> Invalid:
    return Invalid(
        predicate=predicate,
        reason=reason,
        evidence=(PredicateResult(predicate=predicate, holds=False, evidence=(reason,)),),
    )


def verdict_record(task: str, attempt: int, verdict: Verdict) -> VerdictRecord:
    level = next((entry.level for entry in load_catalogue() if entry.name == task), 1)
    return VerdictRecord(
        time=TIME,
        task=task,
        level=level,
        attempt=attempt,
        verdict=verdict,
        key="k" * 64,
        candidate=None if isinstance(verdict, NotScored) else "c" * 64,
        model="deterministic",
        evaluations=3,
        commitments=("ab" * 32,),
        seconds=2.5,
    )


def manifest(agent: str, tasks: tuple[str, ...], *, control: bool = False, **config: object) -> Manifest:
    made = make_manifest(tasks, agent, control)
    return made.model_copy(update={"run_id": f"r-{agent}", "config": {**made.config, **config}})


def write_run(folder: Path, agent: str, verdicts: dict[str, Verdict], *, control: bool = False) -> Path:
    """A run folder with one attempt per task."""
    with RunStore.create(folder, manifest(agent, tuple(verdicts), control=control)) as store:
        for task, verdict in verdicts.items():
            store.append(verdict_record(task, 1, verdict))
    return folder


def big_report(attempts: int) -> RunReport:
    """A finished run of the full set with about this many attempts, with code that changes from one to the next."""
    repeat = -(-attempts // len(FULL))
    head = manifest("tester", FULL, repeat=repeat)
    records = [verdict_record(task, k, _verdict(i + k)) for k in range(1, repeat + 1) for i, task in enumerate(FULL)]
    summary = summarize(Path("run"), head, list(records))
    return RunReport(head, summary, [_attempt(row, index) for index, row in enumerate(summary.rows)])


def _verdict(number: int) -> Verdict:
    if number % 7 == 3:
        return invalid(Predicate.CORRECT, f"held-out {number % 5} (normal): output 'y': at [{number % 90}]: 1.5")
    if number % 13 == 5:
        return invalid(Predicate.BUILD, f"pe.csl:{number % 60}:3: error: unknown name 'x{number % 4}'")
    return make_valid(100 + 37 * (number % 29), 700)


def _attempt(row, index: int) -> AttemptReport:
    body = "".join(f"    acc[{line}] = a[{line}] * {index % 17};\n" for line in range(40))
    files = {"pe.csl": f"// attempt {index}\nfn compute() void {{\n{body}}}\n"}
    first = {"pe.csl": files["pe.csl"].replace("acc", "sum")}
    common = {"time": TIME, "task": row.task, "attempt": row.attempt, "files": {}, "seconds": 0.1}
    evaluations = [
        EvaluationReport(
            Evaluation(
                **common,
                index=1,
                action="compile",
                ok=False,
                outcome="does not compile",
                diagnostics=(f"pe.csl:{index % 40}:3: error: unknown name 'sum'",),
            ),
            first,
            "",
        ),
        EvaluationReport(
            Evaluation(**common, index=2, action="run_visible", ok=row.valid, outcome="valid", cycles=120),
            files,
            "log\n",
        ),
    ]
    usage = Usage(calls=2, input_tokens=900 + index % 100, output_tokens=300, cost_usd=0.01)
    return AttemptReport(row, files, ("a note",), evaluations, [], [], ("ab" * 32,), 2 if row.valid else None, usage)


__all__ = ["CORE", "FULL", "Valid", "big_report", "invalid", "manifest", "verdict_record", "write_run"]
