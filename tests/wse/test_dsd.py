"""DSD operations on memory, and with fabric and FIFO operands."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from helpers.ir_programs import Fn, activate, fabin, fabout, image, mem, program
from hypothesis import given, settings
from hypothesis import strategies as st

from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import F32, RAMP, U16, ColorConfig, Dsd
from fabrica_bench.wse import cursors, elementwise
from fabrica_bench.wse.commands import Launch
from fabrica_bench.wse.faults import Fault
from fabrica_bench.wse.machine import Machine

LOOPBACK = {4: ColorConfig(rx=RAMP, tx=RAMP)}
QUEUES = [ir.QueueInit("input", 2, 4), ir.QueueInit("output", 3, 4)]


def run(f: Fn, *others: Fn, data: dict[int, bytes] | None = None, arch: Any = "wse3", **fields: Any) -> Machine:
    """Run `main` on one PE whose color 4 loops back."""
    f.do("unblock_cmd_stream")
    target = image(f.ret(), *others, exports=("main",), queues=QUEUES, **fields)
    machine = Machine(program(target, colors=[[LOOPBACK]], arch=arch))
    for address, content in (data or {}).items():
        machine.pe(0, 0).memory.write(address, content)
    machine.wait(machine.submit(Launch("main")))
    machine.drain()
    return machine


def floats(machine: Machine, address: int, count: int) -> list[float]:
    return list(struct.unpack(f"<{count}f", machine.pe(0, 0).memory.read(address, 4 * count)))


def f32(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def u16(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


class TestMemoryOperations:
    def test_multiply_add_is_source1_plus_source2_times_scalar(self) -> None:
        f = Fn("main")
        f.dsd("fmacs", mem(0, 3), mem(64, 3), mem(128, 3), ("scalar", 2.0, F32))
        machine = run(f, data={64: f32(1, 2, 3), 128: f32(10, 20, 30)})
        assert floats(machine, 0, 3) == [21, 42, 63]

    def test_a_pointer_destination_reduces(self) -> None:
        f = Fn("main")
        f.dsd("fadds", ("pointer", 0, F32), ("scalar", 100.0, F32), mem(64, 8))
        assert floats(run(f, data={64: f32(*range(8))}), 0, 1) == [128.0]

    def test_a_zero_stride_destination_accumulates_in_order(self) -> None:
        f = Fn("main")
        acc = mem(0, 8, stride=0)
        f.dsd("fadds", acc, acc, mem(64, 8))
        assert floats(run(f, data={64: f32(*range(8))}), 0, 1) == [28.0]

    def test_overlapping_operands_are_done_element_by_element(self) -> None:
        f = Fn("main")
        f.dsd("mov16", mem(2, 9), mem(0, 9))
        machine = run(f, data={0: u16(*range(1, 11))})
        assert machine.pe(0, 0).memory.read(0, 20) == u16(*[1] * 10)

    def test_the_length_of_source_0_governs(self) -> None:
        f = Fn("main")
        f.dsd("add16", mem(0, 1), mem(64, 4), mem(128, 2))
        machine = run(f, data={64: u16(1, 2, 3, 4), 128: u16(10, 20, 30, 40)})
        assert machine.pe(0, 0).memory.read(0, 8) == u16(11, 22, 33, 44)

    def test_four_dimensional_sums_follow_zero_strides(self) -> None:
        """acc[k] += buf[i, j, k] over a 2 x 3 x 8 box, as a stencil does."""
        acc = Dsd("mem4d", (2, 3, 8), 0, (1, -7, -7))
        box = Dsd("mem4d", (2, 3, 8), 256, (1, 1, 1))
        f = Fn("main")
        f.dsd("add16", acc, acc, box)
        values = np.arange(48, dtype=np.uint16).reshape(2, 3, 8)
        machine = run(f, data={256: values.tobytes()})
        assert np.frombuffer(machine.pe(0, 0).memory.read(0, 16), np.uint16).tolist() == values.sum((0, 1)).tolist()

    def test_add_with_carry_chains(self) -> None:
        f = Fn("main")
        f.dsd("addc16", mem(0, 2), mem(64, 2), mem(128, 2))
        machine = run(f, data={64: u16(0xFFFF, 1), 128: u16(1, 1)})
        assert machine.pe(0, 0).memory.read(0, 4) == u16(0, 3)

    def test_an_access_outside_memory_is_a_fault_with_its_line(self) -> None:
        f = Fn("main")
        f.line = 17
        f.dsd("fadds", mem(49140, 8), mem(64, 8), mem(64, 8))
        with pytest.raises(Fault, match=r"PE\(0,0\) pe.csl:17:1 in main .*outside the PE's memory"):
            run(f)

    def test_undefined_operations_say_so(self) -> None:
        f = Fn("main")
        f.dsd("fnorms", ("pointer", 0, F32), ("scalar", 3.0, F32))
        with pytest.raises(Fault, match="@fnorms: its exact result is not documented"):
            run(f)


class TestCursors:
    def test_documented_strides_of_a_transposing_access(self) -> None:
        dsd_value = Dsd("mem4d", (5, 5), 0, (1, -2))
        expected = [2 * (2 * i + j) for i in range(5) for j in range(5)]
        assert cursors.addresses(dsd_value, 25, 2).tolist() == expected

    def test_documented_strides_of_a_box_in_a_cube(self) -> None:
        dsd_value = Dsd("mem4d", (2, 3, 4), 0, (1, 4, 25))
        expected = [2 * (42 * i + 7 * j + k) for i in range(2) for j in range(3) for k in range(4)]
        assert cursors.addresses(dsd_value, 24, 2).tolist() == expected

    def test_a_circular_buffer_wraps(self) -> None:
        ring = Dsd("circbuf", (7,), 100, (1,), wraparound=3)
        assert cursors.addresses(ring, 7, 2).tolist() == [100, 102, 104, 100, 102, 104, 100]


bits_of = {"u16": 0xFFFF, "i16": 0xFFFF, "u32": 0xFFFFFFFF, "h": 0xFFFF, "s": 0xFFFFFFFF}


@pytest.mark.parametrize("name", sorted(set(elementwise.OPS) - {"addc16"}))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_bulk_and_element_forms_give_the_same_bits(name: str, data: st.DataObject) -> None:
    op = elementwise.OPS[name]
    count = data.draw(st.integers(1, 12))
    sources = [data.draw(st.lists(st.integers(0, bits_of[t]), min_size=count, max_size=count)) for t in op.sources]
    function = elementwise.element_function(op, "f16")
    single = [function(*row) for row in zip(*sources, strict=True)]
    dtypes = [np.uint16 if elementwise.SIZES[t] == 2 else np.uint32 for t in op.sources]
    arrays = [np.array(s, dtype=t) for s, t in zip(sources, dtypes, strict=True)]
    if op.is_move:
        assert single == sources[0]
        return
    decoded = [elementwise.decode_array(t, "f16", a) for t, a in zip(op.sources, arrays, strict=True)]
    with np.errstate(all="ignore"):
        bulk = elementwise.encode_array(op.dest, "f16", op.array(*decoded))
    assert bulk.tolist() == single


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_memory_operations_equal_their_elements_done_in_order(data: st.DataObject) -> None:
    """Whatever the overlap, the bulk path gives what a loop over the elements gives."""
    name = data.draw(st.sampled_from(["mov16", "add16", "fadds", "fmacs", "faddh"]))
    op = elementwise.OPS[name]
    words = elementwise.SIZES[op.dest] // 2
    region = st.tuples(st.integers(120, 136).map(lambda word: 2 * word), st.integers(-3, 3))
    count = data.draw(st.integers(1, 20))
    parts = [data.draw(region) for _ in range(1 + min(len(op.sources), 2))]
    values = data.draw(st.binary(min_size=512, max_size=512))
    dsds = [mem(base, count, stride=stride) for base, stride in parts]
    arguments: list[Any] = list(dsds[1:])
    if len(op.sources) == 3:
        arguments.append(("scalar", 1.5, F32))
    f = Fn("main")
    f.dsd(name, dsds[0], *arguments)
    machine = run(f, data={0: values})

    memory = bytearray(values)
    size = 2 * words
    function = elementwise.element_function(op, "f16")
    for k in range(count):
        places = [base + 2 * words * stride * k for base, stride in parts]
        bits = [int.from_bytes(memory[p : p + size], "little") for p in places[1:]]
        if len(op.sources) == 3:
            bits.append(struct.unpack("<I", struct.pack("<f", 1.5))[0])
        memory[places[0] : places[0] + size] = function(*bits).to_bytes(size, "little")
    assert machine.pe(0, 0).memory.read(0, 512) == bytes(memory)


class TestFabricOperations:
    def test_a_loopback_copy_through_two_microthreads(self) -> None:
        f = Fn("main")
        f.dsd("fmovs", mem(128, 20), fabin(2, 4, 20), is_async=True, on_done=activate(10))
        f.dsd("fmovs", fabout(3, 4, 20), mem(0, 20), is_async=True)
        done = Fn("done", task=True)
        done.store(U16, 300, 1)
        done.ret()
        values = [float(k) for k in range(20)]
        machine = run(f, done, data={0: f32(*values)}, tasks=[ir.TaskBinding("local", 10, "done")])
        assert floats(machine, 128, 20) == values
        assert machine.pe(0, 0).memory.read_int(300, 2) == 1

    def test_16_bit_elements_travel_in_the_low_half(self) -> None:
        f = Fn("main")
        f.dsd("mov16", fabout(3, 4, 2), mem(0, 2), is_async=True)
        f.dsd("mov32", mem(128, 2), fabin(2, 4, 2))
        machine = run(f, data={0: u16(0xAAAA, 0xBBBB)})
        assert machine.pe(0, 0).memory.read(128, 8) == struct.pack("<2I", 0xAAAA, 0xBBBB)

    def test_packed_mode_puts_two_elements_in_a_wavelet(self) -> None:
        f = Fn("main")
        f.dsd("mov16", fabout(3, 4, 3, simd_mode="32"), mem(0, 3), is_async=True)
        f.dsd("mov32", mem(128, 2), fabin(2, 4, 2))
        machine = run(f, data={0: u16(1, 2, 3)})
        assert machine.pe(0, 0).memory.read(128, 8) == struct.pack("<2I", 0x20001, 3)

    def test_the_index_goes_in_the_high_half(self) -> None:
        f = Fn("main")
        f.dsd("mov16", fabout(3, 4, 1, wavelet_index_offset=True), mem(0, 1), is_async=True, index=ir.Imm(7))
        f.dsd("mov32", mem(128, 1), fabin(2, 4, 1))
        assert run(f, data={0: u16(5)}).pe(0, 0).memory.read_int(128, 4) == 0x70005

    def test_fabric_source_with_memory_source_accumulates(self) -> None:
        f = Fn("main")
        f.dsd("fmovs", fabout(3, 4, 4), mem(0, 4), is_async=True)
        f.dsd("fadds", mem(128, 4), fabin(2, 4, 4), mem(128, 4))
        machine = run(f, data={0: f32(1, 2, 3, 4), 128: f32(10, 20, 30, 40)})
        assert floats(machine, 128, 4) == [11, 22, 33, 44]

    def test_an_explicit_dsr_walks_with_save_address(self) -> None:
        dest, source = ir.DsrRef("dest", 3), ir.DsrRef("src1", 3)
        f = Fn("main")
        f.add(ir.LoadDsr(0, source, ir.Imm(mem(0, 2)), ir.DsdConfig(), save_address=True))
        f.add(ir.LoadDsr(0, dest, ir.Imm(mem(128, 2)), ir.DsdConfig(), save_address=True))
        for _ in range(3):
            f.dsd("fmovs", dest, source)
        values = [float(k) for k in range(6)]
        assert floats(run(f, data={0: f32(*values)}), 128, 6) == values

    def test_asynchronous_settings_of_a_dsr_apply(self) -> None:
        out = ir.DsrRef("dest", 2)
        f = Fn("main")
        config = ir.DsdConfig(is_async=True, on_done=activate(10))
        f.add(ir.LoadDsr(0, out, ir.Imm(fabout(3, 4, 2)), config))
        f.dsd("fmovs", out, mem(0, 2))
        f.dsd("fmovs", mem(128, 2), fabin(2, 4, 2))
        done = Fn("done", task=True)
        done.store(U16, 300, 1)
        done.ret()
        machine = run(f, done, data={0: f32(1, 2)}, tasks=[ir.TaskBinding("local", 10, "done")])
        assert floats(machine, 128, 2) == [1, 2]
        assert machine.pe(0, 0).memory.read_int(300, 2) == 1

    def test_a_control_wavelet_ends_an_endless_operation(self) -> None:
        f = Fn("main")
        stop = ir.Wake("activate", "task", ir.Imm(10))
        f.dsd("mov32", mem(128, 0x7FFF), fabin(2, 4, 0x7FFF), is_async=True, on_control=stop)
        f.dsd("mov32", fabout(3, 4, 3), mem(0, 3))
        f.dsd("mov32", fabout(3, 4, 1, control=True), ("scalar", 31 << 16, ir.U32))
        done = Fn("done", task=True)
        done.store(U16, 300, 1)
        done.ret()
        machine = run(f, done, data={0: struct.pack("<3I", 7, 8, 9)}, tasks=[ir.TaskBinding("local", 10, "done")])
        assert machine.pe(0, 0).memory.read(128, 16) == struct.pack("<4I", 7, 8, 9, 0)
        assert machine.pe(0, 0).memory.read_int(300, 2) == 1

    def test_reusing_a_running_microthread_is_a_fault(self) -> None:
        f = Fn("main")
        f.dsd("mov32", mem(128, 2), fabin(2, 4, 2), is_async=True, ut_id=5)
        f.dsd("mov32", fabout(3, 4, 500), mem(0, 500), is_async=True, ut_id=5)
        with pytest.raises(Fault, match="microthread 5 is still running @mov32"):
            run(f)

    def test_reading_an_unbound_queue_is_a_fault_on_wse3(self) -> None:
        f = Fn("main")
        f.dsd("mov32", mem(128, 2), fabin(5, 9, 2))
        with pytest.raises(Fault, match="input queue 5 is read, but no @initialize_queue of this PE gives it a color"):
            run(f)


class TestFifos:
    FIFO = ir.Fifo("q", 1024, 4, 4, activate_push=11)

    def test_words_pass_through_a_fifo_between_two_microthreads(self) -> None:
        f = Fn("main")
        f.dsd("mov32", ("fifo", 0), fabin(2, 4, 10), is_async=True)
        f.dsd("mov32", fabout(3, 4, 10), mem(0, 10), is_async=True)
        f.do("fifo_read_length", 0, 10)
        # The main thread empties the FIFO; it finds too little at first and is called again by `activate_push`.
        drain = Fn("drain", task=True)
        ok = drain.dsd("mov32", ir.DsrRef("dest", 4), ("fifo", 0))
        drain.store(U16, 400, ok)
        drain.ret()
        load = ir.LoadDsr(0, ir.DsrRef("dest", 4), ir.Imm(mem(128, 10)), ir.DsdConfig(), save_address=True)
        f.do("activate", 11)
        words = struct.pack("<10I", *range(10))
        machine = run(
            f, drain, data={0: words}, fifos=[self.FIFO._replace(capacity=4)], dsr_loads=[load],
            tasks=[ir.TaskBinding("local", 11, "drain")],
        )  # fmt: skip
        assert machine.pe(0, 0).memory.read(128, 40) == words
        assert machine.pe(0, 0).memory.read_int(400, 2) == 1

    def test_a_synchronous_pop_of_an_empty_fifo_returns_false_and_keeps_the_rest(self) -> None:
        f = Fn("main")
        f.do("fifo_write_length", 0, 2)
        f.dsd("mov32", ("fifo", 0), mem(0, 2))
        f.do("fifo_read_length", 0, 5)
        ok = f.dsd("mov32", mem(128, 5), ("fifo", 0))
        f.store(U16, 400, f.bin("add", U16, ok, 7))
        machine = run(f, data={0: struct.pack("<2I", 5, 6)}, fifos=[self.FIFO._replace(activate_push=-1)])
        assert machine.pe(0, 0).memory.read(128, 12) == struct.pack("<3I", 5, 6, 0)
        assert machine.pe(0, 0).memory.read_int(400, 2) == 7
        assert machine.pe(0, 0).fifos[0].read_length == 3


class TestPublishedRates:
    """Elements per cycle of STREAM on WSE-2 (vendor employee's tables), conflict-free layout."""

    @pytest.mark.parametrize(("op", "sources", "per_cycle"), [("fmovh", 1, 4), ("fmovs", 1, 2), ("faddh", 2, 4)])
    def test_slopes(self, op: str, sources: int, per_cycle: int) -> None:
        def cycles(count: int) -> int:
            f = Fn("main")
            f.do("tsc_enable")
            f.do("tsc_read", 0)
            regions = [mem(64 + 8192 * k + 6 * k, count) for k in range(sources + 1)]
            f.dsd(op, regions[-1], *regions[:-1])
            f.do("tsc_read", 8)
            memory = run(f, arch="wse2").pe(0, 0).memory
            return memory.read_int(8, 6) - memory.read_int(0, 6)

        assert (cycles(2048) - cycles(1024)) * per_cycle == 1024

    def test_two_sources_in_one_bank_class_halve_the_rate(self) -> None:
        def cycles(second: int) -> int:
            f = Fn("main")
            f.do("tsc_enable")
            f.dsd("fmacs", mem(8192, 256), mem(0, 256), mem(second, 256), ("scalar", 1.0, F32))
            f.do("tsc_read", 20000)
            return run(f, arch="wse2").pe(0, 0).memory.read_int(20000, 6)

        assert cycles(4096) - cycles(4100) == 256
