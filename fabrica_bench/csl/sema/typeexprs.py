"""Type expressions: arrays, pointers, functions, structs, unions, enums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema import limits
from fabrica_bench.csl.sema.dispatch import expression
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.values import Const, Value

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame


def _type(found: t.Type) -> Value:
    return Const(t.TYPE, found)


@expression(ast.ArrayType)
def array_type(frame: Frame, node: ast.ArrayType, hint: t.Type | None) -> Value:
    dims = []
    for dim in node.dims:
        value = frame.comptime_expr(dim)
        if not t.is_integer(value.type):
            fail(dim.span, f"an array extent must be an integer, got: '{value.type.name}'")
        if value.data < 0:
            fail(dim.span, f"an array extent can't be negative: {value.data}")
        dims.append(value.data)
    element = frame.type_expr(node.element)
    if isinstance(element, t.ArrayType):
        fail(node.element.span, "the elements of an array can't be arrays", "write a multi-dimensional array: [N, M]T")
    if element in (t.VOID, t.ANYOPAQUE):
        fail(node.element.span, f"the elements of an array can't have type '{element.name}'")
    found = t.ArrayType(tuple(dims), element)
    limits.check_size(found, node.span)
    return _type(found)


@expression(ast.PointerType)
def pointer_type(frame: Frame, node: ast.PointerType, hint: t.Type | None) -> Value:
    pointee = frame.type_expr(node.element)
    if pointee.is_comptime_only and not isinstance(pointee, t.FnType):
        fail(node.element.span, f"pointers to the comptime-only type '{pointee.name}' do not exist")
    if isinstance(pointee, t.FnType) and not node.is_const:
        fail(node.span, "a function pointer must be const", "write *const fn(...)")
    return _type(t.PointerType(pointee, node.is_const, node.is_many))


@expression(ast.FnTypeExpr)
def fn_type(frame: Frame, node: ast.FnTypeExpr, hint: t.Type | None) -> Value:
    params = tuple(frame.type_expr(param) for param in node.params)
    return _type(t.FnType(node.kind, params, frame.type_expr(node.result)))


@expression(ast.StructTypeExpr)
def struct_type(frame: Frame, node: ast.StructTypeExpr, hint: t.Type | None) -> Value:
    fields: list[t.Field] = []
    for declared in node.fields:
        if any(entry.name == declared.name for entry in fields):
            fail(declared.span, f"field '{declared.name}' is declared twice")
        fields.append(t.Field(declared.name, frame.type_expr(declared.type_expr)))
    found = t.StructType(node.kind, node.layout.value, tuple(fields), site=id(node))
    limits.check_size(found, node.span)
    if node.layout is ast.Layout.PACKED:
        _check_packed(node, found)
    return _type(found)


def _check_packed(node: ast.StructTypeExpr, found: t.StructType) -> None:
    widths = set()
    for declared, entry in zip(node.fields, found.fields, strict=True):
        width = t.bit_width(entry.type)
        if width is None:
            fail(declared.span, f"a field of type '{entry.type.name}' can't be packed")
        widths.add(width)
    if found.kind == "union" and len(widths) > 1:
        fail(node.span, "the fields of a packed union must have equal bit widths")


@expression(ast.EnumTypeExpr)
def enum_type(frame: Frame, node: ast.EnumTypeExpr, hint: t.Type | None) -> Value:
    tag: t.Type = t.U16 if node.tag is None else frame.type_expr(node.tag)
    if not isinstance(tag, t.IntType):
        fail(
            node.span if node.tag is None else node.tag.span,
            f"the tag of an enum must be an integer of fixed width, got: '{tag.name}'",
        )
    explicit: dict[str, int] = {}
    for member in node.members:
        if member.value is not None:
            value = _member_value(frame, member, tag)
            if value in explicit.values():
                fail(member.value.span, f"two members of an enum have the same value {value}")
            explicit[member.name] = value
    taken, following = set(explicit.values()), 0
    members: list[tuple[str, int]] = []
    for member in node.members:
        if any(member.name == name for name, _ in members):
            fail(member.span, f"enum member '{member.name}' is declared twice")
        if member.name in explicit:
            members.append((member.name, explicit[member.name]))
            continue
        # The smallest unused number, left to right, skipping the explicit ones.
        while following in taken:
            following += 1
        members.append((member.name, following))
        following += 1
    for (name, value), member in zip(members, node.members, strict=True):
        if not tag.fits(value):
            fail(member.span, f"value {value} of '{name}' does not fit in '{tag.name}'")
    return _type(t.EnumType(tag, tuple(members), site=id(node)))


def _member_value(frame: Frame, member: ast.EnumMember, tag: t.IntType) -> int:
    assert member.value is not None
    value = frame.coerce(frame.comptime_expr(member.value, tag), tag, member.value.span)
    assert isinstance(value, Const)
    return int(value.data)
