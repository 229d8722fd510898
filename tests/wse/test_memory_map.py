"""Memory maps of PE programs."""

from __future__ import annotations

from helpers.ir_programs import Fn, image, program

from fabrica_bench.csl import ir
from fabrica_bench.csl.linker import CALL_OVERHEAD_BYTES
from fabrica_bench.wse.memory import MEMORY_BYTES
from fabrica_bench.wse.memory_map import UNKNOWN_DEPTH, memory_maps, stack_bytes


def with_variables() -> ir.Image:
    f = Fn("main")
    made = image(f.ret(), code_bytes=1000)
    made.data_end = 1100
    made.globals["b"] = ir.Global("b", 1024, 64, None, "[16]f32", loc=7)
    made.globals["a"] = ir.Global("a", 1000, 3, b"abc", "[3]u8", is_const=True)
    return made


def test_the_areas_cover_the_memory_without_gaps() -> None:
    (one,) = memory_maps(program(with_variables()))
    at = 0
    for area in one.areas:
        assert area.address == at
        assert area.size >= 0
        at += area.size
    assert at == MEMORY_BYTES
    assert [(a.kind, a.name, a.size) for a in one.areas[:5]] == [
        ("code", "(estimate)", 1000),
        ("const", "a", 3),
        ("padding", "", 21),
        ("var", "b", 64),
        ("padding", "", 12),
    ]
    assert one.areas[3].place == "pe.csl:7"


def test_the_totals_add_up() -> None:
    (one,) = memory_maps(program(with_variables()))
    assert one.code + one.data + one.free + one.stack == MEMORY_BYTES
    assert one.data == 100


def test_pes_with_the_same_program_share_a_map() -> None:
    images = [with_variables(), with_variables()]
    maps = memory_maps(program(images, [[0, 1, 1], [0, 1, 1]]))
    assert [[str(region) for region in one.regions] for one in maps] == [["0,0-1"], ["1-2,0-1"]]


def test_the_stack_is_that_of_the_deepest_chain_of_calls() -> None:
    leaf, middle, main = Fn("leaf"), Fn("middle"), Fn("main")
    middle.call("leaf")
    main.call("middle")
    main.call("leaf")
    leaf.function.frame_size, middle.function.frame_size, main.function.frame_size = 100, 10, 1
    made = image(leaf.ret() and leaf, middle.ret() and middle, main.ret() and main)
    assert stack_bytes(made) == 111 + 3 * CALL_OVERHEAD_BYTES


def test_a_recursion_makes_the_stack_unknown() -> None:
    one, two = Fn("one"), Fn("two")
    one.call("two")
    two.call("one")
    made = image(one.ret() and one, two.ret() and two)
    assert stack_bytes(made) == UNKNOWN_DEPTH
    (found,) = memory_maps(program(made))
    assert found.stack == UNKNOWN_DEPTH
    assert sum(area.size for area in found.areas) == MEMORY_BYTES
