"""`fabrica-bench csl check`, `fmt`, `costs`, `memmap` and `routes`."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from helpers.cli_run import assert_one_clear_error
from helpers.csl_programs import PE_HEAD, uniform_layout

from fabrica_bench.cli.commands import csl as commands
from fabrica_bench.compat import cslc
from fabrica_bench.errors import ExitCode
from fabrica_bench.wse.costs import load_costs

PE = f"""{PE_HEAD}
var data = @zeros([24]f32);
var pointer: [*]f32 = &data;
fn main() void {{
  for (@range(i16, 24)) |i| {{
    data[i] += 1.0;
  }}
  sys_mod.unblock_cmd_stream();
}}
comptime {{
  @export_symbol(pointer, "data");
  @export_symbol(main);
}}
"""
FLAGS = ("--arch=wse3", "--fabric-dims=10,4", "--fabric-offsets=4,1", "--memcpy", "--channels=1")
ROUTED = """
const c: color = @get_color(5);
layout {
  @set_rectangle(2, 1);
  @set_tile_code(0, 0, "pe.csl", .{});
  @set_tile_code(1, 0, "pe.csl", .{});
  @set_color_config(0, 0, c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(1, 0, c, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP, SOUTH } } });
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The layout file of a program of 3 by 2 PEs."""
    layout = uniform_layout(3, 2, {"data": "[*]f32"})
    (tmp_path / "layout.csl").write_text(layout, encoding="utf-8")
    (tmp_path / "pe.csl").write_text(PE, encoding="utf-8")
    return tmp_path / "layout.csl"


@pytest.fixture
def routed(tmp_path: Path) -> Path:
    """The layout file of a program with one color, which at its end also leaves the rectangle."""
    (tmp_path / "layout.csl").write_text(ROUTED, encoding="utf-8")
    (tmp_path / "pe.csl").write_text("var x: u16 = 1;\n", encoding="utf-8")
    return tmp_path / "layout.csl"


COMMANDS = ["check", "fmt", "costs", "memmap", "routes", "run", "trace"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_examples(cli, command):
    outcome = cli("csl", command, "--help")
    assert outcome.code == ExitCode.OK
    assert f"fabrica-bench csl {command}" in outcome.out
    assert "Examples:" in outcome.out


def test_help_of_the_group_lists_every_command(cli):
    out = cli("csl", "--help").out
    assert all(f"\n  {command} " in out for command in COMMANDS)


class TestCheck:
    def test_a_program_that_compiles(self, cli, program):
        outcome = cli("csl", "check", program, *FLAGS)
        assert (outcome.code, outcome.err) == (ExitCode.OK, "")
        assert outcome.out == f"{program}: ok (3 by 2 PEs on wse3, 1 PE programs)\n"
        assert sorted(path.name for path in program.parent.iterdir()) == ["layout.csl", "pe.csl"]

    def test_json_of_a_program_that_compiles(self, cli, program):
        outcome = cli("csl", "check", "--json", *FLAGS, program)
        assert outcome.code == ExitCode.OK
        document = outcome.json()
        assert document["ok"] is True
        assert (document["width"], document["height"], document["pe_programs"]) == (3, 2, 1)
        assert document["diagnostics"] == []

    def test_several_errors_at_once_with_their_places(self, cli, program):
        text = PE.replace("data[i] += 1.0;", "data[i] += missing;").replace("@zeros([24]f32)", "@zerros([24]f32)")
        (program.parent / "pe.csl").write_text(text, encoding="utf-8")
        outcome = cli("csl", "check", program, *FLAGS, "--json")
        assert outcome.code == ExitCode.FAILURE
        document = outcome.json()
        assert document["ok"] is False
        assert document["errors"] == len(document["diagnostics"]) >= 1
        first = document["diagnostics"][0]
        assert first["severity"] == "error"
        assert (Path(first["file"]).name, first["line"]) == ("pe.csl", text[: text.index("@zerros")].count("\n") + 1)

    def test_syntax_errors_are_all_shown(self, cli, tmp_path):
        (tmp_path / "pe.csl").write_text(
            "var a: u16 = ;\nfn f( void {}\nvar b: u16 = 1;\nvar c = = 2;\n", encoding="utf-8"
        )
        outcome = cli("csl", "check", "--syntax", tmp_path / "pe.csl")
        assert outcome.code == ExitCode.FAILURE
        lines = [line for line in outcome.out.splitlines() if ": error: " in line]
        assert [line.split(":")[1] for line in lines] == ["1", "2", "4"]
        assert outcome.out.splitlines()[-1] == f"{tmp_path / 'pe.csl'}: 3 errors"
        assert "^" in outcome.out

    def test_syntax_needs_no_layout(self, cli, program):
        assert cli("csl", "check", "--syntax", program.parent / "pe.csl").code == ExitCode.OK
        outcome = cli("csl", "check", program.parent / "pe.csl", *FLAGS)
        assert outcome.code == ExitCode.FAILURE
        assert "layout" in outcome.out

    def test_what_the_program_prints_at_compile_time_is_a_note_and_no_error(self, cli, program):
        program.write_text(
            program.read_text(encoding="utf-8").replace("layout {", "layout {\n  @comptime_print(41 + 1);"),
            encoding="utf-8",
        )
        outcome = cli("csl", "check", program, *FLAGS, "--warnings-as-errors")
        assert outcome.code == ExitCode.OK
        assert ": note: 42" in outcome.out

    def test_warnings_become_errors_on_request(self, cli, program):
        outcome = cli("csl", "check", program, *FLAGS, "--params=surplus:1")
        assert outcome.code == ExitCode.OK
        assert "surplus" in outcome.out
        assert outcome.out.endswith(", 1 warning\n")
        strict = cli("csl", "check", program, *FLAGS, "--params=surplus:1", "--warnings-as-errors")
        assert strict.code == ExitCode.FAILURE
        assert strict.out.endswith(": 1 error\n")

    @pytest.mark.parametrize(
        ("words", "code", "mention"),
        [
            (["nowhere.csl"], ExitCode.BAD_INPUT, "nowhere.csl"),
            (["."], ExitCode.BAD_INPUT, "folder"),
            (["layout.csl", "--arhc=wse3"], ExitCode.USAGE, "--arch"),
            (["layout.csl", "--params=M"], ExitCode.USAGE, "--params"),
            (["--syntax", "layout.csl", "--arch=wse3"], ExitCode.USAGE, "--syntax"),
            (["--arch=wse3"], ExitCode.USAGE, "file"),
            (["layout.csl", "--arch=wse3", "--memcpy", "--fabric-dims=3,2"], ExitCode.USAGE, "--fabric-offsets"),
        ],
    )
    def test_a_wrong_command_line(self, cli, program, monkeypatch, words, code, mention):
        monkeypatch.chdir(program.parent)
        assert_one_clear_error(cli("csl", "check", *words), code, mention)


class TestFmt:
    UGLY = "var   x:u16=1 ;\nfn f()void{x=2;}\n"

    def test_it_formats_in_place_and_then_has_nothing_to_do(self, cli, tmp_path):
        path = tmp_path / "pe.csl"
        path.write_text(self.UGLY, encoding="utf-8")
        path.chmod(0o640)
        outcome = cli("csl", "fmt", path)
        assert (outcome.code, outcome.out) == (ExitCode.OK, f"formatted {path}\n")
        assert path.read_text(encoding="utf-8").startswith("var x: u16 = 1;\n")
        assert path.stat().st_mode & 0o777 == 0o640
        assert cli("csl", "fmt", path).out == ""
        assert [item.name for item in tmp_path.iterdir()] == ["pe.csl"]

    def test_check_changes_nothing_and_says_what_would_change(self, cli, tmp_path):
        (tmp_path / "sub").mkdir()
        path = tmp_path / "sub" / "pe.csl"
        path.write_text(self.UGLY, encoding="utf-8")
        outcome = cli("csl", "fmt", "--check", tmp_path)
        assert (outcome.code, outcome.out) == (ExitCode.FAILURE, f"would format {path}\n")
        assert path.read_text(encoding="utf-8") == self.UGLY

    def test_a_file_with_syntax_errors_is_left_alone_and_the_others_are_formatted(self, cli, tmp_path):
        (tmp_path / "bad.csl").write_text("fn f( {\n", encoding="utf-8")
        (tmp_path / "good.csl").write_text(self.UGLY, encoding="utf-8")
        outcome = cli("csl", "fmt", tmp_path, "--json")
        assert outcome.code == ExitCode.FAILURE
        assert [Path(item["file"]).name + " " + item["result"] for item in outcome.json()] == [
            "bad.csl error",
            "good.csl changed",
        ]
        assert "bad.csl:1:" in outcome.err
        assert (tmp_path / "bad.csl").read_text(encoding="utf-8") == "fn f( {\n"

    def test_a_link_stays_a_link(self, cli, tmp_path):
        (tmp_path / "real.csl").write_text(self.UGLY, encoding="utf-8")
        (tmp_path / "link.csl").symlink_to("real.csl")
        assert cli("csl", "fmt", tmp_path / "link.csl").code == ExitCode.OK
        assert (tmp_path / "link.csl").is_symlink()
        assert (tmp_path / "real.csl").read_text(encoding="utf-8") != self.UGLY

    def test_standard_input(self, cli, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(self.UGLY.encode()), encoding="utf-8"))
        outcome = cli("csl", "fmt", "-")
        assert outcome.code == ExitCode.OK
        assert outcome.out.startswith("var x: u16 = 1;\n")

    def test_standard_input_that_is_no_text(self, cli, monkeypatch):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))
        assert_one_clear_error(cli("csl", "fmt", "-"), ExitCode.BAD_INPUT, "UTF-8")

    def test_a_folder_without_csl_files_and_a_missing_file(self, cli, tmp_path):
        assert_one_clear_error(cli("csl", "fmt", tmp_path), ExitCode.BAD_INPUT, str(tmp_path))
        assert_one_clear_error(cli("csl", "fmt", tmp_path / "no.csl"), ExitCode.BAD_INPUT, "no.csl")


class TestCosts:
    @pytest.mark.parametrize("arch", ["wse2", "wse3"])
    def test_json_has_every_entry_of_the_table(self, cli, arch):
        shown = cli("csl", "costs", "--arch", arch, "--json").json()
        table = list(load_costs(arch))
        assert [item["name"] for item in shown] == [entry.name for entry in table]
        assert all(item["unit"] and item["source"] and item["confidence"] for item in shown)

    def test_text_and_confidence_select(self, cli):
        out = cli("csl", "costs", "fabric.hop").out
        assert "fabric.hop" in out
        assert "fabric.ramp" not in out
        estimates = cli("csl", "costs", "--confidence", "ESTIMATE", "--json").json()
        assert {item["confidence"] for item in estimates} == {"estimate"}

    def test_a_wrong_filter(self, cli):
        assert_one_clear_error(cli("csl", "costs", "--arch", "wse9"), ExitCode.USAGE, "wse9", "wse3")
        assert_one_clear_error(cli("csl", "costs", "no such entry"), ExitCode.USAGE, "no entry")
        assert_one_clear_error(cli("csl", "costs", "--confidence", "E"), ExitCode.USAGE, "estimate")


class TestMemmap:
    def test_text_names_the_variables_and_the_totals(self, cli, program):
        outcome = cli("csl", "memmap", program, *FLAGS)
        assert outcome.code == ExitCode.OK
        assert "pe.csl#0 on PEs 0-2,0-1" in outcome.out
        assert "[24]f32" in outcome.out
        assert "of 49152 B" in outcome.out

    def test_json_of_an_artifact_equals_that_of_its_source(self, cli, program, tmp_path):
        assert cslc.main([str(program), *FLAGS, "-o", str(tmp_path / "out")]) == 0
        of_artifact = cli("csl", "memmap", tmp_path / "out", "--json").json()
        of_source = cli("csl", "memmap", program, *FLAGS, "--json").json()
        assert of_artifact == of_source
        (one,) = of_source
        assert sum(area["size"] for area in one["areas"]) == 49152
        data = next(area for area in one["areas"] if area["name"] == "data")
        assert (data["size"], data["kind"]) == (96, "var")

    def test_a_program_with_errors_shows_them(self, cli, program):
        (program.parent / "pe.csl").write_text("fn f() void { return 1; }\n", encoding="utf-8")
        program.write_text('layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "none.csl", .{}); }', encoding="utf-8")
        outcome = cli("csl", "memmap", program)
        assert outcome.code == ExitCode.FAILURE
        assert outcome.out == ""
        assert "none.csl" in outcome.err

    def test_a_folder_that_is_no_artifact(self, cli, tmp_path):
        outcome = cli("csl", "memmap", tmp_path)
        assert outcome.code == ExitCode.BAD_INPUT
        assert str(tmp_path) in outcome.err


class TestRoutes:
    def test_the_table_and_what_leads_nowhere(self, cli, routed):
        outcome = cli("csl", "routes", routed, "--arch=wse3")
        assert outcome.code == ExitCode.OK
        assert "5  0,0      1  {RAMP} -> {EAST}" in outcome.out
        assert "warning: color 5 of PE(1,0) to the SOUTH: leads out of the program rectangle" in outcome.out

    def test_json(self, cli, routed):
        document = cli("csl", "routes", routed, "--arch=wse3", "--json").json()
        assert [(r["x"], r["color"], r["positions"]) for r in document["routes"]] == [
            (0, 5, [{"position": 0, "rx": ["RAMP"], "tx": ["EAST"]}]),
            (1, 5, [{"position": 0, "rx": ["WEST"], "tx": ["SOUTH", "RAMP"]}]),
        ]
        assert len(document["dead_ends"]) == 1

    def test_the_picture(self, cli, routed, tmp_path):
        outcome = cli("csl", "routes", routed, "--arch=wse3", "--svg", tmp_path / "r.svg")
        assert outcome.code == ExitCode.OK
        assert ElementTree.parse(tmp_path / "r.svg").getroot().tag.endswith("svg")

    def test_the_picture_of_a_folder_whose_name_is_no_utf8(self, cli, routed, tmp_path):
        folder = tmp_path / os.fsdecode(b"caf\xe9")
        shutil.copytree(routed.parent, folder)
        outcome = cli("csl", "routes", folder / routed.name, "--arch=wse3", "--svg", tmp_path / "r.svg")
        assert outcome.code == ExitCode.OK
        assert "caf?" in (tmp_path / "r.svg").read_text(encoding="utf-8")

    def test_selection_of_colors_and_pes(self, cli, routed):
        assert cli("csl", "routes", routed, "--arch=wse3", "--color", "0-4").out == "no routes\n"
        chosen = cli("csl", "routes", routed, "--arch=wse3", "--pes", "1,0", "--json").json()
        assert [route["x"] for route in chosen["routes"]] == [1]

    @pytest.mark.parametrize(
        ("words", "mention"),
        [
            (["--pes", "0-9,0"], "--pes"),
            (["--pes", "x"], "--pes"),
            (["--color", "24"], "--color"),
            (["--color", ""], "--color"),
        ],
    )
    def test_a_wrong_selection(self, cli, routed, words, mention):
        assert_one_clear_error(cli("csl", "routes", routed, "--arch=wse3", *words), ExitCode.USAGE, mention)

    def test_a_picture_that_cannot_be_written(self, cli, routed, tmp_path):
        outcome = cli("csl", "routes", routed, "--arch=wse3", "--svg", tmp_path / "none" / "r.svg")
        assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "none")


def test_diagnostics_in_json_are_one_document_for_the_compilers_own_flag_too(cli, program):
    outcome = cli("csl", "check", program, *FLAGS, "--diagnostics=json")
    assert json.loads(outcome.out)["ok"] is True
    assert commands.ARCHITECTURES == ("wse2", "wse3")
