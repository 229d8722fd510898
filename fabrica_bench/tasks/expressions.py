"""Arithmetic expressions of spec.yaml: shapes, mesh sizes, tolerances and lower bounds over the size parameters.

An expression is a small formula such as `width * n_per_pe + 1` or `2 * sqrt(n) * u`. It knows integers, decimal
numbers, names, `+ - * / // %`, unary minus, parentheses and the functions below; nothing else, so that a spec of
unknown origin can be loaded without running anything.

Functions
    min(a, b, ...), max(a, b, ...)
    ceildiv(a, b)     quotient rounded up
    log2ceil(a)       smallest k with 2**k >= a
    sqrt(a)           real expressions only
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

MAX_LENGTH: Final = 200
MAX_MAGNITUDE: Final = 2**53  # larger integers wouldn't survive a float expression exactly

Number = int | float


class ExpressionError(ValueError):
    """The text is not an expression, or it can't be evaluated with the given names."""


def _ceildiv(numerator: Number, denominator: Number) -> int:
    return int(-(-numerator // denominator))


def _log2ceil(value: Number) -> int:
    if value < 1:
        raise ExpressionError(f"log2ceil({value}) needs a value of at least 1")
    return (math.ceil(value) - 1).bit_length()


def _sqrt(value: Number) -> float:
    if value < 0:
        raise ExpressionError(f"sqrt({value}) needs a value of at least 0")
    return math.sqrt(value)


_FUNCTIONS: Final[dict[str, tuple[int, int, Callable[..., Number]]]] = {
    "min": (2, 8, min),
    "max": (2, 8, max),
    "ceildiv": (2, 2, _ceildiv),
    "log2ceil": (1, 1, _log2ceil),
    "sqrt": (1, 1, _sqrt),
}


@dataclass(frozen=True)
class Expression:
    """A checked expression.

    Args:
        text: The formula. Raises `ExpressionError` when it is not one.
    """

    text: str
    names: frozenset[str] = field(init=False, compare=False)
    _tree: ast.expr = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tree, names = _checked(self.text)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "names", names)

    def integer(self, values: Mapping[str, Number]) -> int:
        """Value as an integer; `/` must divide exactly."""
        value = self.real(values)
        if isinstance(value, float):
            if not value.is_integer():
                raise ExpressionError(f"'{self.text}' is {value}, not a whole number")
            return int(value)
        return value

    def real(self, values: Mapping[str, Number]) -> Number:
        """Value as it comes: an integer when every operation kept it one, else a finite float."""
        value = _evaluate(self._tree, values, self.text)
        if isinstance(value, float) and not math.isfinite(value):
            raise ExpressionError(f"'{self.text}' is not finite")
        return value


def parse_list(text: str) -> tuple[Expression, ...]:
    """Split a bracketed list such as `[height, width, Mt*Nt]` into its expressions."""
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        raise ExpressionError(f"'{text}' must be a bracketed list such as '[height, width]'")
    parts, depth, start, inner = [], 0, 0, stripped[1:-1]
    for position, char in enumerate(inner):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(inner[start:position])
            start = position + 1
    parts.append(inner[start:])
    if not any(part.strip() for part in parts):
        raise ExpressionError(f"'{text}' has no extent")
    return tuple(Expression(part.strip()) for part in parts)


def shape(text: str, values: Mapping[str, Number]) -> tuple[int, ...]:
    """Evaluate a shape; every extent must be at least 1."""
    extents = tuple(expression.integer(values) for expression in parse_list(text))
    for extent in extents:
        if extent < 1:
            raise ExpressionError(f"'{text}' has an extent of {extent}")
    return extents


@lru_cache(maxsize=4096)
def _checked(text: str) -> tuple[ast.expr, frozenset[str]]:
    """Tree and names of a formula; the same few are evaluated again and again."""
    tree = _parse(text)
    return tree, frozenset(_names(tree))


def _parse(text: str) -> ast.expr:
    if not text.strip():
        raise ExpressionError("the expression is empty")
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text)} characters, more than {MAX_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is not an arithmetic expression") from None
    _check(tree, text)
    return tree


_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)


def _check(node: ast.expr, text: str) -> None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
        _check(node.left, text)
        _check(node.right, text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check(node.operand, text)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        _check_call(node, node.func.id, text)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        if not abs(node.value) <= MAX_MAGNITUDE:  # type: ignore[arg-type]  # also catches an infinite literal
            raise ExpressionError(f"'{text}' contains a number that is too large")
    elif not isinstance(node, ast.Name):
        raise ExpressionError(f"'{text}' contains '{ast.unparse(node)}', which is not arithmetic")


def _check_call(node: ast.Call, name: str, text: str) -> None:
    if name not in _FUNCTIONS:
        raise ExpressionError(f"'{text}' calls {name}(); known functions: {', '.join(sorted(_FUNCTIONS))}")
    least, most, _ = _FUNCTIONS[name]
    if not least <= len(node.args) <= most:
        raise ExpressionError(f"'{text}' calls {name}() with {len(node.args)} arguments")
    for argument in node.args:
        _check(argument, text)


def _names(node: ast.expr) -> set[str]:
    called = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and id(item) not in called}


def _evaluate(node: ast.expr, values: Mapping[str, Number], text: str) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            if name not in values:
                raise ExpressionError(f"'{text}' uses '{name}', which is not defined")
            return values[name]
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, values, text)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            operands = [_evaluate(argument, values, text) for argument in arguments]
            if name == "ceildiv" and operands[1] == 0:
                raise ExpressionError(f"'{text}' divides by zero")
            return _bounded(_FUNCTIONS[name][2](*operands), text)
        case ast.BinOp(left=left, op=operator, right=right):
            first, second = _evaluate(left, values, text), _evaluate(right, values, text)
            return _bounded(_binary(operator, first, second, text), text)
    raise AssertionError(f"unchecked node {type(node).__name__}")


def _binary(operator: ast.operator, left: Number, right: Number, text: str) -> Number:
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.Mult):
        return left * right
    if right == 0:
        raise ExpressionError(f"'{text}' divides by zero")
    if isinstance(operator, ast.FloorDiv):
        return left // right
    if isinstance(operator, ast.Mod):
        return left % right
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _bounded(value: Number, text: str) -> Number:
    if not abs(value) <= MAX_MAGNITUDE:
        raise ExpressionError(f"'{text}' is too large or not finite")
    return value
