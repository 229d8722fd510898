"""Section optimisation keeps what a program leaves in its exported array: random straight-line programs."""

from __future__ import annotations

import numpy as np
from fabrica_agent.lowering.fold import const, i32
from fabrica_agent.lowering.interpreter import Interpreter
from fabrica_agent.lowering.ir import Access, Body, Buffer, For, Program, Space, Stmt, Store, Ty, VecOp, Vector
from fabrica_agent.lowering.sections import Spans, optimise_sections
from hypothesis import given, settings
from hypothesis import strategies as st

LENGTH = 12
BUFFERS = {
    "out": Buffer("out", Ty.F32, i32(LENGTH), Space.GLOBAL, exported=True),
    "p": Buffer("p", Ty.F32, i32(LENGTH), Space.SHARED),
    "q": Buffer("q", Ty.F32, i32(LENGTH), Space.SHARED),
}


@st.composite
def vectors(draw: st.DrawFn) -> Stmt:
    """An operation that never reads an element after writing it, as vectorised CUDA doesn't."""
    count = draw(st.integers(1, LENGTH))

    def access(name: str) -> Access:
        return Access(name, i32(draw(st.integers(0, LENGTH - count))), 1, i32(count))

    dest = access(draw(st.sampled_from(["out", "p", "q"])))
    others = [n for n in BUFFERS if n != dest.buffer]

    def source() -> Access:
        return draw(st.sampled_from([dest, access(others[0]), access(others[1])]))

    op = draw(st.sampled_from([VecOp.MOVE, VecOp.ADD, VecOp.SUB, VecOp.MUL, VecOp.MAX]))
    if op is VecOp.MOVE:
        fill = const(draw(st.sampled_from([0.0, 1.5])), Ty.F32)
        return Vector(op, dest, (draw(st.sampled_from([source(), fill])),), Ty.F32)
    return Vector(op, dest, (source(), source()), Ty.F32)


@st.composite
def statements(draw: st.DrawFn) -> Body:
    out: list[Stmt] = []
    for _ in range(draw(st.integers(1, 9))):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            body = tuple(draw(st.lists(vectors(), min_size=1, max_size=4)))
            out.append(For("t", Ty.I32, i32(0), i32(2), 1, body))
        elif kind == 1:
            name = draw(st.sampled_from(["out", "p", "q"]))
            out.append(Store(name, i32(draw(st.integers(0, LENGTH - 1))), const(2.0, Ty.F32)))
        else:
            out.append(draw(vectors()))
    return tuple(out)


def result(program: Program) -> list[float]:
    """What is in `out` afterwards; all arrays start with numbers that tell elements apart, as memory may hold."""
    arrays = {
        n: np.arange(1, LENGTH + 1, dtype=np.float32) * (k + 1) for k, n in enumerate(BUFFERS) if n in program.buffers
    }
    Interpreter(program, arrays).run()
    return [float(v) for v in arrays["out"]]


@given(statements(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_the_exported_array_stays_the_same(body: Body, backwards: bool) -> None:
    program = Program(body, dict(BUFFERS), {"t": Ty.I32})
    want = result(program)
    assert result(optimise_sections(program, backwards=backwards)) == want


def test_a_tree_reduction_needs_no_copies_and_no_idle_lanes() -> None:
    """What remains of a serialised warp reduction is one addition per round, on half as many elements each time."""
    body: list[Stmt] = []
    whole = Access("p", i32(0), 1, i32(8))
    copy = Access("q", i32(0), 1, i32(8))
    for reach in (4, 2, 1):
        near = Access("p", i32(0), 1, i32(8 - reach))
        far = Access("q", i32(reach), 1, i32(8 - reach))
        rest = Access("p", i32(8 - reach), 1, i32(reach))
        own = Access("q", i32(8 - reach), 1, i32(reach))
        body += [
            Vector(VecOp.MOVE, copy, (whole,), Ty.F32),
            Vector(VecOp.ADD, near, (near, far), Ty.F32),
            Vector(VecOp.ADD, rest, (rest, own), Ty.F32),
        ]
    body.append(Vector(VecOp.MOVE, Access("out", i32(0), 1, i32(1)), (Access("p", i32(0), 1, i32(1)),), Ty.F32))
    program = optimise_sections(Program(tuple(body), dict(BUFFERS), {}))
    counts = [s.dest.count for s in program.body if isinstance(s, Vector) and s.op is VecOp.ADD]
    assert counts == [i32(4), i32(2), i32(1)]
    assert sum(isinstance(s, Vector) and s.op is VecOp.MOVE for s in program.body) <= 1


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=12))
def test_spans_are_sets(edits: list[tuple[int, int, bool]]) -> None:
    spans, members = Spans(), set[int]()
    for low, high, add in edits:
        part = (min(low, high), max(low, high))
        spans = spans.plus(part) if add else spans.minus(part)
        members = members | set(range(*part)) if add else members - set(range(*part))
    assert {i for a, b in spans.parts for i in range(a, b)} == members
