"""Random routes, switches, filters, queues and tasks on small grids: both executors move every word in the same cycle.

Most of these programs get stuck somewhere or circulate words for ever; the run is cut after a few thousand cycles, and
what counts is that both executors stand at the same point then.
"""

from __future__ import annotations

import os
from typing import Any

from helpers.ir_programs import Fn, activate, fabin, fabout, image, mem, program
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st

from differential.replay import compare, observe
from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import EAST, I16, NORTH, RAMP, SOUTH, U16, U32, WEST
from fabrica_bench.wse.commands import Launch, Limits
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.native.machine import NativeMachine
from fabrica_bench.wse.native.support import NativeUnsupported

COLORS = (0, 1, 2, 3)
DIRECTIONS = (NORTH, SOUTH, EAST, WEST, RAMP)
STEPS = [("submit", Launch("main")), ("wait", 0), ("drain",)]
LIMITS = Limits(drain_cycles=3000)
BOUNDS = settings(
    max_examples=int(os.environ.get("FABRICA_DIFFERENTIAL_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def mask(draw: Any, most: int = 2) -> int:
    return sum(draw(st.lists(st.sampled_from(DIRECTIONS), min_size=1, max_size=most, unique=True)))


@st.composite
def color_configs(draw: Any) -> ir.ColorConfig:
    """Route of a color: often plain, sometimes with switch positions, a filter, swaps."""
    fields: dict[str, Any] = {"rx": mask(draw, 3), "tx": mask(draw)}
    if draw(st.integers(0, 2)) == 0:
        positions = []
        for _ in range(3):
            kind = draw(st.sampled_from(["rx", "tx", "invalid", "none"]))
            if kind == "none":
                positions.append(None)
            elif kind == "invalid":
                positions.append(ir.SwitchPosition(invalid=True))
            else:
                positions.append(ir.SwitchPosition(**{kind: mask(draw, 1)}))
        fields["positions"] = tuple(positions)
        fields["ring_mode"] = draw(st.booleans())
        fields["pop_mode"] = draw(st.sampled_from(["no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop"]))
    if draw(st.integers(0, 5)) == 0:
        kind = draw(st.sampled_from(["counter", "sparse_counter", "range"]))
        fields["filter"] = ir.FilterConfig(
            kind,
            count_data=draw(st.booleans()),
            count_control=draw(st.booleans()),
            limit1=draw(st.integers(0, 4)),
            limit2=draw(st.integers(0, 4)),
            max_counter=draw(st.integers(0, 3)),
            max_idx=draw(st.integers(0, 9)),
        )
    if draw(st.integers(0, 7)) == 0:
        fields["color_swap_x"] = draw(st.booleans())
        fields["color_swap_y"] = draw(st.booleans())
    return ir.ColorConfig(**fields)


class Element:
    """Draws the program of one PE."""

    def __init__(self, draw: Any, arch: str) -> None:
        self.draw = draw
        self.wse3 = arch == "wse3"

    def _count(self) -> int:
        return self.draw(st.sampled_from([1, 2, 3, 5, 8, 17, 40, ir.INFINITE_LENGTH]))

    def transfer(self, fn: Fn, queue: int, is_input: bool, into_task: int, may_wait: bool) -> None:
        """One operation on a queue."""
        draw = self.draw
        color = queue - 2
        is_async = not may_wait or draw(st.booleans())
        config: dict[str, Any] = {"is_async": is_async}
        if draw(st.booleans()):
            config["on_done"] = activate(into_task)
        if draw(st.integers(0, 3)) == 0:
            config["priority"] = draw(st.sampled_from(["low", "medium", "high"]))
        place, count = 2 * draw(st.integers(32, 400)), self._count()
        if count == ir.INFINITE_LENGTH and not is_async:
            count = 4
        fields: dict[str, Any] = {}
        if draw(st.integers(0, 3)) == 0:
            fields["simd_mode"] = draw(st.sampled_from(["32", "max"]))
        if is_input:
            source = fabin(queue, color, count, **fields)
            if draw(st.integers(0, 4)) == 0:
                config["on_control"] = draw(st.sampled_from([ir.Wake("terminate"), activate(into_task)]))
            memory = mem(place, min(count, 40))
            if draw(st.integers(0, 2)):
                fn.dsd(draw(st.sampled_from(["mov16", "mov32", "fmovs"])), memory, source, **config)
            else:
                fn.dsd("add16", memory, mem(place, min(count, 40)), source, **config)
            return
        if draw(st.integers(0, 4)) == 0:
            fields["advance_switch"] = True
        if draw(st.integers(0, 4)) == 0:
            word = draw(st.sampled_from([0x1F0000, 0x5F0000, 0x9F0000, 0x41DF0000 & 0x3FFFFFFF, 0x450000, 0x400000]))
            out = fabout(queue, color, 1, control=True)
            fn.dsd("mov32", out, ("scalar", word, U32), **config)
            return
        out = fabout(queue, color, count, **fields)
        op = draw(st.sampled_from(["mov16", "mov32", "fmovs", "add16"]))
        sources = [mem(place, min(count, 40))] * (2 if op == "add16" else 1)
        fn.dsd(op, out, *sources, **config)

    def work(self, fn: Fn) -> None:
        """Something that takes time or changes flags."""
        draw = self.draw
        match draw(st.sampled_from(["loop", "memory", "task", "block", "status", "switch", "none"])):
            case "loop":
                total = fn.load(U16, 64)
                fn.loop(draw(st.integers(0, 30)), lambda i: fn.bin("add", U16, total, 3, dst=total))
                fn.store(U16, 64, total)
            case "memory":
                fn.dsd("mov16", mem(600, 60), mem(64, 60))
            case "task":
                fn.do("activate", draw(st.sampled_from([20, 21])))
            case "block":
                fn.do(draw(st.sampled_from(["block", "unblock"])), draw(st.sampled_from([20, 21])), text="task")
            case "status":
                side = draw(st.sampled_from(["input", "output"]))
                status = fn.do("queue_status", text=side, result=U16)
                assert status is not None
                fn.store(U16, 66, status)
            case "switch":
                color = draw(st.sampled_from(COLORS))
                fn.do("switch_set_current", color, draw(st.integers(0, 3)))

    def image(self) -> ir.Image:
        draw = self.draw
        main = Fn("main")
        released_first = draw(st.booleans())
        if released_first:
            main.do("unblock_cmd_stream")
        ends = [(queue, side) for queue in (2, 3, 4, 5) for side in (True, False)]
        chosen = draw(st.lists(st.sampled_from(ends), max_size=5, unique=True))
        for position, (queue, is_input) in enumerate(chosen):
            self.work(main)
            self.transfer(main, queue, is_input, 20, may_wait=position == len(chosen) - 1)
        self.work(main)
        if not released_first:
            main.do("unblock_cmd_stream")
        main.ret()
        tasks = [ir.TaskBinding("local", 20, "first"), ir.TaskBinding("local", 21, "second")]
        functions = [main]
        for name in ("first", "second"):
            fn = Fn(name, task=True)
            count = fn.load(I16, 68)
            fn.store(I16, 68, fn.bin("add", I16, count, 1))
            self.work(fn)
            fn.ret()
            functions.append(fn)
        readers = {queue for queue, is_input in chosen if is_input}
        for queue in (2, 3, 4, 5):
            if queue not in readers and draw(st.booleans()):
                fn = Fn(f"data{queue}", U32 if draw(st.booleans()) else U16, task=True)
                where = fn.load(U16, 70)
                fn.store(U16, 70, fn.bin("add", U16, where, 1))
                self.work(fn)
                if draw(st.integers(0, 3)) == 0:
                    out = draw(st.sampled_from([q for q in (2, 3, 4, 5) if (q, False) not in chosen] or [2]))
                    fn.dsd("mov16", fabout(out, out - 2, 1), ("scalar", 7, U16))
                fn.ret()
                functions.append(fn)
                tasks.append(ir.TaskBinding("data", queue if self.wse3 else queue - 2, fn.function.name))
        if draw(st.booleans()):
            fn = Fn("control", task=True)
            self.work(fn)
            fn.ret()
            functions.append(fn)
            tasks.append(ir.TaskBinding("control", 5, "control"))
        queues = [ir.QueueInit("input", queue, queue - 2) for queue in (2, 3, 4, 5)]
        if self.wse3:
            queues += [ir.QueueInit("output", queue, queue - 2) for queue in (2, 3, 4, 5)]
        target = image(*functions, exports=("main",), queues=queues, tasks=tasks)
        target.globals["data"] = ir.Global("data", 64, 1024, draw(st.binary(min_size=64, max_size=64)), "[512]u16")
        return target


@st.composite
def fabrics(draw: Any) -> ir.Program:
    arch = draw(st.sampled_from(["wse2", "wse3"]))
    width, height = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    images = [Element(draw, arch).image() for _ in range(draw(st.integers(1, 2)))]
    tiles = [[draw(st.integers(0, len(images) - 1)) for _ in range(width)] for _ in range(height)]
    colors = [[{color: draw(color_configs()) for color in COLORS} for _ in range(width)] for _ in range(height)]
    return program(images, tiles, colors, arch)


@BOUNDS
@given(fabrics(), st.integers(2, 9))
def test_several_lanes_stand_at_the_same_point(code: ir.Program, threads: int) -> None:
    try:
        machine = NativeMachine(code, limits=LIMITS, threads=threads, thin=0)
    except NativeUnsupported:
        reject()
    seen = observe(machine, STEPS)
    event(f"{'several lanes' if machine._team else 'one lane'}, run to its end by {seen.executor}")
    assert seen.steps == observe(Machine(code, limits=LIMITS), STEPS).steps


@BOUNDS
@given(fabrics())
def test_random_fabrics_stand_at_the_same_point(code: ir.Program) -> None:
    event(f"run to its end by {compare(code, STEPS, LIMITS).executor}")
