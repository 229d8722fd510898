"""`run`, `score` and `verify` from start to end, with the controls, on two small tasks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fabrica_bench.cli.main import main
from fabrica_bench.errors import ExitCode
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.tasks import load_task
from fabrica_bench.tasks.canary import without_canary

TASKS = ("ReLU-1PE", "SAXPY-1PE")
FILTER = ("--filter", f"name={','.join(TASKS)}")


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the reference control."""
    folder = tmp_path_factory.mktemp("runs") / "reference"
    execute_run(RunConfig(agent="reference", tasks=TASKS, out=folder))
    return folder


@pytest.fixture
def copied_run(finished_run, tmp_path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(finished_run, tmp_path / "copy"))


def test_the_reference_control_is_valid_everywhere_and_json_is_one_object(cli, copied_run):
    outcome = cli("run", "--agent", "reference", *FILTER, "--out", copied_run, "--json")
    assert outcome.code == ExitCode.OK
    result = outcome.json()
    assert (result["valid"], result["total"]) == (2, 2)
    assert [row["task"] for row in result["rows"]] == list(TASKS)
    for row in result["rows"]:
        assert row["speedup"] == 1.0
        assert row["cycles"] == row["reference_cycles"] > 0
    assert Path(result["report"]).is_file()
    assert "2 already finished" in outcome.err


def test_a_finished_run_is_not_run_again_and_its_table_says_what_was_used(cli, copied_run):
    before = (copied_run / "records.jsonl").read_text(encoding="utf-8").count('"record":"verdict"')
    outcome = cli("run", "--agent", "reference", *FILTER, "--out", copied_run)
    assert outcome.code == ExitCode.OK
    assert (copied_run / "records.jsonl").read_text(encoding="utf-8").count('"record":"verdict"') == before
    for word in ("ReLU-1PE", "valid", "2 of 2 valid", "agent reference, model none", "toolchain embedded"):
        assert word in outcome.out
    assert f"run folder {copied_run}" in outcome.out
    assert str(copied_run / "report.html") in outcome.out


def test_another_configuration_in_the_same_folder_is_refused_with_the_difference(cli, copied_run):
    outcome = cli("run", "--agent", "reference", *FILTER, "--out", copied_run, "--arch", "wse2")
    assert outcome.code != 0
    assert "arch" in outcome.err
    assert "wse2" in outcome.err


def test_the_null_control_compiles_and_runs_and_is_never_correct(cli, tmp_path):
    outcome = cli("run", "--agent", "null", *FILTER, "--out", tmp_path / "null", "--json")
    assert outcome.code == ExitCode.OK
    result = outcome.json()
    assert (result["valid"], result["total"]) == (0, 2)
    for row in result["rows"]:
        assert row["outcome"].startswith("fails Correct: "), row
        assert row["cycles"] is None
        assert row["speedup"] is None


def test_verify_finds_the_same_verdicts(cli, copied_run):
    outcome = cli("verify", copied_run, "--json")
    assert outcome.code == ExitCode.OK, outcome
    assert outcome.json()["checked"] == 2
    assert outcome.json()["different"] == 0


def test_verify_finds_a_verdict_that_was_changed(cli, copied_run):
    path = copied_run / "records.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records:
        if record["record"] == "verdict" and record["task"] == TASKS[0]:
            record["verdict"]["cycles"] -= 1
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    outcome = cli("verify", copied_run)
    assert outcome.code == ExitCode.FAILURE
    assert "DIFFERENT" in outcome.out
    assert "1 different" in outcome.out


def plain_relu():
    """The newcomer's kernel, without the line that marks it as the benchmark's own."""
    return without_canary((load_task("ReLU-1PE").bundle_dir / "plain.csl").read_text(encoding="utf-8"))


def test_score_shows_the_evidence_of_a_valid_candidate(cli, tmp_path):
    (tmp_path / "pe.csl").write_text(plain_relu(), encoding="utf-8")
    outcome = cli("score", "--task", TASKS[0], "--candidate", tmp_path)
    assert outcome.code == ExitCode.OK, outcome
    assert "ReLU-1PE: valid" in outcome.out
    for predicate in ("Build", "Run", "Contract", "Timing", "Correct"):
        assert f"  {predicate:<9} holds" in outcome.out
    assert "toolchain embedded" in outcome.out


def test_score_of_a_program_that_does_not_compile_names_the_line(cli, tmp_path):
    (tmp_path / "pe.csl").write_text(plain_relu().replace("@zeros(", "@zeroes(", 1), encoding="utf-8")
    outcome = cli("score", "--task", TASKS[0], "--candidate", tmp_path, "--json")
    assert outcome.code == ExitCode.FAILURE
    verdict = outcome.json()["verdict"]
    assert (verdict["kind"], verdict["predicate"]) == ("invalid", "Build")
    assert "pe.csl:" in json.dumps(verdict)
    assert "cycles" not in verdict


def test_every_line_of_a_deadlock_report_stands_under_its_predicate(cli, tmp_path):
    reader = """const link = @get_color(3);
const queue = @get_input_queue(2);
const words = @get_dsd(fabin_dsd, .{ .fabric_color = link, .extent = 1, .input_queue = queue });
var word = @zeros([1]u32);
const place = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{1} -> word[i] });
fn compute() void {
"""
    bound = """comptime {
  if (@is_arch("wse3")) { @initialize_queue(queue, .{ .color = link }); }
  @set_local_color_config(link, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
"""
    text = plain_relu().replace("fn compute() void {\n", reader, 1).replace("comptime {\n", bound, 1)
    stuck = text.replace("window.start();", "window.start();\n  @mov32(place, words);")
    (tmp_path / "pe.csl").write_text(stuck, encoding="utf-8")
    outcome = cli("score", "--task", TASKS[0], "--candidate", tmp_path)
    assert "deadlock: nothing can advance" in outcome.out, outcome
    report = outcome.out.split("  Run       fails\n", 1)[1].split("  Contract", 1)[0].splitlines()
    assert len(report) > 3
    assert all(line.startswith(" " * 12) for line in report), outcome.out


def test_score_of_an_agent_names_its_run(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = cli("score", "--task", "relu-1pe", "--agent", "null", "--json")
    assert outcome.code == ExitCode.FAILURE
    result = outcome.json()
    assert result["agent"] == "null"
    assert Path(result["report"]).is_file()
    assert Path(result["run_dir"]).parts[0] == "runs"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_is_finished_and_the_same_command_continues(tmp_path, monkeypatch, number):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    command = [sys.executable, "-m", "fabrica_bench", "run", "--agent", "reference", *FILTER, "--jobs", "1"]
    command += ["--out", str(tmp_path / "run"), "--json"]
    records = tmp_path / "run" / "records.jsonl"
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True
    )
    _wait_for(lambda: records.exists() and '"record":"verdict"' in records.read_text(encoding="utf-8"), process)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, err
    assert "Traceback" not in err
    assert out == ""
    assert list((tmp_path / "temporary").iterdir()) == []
    kept = [line for line in records.read_text(encoding="utf-8").splitlines() if '"record":"verdict"' in line]
    again = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["valid"] == 2
    lines = records.read_text(encoding="utf-8").splitlines()
    assert set(kept) <= set(lines)
    assert sum('"record":"verdict"' in line for line in lines) == 2


def test_no_run_leaves_a_process_behind(cli, tmp_path):
    # Other tests of this process may have scored in it, which keeps a starter for the next candidate.
    before = _children()
    cli("run", "--agent", "null", "--filter", "name=ReLU-1PE", "--out", tmp_path / "run")
    assert _children() <= before


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())


def test_main_returns_its_exit_code_to_the_console_script():
    assert main(["show", "no-such-task"]) == ExitCode.USAGE


def _wait_for(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
