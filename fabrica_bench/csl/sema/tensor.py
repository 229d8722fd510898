"""Tensor access expressions: affine analysis of `|i, j|{n, m} -> A[f(i, j), ...]`.

The value is an anonymous struct `.{ .base_address, .offset, .stride, .extent }`. Extents are outermost first, strides
innermost first. With c_d the coefficient of dimension d in the linear element index (d = 0 innermost), stride[0] = c_0
and stride[d] = c_d - sum over k < d of c_k * (extent_k - 1): the step applied when dimension d advances, all inner
dimensions having been reset. Accesses are not held to the extents of the tensor: programs describe the shape of one
tensor on a dummy and set the base address later. `@get_dsd` warns where the tensor is no such dummy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import access, places
from fabrica_bench.csl.sema.coerce import make_struct
from fabrica_bench.csl.sema.dispatch import expression
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.frame import Frame
from fabrica_bench.csl.sema.walk import mentions
from fabrica_bench.csl.values import Const, Value

MAX_DIMENSIONS = 4


class Affine(NamedTuple):
    """constant + sum of coefficient * variable."""

    constant: int
    coefficients: tuple[int, ...]


@expression(ast.TensorAccess)
def tensor_access(frame: Frame, node: ast.TensorAccess, hint: t.Type | None) -> Value:
    extents = [_extent(frame, extent) for extent in node.extents]
    if len(node.variables) != len(extents):
        fail(node.span, f"expected {len(node.variables)} extents, got {len(extents)}")
    if len(extents) > MAX_DIMENSIONS:
        fail(node.span, f"a tensor access has at most {MAX_DIMENSIONS} induction variables")
    pointer, dims = _base(frame, node.base)
    if len(dims) != len(node.indices):
        fail(node.span, f"the tensor has {len(dims)} dimension(s), but {len(node.indices)} index(es) are given")
    linear = Affine(0, (0,) * len(extents))
    for dim, index in zip(dims, node.indices, strict=True):
        part = _affine(frame, index, node.variables)
        linear = _sum(_scaled(linear, dim), part)
    strides = strides_of(tuple(reversed(linear.coefficients)), tuple(reversed(extents)))
    return make_struct(
        _struct_type(pointer.type, len(extents)),
        [
            pointer,
            Const(t.COMPTIME_INT, linear.constant),
            Const(_tuple_type(len(strides)), list(strides)),
            Const(_tuple_type(len(extents)), list(extents)),
        ],
    )


def strides_of(coefficients: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    """Address steps, innermost first, from coefficients and extents given innermost first."""
    strides = []
    for d, coefficient in enumerate(coefficients):
        rewind = sum(coefficients[k] * (extents[k] - 1) for k in range(d))
        strides.append(coefficient - rewind)
    return tuple(strides)


def reach(extents: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest element relative to the first; extents outermost first, strides innermost first."""
    coefficients: list[int] = []
    inner_first = extents[::-1]
    for d, stride in enumerate(strides):
        coefficients.append(stride + sum(coefficients[k] * (inner_first[k] - 1) for k in range(d)))
    steps = [coefficient * (extent - 1) for coefficient, extent in zip(coefficients, inner_first, strict=True)]
    return sum(min(step, 0) for step in steps), sum(max(step, 0) for step in steps)


def _struct_type(pointer: t.Type, rank: int) -> t.StructType:
    fields = (
        t.Field("base_address", pointer),
        t.Field("offset", t.COMPTIME_INT),
        t.Field("stride", _tuple_type(rank)),
        t.Field("extent", _tuple_type(rank)),
    )
    return t.StructType("struct", "auto", fields)


def _tuple_type(rank: int) -> t.StructType:
    return t.StructType("struct", "auto", (t.Field(None, t.COMPTIME_INT),) * rank)


def _extent(frame: Frame, node: ast.Expr) -> int:
    value = frame.comptime_expr(node)
    if not t.is_integer(value.type):
        fail(node.span, f"the extent of a tensor access must be an integer, got: '{value.type.name}'")
    if value.data < 1:
        fail(node.span, f"the extent of a tensor access must be at least 1, got {value.data}")
    return int(value.data)


def _base(frame: Frame, node: ast.Expr) -> tuple[Value, tuple[int, ...]]:
    """Pointer to the tensor, and its extents. A pointer to an array stands for the array."""
    place = places.place_of(frame, node)
    if isinstance(place.type, t.PointerType):
        pointer = access.load(frame, place, node.span)
        if place.type.is_many:
            return pointer, (0,)
    else:
        pointer = access.pointer_to(frame, place, node.span)
    assert isinstance(pointer.type, t.PointerType)
    if not isinstance(pointer.type.pointee, t.ArrayType):
        fail(node.span, f"expected an array, got: '{place.type.name}'")
    return pointer, pointer.type.pointee.dims


def _sum(a: Affine, b: Affine, sign: int = 1) -> Affine:
    joined = tuple(x + sign * y for x, y in zip(a.coefficients, b.coefficients, strict=True))
    return Affine(a.constant + sign * b.constant, joined)


def _scaled(a: Affine, factor: int) -> Affine:
    return Affine(a.constant * factor, tuple(x * factor for x in a.coefficients))


def _affine(frame: Frame, node: ast.Expr, variables: Sequence[str]) -> Affine:
    """An index expression as an affine function of the induction variables."""
    zeros = (0,) * len(variables)
    if not mentions(node, set(variables)):
        value = frame.comptime_expr(node)
        if not t.is_integer(value.type):
            fail(node.span, f"an index must be an integer, got: '{value.type.name}'")
        return Affine(int(value.data), zeros)
    if isinstance(node, ast.Ident):
        position = list(variables).index(node.name)
        return Affine(0, tuple(int(k == position) for k in range(len(variables))))
    if isinstance(node, ast.Unary) and node.op == "-":
        return _scaled(_affine(frame, node.operand, variables), -1)
    if isinstance(node, ast.BuiltinCall) and node.name == "as" and len(node.args) == 2:
        return _affine(frame, node.args[1], variables)
    if isinstance(node, ast.Binary) and node.op in ("+", "-", "*"):
        a, b = _affine(frame, node.lhs, variables), _affine(frame, node.rhs, variables)
        if node.op != "*":
            return _sum(a, b, 1 if node.op == "+" else -1)
        if not any(a.coefficients):
            return _scaled(b, a.constant)
        if not any(b.coefficients):
            return _scaled(a, b.constant)
    fail(
        node.span,
        "the index is not an affine function of the induction variables",
        "use sums of constant * variable and constants",
    )
