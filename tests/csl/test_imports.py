"""Where `@import_module` and `@set_tile_code` look for files."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_eval import compile_body, compile_text, errors_of, layout_errors

from fabrica_bench.csl.diagnostics import CslError, render

USER = 'const m = @import_module("PATH"); fn main() void { @comptime_assert(m.value == VALUE); }'


def user(path: str, value: int) -> str:
    return USER.replace("PATH", path).replace("VALUE", str(value))


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def test_a_path_starts_at_the_importing_file(tmp_path: Path) -> None:
    write(tmp_path, "lib/a.csl", 'const b = @import_module("b.csl"); const value = b.value;')
    write(tmp_path, "lib/b.csl", "const value = 1;")
    write(tmp_path, "b.csl", "const value = 2;")
    compile_body(tmp_path, user("lib/a.csl", 1))


def test_then_at_the_top_level_file(tmp_path: Path) -> None:
    write(tmp_path, "lib/a.csl", 'const b = @import_module("common/b.csl"); const value = b.value;')
    write(tmp_path, "common/b.csl", "const value = 3;")
    compile_body(tmp_path, user("lib/a.csl", 3))


def test_a_linked_folder_is_left_as_it_was_entered(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/lib/a.csl", 'const b = @import_module("../b.csl"); const value = b.value;')
    write(tmp_path, "elsewhere/b.csl", "const value = 4;")
    write(tmp_path, "here/b.csl", "const value = 5;")
    (tmp_path / "here" / "lib").symlink_to(tmp_path / "elsewhere" / "lib")
    compile_body(tmp_path / "here", user("lib/a.csl", 5))


def test_what_only_lies_beside_the_real_folder_is_found_too(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/lib/a.csl", 'const b = @import_module("../b.csl"); const value = b.value;')
    write(tmp_path, "elsewhere/b.csl", "const value = 4;")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "lib").symlink_to(tmp_path / "elsewhere" / "lib")
    compile_body(tmp_path / "here", user("lib/a.csl", 4))


def test_the_code_of_a_pe_may_lie_in_a_linked_folder(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/pe.csl", "export fn main() void {}")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "src").symlink_to(tmp_path / "elsewhere")
    layout = 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "src/pe.csl"); }'
    compile_text(tmp_path / "here", layout=layout)


def test_a_library_folder_comes_before_the_system_libraries(tmp_path: Path) -> None:
    write(tmp_path, "mine/math.csl", "const value = 6;")
    compile_body(tmp_path, user("<math>", 6), import_paths=(tmp_path / "mine",))


def test_the_message_names_the_places_looked_at(tmp_path: Path) -> None:
    write(tmp_path, "lib/a.csl", 'const b = @import_module("b.csl"); const value = b.value;')
    assert errors_of(tmp_path, user("lib/a.csl", 1)) == ["unable to open 'b.csl': no such file"]
    with pytest.raises(CslError) as raised:
        compile_body(tmp_path, user("lib/a.csl", 1))
    (hint,) = (diagnostic.hint for diagnostic in raised.value.diagnostics)
    assert hint is not None
    assert "lib/b.csl and " in hint


def hints_of(folder: Path, body: str) -> list[str | None]:
    with pytest.raises(CslError) as raised:
        compile_body(folder, body)
    return [diagnostic.hint for diagnostic in raised.value.diagnostics]


def test_a_misspelled_library_or_member_gets_a_suggestion(tmp_path: Path) -> None:
    assert hints_of(tmp_path, user("<memcpy/memcopy>", 1)) == ["did you mean '<memcpy/memcpy>'?"]
    assert hints_of(tmp_path, "fn main() void { sys_mod.unblock_cmd_steam(); }") == [
        "did you mean 'unblock_cmd_stream'?"
    ]


@pytest.mark.parametrize("path", ["<nothing_alike>", "absent.csl", "lib/a.csl", "host/broken.csl"])
def test_a_confined_program_learns_no_path_outside_its_folder(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, host = tmp_path / "stage", tmp_path / "host_secret"
    write(stage, "lib/a.csl", 'const b = @import_module("b.csl"); const value = b.value;')
    write(host, "broken.csl", "const value = ;")
    (stage / "host").symlink_to(host)
    monkeypatch.setenv("CSL_IMPORT_PATH", str(host))
    monkeypatch.chdir(Path(__file__).parent)
    with pytest.raises(CslError) as raised:
        compile_body(stage, user(path, 1), confine_imports=True, import_paths=(tmp_path / "more",))
    text = "".join(render(diagnostic) for diagnostic in raised.value.diagnostics)
    assert str(tmp_path) not in text
    assert "host_secret" not in text
    assert text.startswith(("pe.csl:", "lib/a.csl:", "host/broken.csl:"))


def test_whoever_gave_the_import_paths_reads_which_were_searched(tmp_path: Path) -> None:
    with pytest.raises(CslError) as raised:
        compile_body(tmp_path, user("<nothing_alike>", 1), import_paths=(tmp_path / "mine",))
    assert [entry.hint for entry in raised.value.diagnostics] == [f"import paths searched: {tmp_path / 'mine'}"]


def test_a_param_of_the_wrong_type_names_the_import(tmp_path: Path) -> None:
    write(tmp_path, "m.csl", "param callback: fn () void; fn go() void { callback(); }")
    with pytest.raises(CslError) as raised:
        compile_body(
            tmp_path,
            'const m = @import_module("m.csl", .{ .callback = f }); fn f(x: i16) void {} fn main() void { m.go(); }',
        )
    (diagnostic,) = raised.value.diagnostics
    ((note, place),) = diagnostic.notes
    assert note == "'callback' was bound here"
    assert place.file.path.endswith("pe.csl")


def test_a_file_of_many_pe_programs_is_reported_once(tmp_path: Path) -> None:
    layout = """layout {
      @set_rectangle(2, 1);
      @set_tile_code(0, 0, "pe.csl", .{ .x = 0 });
      @set_tile_code(1, 0, "pe.csl", .{ .x = 1 });
    }"""
    assert layout_errors(tmp_path, layout, "param x: i16; var y: i16 = 1 + ;") == ["expected an expression, got ';'"]


def test_two_modules_that_import_each_other_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.csl", 'const b = @import_module("b.csl"); const value = 1;')
    write(tmp_path, "b.csl", 'const a = @import_module("a.csl");')
    (message,) = errors_of(tmp_path, user("a.csl", 1))
    assert message.startswith("modules are imported more than")


def test_a_layout_file_that_is_also_the_code_of_pes_imports_for_them_only(tmp_path: Path) -> None:
    """What a PE's params are needed for can't be imported for the layout, whose own params have other values."""
    write(tmp_path, "square.csl", "param n: u16; const value = n * n; comptime { @comptime_assert(n == 7); }")
    code = """
        param settings = {};
        const m = @import_module("square.csl", settings);
        export fn main() void { @comptime_assert(m.value == 49); }
        comptime { @comptime_assert(m.value == 49); }
        layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "layout.csl", .{ .settings = .{ .n = 7 } }); }
    """
    compile_text(tmp_path, layout=code)


def test_imports_of_a_layout_file_are_looked_at_even_if_unused(tmp_path: Path) -> None:
    layout = 'const m = @import_module("nowhere.csl"); layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl"); }'
    with pytest.raises(CslError, match=r"unable to open 'nowhere\.csl'"):
        compile_text(tmp_path, "", layout=layout)
