"""`compile_program`: options and what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import HEAD, ONE_PE, compile_body, compile_text, errors_of

from fabrica_bench.csl.artifact import load_program, save_program
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.driver import CompileOptions, compile_program

HALF = "export var x: f16 = 1.5; fn main() void { x = x * 2.0; sys_mod.unblock_cmd_stream(); }"


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CslError, match=r"unable to open .*: no such file"):
        compile_program(CompileOptions(tmp_path / "absent.csl"))


def test_the_fabric_is_as_small_as_possible_by_default(tmp_path: Path) -> None:
    program = compile_body(tmp_path, "").program
    assert (program.fabric, program.offset) == ((8, 3), (4, 1))
    program = compile_body(tmp_path, "", memcpy=False, fabric_offsets=(0, 0)).program
    assert program.fabric == (1, 1)


def test_one_16_bit_float_format_exists_at_run_time(tmp_path: Path) -> None:
    compile_body(tmp_path, HALF)
    assert errors_of(tmp_path, HALF, fp16="bf16") == ["variable of type 'f16' must be comptime-known"]


def test_limits_of_comptime_evaluation_are_options(tmp_path: Path) -> None:
    deep = "fn f(n: i16) i16 { if (n == 0) { return 0; } return f(n - 1); } const a = f(100); comptime { const b = a; }"
    compile_body(tmp_path, deep)
    assert errors_of(tmp_path, deep, comptime_func_depth_limit=50) == ["comptime calls are nested more than 50 deep"]


def test_deep_nesting_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    recursion = (
        "fn f(n: u32) u32 { if (n == 0) { return 0; } return f(n - 1); } const a = f(100000); comptime { const b = a; }"
    )
    found = errors_of(tmp_path, recursion, comptime_func_depth_limit=1_000_000)
    assert found == ["the program nests expressions or comptime calls too deeply to be analysed"]


def test_import_paths_come_before_the_system_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        'const m = @import_module("<lib/mine>"); const t = @import_module("<time>"); comptime { const a = m.x + t.x; }'
    )
    files = {"paths/lib/mine.csl": "const x = 1;", "paths/time.csl": "const x = 2;"}
    compile_body(tmp_path, body, files=files, import_paths=(tmp_path / "paths",))
    assert errors_of(tmp_path, body, files=files) == ["unable to open module '<lib/mine>': no such library"]
    monkeypatch.setenv("CSL_IMPORT_PATH", str(tmp_path / "paths"))
    compile_body(tmp_path, body, files=files)


def test_modules_that_import_each_other_are_reported(tmp_path: Path) -> None:
    files = {"a.csl": 'const b = @import_module("b.csl");', "b.csl": 'const a = @import_module("a.csl");'}
    found = errors_of(tmp_path, 'const a = @import_module("a.csl");', files=files)
    assert found[0] == "modules are imported more than 64 levels deep"


def test_syntax_errors_of_pe_files_are_reported_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(CslError) as caught:
        compile_text(tmp_path, HEAD + "fn main( void {}")
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.file.path.endswith("pe.csl")
    assert span.file.position(span.start)[0] == 4


def test_errors_of_several_pe_programs_are_reported_together(tmp_path: Path) -> None:
    layout = """
    layout {
      @set_rectangle(2, 1);
      @set_tile_code(0, 0, "pe.csl");
      @set_tile_code(1, 0, "other.csl");
    }
    """
    with pytest.raises(CslError) as caught:
        compile_text(tmp_path, "comptime { one(); }", layout=layout, files={"other.csl": "comptime { two(); }"})
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [
        "use of undeclared identifier 'one'",
        "use of undeclared identifier 'two'",
    ]


def test_compiling_twice_gives_the_same_program(tmp_path: Path) -> None:
    body = "export var x: f32 = 1.5; fn main() void { x = x * 2.0; sys_mod.unblock_cmd_stream(); }"
    assert compile_body(tmp_path, body).program == compile_body(tmp_path, body).program


def test_a_compiled_program_survives_its_artefact(tmp_path: Path) -> None:
    body = """
    var buffer = @zeros([8]f32);
    const q = @allocate_fifo(buffer);
    const c = @get_color(3);
    comptime { @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } }); }
    const out = @get_dsd(fabout_dsd, .{ .extent = 8, .fabric_color = c, .output_queue = @get_output_queue(2) });
    const in = @get_dsd(fabin_dsd, .{ .extent = 8, .fabric_color = c, .input_queue = @get_input_queue(2) });
    fn main() void {
      @mov32(q, in, .{ .async = true });
      @mov32(out, q, .{ .async = true });
      sys_mod.unblock_cmd_stream();
    }
    """
    program = compile_body(tmp_path, body).program
    save_program(program, tmp_path / "artefact")
    assert load_program(tmp_path / "artefact") == program


def test_unused_code_is_not_checked(tmp_path: Path) -> None:
    body = "fn never() void { not_declared(); } var broken = @zeros([nothing]f32); const void_color = {};"
    assert ONE_PE
    compile_body(tmp_path, body + "const d = @get_dsd(fabin_dsd, .{ .extent = 1, .fabric_color = void_color });")
