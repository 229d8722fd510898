"""`fabrica-bench csl run` and `trace`: a program's own scripts, with our tools, from anywhere."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from helpers.cli_run import assert_one_clear_error
from helpers.csl_programs import PE_HEAD, uniform_layout

from fabrica_bench.errors import ExitCode

LAYOUT = uniform_layout(2, 1, {"data": "[*]f32"})
GOOD = "sys_mod.unblock_cmd_stream();"
STUCK = """
const q = @get_input_queue(2);
const c = @get_color(6);
const words = @get_dsd(fabin_dsd, .{ .extent = 3, .input_queue = q });
const target = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> data[i] });
comptime {
  @initialize_queue(q, .{ .color = c });
  @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });
}
"""
RUN = """
import argparse
import cmd_helper
from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime

parser = argparse.ArgumentParser()
parser.add_argument("--name")
runtime = SdkRuntime(parser.parse_args().name)
runtime.load()
runtime.run()
runtime.launch("main", nonblock=False)
runtime.stop()
print(cmd_helper.TEXT)
"""
COMMANDS = """#!/usr/bin/env bash
set -e
cslc layout.csl --arch={arch} --fabric-dims=9,3 --fabric-offsets=4,1 --memcpy --channels=1 -o out
cs_python run.py --name out
"""


def pe(body: str, head: str = "") -> str:
    return f"""{PE_HEAD}
var data = @zeros([3]f32);
var pointer: [*]f32 = &data;
{head}
fn main() void {{
  {body}
}}
comptime {{
  @export_symbol(pointer, "data");
  @export_symbol(main);
}}
"""


def write_program(folder: Path, pe_text: str, *arches: str) -> Path:
    folder.mkdir(exist_ok=True)
    files = {"layout.csl": LAYOUT, "pe.csl": pe_text, "run.py": RUN, "cmd_helper.py": "TEXT = 'all well'\n"}
    files |= {f"commands_{arch}.sh": COMMANDS.format(arch=arch) for arch in arches}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_program(tmp_path / "my program", pe(GOOD), "wse2", "wse3")


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """Its PEs wait for words that nobody sends."""
    body = f"@fmovs(target, words);\n  {GOOD}"
    return write_program(tmp_path / "stuck", pe(body, STUCK), "wse3")


def script(folder: Path, text: str) -> Path:
    path = folder / "script.sh"
    path.write_text(text, encoding="utf-8")
    return path


class TestRun:
    def test_a_bundle_builds_and_runs_from_anywhere(self, cli, bundle, tmp_path, monkeypatch):
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        outcome = cli("csl", "run", bundle)
        assert outcome.code == ExitCode.OK, outcome
        assert "simulated cycles in all: " in outcome.out
        assert any(line.split()[:1] == ["main"] for line in outcome.out.splitlines())
        assert outcome.out.splitlines()[-1].startswith(f"{bundle / 'commands_wse3.sh'}: ok (")
        assert not list((tmp_path / "elsewhere").iterdir())

    def test_json_has_cycles_launches_and_both_streams(self, cli, bundle):
        document = cli("csl", "run", bundle, "--arch", "wse2", "--json").json()
        assert document["ok"] is True
        assert document["stdout"] == "all well\n"
        (launch,) = document["launches"]
        assert launch["name"] == "main"
        assert 0 < launch["start"] <= launch["end"] <= document["cycles"]

    def test_a_host_script_with_arguments(self, cli, bundle):
        assert cli("csl", "run", bundle).code == ExitCode.OK
        document = cli("csl", "run", bundle / "run.py", "--json", "--", "--name", "out").json()
        assert (document["ok"], document["stdout"]) == (True, "all well\n")

    def test_a_working_folder_keeps_the_original_clean(self, cli, bundle, tmp_path):
        before = sorted(path.name for path in bundle.iterdir())
        assert cli("csl", "run", bundle, "--workdir", tmp_path / "copy").code == ExitCode.OK
        assert sorted(path.name for path in bundle.iterdir()) == before
        assert (tmp_path / "copy" / "out").is_dir()
        outcome = cli("csl", "run", bundle, "--workdir", tmp_path / "copy")
        assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "copy", "not empty")
        inside = cli("csl", "run", bundle, "--workdir", bundle / "copy")
        assert_one_clear_error(inside, ExitCode.BAD_INPUT, "inside")

    def test_the_folder_of_a_task_runs_its_bundle(self, cli, bundle, tmp_path):
        task = tmp_path / "task"
        task.mkdir()
        bundle.rename(task / "csl")
        assert cli("csl", "run", task).code == ExitCode.OK

    def test_a_deadlock_is_reported(self, cli, stuck):
        document = cli("csl", "run", stuck, "--json").json()
        assert (document["ok"], document["ending"]) == (False, "deadlock")
        assert document["report"].startswith("fabrica-sim: deadlock: ")
        assert "fmovs" in document["report"]
        assert "of color 6 on input queue 2" in document["report"]
        outcome = cli("csl", "run", stuck)
        assert outcome.code == ExitCode.FAILURE
        assert "fabrica-sim: deadlock: " in outcome.err
        assert "the simulated program deadlocked" in outcome.out

    def test_a_budget_of_cycles(self, cli, bundle):
        document = cli("csl", "run", bundle, "--max-cycles", "10", "--json").json()
        assert document["ending"] == "budget"
        assert "10 cycles" in document["report"]

    def test_a_time_limit_kills_the_script_and_its_children(self, cli, tmp_path):
        path = script(tmp_path, "sleep 60 & echo $! > child; sleep 60\n")
        begin = time.monotonic()
        document = cli("csl", "run", path, "--timeout", "0.5", "--json").json()
        assert document["ending"] == "timeout"
        assert time.monotonic() - begin < 20
        child = Path("/proc") / (tmp_path / "child").read_text(encoding="utf-8").strip()
        deadline = time.monotonic() + 5
        while child.exists() and "sleep" in (child / "cmdline").read_text(encoding="utf-8"):
            assert time.monotonic() < deadline, "the background process is still there"

    def test_a_failing_script_shows_its_exit_code(self, cli, tmp_path):
        outcome = cli("csl", "run", script(tmp_path, "echo oh no >&2; exit 7\n"))
        assert outcome.code == ExitCode.FAILURE
        assert "oh no" in outcome.err
        assert "exit code 7" in outcome.out

    def test_our_tools_come_first_on_path(self, cli, tmp_path):
        document = cli("csl", "run", script(tmp_path, "cslc --version\ncs_python --version\n"), "--json").json()
        assert [line.split()[:2] for line in document["stdout"].splitlines()] == [
            ["fabrica-bench", "cslc"],
            ["fabrica-bench", "cs_python"],
        ]

    def test_cycles_of_an_earlier_run_are_not_shown(self, cli, tmp_path):
        (tmp_path / "sim_stats.json").write_text('{"cycles": 12345, "launches": []}', encoding="utf-8")
        assert cli("csl", "run", script(tmp_path, "true\n"), "--json").json()["cycles"] is None

    @pytest.mark.parametrize(
        ("words", "code", "mention"),
        [
            (["nowhere"], ExitCode.BAD_INPUT, "nowhere"),
            (["empty"], ExitCode.BAD_INPUT, "commands_wse3.sh"),
            (["my program", "--arch", "wse9"], ExitCode.USAGE, "wse9"),
            (["my program/run.py", "--arch", "wse3"], ExitCode.USAGE, "--arch"),
            (["my program/layout.csl"], ExitCode.BAD_INPUT, "layout.csl"),
            (["my program", "--timeout", "-1"], ExitCode.USAGE, "--timeout"),
            (["my program", "--max-seconds", "nan"], ExitCode.USAGE, "--max-seconds"),
        ],
    )
    def test_a_wrong_command_line(self, cli, bundle, tmp_path, monkeypatch, words, code, mention):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty").mkdir()
        assert_one_clear_error(cli("csl", "run", *words), code, mention)

    def test_a_missing_architecture_names_the_scripts_that_exist(self, cli, stuck):
        assert_one_clear_error(cli("csl", "run", stuck, "--arch", "wse2"), ExitCode.BAD_INPUT, "commands_wse3.sh")


class TestTrace:
    def test_it_writes_both_formats(self, cli, bundle, tmp_path):
        outcome = cli("csl", "trace", bundle, "--out", tmp_path / "traces")
        assert outcome.code == ExitCode.OK, outcome
        assert f"perfetto: {tmp_path / 'traces' / 'out.perfetto.json'}" in outcome.out
        events = json.loads((tmp_path / "traces" / "out.perfetto.json").read_text(encoding="utf-8"))["traceEvents"]
        tasks = [event for event in events if event.get("cat") == "task"]
        assert [event["name"] for event in tasks] == ["main", "main"]
        assert {event["args"]["source"].split(":")[0] for event in tasks} == {"pe.csl"}
        log = (tmp_path / "traces" / "out.wse-viz.log").read_text(encoding="utf-8")
        assert "dimX=9, dimY=3" in log
        assert " P4.1: [EX OP] " in log

    def test_a_deadlocked_run_is_traced_up_to_there(self, cli, stuck, tmp_path):
        document = cli("csl", "trace", stuck, "--out", tmp_path / "t", "--format", "perfetto", "--json").json()
        assert document["ending"] == "deadlock"
        (trace,) = document["traces"]
        assert list(trace["files"]) == ["perfetto"]
        events = json.loads(Path(trace["files"]["perfetto"]).read_text(encoding="utf-8"))["traceEvents"]
        (op, _) = [event for event in events if event.get("cat") == "op"]
        assert op["name"] == "@fmovs"
        assert op["args"]["unfinished"] is True

    def test_a_truncated_trace_says_so(self, cli, bundle, tmp_path):
        outcome = cli("csl", "trace", bundle, "--out", tmp_path / "t", "--max-events", "2")
        assert "the trace ends at cycle" in outcome.out
        document = cli("csl", "trace", bundle, "--out", tmp_path / "t", "--pes", "1,0", "--json").json()
        assert document["traces"][0]["truncated_at_cycle"] is None
        assert document["traces"][0]["events"] < 5

    def test_further_runs_of_a_script_get_their_own_files(self, cli, bundle, tmp_path):
        twice = RUN.replace(
            "print(cmd_helper.TEXT)", "again = SdkRuntime('out'); again.load(); again.run(); again.stop()"
        )
        (bundle / "run.py").write_text(twice, encoding="utf-8")
        cli("csl", "trace", bundle, "--out", tmp_path / "t", "--format", "wse-viz")
        assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
            "out-2.trace.json",
            "out-2.wse-viz.log",
            "out.trace.json",
            "out.wse-viz.log",
        ]

    def test_a_run_that_the_script_never_stops_is_traced(self, cli, bundle, tmp_path):
        (bundle / "run.py").write_text(RUN.replace("runtime.stop()", "raise SystemExit(4)"), encoding="utf-8")
        document = cli("csl", "trace", bundle, "--out", tmp_path / "t", "--json").json()
        assert document["exit_code"] == 4
        assert len(document["traces"]) == 1

    def test_a_script_without_a_program_gives_no_trace(self, cli, tmp_path):
        outcome = cli("csl", "trace", script(tmp_path, "true\n"), "--out", tmp_path / "t")
        assert outcome.code == ExitCode.FAILURE
        assert "no trace" in outcome.out

    @pytest.mark.parametrize(
        ("words", "mention"),
        [
            (["--format", "vcd"], "perfetto"),
            (["--cycles", "9-3"], "--cycles"),
            (["--pes", "1"], "--pes"),
            (["--pes", "1,2,3"], "--pes"),
        ],
    )
    def test_a_wrong_option_costs_no_run(self, cli, bundle, words, mention):
        assert_one_clear_error(cli("csl", "trace", bundle, *words), ExitCode.USAGE, mention)
        assert not (bundle / "out").exists()

    def test_a_file_where_the_traces_should_go(self, cli, bundle, tmp_path):
        (tmp_path / "taken").write_text("", encoding="utf-8")
        outcome = cli("csl", "trace", bundle, "--out", tmp_path / "taken")
        assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "taken")

    def test_pes_outside_the_program_are_a_clear_error_of_the_script(self, cli, bundle, tmp_path):
        outcome = cli("csl", "trace", bundle, "--out", tmp_path / "t", "--pes", "7,0")
        assert outcome.code == ExitCode.FAILURE
        assert "no such PE" in outcome.err
        assert "columns are 0 to 1" in outcome.err


def test_an_unknown_executor_names_the_near_one(cli, tmp_path):
    (tmp_path / "run.py").write_text("print()", encoding="utf-8")
    outcome = cli("csl", "run", tmp_path / "run.py", "--executor", "nativ")
    assert_one_clear_error(outcome, ExitCode.USAGE, "nativ", "did you mean native?")
