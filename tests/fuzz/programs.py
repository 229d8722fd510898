"""Random small CSL programs: integers, floats, arrays, loops, vector operations, FIFOs, tasks, words both ways."""

from __future__ import annotations

import random

LAYOUT = """\
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });

layout {
  @set_rectangle(2, 1);
  for (@range(i16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .is_left = x == 0 });
  }
  @set_color_config(0, 0, @get_color(3), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
  @set_color_config(1, 0, @get_color(3), .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
  @set_color_config(1, 0, @get_color(4), .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST } } });
  @set_color_config(0, 0, @get_color(4), .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } });
  @export_name("main", fn()void);
}
"""

HEAD = """\
param is_left: bool;
const to_color = if (is_left) @get_color(3) else @get_color(4);
const from_color = if (is_left) @get_color(4) else @get_color(3);
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const local_id = @get_local_task_id(10);
const other_id = @get_local_task_id(11);
"""

STATE = """\
param memcpy_params: comptime_struct;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
const io = @import_module("<simprint>");
var u: u16 = 3;
var i: i16 = -3;
var w: u32 = 70000;
var j: i32 = -70000;
var f: f32 = 1.5;
var a: [16]u16 = @constants([16]u16, 5);
var b: [16]f32 = @constants([16]f32, 0.5);
var c: [16]u32 = @zeros([16]u32);
var rounds: u16 = 0;
const da = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> a[k] });
const da2 = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> a[2 * k] });
const db = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> b[k] });
const db2 = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> b[15 - k] });
const dc = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{8} -> c[k] });
const d4 = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> c[k] });
var buffer: [4]u32 = @zeros([4]u32);
const fifo = @allocate_fifo(buffer);
"""

TAIL = """
comptime {
  @bind_local_task(local, local_id);
  @bind_local_task(other, other_id);
  if (@is_arch("wse3")) { @initialize_queue(oq, .{ .color = to_color }); }
  @initialize_queue(iq, .{ .color = from_color });
  @export_symbol(main);
}
"""


class Writer:
    """Writes statements; `depth` bounds nesting. `safe`: none that may fault, wait for another PE, or start a task."""

    def __init__(self, rng: random.Random, *, safe: bool = False) -> None:
        self.rng = rng
        self.safe = safe
        self.names = 0

    def fresh(self) -> str:
        """A name not used yet."""
        self.names += 1
        return f"n{self.names}"

    def number(self, type_: str) -> str:
        rng = self.rng
        if type_ == "f32":
            return rng.choice(("0.0", "1.0", "-2.5", "1.0e30", "f", "b[u % 16]", "3.0e-39"))
        if type_ in ("u16", "u32"):
            return str(rng.choice((0, 1, 2, 3, 7, 255, 256, 65535)))
        return str(rng.choice((0, 1, -1, 2, -7, 300, -32767, 32767)))

    def value(self, type_: str, depth: int = 2, *, constant: bool = True) -> str:
        """An expression of a type. If safe, with `constant` false it isn't comptime-known, so that nothing overflows
        while it is folded."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            own = {
                "u16": ["u", "a[u % 16]", "rounds"],
                "i16": ["i"],
                "u32": ["w", "c[u % 16]"],
                "i32": ["j"],
                "f32": ["f"],
            }
            if self.safe and not constant:
                return rng.choice(own[type_])
            return rng.choice([*own[type_], self.number(type_), f"@as({type_}, {self.number(type_)})"])
        if type_ == "f32":
            if rng.random() < 0.2:
                return f"@as(f32, {self.value(rng.choice(('u16', 'i16', 'i32')), depth - 1, constant=False)})"
            left = self.value(type_, depth - 1, constant=False)
            return f"({left} {rng.choice('+-*/')} {self.value(type_, depth - 1)})"
        if rng.random() < 0.15:
            source = rng.choice(("u16", "i16", "u32", "i32"))
            return f"@as({type_}, {self.value(source, depth - 1, constant=False)})"
        op = rng.choice(("+", "-", "*", "/", "%", "&", "|", "^"))
        right = self.value(type_, depth - 1)
        if op in "/%" and (self.safe or rng.random() < 0.95):
            right = f"({right} | 1)"
        return f"({self.value(type_, depth - 1, constant=False)} {op} {right})"

    def condition(self) -> str:
        """A comparison."""
        type_ = self.rng.choice(("u16", "i16", "u32", "i32", "f32"))
        test = self.rng.choice(("==", "!=", "<", "<=", ">", ">="))
        return f"{self.value(type_, 1, constant=False)} {test} {self.value(type_, 1)}"

    def vector(self) -> str:
        """An operation on memory or the FIFO."""
        rng = self.rng
        bits = rng.choice(("and16", "or16", "xor16", "sll16", "slr16", "sub16"))
        floats = rng.choice(("fadds", "fsubs", "fmuls", "fmaxs"))
        risky = (
            f"@mov16(@set_dsd_length(da, {rng.choice(('u % 8', '0', '4', 'u'))}), {rng.choice(('u', '9'))});",
            f"@mov16(@increment_dsd_offset(da, {rng.choice(('1', 'i', '-8', '9000'))}, u16), da);",
            f"@mov32(fifo, {rng.choice(('dc', 'w'))});",
            "@mov32(dc, fifo);",
        )
        harmless = (
            f"@mov16(@set_dsd_length(da, {rng.choice(('u % 8', '0', '4'))}), {rng.choice(('u', '9'))});",
            f"@mov16(@increment_dsd_offset(da, {rng.choice(('1', '8', 'u % 8'))}, u16), da);",
            "@mov32(fifo, d4);\n  @mov32(d4, fifo);",
        )
        return rng.choice(
            (
                f"@add16({rng.choice(('da', 'da2'))}, {rng.choice(('da', 'da2'))}, {rng.choice(('da', 'da2', '3'))});",
                f"@{bits}(da, da2, {rng.choice(('1', 'da'))});",
                f"@{floats}(db, {rng.choice(('db', 'db2'))}, {rng.choice(('db2', 'f'))});",
                f"@fmacs(db, db2, db, {rng.choice(('f', '2.0'))});",
                f"@mov32(dc, {rng.choice(('w', 'dc', '7'))});",
                "@fadds(&f, f, db);",
                *(harmless if self.safe else risky),
            )
        )

    def traffic(self) -> str:
        """A word, or some, sent to or received from the other PE."""
        rng = self.rng
        count = rng.choice((1, 1, 2, 8))
        color, queue = ("to_color", "output_queue = oq") if rng.random() < 0.5 else ("from_color", "input_queue = iq")
        kind = "fabout_dsd" if color == "to_color" else "fabin_dsd"
        dsd = f"@get_dsd({kind}, .{{ .fabric_color = {color}, .extent = {count}, .{queue} }})"
        options = [".async = true"]
        if rng.random() < 0.6:
            options.append(rng.choice((".activate = local", ".activate = other", ".unblock = local_id")))
        settings = f", .{{ {', '.join(options)} }}" if rng.random() < 0.95 else ""
        return f"@mov32({dsd}, dc{settings});" if kind == "fabout_dsd" else f"@mov32(dc, {dsd}{settings});"

    def control(self) -> str:
        """Flags, prints, assertions, calls."""
        if self.safe:
            return self.rng.choice(('io.fmt_no_nl("u={d} w={d}\\n", .{ u, w });', "helper(u);", "rounds += 1;"))
        return self.rng.choice(
            (
                "@activate(local_id);",
                "@activate(other_id);",
                "@block(local_id);",
                "@unblock(local_id);",
                "sys_mod.unblock_cmd_stream();",
                'io.fmt_no_nl("u={d} w={d}\\n", .{ u, w });',
                "@assert(u != 77);",
                "helper(u);",
            )
        )

    def statement(self, depth: int) -> str:
        """One statement."""
        rng = self.rng
        pick = rng.random()
        if pick < 0.35:
            name, type_ = rng.choice((("u", "u16"), ("i", "i16"), ("w", "u32"), ("j", "i32"), ("f", "f32")))
            return f"{name} {rng.choice(('=', '=', '+=', '-='))} {self.value(type_, constant=False)};"
        if pick < 0.45:
            target, type_ = rng.choice((("a", "u16"), ("b", "f32"), ("c", "u32")))
            index = rng.choice(("u % 16", "3", "u & 15", *(() if self.safe else ("u",))))
            return f"{target}[{index}] = {self.value(type_)};"
        if pick < 0.6:
            return self.vector()
        if pick < 0.7 and not self.safe:
            return self.traffic()
        if pick < 0.82 or depth == 0:
            return self.control()
        name = self.fresh()
        if pick < 0.88:
            return f"if ({self.condition()}) {{ {self.block(depth - 1)} }} else {{ {self.block(depth - 1)} }}"
        if pick < 0.94:
            return f"for (@range(u16, {rng.choice((0, 1, 3, 9))})) |{name}| {{ {self.block(depth - 1)} }}"
        if pick < 0.97:
            arms = f"0 => {{ {self.block(depth - 1)} }}, 1 => {{}}, else => {{ {self.block(depth - 1)} }}"
            return f"switch (u % 3) {{ {arms} }}"
        return (
            f"var {name}: u16 = 0; while ({name} < {rng.choice((2, 5))}) : ({name} += 1) {{ {self.block(depth - 1)} }}"
        )

    def block(self, depth: int) -> str:
        """Some statements."""
        return "\n  ".join(self.statement(depth) for _ in range(self.rng.randint(1, 4)))


def random_program(rng: random.Random) -> dict[str, str]:
    """Files of a program of two PEs that may send each other words."""
    write = Writer(rng)
    bodies = [
        f"fn helper(n: u16) void {{\n  {write.block(1)}\n}}".replace("helper(u);", "u += n;"),
        f"task local() void {{\n  rounds += 1;\n  if (rounds > 50) {{ return; }}\n  {write.block(2)}\n}}",
        f"task other() void {{\n  rounds += 1;\n  if (rounds > 50) {{ return; }}\n  {write.block(2)}\n}}",
        f"fn main() void {{\n  {write.block(3)}\n  {write.block(2)}\n  sys_mod.unblock_cmd_stream();\n}}",
    ]
    return {"layout.csl": LAYOUT, "pe.csl": STATE + HEAD + "\n".join(bodies) + TAIL}
