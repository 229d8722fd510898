"""DSDs, DSD operations, DSRs, queues and FIFOs: what is compiled and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from helpers.csl_eval import compile_body, errors_of, run_body
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.csl import ir
from fabrica_bench.csl.sema.tensor import reach, strides_of

ARRAYS = """
var a = @zeros([24]f32);
var b = @zeros([24]f32);
var h = @zeros([24]i16);
const c = @get_color(3);
const iq = @get_input_queue(2);
const oq = @get_output_queue(3);
const ad = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> a[i] });
const bd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> b[i] });
const hd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> h[i] });
const fin = @get_dsd(fabin_dsd, .{ .extent = 8, .fabric_color = c, .input_queue = iq });
const fout = @get_dsd(fabout_dsd, .{ .extent = 8, .fabric_color = c, .output_queue = oq });
comptime { @set_local_color_config(c, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } }); }
"""


def image_of(folder: Path, statement: str, *, prelude: str = "", **options: object) -> ir.Image:
    """The image of a program whose `main` is one statement."""
    body = f"{ARRAYS}{prelude}\nfn main() void {{ {statement} sys_mod.unblock_cmd_stream(); }}"
    return compile_body(folder, body, **options).program.images[0]


def operations_of(image: ir.Image) -> list[ir.DsdOp]:
    """The DSD operations of `main`."""
    blocks = image.functions["main"].blocks
    return [instr for block in blocks for instr in block if isinstance(instr, ir.DsdOp)]


def operations(folder: Path, statement: str, *, prelude: str = "", **options: object) -> list[ir.DsdOp]:
    """The DSD operations that one statement in `main` becomes."""
    return operations_of(image_of(folder, statement, prelude=prelude, **options))


@pytest.mark.parametrize(
    ("access", "offset", "extents", "strides"),
    [
        ("|i|{4} -> m[i, 0]", 0, (4,), (6,)),
        ("|i|{4} -> m[3 - i, 2]", 20, (4,), (-6,)),
        ("|i|{4} -> m[i, i]", 0, (4,), (7,)),
        ("|i|{5} -> m[1, 2]", 8, (5,), (0,)),
        ("|i|{3} -> m[1, 2 * i + 1]", 7, (3,), (2,)),
        ("|i, j|{4, 6} -> m[i, j]", 0, (4, 6), (1, 1)),
        ("|i, j|{2, 3} -> m[i + 1, j]", 6, (2, 3), (1, 4)),
        ("|i, j|{3, 2} -> m[j, i]", 0, (3, 2), (6, -5)),
    ],
)
def test_tensor_accesses_become_offset_extents_and_strides(
    tmp_path: Path, access: str, offset: int, extents: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    kind = "mem1d_dsd" if len(extents) == 1 else "mem4d_dsd"
    prelude = f"var m = @zeros([4, 6]f32);\nconst d = @get_dsd({kind}, .{{ .tensor_access = {access} }});"
    image = image_of(tmp_path, "@fmovs(d, 1.0);", prelude=prelude)
    (operation,) = operations_of(image)
    assert operation.dest is not None
    assert isinstance(operation.dest.value, ir.Imm)
    dsd = operation.dest.value.value
    assert isinstance(dsd, ir.Dsd)
    assert isinstance(dsd.base, int)
    assert (dsd.base - image.globals["m"].address, dsd.extents, dsd.strides) == (4 * offset, extents, strides)


def test_the_documented_mem4d_strides(tmp_path: Path) -> None:
    prelude = """
    var cube = @zeros([5, 6, 7]f32);
    var flat = @zeros([20]i16);
    const d = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j, k|{2, 3, 4} -> cube[i, j, k] });
    const e = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{5, 5} -> flat[2 * i + j] });
    const f = @get_dsd(mem4d_dsd, .{ .base_address = &flat, .extent = .{ 5, 5 }, .stride = .{ 1, -2 } });
    """
    found = operations(tmp_path, "@fmovs(d, 1.0); @mov16(e, 1); @mov16(f, 1);", prelude=prelude)
    dsds = [op.dest.value.value for op in found if op.dest is not None and isinstance(op.dest.value, ir.Imm)]
    assert [dsd.strides for dsd in dsds if isinstance(dsd, ir.Dsd)] == [(1, 4, 25), (1, -2), (1, -2)]
    assert dsds[1] == dsds[2]


RUNTIME = """
var a = [6]f32{ 1.0, 2.0, 3.0, 4.0, 5.0, 6.0 };
var b = [6]f32{ 10.0, 20.0, 30.0, 40.0, 50.0, 60.0 };
var n: u16 = 3;
var s: i8 = 2;
export var sums = @zeros([5]f32);
var d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> a[i] });
fn total(x: mem1d_dsd) f32 {
  var acc: f32 = 0.0;
  @fadds(&acc, acc, x);
  return acc;
}
fn plus(x: f32, acc: *f32) f32 { return acc.* + x; }
fn main() void {
  sums[0] = total(d);
  d = @increment_dsd_offset(d, 1, f32);
  d = @set_dsd_length(d, n + 2);
  sums[1] = total(d);
  sums[2] = total(@set_dsd_base_addr(@set_dsd_length(d, 2), b));
  const p = if (n == 3) &b else &a;
  sums[3] = total(@get_dsd(mem1d_dsd, .{ .base_address = p, .extent = n, .stride = s, .offset = 1 }));
  @map(plus, d, &sums[4], &sums[4]);
  done();
}
"""


def test_dsds_change_at_run_time(tmp_path: Path) -> None:
    assert run_body(tmp_path, RUNTIME).array("sums", "<f4") == [6.0, 20.0, 30.0, 120.0, 20.0]


def test_operands_completion_and_priority_reach_the_ir(tmp_path: Path) -> None:
    prelude = """
    const done_id = @get_local_task_id(9);
    task finished() void {}
    comptime { @bind_local_task(finished, done_id); }
    """
    statement = """
    @fadds(ad, ad, fin, .{ .async = true, .activate = finished, .priority = .{ .high = true } });
    @fmovs(fout, bd, .{ .async = true, .unblock = done_id, .on_control = .{ .terminate = true } });
    @fmacs(ad, ad, bd, 2.0);
    """
    first, second, third = operations(tmp_path, statement, prelude=prelude)
    assert first.config.on_done == ir.Wake("activate", "task", ir.Imm(9))
    assert first.config.priority == "high"
    assert second.config.on_done == ir.Wake("unblock", "task", ir.Imm(9))
    assert second.config.on_control == ir.Wake("terminate")
    assert [source.kind for source in third.sources] == ["dsd", "dsd", "scalar"]
    assert third.sources[2].value == ir.Imm(2.0)


def test_unblocking_a_data_task_names_its_channel(tmp_path: Path) -> None:
    for arch, space, number in (("wse2", "color", 3), ("wse3", "input_queue", 2)):
        prelude = """
        const tid = if (@is_arch("wse3")) @get_data_task_id(iq) else @get_data_task_id(c);
        task got(x: f32) void { @block(tid); @fmovs(fout, bd, .{ .async = true, .unblock = got }); }
        comptime {
          @bind_data_task(got, tid);
          if (@is_arch("wse3")) { @initialize_queue(iq, .{ .color = c }); @initialize_queue(oq, .{ .color = c }); }
        }
        """
        output = compile_body(tmp_path, f"{ARRAYS}{prelude}", arch=arch)
        task = output.program.images[0].functions["got"]
        block, operation = (instr for instr in task.blocks[0] if isinstance(instr, ir.Intrinsic | ir.DsdOp))
        assert isinstance(block, ir.Intrinsic)
        assert isinstance(operation, ir.DsdOp)
        assert (block.name, block.args, block.text) == ("block", (ir.Imm(number),), space)
        assert operation.config.on_done == ir.Wake("unblock", space, ir.Imm(number))  # type: ignore[arg-type]


def test_registers_and_fifos(tmp_path: Path) -> None:
    prelude = """
    const dest = @get_dsr(dsr_dest, 2);
    const src = @get_dsr(dsr_src1, 2);
    var buffer = @zeros([16]u32);
    const fifo = @allocate_fifo(buffer, .{ .activate_push = pushed, .dest = dest, .src = src, .xdsr = @get_xdsr(1) });
    const fifo_in = @get_dsr(dsr_fifo_src1, src);
    task pushed() void {}
    comptime {
      @bind_local_task(pushed, @get_local_task_id(11));
      @load_to_dsr(@get_dsr(dsr_src0, 1), ad, .{ .save_address = true });
    }
    """
    statement = """
    @load_to_dsr(@get_dsr(dsr_dest, 3), fout, .{ .async = true });
    @mov32(fifo, fin, .{ .async = true });
    const whole = @mov32(fout, fifo_in);
    """
    image = image_of(tmp_path, statement, prelude=prelude)
    first, second = operations_of(image)
    (fifo,) = image.fifos
    assert (fifo.element_bytes, fifo.capacity, fifo.activate_push, fifo.activate_pop) == (4, 16, 11, -1)
    assert fifo.address == image.globals["buffer"].address
    assert fifo.address % 16 == 0
    assert first.dest is not None
    assert (first.dest.kind, first.dest.value) == ("fifo", 0)
    assert (second.sources[0].kind, second.sources[0].value) == ("fifo", 0)
    assert second.result is not None
    (load,) = image.dsr_loads
    assert (load.dsr, load.save_address) == (ir.DsrRef("src0", 1), True)


def test_queues_are_initialized_by_the_rules_of_the_architecture(tmp_path: Path) -> None:
    body = """
    const c = @get_color(3);
    comptime {
      @initialize_queue(@get_input_queue(2), .{ .color = c });
      if (@is_arch("wse3")) @initialize_queue(@get_output_queue(7), .{ .color = c })
      else @initialize_queue(@get_output_queue(3));
    }
    """
    for arch, output_queue, color in (("wse2", 3, -1), ("wse3", 7, 3)):
        queues = compile_body(tmp_path, body, arch=arch).program.images[0].queues
        assert queues == [ir.QueueInit("input", 2, 3), ir.QueueInit("output", output_queue, color)]


MAIN = "fn main() void {{ {} }}"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("@fadds(ad, ad);", "@fadds takes 3 operands and an optional configuration, got 2 arguments"),
        (
            "@fadds(ad, 1.0, 2.0);",
            "@fadds can't take operands of these kinds: (mem1d_dsd, comptime_float, comptime_float)",
        ),
        ("@fmovs(ad, 1);", "expected type 'f32', got: 'comptime_int'"),
        ("@mov16(hd, 1.0);", "expected type 'i16' or 'u16', got: 'comptime_float'"),
        ("@mov16(hd, 70000);", "expected type 'i16' or 'u16', got: 'comptime_int'"),
        ("@fmovs(fin, ad);", "a fabin_dsd can't be a destination"),
        ("@fmovs(ad, fout);", "a fabout_dsd can't be a source"),
        ("@fmovs(ad, bd, .{ .async = true });", "an asynchronous operation needs a fabric operand"),
        (
            "@fmovs(fout, bd, .{ .activate = t });",
            "'activate', 'unblock', 'on_control' and 'ut_id' need '.async = true'",
        ),
        (
            "@fmovs(fout, bd, .{ .async = true, .activate = t, .unblock = t });",
            "'activate' and 'unblock' exclude each other",
        ),
        (
            "@fmovs(fout, bd, .{ .async = true, .actvate = t });",
            "unknown field 'actvate' in the configuration of @fmovs",
        ),
        ("@fmovs(fout, bd, .{ .async = true, .ut_id = @get_ut_id(3) });", "'ut_id' does not exist on wse2"),
        (
            "@fmovs(fout, bd, .{ .async = true, .activate = 5 });",
            "'.activate' needs a local_task_id or a task, got: 'comptime_int'",
        ),
        ("const x: i16 = 1; @mov16(&x, hd);", "the destination can't be written through a const pointer"),
        ("@fadds(ad, q, bd);", "a FIFO can't be the first of two sources"),
        ("@fmovs(@get_dsr(dsr_src1, 1), bd);", "a 'dsr_src1' can't be a destination"),
        ("@fmovs(ad, @get_dsr(dsr_dest, 1));", "a 'dsr_dest' can't be a source"),
        ("@get_dsr(dsr_dest, 16);", "dsr_dest 16 does not exist: legal numbers are 0 to 15"),
        ("@load_to_dsr(@get_dsr(dsr_dest, 1), fin);", "a fabin_dsd can't be loaded into a dsr_dest"),
        ("@load_to_dsr(@get_dsr(dsr_src1, 1), fout);", "a fabout_dsd can't be loaded into a 'dsr_src1'"),
        (
            "@load_to_dsr(@get_dsr(dsr_src1, 1), ad, .{ .async = true });",
            "unknown field 'async' in the configuration of a mem1d_dsd load",
        ),
        ("@set_dsd_stride(fin, 2);", "@set_dsd_stride does not apply to 'fabin_dsd'"),
        ("const d = @get_dsd(mem1d_dsd, .{ .base_address = &a });", "the DSD has no 'extent' and no 'tensor_access'"),
        (
            "const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> a[i], .extent = 2 });",
            "property 'extent' is given by the tensor access and on its own",
        ),
        (
            "const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> a[i * i] });",
            "the index is not an affine function of the induction variables",
        ),
        (
            "const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{0} -> a[i] });",
            "the extent of a tensor access must be at least 1, got 0",
        ),
        (
            "const d = @get_dsd(mem1d_dsd, .{ .base_address = &w, .extent = 2 });",
            "a memory DSD needs elements of 16 or 32 bits, got: 'u8'",
        ),
        (
            "const d = @get_dsd(fabin_dsd, .{ .extent = 2, .fabric_color = 3 });",
            "expected type 'color', got: 'comptime_int'",
        ),
        ("@map(f, ad);", "@map of 'f' takes 1 input(s) and an output, got 1"),
        ("@map(f, 1.0, &s);", "at least one argument of @map must be a DSD or DSR"),
        ("@dfilt(fin, .{ .async = false });", "@dfilt must be asynchronous"),
    ],
)
def test_wrong_operations_are_refused(tmp_path: Path, statement: str, message: str) -> None:
    prelude = """
    var w = @zeros([4]u8);
    var s: f32 = 0.0;
    fn f(x: f32) f32 { return x; }
    var buffer = @zeros([8]f32);
    const q = @allocate_fifo(buffer);
    task t() void {}
    comptime { @bind_local_task(t, @get_local_task_id(9)); }
    """
    assert errors_of(tmp_path, ARRAYS + prelude + MAIN.format(statement)) == [message]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("@fadds(ad, fin, fin2);", "at most one operand can be a fabin_dsd on wse3"),
        (
            "@fmovs(fout, bd, .{ .async = true, .priority = .{ .high = true } });",
            "the priority of an operation can't be set on wse3",
        ),
        (
            "var k: u16 = 3; @fmovs(fout, bd, .{ .async = true, .ut_id = @get_ut_id(k) });",
            "DSD op setting 'ut_id' must be comptime-known",
        ),
        (
            "const d = @get_dsd(fabin_dsd, .{ .extent = 2, .fabric_color = c });",
            "a fabric DSD needs 'input_queue' on wse3",
        ),
    ],
)
def test_wse3_rules(tmp_path: Path, statement: str, message: str) -> None:
    prelude = "const fin2 = @get_dsd(fabin_dsd, .{ .extent = 8, .input_queue = @get_input_queue(4) });"
    assert errors_of(tmp_path, ARRAYS + prelude + MAIN.format(statement), arch="wse3") == [message]


def test_stride_registers_are_counted(tmp_path: Path) -> None:
    text = """
    var m = @zeros([4, 4, 4]f32);
    const d = @get_dsd(mem4d_dsd, .{{ .tensor_access = |i, j, k|{{2, 3, 4}} -> m[i, j, k] }});
    fn main() void {{ @load_to_dsr_xdsr_sr(@get_dsr(dsr_dest, 1), @get_xdsr(0), .{{ {} }}, d); }}
    """
    registers = ["@get_sr(0)", "@get_sr(1)"]
    assert errors_of(tmp_path, text.format(", ".join(registers))) == ["this DSD needs 1 stride register(s), got 2"]
    compile_body(tmp_path, text.format(registers[0]))


def test_circular_buffers(tmp_path: Path) -> None:
    text = """
    var m = @zeros([8]f32);
    const d = @get_dsd(circbuf_dsd, .{{ .base_address = &m, .extent = 20, .wraparound = {} }});
    fn main() void {{ @load_to_dsr_xdsr(@get_dsr(dsr_src1, 1), @get_xdsr(0), d); }}
    """
    assert errors_of(tmp_path, text.format(9)) == ["wraparound 9 is larger than the tensor, which has 8 elements"]
    compile_body(tmp_path, text.format(5))


@pytest.mark.parametrize(
    ("kind", "properties", "message"),
    [
        ("mem1d", ".tensor_access = |i|{25} -> a[i]", "the DSD reaches element 24 of an array of 24 elements"),
        ("mem1d", ".tensor_access = |i|{8} -> a[i + 20]", "the DSD reaches element 27 of an array of 24 elements"),
        ("mem1d", ".tensor_access = |i|{8} -> a[6 - i]", "the DSD reaches element -1 of an array of 24 elements"),
        ("mem1d", ".tensor_access = |i|{7} -> a[4 * i]", "the DSD reaches element 24 of an array of 24 elements"),
        ("mem1d", ".base_address = &a, .extent = 25", "the DSD reaches element 24 of an array of 24 elements"),
        (
            "mem1d",
            ".base_address = &a, .extent = 12, .stride = 2, .offset = 2",
            "the DSD reaches element 24 of an array",
        ),
        (
            "mem4d",
            ".tensor_access = |i, j|{3, 4} -> m[i, j + 1]",
            "the DSD reaches element 12 of an array of 12 elements",
        ),
        ("mem4d", ".tensor_access = |i, j|{4, 4} -> m[i, j]", "the DSD reaches element 15 of an array of 12 elements"),
        # All in range, the last element included, in whatever direction; rows may be left within the array.
        ("mem1d", ".tensor_access = |i|{24} -> a[i]", ""),
        ("mem1d", ".tensor_access = |i|{24} -> a[23 - i]", ""),
        ("mem1d", ".tensor_access = |i|{100} -> a[23]", ""),
        ("mem1d", ".tensor_access = |i|{12} -> m[0, i]", ""),
        ("mem4d", ".tensor_access = |i, j|{4, 3} -> m[j, 3 - i]", ""),
        # A shape on an array of one element gets its address at run time; what has no known size can't be checked.
        ("mem1d", ".tensor_access = |i|{25} -> shape[i]", ""),
        ("mem1d", ".tensor_access = |i|{25} -> many[i]", ""),
        ("mem1d", ".base_address = many, .extent = 25", ""),
        ("mem1d", ".base_address = &a, .extent = 0", ""),
    ],
)
def test_a_dsd_that_leaves_its_array_is_warned_about(kind: str, properties: str, message: str, tmp_path: Path) -> None:
    body = (
        "var a = @zeros([24]f32); var m = @zeros([3, 4]f32); var shape = @zeros([1]f32); const many: [*]f32 = &a;\n"
        f"var d = @get_dsd({kind}_dsd, .{{ {properties} }});\n"
        "fn main() void { @fmovs(d, 0.0); sys_mod.unblock_cmd_stream(); }"
    )
    warnings = compile_body(tmp_path, body).warnings
    assert [warning.message.startswith(message) for warning in warnings] == ([True] if message else [])


def test_a_dsd_with_a_run_time_extent_is_not_held_to_its_array(tmp_path: Path) -> None:
    body = (
        "var a = @zeros([24]f32); var n: u16 = 3;\n"
        "fn main() void { @fmovs(@get_dsd(mem1d_dsd, .{ .base_address = &a, .extent = n }), 0.0); "
        "sys_mod.unblock_cmd_stream(); }"
    )
    assert compile_body(tmp_path, body).warnings == []


SHAPES = st.lists(st.tuples(st.integers(1, 4), st.integers(-5, 5)), min_size=1, max_size=4)


@given(SHAPES)
def test_the_reach_of_a_shape_is_that_of_its_elements(shape: list[tuple[int, int]]) -> None:
    """`shape`: extent and coefficient of each induction variable, outermost first."""
    extents = [extent for extent, _ in shape]
    coefficients = [coefficient for _, coefficient in shape]
    elements = [
        sum(coefficient * i for coefficient, i in zip(coefficients, indices, strict=True))
        for indices in itertools.product(*map(range, extents))
    ]
    strides = strides_of(coefficients[::-1], extents[::-1])
    assert reach(extents, strides) == (min(elements), max(elements))


WIDE = "@{} takes elements of {} bits here, but this DSD steps over elements of type '{}'"


@pytest.mark.parametrize(
    ("statement", "messages"),
    [
        ("@fnegs(hd, ad);", [WIDE.format("fnegs", 32, "i16")]),
        ("@add16(hd, ad, hd);", [WIDE.format("add16", 16, "f32")]),
        ("@faddhs(ad, hd, hd);", [WIDE.format("faddhs", 32, "i16")]),
        ("@faddhs(ad, @as(f16, 1.0), hd);", [WIDE.format("faddhs", 32, "i16")]),
        # The types of one width are as good as each other, and what was re-typed on purpose is as it was re-typed.
        ("@faddhs(ad, bd, hd); @faddhs(ad, @as(f16, 1.0), bd); @mov32(ad, bd); @fmovh(hd, hd);", []),
        ("@mov16(@set_dsd_base_addr(hd, @ptrcast([*]i16, &a)), hd);", []),
        # An official example sends the low half of one word.
        ("@mov16(fout, @get_dsd(mem1d_dsd, .{ .base_address = &a, .extent = 1 }));", []),
    ],
)
def test_an_operation_on_elements_of_another_width_is_warned_about(
    statement: str, messages: list[str], tmp_path: Path
) -> None:
    body = f"{ARRAYS}\nfn main() void {{ {statement} sys_mod.unblock_cmd_stream(); }}"
    assert [warning.message for warning in compile_body(tmp_path, body).warnings] == messages
