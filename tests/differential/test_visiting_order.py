"""Within a cycle, the order in which routers and elements are visited changes nothing that can be seen.

Several cores may therefore share a grid, and a program's cycles do not depend on the order of wake-up calls.
"""

from __future__ import annotations

import random

import pytest
from helpers.ir_programs import Fn, activate, fabin, fabout, image, mem, program
from hypothesis import event, example, given

from differential.replay import observe
from differential.test_random_fabrics import BOUNDS, LIMITS, STEPS, fabrics
from fabrica_bench.csl import ir
from fabrica_bench.csl.ir import EAST, I16, NORTH, RAMP, SOUTH, WEST, ColorConfig
from fabrica_bench.wse.fabric import Fabric
from fabrica_bench.wse.machine import Machine

ENDS_EARLY = ("budget", "fault", "deadlock")


def shuffling(run_cycle, seed: int):  # type: ignore[no-untyped-def]
    """`Fabric.run_cycle` that visits the woken in random order."""
    generator = random.Random(seed)

    def run(fabric: Fabric) -> None:
        slot = fabric._slots[fabric._times[0]]
        generator.shuffle(slot.routers)
        generator.shuffle(slot.elements)
        run_cycle(fabric)

    return run


def crossing() -> ir.Program:
    """Words of two colors meet in one router from WEST and EAST, and go on by one link; the receiver notes which stream
    ends first."""

    def element(number: int, is_input: bool) -> ir.Image:
        main = Fn("main")
        if not is_input:
            main.do("unblock_cmd_stream")
        for queue in (2, 3):
            if is_input:
                main.dsd("mov16", mem(100, 9), fabin(queue, queue - 2, 9), is_async=True, on_done=activate(18 + queue))
            elif queue == number:
                main.dsd("mov16", fabout(queue, queue - 2, 9), mem(100, 9), is_async=True)
        main.ret()
        functions, tasks = [main], []
        for name, id_ in (("first", 20), ("second", 21)):
            fn = Fn(name, task=True)
            count = fn.bin("add", I16, fn.load(I16, 200), 1)
            fn.store(I16, 200, count)
            fn.store(I16, 2 * id_ + 200, count)
            if name == "second":
                fn.do("unblock_cmd_stream")
            fn.ret()
            functions.append(fn)
            tasks.append(ir.TaskBinding("local", id_, name))
        queues = [ir.QueueInit("input", queue, queue - 2) for queue in (2, 3)]
        queues += [ir.QueueInit("output", queue, queue - 2) for queue in (2, 3)]
        return image(*functions, exports=("main",), queues=queues, tasks=tasks)

    images = [element(0, False), element(2, False), element(3, False), element(0, True)]
    nothing: dict[int, ColorConfig] = {}
    middle = {0: ColorConfig(rx=WEST, tx=SOUTH), 1: ColorConfig(rx=EAST, tx=SOUTH)}
    below = {color: ColorConfig(rx=NORTH, tx=RAMP) for color in (0, 1)}
    colors = [
        [{0: ColorConfig(rx=RAMP, tx=EAST)}, middle, {1: ColorConfig(rx=RAMP, tx=WEST)}],
        [nothing, below, nothing],
    ]
    return program(images, [[1, 0, 2], [0, 3, 0]], colors, "wse3")


@BOUNDS
@example(crossing())
@given(fabrics())
def test_shuffled_visits_end_at_the_same_point(code: ir.Program) -> None:
    plain = observe(Machine(code, limits=LIMITS), STEPS)
    for seed in (1, 2, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Fabric, "run_cycle", shuffling(Fabric.run_cycle, seed))
            shuffled = observe(Machine(code, limits=LIMITS), STEPS)
        faults = [step[0] for step in plain.steps if isinstance(step, tuple) and step[0] in ENDS_EARLY]
        if faults:
            # whom a fault is blamed on, of several in one cycle, is the one thing that may differ
            event("ends early")
            assert faults == [step[0] for step in shuffled.steps if isinstance(step, tuple) and step[0] in ENDS_EARLY]
        else:
            event("runs to its end")
            assert shuffled.steps == plain.steps
