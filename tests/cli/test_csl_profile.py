"""`fabrica-bench csl profile`: where the cycles of a program's own scripts went."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.cli_run import assert_one_clear_error
from helpers.csl_programs import PE_HEAD, uniform_layout

from fabrica_bench.errors import ExitCode

PE = (
    PE_HEAD
    + """
var data: [16]f32 align(16) = @zeros([16]f32);
var data_ptr: [*]f32 = &data;
const data_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{16} -> data[i] });
fn main() void {
  @fmovs(data_dsd, 2.0);
  sys_mod.unblock_cmd_stream();
}
comptime {
  @export_symbol(data_ptr, "data");
  @export_symbol(main);
}
"""
)
RUN = """
from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime
runtime = SdkRuntime("out")
runtime.load()
runtime.run()
runtime.launch("main", nonblock=False)
runtime.stop()
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "layout.csl").write_text(uniform_layout(2, 1, {"data": "[*]f32"}), encoding="utf-8")
    (folder / "pe.csl").write_text(PE, encoding="utf-8")
    (folder / "run.py").write_text(RUN, encoding="utf-8")
    (folder / "commands_wse3.sh").write_text(
        "cslc layout.csl --arch=wse3 --fabric-dims=9,3 --fabric-offsets=4,1 --memcpy -o out\ncs_python run.py\n",
        encoding="utf-8",
    )
    return folder


def test_it_shows_lines_tasks_and_operations_and_writes_files(cli, bundle, tmp_path):
    outcome = cli("csl", "profile", bundle, "--out", tmp_path / "p", "--silicon")
    assert outcome.code == ExitCode.OK, outcome
    assert "main-thread cycles by source line" in outcome.out
    assert "pe.csl:9" in outcome.out
    assert "@fmovs" in outcome.out
    assert "ESTIMATE" in outcome.out
    record = json.loads((tmp_path / "p" / "out.profile.json").read_text(encoding="utf-8"))
    assert record["tasks"][0]["name"] == "main"
    assert record["tasks"][0]["runs"] == 2
    ElementTree.parse(tmp_path / "p" / "out.profile.svg")


def test_json_holds_the_profile_and_estimates_only_on_demand(cli, bundle, tmp_path):
    document = cli("csl", "profile", bundle, "--out", tmp_path / "p", "--json").json()
    (found,) = document["profiles"]
    assert found["operations"][0]["elements"] == 32
    assert "silicon_estimate" not in found
    document = cli("csl", "profile", bundle, "--out", tmp_path / "p", "--json", "--silicon").json()
    assert document["profiles"][0]["silicon_estimate"]["factor"] == 1.65


def test_the_profile_changes_no_cycle(cli, bundle, tmp_path):
    plain = cli("csl", "run", bundle, "--json").json()
    profiled = cli("csl", "profile", bundle, "--out", tmp_path / "p", "--json").json()
    assert profiled["launches"] == plain["launches"]


def test_a_file_where_the_profiles_should_go(cli, bundle, tmp_path):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    outcome = cli("csl", "profile", bundle, "--out", tmp_path / "taken")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "taken")


def test_a_script_without_a_program_gives_no_profile(cli, tmp_path):
    (tmp_path / "nothing.sh").write_text("true\n", encoding="utf-8")
    outcome = cli("csl", "profile", tmp_path / "nothing.sh", "--out", tmp_path / "p")
    assert outcome.code == ExitCode.FAILURE
    assert "no profile" in outcome.out
