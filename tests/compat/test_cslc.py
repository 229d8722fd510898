"""cslc as a command: artefact, placement, messages, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.csl_programs import PE_HEAD, uniform_layout

from fabrica_bench.compat import cslc

PE = (
    PE_HEAD
    + """
param n: u16 = 4;
var v = @zeros([n]f32);
var v_ptr: [*]f32 = &v;
fn main(k: i16, x: f32) void { v[0] = x; sys_mod.unblock_cmd_stream(); }
comptime { @export_symbol(v_ptr, "v"); @export_symbol(main); }
"""
)


def write_program(folder: Path, layout_head: str = "") -> str:
    layout = layout_head + uniform_layout(2, 1, {"v": "[*]f32"}).replace("fn()void", "fn(i16, f32)void")
    (folder / "layout.csl").write_text(layout, encoding="utf-8")
    (folder / "pe.csl").write_text(PE, encoding="utf-8")
    return str(folder / "layout.csl")


PLACE = ["--fabric-dims=9,3", "--fabric-offsets=4,1", "--memcpy"]


def test_the_artefact_has_params_and_symbols_in_the_vendors_form(tmp_path: Path) -> None:
    layout = write_program(tmp_path, "param M: i16;\nparam K: u16 = 7;\n")
    out = tmp_path / "deep" / "out"
    assert cslc.main([layout, *PLACE, "--params=M:4", "-o", str(out)]) == 0
    params = json.loads((out / "out.json").read_text(encoding="utf-8"))["params"]
    assert params["M"] == "4"
    assert params["K"] == "7"
    symbols = {s["name"]: s for s in json.loads((out / "bin/out_rpc.json").read_text(encoding="utf-8"))["rpc_symbols"]}
    assert symbols["v"]["kind"] == "Var"
    assert symbols["v"]["immutable"] == 0
    assert symbols["main"]["kind"] == "Func"
    assert [item["type"] for item in symbols["main"]["inputs"]] == ["i16", "f32"]
    assert symbols["v"]["id"] != symbols["main"]["id"]


@pytest.mark.parametrize(
    ("flags", "option", "remedy"),
    [
        (["--fabric-dims=8,3", "--fabric-offsets=4,1", "--memcpy"], "--fabric-dims", "9,3"),
        (["--fabric-dims=9,2", "--fabric-offsets=4,1", "--memcpy"], "--fabric-dims", "9,3"),
        (["--fabric-dims=9,3", "--fabric-offsets=3,1", "--memcpy"], "--fabric-offsets", "4,1"),
        (["--fabric-dims=9,3", "--fabric-offsets=4,0", "--memcpy"], "--fabric-offsets", "4,1"),
        (["--fabric-offsets=4,1", "--memcpy"], "--fabric-dims", "9,3"),
        (["--fabric-dims=9,3", "--fabric-offsets=4,1", "--memcpy", "--width-west-buf=1"], "--fabric-offsets", "5,1"),
        (["--fabric-dims=9,3", "--fabric-offsets=4,1", "--memcpy", "--width-east-buf=2"], "--fabric-dims", "11,3"),
    ],
)
def test_a_program_that_does_not_fit_is_told_the_smallest_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], option: str, remedy: str
) -> None:
    status = cslc.main([write_program(tmp_path), *flags, "-o", str(tmp_path / "out")])
    message = capsys.readouterr().err
    assert status == 2
    assert message.startswith(f"{option}: error:")
    assert f"{option}={remedy}" in message
    assert not (tmp_path / "out").exists()


def test_errors_have_place_caret_and_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = write_program(tmp_path)
    (tmp_path / "pe.csl").write_text(PE.replace("v[0] = x;", "v[0] = y;"), encoding="utf-8")
    assert cslc.main([layout, *PLACE, "-o", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    line = next(i for i, text in enumerate(PE.splitlines(), 1) if "v[0] = x;" in text)
    assert f"pe.csl:{line}:" in message
    assert "error: " in message
    assert "^" in message
    assert not (tmp_path / "out").exists()


def test_json_diagnostics_are_one_object_per_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = write_program(tmp_path)
    (tmp_path / "pe.csl").write_text(PE.replace("v[0] = x;", "v[0] = y;"), encoding="utf-8")
    assert cslc.main([layout, *PLACE, "--diagnostics=json", "-o", str(tmp_path / "out")]) == 1
    objects = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert any(item["severity"] == "error" and item["file"].endswith("pe.csl") for item in objects)
    assert cslc.main([layout, "--channels=0", "--diagnostics=json"]) == 2
    usage = json.loads(capsys.readouterr().err)
    assert usage["file"] == "--channels"
    assert usage["hint"]


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "no such file"), (b"layout { \xff }", "not UTF-8"), (b"layout {", "expected")],
)
def test_unusable_files_are_one_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, text: str
) -> None:
    file = tmp_path / "x.csl"
    if content is not None:
        file.write_bytes(content)
    assert cslc.main([str(file), "-o", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert text in message
    assert "x.csl" in message
    assert "Traceback" not in message


def test_an_output_path_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("precious", encoding="utf-8")
    assert cslc.main([write_program(tmp_path), *PLACE, "-o", str(tmp_path / "out")]) == 3
    assert "is a file" in capsys.readouterr().err
    assert (tmp_path / "out").read_text(encoding="utf-8") == "precious"


def test_verbose_and_routes_go_to_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = write_program(tmp_path)
    assert cslc.main([layout, *PLACE, "--verbose", "--out-routes", "-o", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "2 by 1 PEs on wse2" in captured.out
    assert captured.err == ""


@pytest.mark.parametrize(("problem", "status"), [(RecursionError("deep"), 5), (KeyError("x"), 5), (MemoryError(), 4)])
def test_a_crash_has_an_exit_status_of_its_own(
    problem: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(options: object) -> int:
        raise problem

    monkeypatch.setattr(cslc, "compile_command", crash)
    assert cslc.main(["layout.csl", "--fabric-dims=8,3", "--fabric-offsets=4,1", "-o", "out"]) == status
    assert capsys.readouterr().err


def test_a_program_for_host_io_without_memcpy_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, out = write_program(tmp_path), str(tmp_path / "out")
    assert cslc.main([layout, "-o", out]) == 0
    told = capsys.readouterr().err
    assert told.count("warning:") == 1
    assert "layout.csl:2:16: warning: '<memcpy/get_params>' is part of the host I/O layer, which is left out" in told
    assert "hint: compile with --memcpy --channels=1" in told
    assert cslc.main([layout, "-o", out, "--warnings-as-errors"]) == 1
    assert cslc.main([layout, *PLACE, "--channels=1", "-o", out, "--warnings-as-errors"]) == 0


@pytest.mark.parametrize(
    ("pe", "warnings"),
    [
        # Only the PE's code asks for host I/O.
        ('const sys_mod = @import_module("<memcpy/memcpy>", .{ .width = 1, .height = 1 });', ["<memcpy/memcpy>"]),
        ('const math = @import_module("<math>");', []),
    ],
)
def test_which_imports_need_memcpy(
    pe: str, warnings: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl", .{}); }'
    (tmp_path / "layout.csl").write_text(layout, encoding="utf-8")
    (tmp_path / "pe.csl").write_text(pe, encoding="utf-8")
    command = [str(tmp_path / "layout.csl"), "--diagnostics=json", "-o", str(tmp_path / "out")]
    assert cslc.main(command) == 0
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [entry["message"].split("'")[1] for entry in found] == warnings
    assert all(entry["hint"] == "compile with --memcpy --channels=1" for entry in found)
