"""Folding, ranges and simplification keep the value of expressions: random trees against the interpreter."""

from __future__ import annotations

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.interpreter import Interpreter, InterpreterError, Thread
from fabrica_agent.lowering.ir import Bin, Cast, Const, Expr, Op, Param, Program, Select, Ty, Un, Var
from fabrica_agent.lowering.linear import build, linear
from fabrica_agent.lowering.normalise import expression
from fabrica_agent.lowering.ranges import decide, signed, span
from hypothesis import assume, given, settings
from hypothesis import strategies as st

RANGES = {"a": (0, 31), "b": (0, 7), "c": (-20, 100)}
VARIABLES = [Var("a", Ty.U32), Var("b", Ty.I32), Var("c", Ty.I32)]
ARITHMETIC = [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.AND, Op.OR, Op.XOR, Op.MIN, Op.MAX]
COMPARE = [Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE]


def integers(ty: Ty, depth: int) -> st.SearchStrategy[Expr]:
    leaves: list[st.SearchStrategy[Expr]] = [
        st.integers(0, 64).map(lambda v: Const(v, ty)),
        st.just(Param("n", 12, ty)),
        st.sampled_from([v if v.ty is ty else Cast(v, ty) for v in VARIABLES]),
    ]
    if depth == 0:
        return st.one_of(leaves)
    inner = integers(ty, depth - 1)
    other = integers(Ty.U32 if ty is Ty.I32 else Ty.I32, depth - 1)
    return st.one_of(
        *leaves,
        st.builds(lambda op, x, y: Bin(op, x, y, ty), st.sampled_from(ARITHMETIC), inner, inner),
        st.builds(lambda x, by: Bin(Op.SHR, x, Const(by, ty), ty), inner, st.integers(0, 31)),
        other.map(lambda x: Cast(x, ty)),
        st.builds(lambda c, x, y: Select(c, x, y, ty), conditions(depth - 1), inner, inner),
    )


def conditions(depth: int) -> st.SearchStrategy[Expr]:
    simple = st.sampled_from([Ty.I32, Ty.U32]).flatmap(
        lambda ty: st.builds(
            lambda op, x, y: Bin(op, x, y, Ty.BOOL),
            st.sampled_from(COMPARE),
            integers(ty, max(depth - 1, 0)),
            integers(ty, max(depth - 1, 0)),
        )
    )
    if depth <= 0:
        return simple
    inner = conditions(depth - 1)
    return st.one_of(
        simple,
        st.builds(lambda op, x, y: Bin(op, x, y, Ty.BOOL), st.sampled_from([Op.LAND, Op.LOR]), inner, inner),
        inner.map(lambda x: Un("!", x, Ty.BOOL)),
    )


VALUES = st.fixed_dictionaries({name: st.integers(*limits) for name, limits in RANGES.items()})
TREES = st.sampled_from([Ty.I32, Ty.U32]).flatmap(lambda ty: integers(ty, 3))


def value_of(e: Expr, values: dict[str, int]) -> int | float | bool | None:
    """The value by the interpreter; None where C leaves it undefined."""
    try:
        return Interpreter(Program((), {}, {}), {}).evaluate(e, Thread(dict(values)))
    except InterpreterError:
        return None


@given(TREES, VALUES)
@settings(max_examples=400, deadline=None)
def test_simplification_keeps_the_value(e: Expr, values: dict[str, int]) -> None:
    want = value_of(e, values)
    assume(want is not None)
    assert value_of(expression(e, dict(RANGES)), values) == want


@given(TREES, VALUES)
@settings(max_examples=300, deadline=None)
def test_a_value_lies_in_its_span(e: Expr, values: dict[str, int]) -> None:
    want = value_of(e, values)
    assume(want is not None)
    low, high = span(e, RANGES)
    assert want is not None
    assert low <= want <= high


@given(conditions(2), VALUES)
@settings(max_examples=300, deadline=None)
def test_decided_conditions_are_right(e: Expr, values: dict[str, int]) -> None:
    want = value_of(e, values)
    assume(want is not None)
    truth = decide(e, RANGES)
    assert truth is None or truth == want
    assert value_of(fold.logical_not(e), values) == (not want)


@given(TREES, VALUES)
@settings(max_examples=300, deadline=None)
def test_linear_forms_keep_the_value(e: Expr, values: dict[str, int]) -> None:
    want = value_of(e, values)
    # Signed overflow is undefined in C, so a form may only be asked about expressions without it.
    assume(want is not None and -(1 << 30) < want < 1 << 30 and not _overflows(e, values))
    assert value_of(build(linear(e, RANGES)), values) == want
    assert value_of(signed(e, RANGES), values) == want


def _overflows(e: Expr, values: dict[str, int]) -> bool:
    from fabrica_agent.lowering.ir import walk

    found = [value_of(n, values) for n in walk(e)]
    return any(v is None or abs(v) >= 1 << 30 for v in found)
