"""Expressions of spec.yaml: right values, and nothing but arithmetic."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.tasks.expressions import MAX_LENGTH, Expression, ExpressionError, parse_list, shape

NAMES = {"n": 12, "width": 4, "Mt": 3}


def _sums() -> st.SearchStrategy[str]:
    leaves = st.one_of(st.integers(0, 50).map(str), st.sampled_from(sorted(NAMES)))
    operators = st.sampled_from(["+", "-", "*", "//", "%"])
    return st.recursive(
        leaves, lambda inner: st.builds(lambda a, op, b: f"({a} {op} {b})", inner, operators, inner), max_leaves=8
    )


@given(_sums())
def test_integer_expressions_agree_with_python(text: str) -> None:
    if len(text) > MAX_LENGTH:
        return
    try:
        wanted = eval(text, {"__builtins__": {}}, dict(NAMES))
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="divides by zero"):
            Expression(text).integer(NAMES)
        return
    if abs(wanted) < 2**40:
        assert Expression(text).integer(NAMES) == wanted


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        Expression(text)


@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_ceildiv_is_the_rounded_up_quotient(numerator: int, denominator: int) -> None:
    value = Expression("ceildiv(a, b)").integer({"a": numerator, "b": denominator})
    assert value == math.ceil(numerator / denominator)


@given(st.integers(1, 2**20))
def test_log2ceil_is_the_least_sufficient_power(value: int) -> None:
    power = Expression("log2ceil(a)").integer({"a": value})
    assert 2**power >= value
    assert power == 0 or 2 ** (power - 1) < value


@given(st.lists(st.integers(1, 100), min_size=1, max_size=5))
def test_shape_of_literals(extents: list[int]) -> None:
    assert shape("[" + ", ".join(map(str, extents)) + "]", {}) == tuple(extents)


def test_shape_with_products_and_calls() -> None:
    assert shape("[height,width,Mt*Nt]", {"height": 2, "width": 3, "Mt": 4, "Nt": 5}) == (2, 3, 20)
    assert shape("[max(n, 7), n]", {"n": 5}) == (7, 5)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "n.real",
        "n ** 2",
        "[n]",
        "n if n else 1",
        "lambda: 1",
        "n < 2",
        "'n'",
        "True",
        "open(n)",
        "min(n)",
        "sqrt(n, n)",
        "n +",
        "",
        "1 " * 150,
        "1e400",
        "min(*n)",
        "(" * 90 + "1" + ")" * 90 + "+" + "n" * 30,
    ],
)
def test_what_is_not_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text).real({"n": 2, "n" * 30: 1, "os": 0})


@pytest.mark.parametrize("text", ["n", "[]", "[n", "[n,]", "[,]", "[0]", "[n/2]", "[n-9]"])
def test_bad_shapes_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        shape(text, {"n": 5})


def test_an_unknown_name_is_named() -> None:
    with pytest.raises(ExpressionError, match="'m', which is not defined"):
        Expression("n + m").integer({"n": 1})


def test_division_keeps_integers_when_exact() -> None:
    assert Expression("n / 4").real({"n": 8}) == 2
    assert Expression("n / 4").real({"n": 6}) == 1.5
    with pytest.raises(ExpressionError, match="not a whole number"):
        Expression("n / 4").integer({"n": 6})


def test_huge_values_are_refused() -> None:
    with pytest.raises(ExpressionError, match="too large"):
        Expression("9999999 * 9999999 * 9999999").real({})


def test_names_leave_functions_out() -> None:
    assert Expression("max(n, width) * sqrt(u)").names == {"n", "width", "u"}


def test_parse_list_keeps_calls_together() -> None:
    assert [expression.text for expression in parse_list("[max(a, b), c]")] == ["max(a, b)", "c"]
