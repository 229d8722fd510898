"""A run folder with every kind of outcome, written through the real store."""

from __future__ import annotations

from pathlib import Path

from fabrica_bench.runs.manifest import Manifest
from fabrica_bench.runs.records import AgentEvent, AnyRecord, CandidateRecord, Evaluation, JobFailed, VerdictRecord
from fabrica_bench.runs.store import RunStore
from fabrica_bench.scoring.verdict import Blame, Invalid, NotScored, Predicate, PredicateResult, Valid

TIME = "2026-01-02T03:04:05.000Z"
TASKS = ("Fast", "Slow", "Wrong", "Gone", "Owed")
HOSTILE = "<script>alert('pwned')</script> & \"quotes\" | pipe"


def make_manifest(tasks: tuple[str, ...] = TASKS, agent: str = "tester", control: bool = False) -> Manifest:
    return Manifest(
        run_id="r-0001",
        created=TIME,
        config={
            "agent": agent,
            "tasks": list(tasks),
            "repeat": 1,
            "arch": "wse3",
            "size": "small",
            "workflow": "W1",
            "budget": {"evaluations": 20, "wall_s": 300.0, "tokens": 0},
        },
        model="deterministic",
        control=control,
        versions={"fabrica-bench": "0.1.0", "python": "3.11.7"},
        toolchain={"toolchain": "embedded", "version": "0.1.0"},
        isolation={"agent": {"network": "none"}},
        key_fingerprint="f00d",
        commitments={},
        tasks={},
    )


def make_valid(cycles: int, reference_cycles: int) -> Valid:
    return Valid(
        cycles=cycles,
        reference_cycles=reference_cycles,
        speedup=reference_cycles / cycles,
        samples=(cycles, cycles + 1),
        reference_samples=(reference_cycles, reference_cycles),
        evidence=tuple(PredicateResult(predicate=p, holds=True, evidence=(f"{p} looked at",)) for p in Predicate),
    )


def make_verdict(task: str, level: int, verdict: Valid | Invalid | NotScored) -> VerdictRecord:
    return VerdictRecord(
        time=TIME,
        task=task,
        level=level,
        attempt=1,
        verdict=verdict,
        key="k" * 64,
        candidate=None if isinstance(verdict, NotScored) else "c" * 64,
        model="deterministic",
        evaluations=2,
        commitments=("ab" * 32,),
        seconds=1.25,
    )


def sample_records(store: RunStore) -> list[AnyRecord]:
    first = {"pe.csl": store.put_text("fn main() void {\n  first();\n}\n")}
    second = {"pe.csl": store.put_text("fn main() void {\n  second();\n}\n")}
    log = store.put_text("a long log\n" * 4)
    common = {"time": TIME, "task": "Fast", "attempt": 1}
    invalid = Invalid(
        predicate=Predicate.CORRECT,
        reason=f"out[3] is 0.0, expected 1.5 {HOSTILE}",
        evidence=(
            PredicateResult(predicate=Predicate.BUILD, holds=True),
            PredicateResult(predicate=Predicate.CORRECT, holds=False, evidence=(HOSTILE,)),
        ),
    )
    return [
        AgentEvent(**common, event="prompt", data={"text": HOSTILE}),
        Evaluation(
            **common,
            index=0,
            action="compile",
            ok=False,
            outcome="Build: 1 error",
            files=first,
            seconds=0.1,
            diagnostics=("pe.csl:2:3: error: unknown name 'first'",),
        ),
        Evaluation(
            **common,
            index=1,
            action="run_visible",
            ok=True,
            outcome="valid",
            cycles=100,
            files=second,
            log=log,
            seconds=0.1,
        ),
        Evaluation(
            **common,
            index=2,
            action="profile",
            ok=True,
            outcome="profiled",
            files=second,
            log=store.put_text("PE (0, 0): 90 of 100 cycles in pe.csl:2\n"),
            seconds=0.1,
        ),
        CandidateRecord(**common, model="deterministic", notes=("a bulk operation",), files=second, seconds=1.0),
        make_verdict("Fast", 1, make_valid(100, 250)),
        make_verdict("Slow", 1, make_valid(200, 100)),
        JobFailed(time=TIME, task="Wrong", attempt=1, blame="machine", reason="no space left"),
        make_verdict("Wrong", 2, invalid),
        make_verdict("Gone", 2, NotScored(blame=Blame.AGENT, reason="gave up: atomics")),
    ]


def write_sample_run(folder: Path) -> Path:
    """A partial run: two valid attempts, an invalid one, one not scored, one owed."""
    with RunStore.create(folder, make_manifest()) as store:
        for record in sample_records(store):
            store.append(record)
    return folder
