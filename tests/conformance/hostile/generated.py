"""Hostile programs that are large: each is written by a few lines here instead of lying about as a file."""

from __future__ import annotations

from typing import NamedTuple

PE_HEAD = """\
param memcpy_params: comptime_struct;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
"""
LAYOUT = """\
const memcpy = @import_module("<memcpy/get_params>", .{{ .width = {width}, .height = {height} }});
layout {{
  @set_rectangle({width}, {height});
{tiles}
  @export_name("main", fn()void);
}}
"""
ONE_TILE = '  @set_tile_code(0, 0, "pe.csl", .{{ .memcpy_params = memcpy.get_params(0) }});'
DISTINCT_TILES = """\
  for (@range(i16, {width})) |x| {{
    for (@range(i16, {height})) |y| {{
      @set_tile_code(x, y, "pe.csl", .{{ .memcpy_params = memcpy.get_params(x), .x = x, .y = y }});
    }}
  }}
"""
ALL_TILES = """\
  for (@range(i16, {width})) |x| {{
    for (@range(i16, {height})) |y| {{
      @set_tile_code(x, y, "pe.csl", .{{ .memcpy_params = memcpy.get_params(x) }});
    }}
  }}
"""


class Program(NamedTuple):
    """Files by name, words of the error that must come, and further flags of `cslc`."""

    files: dict[str, str]
    expected: str
    flags: tuple[str, ...] = ()


def layout(width: int = 1, height: int = 1, tiles: str = ONE_TILE) -> str:
    """A layout of PEs that all run `pe.csl`."""
    return LAYOUT.format(width=width, height=height, tiles=tiles.format(width=width, height=height))


def pe(body: str = "", top: str = "") -> str:
    """A PE program around `body`."""
    main = f"fn main() void {{\n{body}\n  sys_mod.unblock_cmd_stream();\n}}\n"
    return f"{PE_HEAD}{top}\n{main}comptime {{ @export_symbol(main); }}\n"


def _one(expected: str, body: str = "", top: str = "") -> Program:
    return Program({"layout.csl": layout(), "pe.csl": pe(body, top)}, expected)


def _grid(expected: str, width: int, height: int) -> Program:
    return Program({"layout.csl": layout(width, height, ALL_TILES), "pe.csl": pe()}, expected)


def _distinct(expected: str, width: int, height: int) -> Program:
    """A grid of which no two PEs run the same program."""
    program = {"layout.csl": layout(width, height, DISTINCT_TILES), "pe.csl": pe(top="param x: i16; param y: i16;")}
    return Program(program, expected)


def _fan_out(levels: int, branches: int) -> dict[str, str]:
    """Modules of which each imports the next level several times."""
    files = {}
    for level in range(levels):
        imports = "".join(f'const m{k} = @import_module("level{level + 1}.csl");\n' for k in range(branches))
        calls = "".join(f"  m{k}.f();\n" for k in range(branches))
        files[f"level{level}.csl"] = f"{imports}fn f() void {{\n{calls}}}\n"
    files[f"level{levels}.csl"] = "var n: u16 = 0;\nfn f() void { n += 1; }\n"
    return files


def _long_generic_function(statements: int) -> str:
    """A function that asks for ever new instances of itself."""
    body = "".join(f"  x = x * {i} + x;\n" for i in range(statements))
    return f"var x: u32 = 1;\nfn f(comptime k: u16) void {{\n{body}  f(k + 1);\n}}"


COPIES = """\
fn copies(comptime k: u16, a: [1048576]u8) u16 {
  var b = a;
  b[k] = 1;
  return copies(k + 1, b) + @as(u16, b[0]);
}
const total = copies(0, @zeros([1048576]u8));
"""
#: so that other ceilings don't come first
MANY_STEPS = "--max-comptime-steps=1000000"
#: where a layout earns many times the limit
FEW_STEPS = "--max-comptime-steps=5000"
DEEP = 20_000
PROGRAMS = {
    "parentheses": _one("nested more than 200 levels deep", f"var x: u16 = {'(' * DEEP}1{')' * DEEP};"),
    "signs": _one("nested more than 200 levels deep", f"var x: i16 = {'-' * DEEP}1;"),
    "blocks": _one("nested more than 200 levels deep", "{" * DEEP + "}" * DEEP),
    "structs": _one("nested more than 200 levels deep", f"const x = {'.{ .a = ' * DEEP}1{' }' * DEEP};"),
    "pointers": _one("nested more than 200 levels deep", top=f"var p: {'*' * DEEP}u16;"),
    "sum": _one("more than 500 levels deep", f"var x: u32 = 1{'+1' * DEEP};"),
    "indices": _one("more than 500 levels deep", f"var x: u16 = a{'[0]' * DEEP};"),
    "else_chain": _one("more than 500 levels deep", "if (x == 1) { x = 2; } else " * 5_000 + "{ x = 3; }"),
    "long_number": _one("number literal of 900000 characters is too long", top=f"const x = {'9' * 900_000};"),
    "large_float": _one("is too large for 64 bits", "var y: f32 = x;", top="const x = 1.0e999999999;"),
    "large_file": _one("is larger than 1 MiB", top="// " + "x" * (1 << 20)),
    "many_errors": _one(
        "use of undeclared identifier 'z0'", "".join(f"var a{i}: u16 = z{i};\n" for i in range(20_000))
    )._replace(flags=(MANY_STEPS,)),
    "many_variables": _one("bytes of PE memory", "".join(f"var a{i}: u16 = {i};\n" for i in range(15_000))),
    "many_arrays": _one(
        "bytes of PE memory",
        "".join(f"a{i}[0] = 1;\n" for i in range(60)),
        top="".join(f"var a{i} = @zeros([40000]u8);\n" for i in range(60)),
    ),
    "module_fan_out": Program(
        {"layout.csl": layout()}
        | {"pe.csl": pe("m.f();", 'const m = @import_module("level0.csl");')}
        | _fan_out(14, 4),
        "more than 1000 module instances",
    ),
    "code_of_generic_instances": _one(
        "the functions of this PE program together are too large", "f(0);", _long_generic_function(8_000)
    )._replace(flags=(MANY_STEPS,)),
    "copies_of_arrays": _one("takes more than 60 MiB of memory", "@assert(total == 0);", COPIES)._replace(
        flags=(MANY_STEPS, "--max-comptime-memory=60")
    ),
    "huge_rectangle": _grid("the rectangle of 3000 by 3000 PEs is too large", 3000, 3000),
    "distinct_programs": _distinct("steps for 10000 distinct PE programs", 100, 100)._replace(flags=(FEW_STEPS,)),
    "large_rectangle": _grid("comptime evaluation exceeded", 1000, 1000)._replace(flags=(FEW_STEPS,)),
}
"""By name."""
