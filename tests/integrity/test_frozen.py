"""The frozen interface and timing window: each trick is found, and honest restructuring is not."""

from __future__ import annotations

import time

import pytest
from helpers.double_it import double_it, expert, plain

from fabrica_bench.integrity.findings import Finding
from fabrica_bench.integrity.frozen import BrokenReference, check_frozen

LAUNCHES = ("window_open", "compute")


def findings(candidate: str, reference: str | None = None) -> list[Finding]:
    return check_frozen(
        {"pe.csl": candidate}, {"pe.csl": reference or expert()}, window_file="window.csl", launches=LAUNCHES
    )


def edited(*edits: tuple[str, str]) -> str:
    text = plain()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


START, END, UNBLOCK = "  window.start();\n", "  window.end();\n", "  sys_mod.unblock_cmd_stream();\n"
COMPUTE = "fn compute() void {\n"


def test_reference_and_plain_program_pass() -> None:
    assert findings(expert()) == []
    assert findings(plain()) == []


HONEST = {
    "other names and comments inside": edited(
        ("var i: u16", "var k: u16"), ("i < n", "k < n"), ("(i += 1)", "(k += 1)"), ("[i]", "[k]")
    ),
    "returns from another task": edited(
        (END + UNBLOCK, "  @activate(finish_id);\n"),
        (
            "comptime {\n",
            "const finish_id = @get_local_task_id(9);\ntask finish() void {\n" + END + UNBLOCK + "}\n"
            "comptime {\n  @bind_local_task(finish, finish_id);\n",
        ),
    ),
    "two returns": edited(
        (END + UNBLOCK, "  if (n > 8) {\n" + END + UNBLOCK + "  } else {\n" + END + UNBLOCK + "  }\n")
    ),
    "helper functions": edited(
        (COMPUTE, "fn twice(v: f32) f32 { return v + v; }\n" + COMPUTE), ("2.0 * x[i]", "twice(x[i])")
    ),
    "other host pointers": edited(
        ("var y_ptr: [*]f32 = &y;", "const z: [*]f32 = &y;"), ("@export_symbol(y_ptr", "@export_symbol(z")
    ),
    "own libraries": edited((COMPUTE, 'const math = @import_module("<math>");\n' + COMPUTE)),
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST.keys())
def test_honest_restructuring_passes(text: str) -> None:
    assert findings(text) == []


def test_an_end_stamp_without_a_return_is_told_what_must_follow_it() -> None:
    (found,) = findings(edited((UNBLOCK, "")))
    assert "`window.end();` may stand only right before a return" in found.message
    assert "`unblock_cmd_stream();` must follow it at once" in found.message


TRICKS = {
    "no start": (edited((START, "")), "Timing", "must begin with"),
    "late start": (edited((START, ""), (END, START + END)), "Timing", "must begin with"),
    "conditional start": (edited((START, "  if (n > 0) {\n" + START + "  }\n")), "Timing", "must begin with"),
    "start with an argument": (edited(("window.start()", "window.start(1)")), "Timing", "must begin with"),
    "start of something else": (edited(("window.start()", "other.start()")), "Timing", "must begin with"),
    "no end": (edited((END, "")), "Timing", "right before this return"),
    "early end": (edited((START, START + END), ("  }\n" + END, "  }\n")), "Timing", "right before this return"),
    "end in another block": (edited((END, "  {\n" + END + "  }\n")), "Timing", "right before this return"),
    "work after the end": (edited((END, END + "  y[0] = 1.0;\n")), "Timing", "right before this return"),
    "second start": (edited((END, START + END)), "Timing", "`window.start();` may stand only at the beginning"),
    "stamps overwritten": (edited((END, "  window.stamps[3] = 1;\n" + END)), "Timing", "nothing but its stamps"),
    "window passed on": (edited((COMPUTE, "const w = window;\n" + COMPUTE)), "Timing", "nothing but its stamps"),
    "return by another name": (
        edited((COMPUTE, "const back = sys_mod.unblock_cmd_stream;\n" + COMPUTE), (UNBLOCK, "  back();\n")),
        "Timing",
        "may only be called",
    ),
    "return as an expression": (
        edited((UNBLOCK, "  if (n > 0) sys_mod.unblock_cmd_stream();\n")),
        "Timing",
        "may only be called",
    ),
    "return by string": (
        edited((UNBLOCK, '  @field(sys_mod, "unblock_cmd_stream")();\n')),
        "Timing",
        "may not be named indirectly",
    ),
    "window not imported": (edited(("window.csl", "mine.csl")), "Timing", "is not imported"),
    "window imported otherwise": (
        edited((".unblock = sys_mod.unblock_cmd_stream", ".unblock = nothing")),
        "Timing",
        "differs from the reference",
    ),
    "window imported twice": (
        edited(
            (COMPUTE, 'const w = @import_module("window.csl", .{ .unblock = sys_mod.unblock_cmd_stream });\n' + COMPUTE)
        ),
        "Timing",
        "differs from the reference",
    ),
    "window shadowed": (edited((START, START + "  const window = n;\n")), "Timing", "can't name anything else"),
    "window shadowed by a parameter": (
        edited((COMPUTE, "fn f(window: u16) void {}\n" + COMPUTE)),
        "Timing",
        "can't name anything else",
    ),
    "counter imported under another spelling": (
        edited((COMPUTE, 'const t = @import_module("<./time>");\n' + COMPUTE)),
        "Timing",
        "by the timing window only",
    ),
    "counter imported around a corner": (
        edited((COMPUTE, 'const t = @import_module("<memcpy/../time>");\n' + COMPUTE)),
        "Timing",
        "by the timing window only",
    ),
    "counter imported": (
        edited((COMPUTE, 'const t = @import_module("<time>");\n' + COMPUTE)),
        "Timing",
        "timing window only",
    ),
    "import by computed name": (
        edited((COMPUTE, "const t = @import_module(name);\n" + COMPUTE)),
        "Contract",
        "literal file name",
    ),
    "entry called": (
        edited(("comptime {\n", "task again() void { compute(); }\ncomptime {\n")),
        "Timing",
        "must not be used by the program",
    ),
    "entry with a parameter": (edited(("fn compute()", "fn compute(a: u16)")), "Contract", "other parameters"),
    "entry not exported": (edited(("  @export_symbol(compute);\n", "")), "Contract", "'compute' is not exported"),
    "entry exported under another name": (
        edited(("@export_symbol(compute)", '@export_symbol(compute, "fast")')),
        "Contract",
        "exports 'fast'",
    ),
    "tensor not exported": (edited(('  @export_symbol(y_ptr, "y");\n', "")), "Contract", "'y' is not exported"),
    "symbol exported twice": (
        edited(('@export_symbol(y_ptr, "y");', '@export_symbol(y_ptr, "y");\n  @export_symbol(x_ptr, "y");')),
        "Contract",
        "exported twice",
    ),
    "stamps exported by the program": (
        edited(
            ('@export_symbol(y_ptr, "y");', '@export_symbol(y_ptr, "y");\n  @export_symbol(x_ptr, "window_stamps");')
        ),
        "Contract",
        "exports 'window_stamps'",
    ),
    "param gone": (edited(("param n: u16;", "const n: u16 = 4;")), "Contract", "param 'n' is missing"),
    "param with a default": (edited(("param n: u16;", "param n: u16 = 4;")), "Contract", "param 'n' differs"),
    "param shadowed": (edited((START, START + "  const n: u16 = 1;\n")), "Contract", "can't be declared again"),
    "memcpy replaced": (
        edited(('@import_module("<memcpy/memcpy>", memcpy_params)', ".{ .unblock_cmd_stream = nothing }")),
        "Contract",
        "import of <memcpy/memcpy>",
    ),
}


@pytest.mark.parametrize(("text", "predicate", "message"), TRICKS.values(), ids=TRICKS.keys())
def test_every_trick_is_found_with_its_place(text: str, predicate: str, message: str) -> None:
    found = findings(text)
    assert [f for f in found if f.predicate == predicate and message in f.message], found
    assert all(f.place.startswith("pe.csl") for f in found)


def test_a_candidate_that_does_not_parse_is_the_compilers_business() -> None:
    assert findings("fn {") == []


def test_a_reference_without_stamps_is_the_tasks_fault() -> None:
    with pytest.raises(BrokenReference):
        findings(plain(), reference=expert().replace(START, ""))


def test_a_changed_layout_must_show_the_host_the_same_symbols() -> None:
    layout = (double_it().bundle_dir / "layout.csl").read_text(encoding="utf-8")

    def check(text: str) -> list[str]:
        found = check_frozen({"layout.csl": text}, {"layout.csl": layout}, window_file="window.csl", launches=LAUNCHES)
        return [item.message for item in found]

    assert check(layout.replace("1, 1", "1, 1")) == []
    assert check(layout.replace("// Doubling", "// Twice")) == []
    assert "no longer" not in str(check(layout))
    assert "'y' is not advertised" in str(check(layout.replace('@export_name("y", [*]f32, true);', "")))
    assert "another type" in str(check(layout.replace('"y", [*]f32', '"y", [*]u32')))
    assert "advertises 'z'" in str(
        check(layout.replace('@export_name("y"', '@export_name("z", [*]f32, true);\n  @export_name("y"'))
    )


LAYOUT_TRICKS = {
    "another rectangle": (("@set_rectangle(1, 1)", "@set_rectangle(2, 1)"), "@set_rectangle differs"),
    "another program": (('"pe.csl"', '"window.csl"'), "must name the program"),
    "a computed program": (('"pe.csl"', "name"), "must name the program"),
    "a smaller size": ((".n = n", ".n = 8"), "must be passed 'n' unchanged"),
    "no size": ((", .n = n", ""), "'n' of a program is not passed"),
    "a default": (("param n: u16;", "param n: u16 = 8;"), "param 'n' differs"),
    "a shadowed size": (("layout {", "layout {\n  const n: u16 = 8;"), "can't be declared again"),
}


@pytest.mark.parametrize(("edit", "message"), LAYOUT_TRICKS.values(), ids=LAYOUT_TRICKS.keys())
def test_a_layout_may_change_neither_rectangle_nor_program_nor_size(edit: tuple[str, str], message: str) -> None:
    layout = (double_it().bundle_dir / "layout.csl").read_text(encoding="utf-8")
    assert edit[0] in layout
    found = check_frozen(
        {"layout.csl": layout.replace(*edit)}, {"layout.csl": layout}, window_file="window.csl", launches=LAUNCHES
    )
    assert [item for item in found if message in item.message and item.predicate == "Contract"], found


def test_a_name_used_thousands_of_times_takes_no_time_to_speak_of() -> None:
    begin = time.monotonic()
    found = findings(edited((COMPUTE, "fn unused() void {\n" + "  _ = compute;\n" * 15_000 + "}\n" + COMPUTE)))
    assert len(found) == 15_000
    assert time.monotonic() - begin < 20
