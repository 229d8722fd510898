"""Placement of arrays in memory banks.

A DSD operation with two sources that start in the same bank class (equal addresses modulo 16 bytes) runs at half speed.
The compiler places variables by falling alignment, so arrays with `align(16)` come first, in class 0; arrays with
`align(8)` follow them, in class 2 (of four-byte words) if what stands before ends there. Choosing one of the two for
every array removes the conflicts that placement can remove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from fabrica_agent.lowering.ir import Ty
from fabrica_agent.rewrite.scope import Scope, comptime_int, scope_of
from fabrica_agent.rewrite.text import Edit, apply, parse
from fabrica_bench.csl import ast
from fabrica_bench.csl.sema.walk import walk

PERIOD = 4
"""Words of four bytes after which banks repeat."""
MAX_EXACT = 12
"""Arrays up to which all placements are tried."""
_TWO_SOURCES = ("fadds", "fsubs", "fmuls", "fmaxs", "fmacs")


@dataclass(frozen=True)
class _Place:
    """Where a descriptor starts: array, first word, stride."""

    array: str
    first: int
    stride: int


@dataclass(frozen=True)
class Conflict:
    """Two sources of one operation, each an array and the word it starts at, and how often that happens."""

    a: str
    first_a: int
    b: str
    first_b: int
    weight: int


def conflicts(tree: ast.File, scope: Scope) -> list[Conflict]:
    """Pairs of sources that placement decides about: of two arrays, with the same stride."""
    places = _descriptors(tree, scope)
    registers = _registers(tree, places)
    found: list[Conflict] = []
    for call in walk(tree):
        if not isinstance(call, ast.BuiltinCall) or call.name not in _TWO_SOURCES or len(call.args) < 3:
            continue
        a, b = (_place(x, places, registers) for x in call.args[1:3])
        if a is None or b is None or a.array == b.array or a.stride != b.stride:
            continue
        found.append(Conflict(a.array, a.first, b.array, b.first, 1 + 7 * (call.name == "fmacs")))
    return found


def _descriptors(tree: ast.File, scope: Scope) -> dict[str, _Place]:
    found: dict[str, _Place] = {}
    aliases: list[tuple[str, str]] = []
    for d in walk(tree):
        if not isinstance(d, ast.VarDecl):
            continue
        if isinstance(d.init, ast.Ident):
            aliases.append((d.name, d.init.name))
        place = _described(d.init, scope)
        if place is not None:
            found[d.name] = place
    for name, origin in aliases:
        if origin in found:
            found[name] = found[origin]
    return found


def _described(e: ast.Expr | None, scope: Scope) -> _Place | None:
    if not isinstance(e, ast.BuiltinCall) or e.name != "get_dsd" or len(e.args) != 2:
        return None
    kind, settings = e.args
    if not isinstance(kind, ast.Ident) or kind.name != "mem1d_dsd" or not isinstance(settings, ast.InitList):
        return None
    access = next((i.value for i in settings.inits if i.name == "tensor_access"), None)
    if not isinstance(access, ast.TensorAccess) or not isinstance(access.base, ast.Ident) or len(access.indices) != 1:
        return None
    array = scope.arrays.get(access.base.name)
    if array is None or array.ty not in (Ty.F32, Ty.I32, Ty.U32) or len(access.variables) != 1:
        return None
    values = []
    for at in (0, 1):
        inner = Scope(values={**scope.values, access.variables[0]: at})
        values.append(comptime_int(access.indices[0], inner))
    if values[0] is None or values[1] is None:
        return None
    return _Place(array.name, values[0] % PERIOD, values[1] - values[0])


def _registers(tree: ast.File, places: Mapping[str, _Place]) -> dict[str, _Place]:
    found: dict[str, _Place] = {}
    for call in walk(tree):
        if isinstance(call, ast.BuiltinCall) and call.name == "load_to_dsr" and len(call.args) >= 2:
            name, place = call.args[0], _place(call.args[1], places, {})
            if isinstance(name, ast.Ident) and place is not None:
                found.setdefault(name.name, place)
    return found


def _place(e: ast.Expr, places: Mapping[str, _Place], registers: Mapping[str, _Place]) -> _Place | None:
    match e:
        case ast.Ident(name=name):
            return places.get(name) or registers.get(name)
        case ast.BuiltinCall(name="increment_dsd_offset" | "set_dsd_length", args=[base, *_]):
            # Where it moves to isn't known; rows of whole accesses, the common case, keep the class.
            return _place(base, places, registers)
        case _:
            return None


def placed(text: str, sizes: Mapping[str, int]) -> str | None:
    """The text with arrays in the classes that leave the least conflicts; None if that changes nothing."""
    tree = parse(text)
    scope = scope_of(tree, sizes)
    pairs = conflicts(tree, scope)
    typed = _pointed_in_functions(tree)
    arrays = [a for a in scope.arrays.values() if a.ty in (Ty.F32, Ty.I32, Ty.U32) and a.name not in typed]
    pairs = [c for c in pairs if c.a not in typed and c.b not in typed]
    involved = [a.name for a in arrays if any(a.name in (c.a, c.b) for c in pairs)]
    if not involved:
        return None
    classes = _choice(involved, pairs)
    edits: list[Edit] = []
    low = [a for a in arrays if classes.get(a.name, 0) == 0 and (a.name in classes or _alignment(a.declaration))]
    high = [a for a in arrays if classes.get(a.name, 0) == 2]
    if not high:
        return None
    for position, a in enumerate(low):
        # The last of the first group ends in the middle of an access, where the second group begins.
        words = (2 - a.length) % PERIOD if position == len(low) - 1 else 0
        edits += _declared(text, a.declaration, words, 16)
    for a in high:
        edits += _declared(text, a.declaration, -a.length % PERIOD, 8)
    if not low:
        return None
    new = apply(text, edits)
    return None if new == text else new


def _pointed_in_functions(tree: ast.File) -> set[str]:
    """Arrays whose address a function takes: a pointer's type has the length, which then can't change."""
    return {
        n.operand.name
        for f in tree.items if isinstance(f, ast.FnDecl)
        for n in walk(f) if isinstance(n, ast.Unary) and n.op == "&" and isinstance(n.operand, ast.Ident)
    }  # fmt: skip


def _choice(names: list[str], pairs: list[Conflict]) -> dict[str, int]:
    def cost(classes: Mapping[str, int]) -> int:
        return sum(
            c.weight for c in pairs if (classes[c.a] + c.first_a - classes[c.b] - c.first_b) % PERIOD == 0
        )  # fmt: skip

    if len(names) <= MAX_EXACT:
        options = ({names[0]: 0, **dict(zip(names[1:], rest, strict=True))}
                   for rest in product((0, 2), repeat=len(names) - 1))  # fmt: skip
        return min(options, key=lambda c: (cost(c), sum(c.values())))
    classes = dict.fromkeys(names, 0)
    for _ in range(3):
        for name in names[1:]:
            classes[name] = min((0, 2), key=lambda k: cost({**classes, name: k}))
    return classes


def _alignment(d: ast.VarDecl) -> bool:
    return d.attributes.align is not None


def _declared(text: str, d: ast.VarDecl, words: int, alignment: int) -> list[Edit]:
    """A declaration with more elements and an alignment."""
    shapes = [n for n in walk([d.type_expr, d.init]) if isinstance(n, ast.ArrayType)]
    if not shapes or isinstance(d.init, ast.InitList):
        return []
    edits: list[Edit] = []
    length = shapes[0].dims[0]
    own = text[length.span.start : length.span.end]
    longer = f"{own} + {words}" if words else own
    if words:
        edits += [Edit(s.dims[0].span.start, s.dims[0].span.end, longer) for s in shapes]
    if d.attributes.align is not None:
        e = d.attributes.align.span
        edits.append(Edit(e.start, e.end, str(alignment)))
    elif d.type_expr is not None:
        edits.append(Edit(d.type_expr.span.end, d.type_expr.span.end, f" align({alignment})"))
    else:
        element = text[shapes[0].element.span.start : shapes[0].element.span.end]
        at = d.name_span.end
        edits.append(Edit(at, at, f": [{longer}]{element} align({alignment})"))
    return edits
