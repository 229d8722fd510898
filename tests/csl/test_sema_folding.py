"""Comptime folding agrees with run-time execution: the same expressions, known and unknown to the compiler."""

from __future__ import annotations

import tempfile
from pathlib import Path

from helpers.csl_eval import run_body
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

INT_TYPES = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
FLOAT_TYPES = ("f32", "f16")


def int_range(type_: str) -> tuple[int, int]:
    bits, signed = int(type_[1:]), type_[0] == "i"
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


@st.composite
def int_case(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """(result type, expression over a and b, their values)."""
    type_ = draw(st.sampled_from(INT_TYPES))
    low, high = int_range(type_)
    number = st.integers(low, high) | st.sampled_from((low, high, 0, 1, 2))
    a, b = draw(number), draw(number)
    op = draw(st.sampled_from(("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "==", "~", "neg", "as")))
    if op in ("/", "%") and (b == 0 or (a == low and b == -1)):
        b = 1
    if op in ("<<", ">>"):
        amount = draw(st.integers(0, int(type_[1:]) - 1))
        return type_, f"a {op} @as(u16, {amount})", [f"@as({type_}, {a})", f"@as({type_}, {b})"]
    target = draw(st.sampled_from((*INT_TYPES, "f32")))
    expression = {"~": "~a", "neg": "-a", "as": f"@as({target}, a)"}.get(op, f"a {op} b")
    result = "bool" if op in ("<", "==") else target if op == "as" else type_
    return result, expression, [f"@as({type_}, {a})", f"@as({type_}, {b})"]


@st.composite
def float_case(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    type_ = draw(st.sampled_from(FLOAT_TYPES))
    number = st.floats(-1000, 1000, width=16, allow_subnormal=False).filter(lambda x: x != 0)
    a, b = draw(number), draw(number)
    op = draw(st.sampled_from(("+", "-", "*", "/", "<", ">=", "!=", "neg", "as")))
    target = draw(st.sampled_from(("i16", "i32", "f32", "bool")))
    expression = {"neg": "-a", "as": f"@as({target}, a)"}.get(op, f"a {op} b")
    result = "bool" if op in ("<", ">=", "!=") else target if op == "as" else type_
    return result, expression, [f"@as({type_}, {a:.12f})", f"@as({type_}, {b:.12f})"]


def differential_program(cases: list[tuple[str, str, list[str]]]) -> str:
    """Each expression once as a constant and once over variables; `same[i]` is 1 where both have the same bits."""
    lines = [f"export var same = @zeros([{len(cases)}]u16);"]
    checks = []
    for number, (result, expression, (a, b)) in enumerate(cases):
        lines += [
            f"fn f{number}(a: @type_of(a{number}), b: @type_of(b{number})) {result} {{ return {expression}; }}",
            f"const a{number} = {a}; const b{number} = {b};",
            f"var x{number} = a{number}; var y{number} = b{number};",
            f"const known{number}: {result} = f{number}(a{number}, b{number});",
        ]
        checks.append(f"  same[{number}] = @as(u16, f{number}(x{number}, y{number}) == known{number});")
    return "\n".join([*lines, "fn main() void {", *checks, "  done();", "}"])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(int_case() | float_case(), min_size=15, max_size=15))
def test_folding_and_execution_agree(cases: list[tuple[str, str, list[str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        same = run_body(Path(folder), differential_program(cases)).array("same", "<u2")
    wrong = [case for case, flag in zip(cases, same, strict=True) if flag != 1]
    assert not wrong
