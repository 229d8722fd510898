"""Progress displays: what a log shows line by line, and that the live display survives any order of events."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from fabrica_bench.cli import console
from fabrica_bench.cli.progress import JsonProgress, LiveProgress, PlainProgress, finish_text, progress_display
from fabrica_bench.errors import FabricaError, UnknownNameError
from fabrica_bench.runs.events import EventKind, RunEvent

VALID = {"kind": "valid", "cycles": 1200, "reference_cycles": 2400, "speedup": 2.0}


def started(total: int = 2, finished: int = 0) -> RunEvent:
    data = {
        "run_dir": "runs/x",
        "agent": "mine",
        "total": total,
        "finished": finished,
        "jobs": 2,
        "toolchain": {"toolchain": "embedded", "version": "1"},
    }
    return RunEvent(EventKind.RUN_STARTED, "", data=data)


def finished(task: str, verdict: dict, text: str = "", attempt: int = 1) -> RunEvent:
    return RunEvent(EventKind.JOB_FINISHED, text, task, attempt, {"verdict": verdict, "seconds": 1.5})


def test_plain_lines_count_and_say_how_each_job_ended(capsys):
    display = PlainProgress()
    with display as progress:
        progress(started())
        progress(RunEvent(EventKind.JOB_STARTED, "", "A", 1, {"limit_s": 300}))
        progress(RunEvent(EventKind.JOB_PROGRESS, "compiling", "A"))
        progress(finished("A", VALID))
        progress(finished("B", {"kind": "invalid"}, "fails Correct: y[0] is wrong", attempt=2))
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0] == "agent mine on 2 tasks; toolchain embedded, 2 at a time; records in runs/x"
    assert lines[1] == "[0/2] A: started, limit 300 s"
    assert lines[2] == "[1/2] A: valid, 1,200 cycles, reference 2,400, speed-up 2.000 (1.5 s)"
    assert lines[3] == "[2/2] B #2: fails Correct: y[0] is wrong (1.5 s)"


def test_plain_lines_say_what_a_model_is_waited_for(capsys):
    with PlainProgress() as progress:
        progress(started())
        progress(RunEvent(EventKind.JOB_PROGRESS, "waiting for q/0001.answer.json", "A", 1, {"stage": "model"}))
    assert "[0/2] A: waiting for q/0001.answer.json\n" in capsys.readouterr().err


def test_a_continued_run_says_what_it_takes_over(capsys):
    with PlainProgress() as progress:
        progress(started(total=10, finished=3))
        progress(finished("A", VALID))
    err = capsys.readouterr().err
    assert "3 already finished" in err
    assert "[ 4/10] A:" in err


def test_an_invalid_verdict_never_shows_cycles():
    assert "cycles" not in finish_text(finished("A", {"kind": "invalid", "cycles": 5}, "Build: no"))


def test_the_live_display_shows_running_jobs_oldest_first_and_scrolls_finished_ones():
    display = LiveProgress()
    stream = io.StringIO()
    display._console = Console(file=stream, force_terminal=True, width=100, color_system=None, highlight=False)
    with display as progress:
        progress(started(total=30))
        for number in range(20):
            progress(RunEvent(EventKind.JOB_STARTED, "", f"T{number}", 1, {"limit_s": 300}))
        progress(RunEvent(EventKind.JOB_PROGRESS, "lowering", "T0"))
        progress(finished("T1", VALID))
        shown = render(display)
    assert "T0" in shown
    assert "lowering" in shown
    assert "of 300 s" in shown
    assert "and 7 more" in shown
    assert shown.index("T0") < shown.index("T2 ")
    assert "1/30 tasks" in shown
    assert "T1: valid, 1,200 cycles" in stream.getvalue()


def test_unexpected_events_do_no_harm(capsys):
    for display in (PlainProgress(), LiveProgress()):
        display(RunEvent(EventKind.JOB_PROGRESS, "x", "unknown"))
        display(RunEvent(EventKind.JOB_FINISHED, "odd", "unknown"))
        display(RunEvent(EventKind.RUN_FINISHED, "done"))
    assert "unknown: odd" in capsys.readouterr().err


@pytest.mark.parametrize(("live", "kind"), [(True, LiveProgress), (False, PlainProgress)])
def test_the_display_fits_the_stream(monkeypatch, live, kind):
    monkeypatch.setattr(console, "is_live", lambda _: live)
    assert [type(display) for display in progress_display().displays] == [kind]


def test_a_dumb_terminal_and_ci_get_plain_lines(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert console.is_live(Terminal())
    monkeypatch.setenv("CI", "true")
    assert not console.is_live(Terminal())
    monkeypatch.delenv("CI")
    monkeypatch.setenv("TERM", "dumb")
    assert not console.is_live(Terminal())
    assert not console.is_live(io.StringIO())


def render(display: LiveProgress) -> str:
    stream = io.StringIO()
    Console(file=stream, width=100, color_system=None, highlight=False).print(display._render())
    return stream.getvalue()


def test_a_verification_counts_up_to_its_total(capsys):
    data = {**started(total=3, finished=1).data, "run_dir": "runs/x"}
    with PlainProgress() as progress:
        progress(RunEvent(EventKind.VERIFY_STARTED, "verifying 2 of 3 attempts", data=data))
        progress(RunEvent(EventKind.JOB_FINISHED, "same: valid", "A"))
    assert capsys.readouterr().err.splitlines() == [
        "verifying 2 of 3 attempts of runs/x, 2 at a time",
        "[2/3] A: same: valid",
    ]


def test_one_task_is_not_tasks(capsys):
    with PlainProgress() as progress:
        progress(started(total=1))
    assert "on 1 task;" in capsys.readouterr().err


def test_events_are_one_json_object_a_line_beside_the_display(tmp_path, capsys):
    path = tmp_path / "events.jsonl"
    for _ in range(2):  # a continued run appends
        with progress_display("plain", path) as progress:
            progress(finished("A", VALID))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 2
    assert (lines[0]["event"], lines[0]["task"], lines[0]["attempt"]) == ("job_finished", "A", 1)
    assert lines[0]["data"]["verdict"]["kind"] == "valid"
    assert lines[0]["time"].endswith("Z")
    assert "A: valid" in capsys.readouterr().err


def test_an_unknown_mode_of_progress_names_the_known_ones():
    with pytest.raises(UnknownNameError) as caught:
        progress_display("fancy")
    assert "jsonl" in str(caught.value.remedy)


def test_an_event_may_name_a_folder_that_is_no_utf8(tmp_path):
    text = f"records in {os.fsdecode(b'caf' + bytes([0xE9]))}"
    with JsonProgress(tmp_path / "events") as display:
        display(RunEvent(EventKind.RUN_STARTED, text))
    assert json.loads((tmp_path / "events").read_text(encoding="utf-8"))["text"] == text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_an_event_file_that_is_full_is_named():
    with pytest.raises(FabricaError, match="no space left") as caught, JsonProgress(Path("/dev/full")) as display:
        display(RunEvent(EventKind.RUN_STARTED, "begun"))
    assert caught.value.place == "/dev/full"
