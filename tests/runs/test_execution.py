"""A run scores what the agent hands in, survives whatever it does instead, and continues where it stopped."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from helpers.double_it import FIXTURE_TASKS
from helpers.under_fire import account

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.runs import execution, opening
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.events import EventKind, RunEvent
from fabrica_bench.runs.execution import RunInterrupted, execute_run
from fabrica_bench.runs.records import (
    AgentEvent,
    CandidateRecord,
    Evaluation,
    JobFailed,
    SessionEnded,
    SessionStarted,
    VerdictRecord,
)
from fabrica_bench.runs.store import RunStore
from fabrica_bench.runs.summary import RunSummary, load_summary
from fabrica_bench.runs.verification import verify_run
from fabrica_bench.scoring.verdict import NotScored, Valid
from fabrica_bench.toolchains.landlock import landlock_abi

Config = Callable[..., RunConfig]
R = TypeVar("R")


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda behaviour: monkeypatch.setenv("FABRICA_AGENT_TOY", behaviour)


def records(summary: RunSummary, kind: type[R]) -> list[R]:
    return [record for record in RunStore.open(summary.run_dir).records() if isinstance(record, kind)]


def test_a_good_agent_is_valid_and_everything_is_on_record(config: Config) -> None:
    events: list[RunEvent] = []
    summary = execute_run(config(), events.append)
    assert (summary.valid, summary.total, summary.partial) == (1, 1, False)
    (row,) = summary.rows
    assert (row.cycles, row.reference_cycles, row.speedup) == (1000, 1000, 1.0)
    assert [(r.action, r.ok, r.cycles) for r in records(summary, Evaluation)] == [
        ("compile", False, None),
        ("run_visible", True, 1000),
    ]
    assert [r.event for r in records(summary, AgentEvent)] == ["plan"]
    (candidate,) = records(summary, CandidateRecord)
    assert "y[i] = x[i] + x[i]" in RunStore.open(summary.run_dir).get_text(candidate.files["pe.csl"])
    (verdict,) = records(summary, VerdictRecord)
    assert verdict.commitments == RunStore.open(summary.run_dir).manifest.commitments["Double-It"]
    assert verdict.reference_share is not None
    assert verdict.reference_share < 0.8
    kinds = [event.kind for event in events]
    assert kinds[0] is EventKind.RUN_STARTED
    assert kinds[-1] is EventKind.RUN_FINISHED
    assert load_summary(summary.run_dir) == summary


def test_the_reference_control_stands_for_the_reference(config: Config) -> None:
    summary = execute_run(config("reference"))
    assert (summary.valid, summary.control) == (1, True)
    assert summary.rows[0].speedup == 1.0


def test_only_the_built_in_control_may_hand_in_nothing(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = execution.JobSpec(
        agent="toy",
        model="none",
        control=True,
        task="Double-It",
        attempt=1,
        toolchain="scripted",
        arch="wse3",
        size="small",
        workflow="W1",
        budget=config().budget,
    )
    from fabrica_bench.plugins import Candidate
    from fabrica_bench.runs.job import Job

    empty = Candidate(files={}, model="none")
    assert Job(spec, None)._completed(empty).files == {}  # type: ignore[arg-type]
    named = spec.model_copy(update={"agent": "reference"})
    assert Job(named, None)._completed(empty).files  # type: ignore[arg-type]
    honest = named.model_copy(update={"control": False})
    assert Job(honest, None)._completed(empty).files == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        ("crash", "not scored (agent): the agent failed: RuntimeError: no idea"),
        ("die", "not scored (agent): the agent failed: its process ended with signal 6"),
        ("give_up", "not scored (agent): the agent gave up: a while loop with two exits; an unknown intrinsic"),
        ("garbage", "not scored (agent): the agent failed: wrote something that isn't a message"),
        ("extra_file", "fails Contract: unexpected file 'run.py'"),
        ("wrong", "fails Correct: visible 0 (normal): output 'y'"),
        ("noise", "valid"),
        ("survivor", "valid"),
    ],
)
def test_each_behaviour_has_its_outcome(
    behaviour: str, outcome: str, config: Config, behave: Callable[[str], None]
) -> None:
    behave(behaviour)
    summary = execute_run(config())
    assert summary.rows[0].outcome.startswith(outcome)
    assert summary.valid + summary.invalid + summary.not_scored + summary.missing == summary.total


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_daemon_of_the_agents_is_gone_before_scoring_begins(config: Config, behave: Callable[[str], None]) -> None:
    behave("survivor")

    def sleepers() -> set[str]:
        found = set()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            # A process may end while we look at it.
            with contextlib.suppress(OSError):
                if b"import time; time.sleep(600)" in path.read_bytes():
                    found.add(str(path))
        return found

    before = sleepers()
    left: list[set[str]] = []

    def look(event: RunEvent) -> None:
        if event.data.get("stage") == "score":
            left.append(sleepers() - before)

    summary = execute_run(config(), look)
    assert [event.event for event in records(summary, AgentEvent)] == ["daemon"]
    assert left == [set()]


def test_an_agent_that_hangs_is_killed_at_its_limit(config: Config, behave: Callable[[str], None]) -> None:
    behave("hang")
    begin = time.monotonic()
    summary = execute_run(config(budget={"evaluations": 5, "wall_s": 3.0, "tokens": 0}))
    assert "wall limit of 3 s exceeded" in summary.rows[0].outcome
    assert time.monotonic() - begin < 15


def test_evaluations_beyond_the_budget_are_refused(config: Config, behave: Callable[[str], None]) -> None:
    behave("spend")
    summary = execute_run(config())
    assert summary.rows[0].evaluations == 5
    (event,) = records(summary, AgentEvent)
    assert event.data == {"ok": False, "diagnostics": ["the budget of 5 evaluations is used up"]}


def test_an_agent_cannot_fill_the_disk_with_events(config: Config, behave: Callable[[str], None]) -> None:
    behave("flood")
    summary = execute_run(config())
    assert summary.valid == 1
    events = records(summary, AgentEvent)
    assert len(events) <= 5001
    assert events[-1].event == "log_cut"


@pytest.mark.skipif(not landlock_abi(), reason="the kernel has no Landlock")
def test_an_agent_sees_neither_reference_nor_key_nor_the_parents_environment(
    config: Config, behave: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    behave("snoop")
    monkeypatch.setenv("FABRICA_AGENT_SNOOP", str(FIXTURE_TASKS))
    monkeypatch.setenv("FABRICA_AGENT_KEYS", os.environ["FABRICA_BENCH_KEYS"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    (event,) = records(execute_run(config()), AgentEvent)
    assert event.data["seen"] == ["PermissionError"] * 3
    assert "AWS_SECRET_ACCESS_KEY" not in event.data["environment"]
    assert "FABRICA_BENCH_KEYS" not in event.data["environment"]
    assert event.data["cwd"] == []


def test_no_held_out_seed_or_key_is_in_the_run_folder(config: Config) -> None:
    summary = execute_run(config())
    key = next(Path(os.environ["FABRICA_BENCH_KEYS"]).iterdir())
    from helpers.double_it import double_it

    from fabrica_bench.scoring.inputs import held_out_seeds
    from fabrica_bench.tasks.seeds import HeldOutKey

    secrets = [str(seed) for seed in held_out_seeds(double_it(), HeldOutKey.from_file(key))]
    secrets.append(key.read_text(encoding="ascii").strip())
    for path in summary.run_dir.rglob("*"):
        if path.is_file():
            content = path.read_bytes().decode("utf-8", errors="replace")
            assert not any(secret in content for secret in secrets), path


# -------------------------------------------------------------------------------------------- continuing


def test_a_finished_run_is_not_repeated(config: Config) -> None:
    first = execute_run(config())
    again = execute_run(config(jobs=1))
    assert again == first
    assert len(records(again, VerdictRecord)) == 1
    assert [record.finished for record in records(again, SessionStarted)] == [0, 1]


def test_another_configuration_in_the_same_folder_is_refused_with_the_difference(config: Config) -> None:
    execute_run(config())
    with pytest.raises(FabricaError, match=r'agent: "toy" -> "reference"'):
        execute_run(config("reference"))
    with pytest.raises(FabricaError, match="repeat: 1 -> 2"):
        execute_run(config(repeat=2))


def test_a_folder_with_something_else_in_it_is_left_alone(config: Config, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("x", encoding="utf-8")
    with pytest.raises(FabricaError, match="not empty and holds no run"):
        execute_run(config())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"agent": "nobody"}, "unknown agent 'nobody'"),
        ({"tasks": ("Nothing",)}, "unknown task 'Nothing'"),
        ({"tasks": ("Double-It", "double-it")}, "named twice"),
        ({"toolchain": "gcc"}, "unknown toolchain 'gcc'"),
        ({"size": "huge"}, "unknown size"),
    ],
)
def test_unknown_names_are_refused_before_anything_is_made(
    fields: dict[str, object], message: str, config: Config, tmp_path: Path
) -> None:
    with pytest.raises(FabricaError, match=message):
        execute_run(config(**fields))
    assert not (tmp_path / "run").exists()


def test_repeats_are_separate_attempts(config: Config) -> None:
    summary = execute_run(config(repeat=3, jobs=3))
    assert [row.attempt for row in summary.rows] == [1, 2, 3]
    assert summary.valid == 3


def test_ctrl_c_keeps_what_is_finished_and_the_same_call_continues(
    config: Config, behave: Callable[[str], None]
) -> None:
    behave("slow")

    timers: list[threading.Timer] = []

    def interrupt(event: RunEvent) -> None:
        if event.kind is EventKind.JOB_FINISHED and not timers:
            timers.append(threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]))
            timers[0].start()

    with pytest.raises(RunInterrupted, match=r"[12] of 4 results are kept") as caught:
        execute_run(config(repeat=4, jobs=1), interrupt)
    assert caught.value.code == ExitCode.INTERRUPTED
    summary = execute_run(config(repeat=4))
    assert summary.valid == 4
    assert len(records(summary, VerdictRecord)) == 4
    assert [record.reason for record in records(summary, SessionEnded)] == ["interrupted", "finished"]


def test_a_killed_coordinator_loses_nothing_and_leaves_no_process(
    config: Config, behave: Callable[[str], None], tmp_path: Path
) -> None:
    behave("slow")
    settings = config(repeat=3, jobs=1)
    path = tmp_path / "config.json"
    path.write_text(settings.model_dump_json(), encoding="utf-8")
    code = (
        "import sys, pathlib\n"
        "from fabrica_bench.runs.config import RunConfig\n"
        "from fabrica_bench.runs.execution import execute_run\n"
        "config = RunConfig.model_validate_json(pathlib.Path(sys.argv[1]).read_text())\n"
        "execute_run(config, lambda event: print(event.kind, flush=True))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == "job_finished":
            break
    child.kill()
    child.wait()
    child.stdout.close()
    done = load_summary(tmp_path / "run")
    assert 1 <= len(done.rows) < 3
    summary = execute_run(settings)
    assert summary.valid == 3
    assert len(records(summary, VerdictRecord)) == 3


def test_a_job_that_dies_is_tried_again_and_then_blamed_on_the_harness(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(event: RunEvent) -> None:
        if event.kind is EventKind.JOB_PROGRESS and event.data["stage"] == "agent":
            children = subprocess.run(
                ["pgrep", "-f", "fabrica_bench.runs.job", "-P", str(os.getpid())],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.split()
            for pid in children:
                os.kill(int(pid), signal.SIGKILL)

    summary = execute_run(config(), kill)
    (row,) = summary.rows
    assert isinstance(row.verdict, NotScored)
    assert row.verdict.blame == "harness"
    assert "signal 9" in row.verdict.reason
    assert len(records(summary, JobFailed)) == 2
    # Crashed work is owed again.
    again = execute_run(config())
    assert isinstance(again.rows[0].verdict, Valid)


def test_a_file_that_cannot_grow_stops_the_run_with_one_message_and_owes_the_rest(config: Config) -> None:
    """A real limit on the size of files, which cuts a record at any byte, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(FabricaError, match="file too large") as caught:
            execute_run(config(repeat=3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert "ulimit -f" in str(caught.value)
    interrupted = account(config(repeat=3))
    assert interrupted.lost > 0
    assert execute_run(config(repeat=3)).valid == 3
    finished = account(config(repeat=3))
    assert (finished.lost, finished.twice) == (0, 0)
    assert finished.started <= 3 + interrupted.lost  # what had its verdict was not begun again


def test_a_full_disk_stops_the_run_with_one_message_and_owes_the_rest(config: Config, small_disk: Path) -> None:
    settings = config(repeat=2, out=small_disk / "run")
    filled = small_disk / "filler"

    def fill(event: RunEvent) -> None:
        if event.kind is EventKind.JOB_FINISHED and not filled.exists():
            with contextlib.suppress(OSError), filled.open("wb", buffering=0) as stream:
                while True:
                    stream.write(bytes(1000))

    with pytest.raises(FabricaError, match="no space left on the device") as caught:
        execute_run(settings, fill)
    assert caught.value.code == ExitCode.ENVIRONMENT
    assert 1 <= len(load_summary(settings.out).rows) < 2
    filled.unlink()
    assert execute_run(settings).valid == 2
    finished = account(settings)
    assert (finished.lost, finished.twice) == (0, 0)


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system with little room; skips where none can be mounted."""
    monkeypatch.setattr(opening, "MIN_FREE_BYTES", 1 << 16)
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if os.getuid() != 0 or shutil.which("mount") is None or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("only root may mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_too_little_space_to_begin_is_said_before_the_start(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(FabricaError, match="no space left to start"):
        execute_run(config())


def test_a_lost_key_is_named(config: Config) -> None:
    execute_run(config(repeat=1))
    for path in Path(os.environ["FABRICA_BENCH_KEYS"]).iterdir():
        path.unlink()
    with pytest.raises(FabricaError, match="is not on this machine"):
        execute_run(config(repeat=1))


# -------------------------------------------------------------------------------------------- verification


def test_verification_finds_the_same_verdicts(config: Config) -> None:
    summary = execute_run(config(repeat=2))
    report = verify_run(summary.run_dir)
    assert (report.ok, report.checked, report.different, report.conditions) == (True, 2, 0, ())
    with pytest.raises(FabricaError, match="unknown task in this run"):
        verify_run(summary.run_dir, only={"ReLU-1PE"})
    json.dumps(report.to_json())


def test_verification_finds_a_forged_record(config: Config) -> None:
    summary = execute_run(config())
    path = summary.run_dir / "records.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"cycles":1000,"ref', '"cycles":10,"ref'), encoding="utf-8"
    )
    report = verify_run(summary.run_dir)
    assert (report.ok, report.different) == (False, 1)
    assert report.rows[0].detail == "differs in cycles"


def test_verification_finds_a_changed_candidate(config: Config) -> None:
    summary = execute_run(config())
    (candidate,) = records(summary, CandidateRecord)
    digest = candidate.files["pe.csl"]
    (summary.run_dir / "files" / digest[:2] / digest[2:]).write_text("else", encoding="utf-8")
    with pytest.raises(FabricaError, match="content differs from its digest"):
        verify_run(summary.run_dir)


def test_verification_misses_the_candidate_of_a_verdict(config: Config) -> None:
    """A verdict that was written into a run, or whose program was taken out of it, can't be checked: it doesn't hold."""
    summary = execute_run(config())
    path = summary.run_dir / "records.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"record":"candidate"' not in line), encoding="utf-8")
    assert not records(summary, CandidateRecord)
    report = verify_run(summary.run_dir)
    assert (report.ok, report.checked, report.different) == (False, 1, 1)
    assert report.rows[0].detail == "the run holds no candidate for this: valid"


def test_attempts_that_a_run_does_not_make_neither_count_nor_hide_missing_ones(config: Config) -> None:
    """Else the failure at one task could be replaced by a second success at another."""
    summary = execute_run(config(repeat=2))
    path = summary.run_dir / "records.jsonl"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"attempt":2', '"attempt":3'), encoding="utf-8")
    found = load_summary(summary.run_dir)
    assert (found.valid, found.missing, found.total) == (1, 1, 2)
    report = verify_run(summary.run_dir)
    assert (report.ok, report.partial, report.different) == (False, True, 1)
    details = {row.attempt: row.detail for row in report.rows}  # they stand in the order in which they were finished
    assert details == {1: "same: valid", 3: "the run makes no such attempt"}


def test_an_agents_failure_has_nothing_to_verify(config: Config, behave: Callable[[str], None]) -> None:
    behave("give_up")
    report = verify_run(execute_run(config()).run_dir)
    assert (report.ok, report.checked) == (False, 0)
    assert "nothing to execute" in report.rows[0].detail


def test_what_an_agent_prints_is_on_record(config: Config, behave: Callable[[str], None]) -> None:
    behave("noise")
    events = [event for event in records(execute_run(config()), AgentEvent) if event.event == "printed"]
    assert len(events) == 1
    assert '{"type": "candidate"}' in events[0].data["text"]


def test_a_tasks_folder_named_relatively_is_found_by_every_process(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(os.environ["FABRICA_BENCH_TASKS"])
    monkeypatch.chdir(root.parent)
    monkeypatch.setenv("FABRICA_BENCH_TASKS", root.name)
    assert execute_run(config()).valid == 1


def test_a_changed_selection_of_tasks_does_not_show_digests(config: Config, tmp_path: Path) -> None:
    from fabrica_bench.runs.manifest import task_difference

    assert task_difference({"A": "1", "B": "2"}, {"A": "1"}) == []
    assert task_difference({"A": "1", "B": "2"}, {"A": "3", "B": "2"}) == ["task A has changed since"]


def test_a_row_has_its_reason(config: Config, behave: Callable[[str], None]) -> None:
    behave("give_up")
    row = execute_run(config()).to_json()["rows"][0]
    assert row["reason"] == "the agent gave up: a while loop with two exits; an unknown intrinsic"


def test_a_verification_announces_how_much_there_is(config: Config) -> None:
    summary = execute_run(config())
    events: list[RunEvent] = []
    verify_run(summary.run_dir, progress=events.append)
    assert events[0].kind is EventKind.VERIFY_STARTED
    assert (events[0].data["total"], events[0].data["finished"]) == (1, 0)


def test_the_records_say_what_confined_agent_and_candidate(config: Config, behave: Callable[[str], None]) -> None:
    """Read from the lines themselves, and compared with what the agent's process found about itself."""
    behave("confined")
    summary = execute_run(config(toolchain="embedded"))
    manifest = json.loads((summary.run_dir / "manifest.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (summary.run_dir / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    by_kind = {kind: [line for line in lines if line["record"] == kind] for kind in ("candidate", "measured")}
    (agent,) = [line["isolation"] for line in by_kind["candidate"]]
    (seen,) = [line["data"] for line in lines if line.get("event") == "seen"]
    assert agent["limits"].startswith(f"cpu {seen['cpu']} s, memory {seen['memory'] >> 20} MiB, ")
    assert agent["limits"].endswith(f"open files {seen['files']}")
    assert ("own session" in agent["session"]) == seen["session"]
    assert agent["system calls"].startswith("seccomp") == (seen["seccomp"] == 2)
    assert agent["file system"].startswith("Landlock") == bool(landlock_abi())
    # The agent's evaluation, and the candidate's and the reference's on visible and held-out inputs.
    toolchain = manifest["isolation"]["toolchain"]
    assert [line["evaluation"]["isolation"] for line in by_kind["measured"]] == [toolchain] * len(by_kind["measured"])
    assert len(by_kind["measured"]) >= 3
    assert toolchain["limits"] != agent["limits"] == manifest["isolation"]["agent"]["limits"]
