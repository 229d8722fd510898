"""From arrays as CUDA sees them to tensors as they lie on a PE.

The host may pad, transpose or shard an array; an index into the array becomes an index into the PE's tensor. With one
CUDA block per PE, block indices are the PE's coordinates, and an access is local only if the coordinates cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    BLOCK,
    Buffer,
    Cast,
    Expr,
    Launch,
    Load,
    Op,
    Program,
    Space,
    Stmt,
    Store,
    Ty,
    UnsupportedError,
    Var,
    body_exprs,
    map_body,
    map_expr,
    map_stmts,
    substitute,
)  # fmt: skip
from fabrica_agent.lowering.linear import build, linear
from fabrica_agent.lowering.normalise import expression
from fabrica_agent.lowering.ranges import Range

PE_X, PE_Y = "pe.x", "pe.y"


@dataclass(frozen=True)
class Layout:
    """Where an array's elements are; see `fabrica_agent.records.Placement`."""

    symbol: str
    shape: tuple[int, ...]
    length: int
    x: tuple[int, ...] | None
    y: tuple[int, ...] | None
    offset: tuple[int, ...]

    @property
    def is_identity(self) -> bool:
        """Whether every PE holds the array as it is."""
        strides = []
        total = 1
        for extent in reversed(self.shape):
            strides.append(0 if extent == 1 else total)
            total *= extent
        return self.x is None and self.offset == (0, *reversed(strides))


def blocks_to_pes(program: Program, width: int, height: int) -> Program:
    """Give each PE the block with its coordinates.

    Raises:
        UnsupportedError: A launch's grid isn't the mesh.
    """
    given = {**program.given, PE_X: (0, width - 1), PE_Y: (0, height - 1)}
    copy = replace(program, types={**program.types, PE_X: Ty.I32, PE_Y: Ty.I32}, given=given)

    def visit(s: Stmt) -> Stmt:
        if not isinstance(s, Launch):
            return s
        grid = tuple(fold.int_value(g) for g in s.grid)
        x, y = Cast(Var(PE_X, Ty.I32), Ty.U32), Cast(Var(PE_Y, Ty.I32), Ty.U32)
        zero, one = fold.const(0, Ty.U32), fold.const(1, Ty.U32)
        if grid == (width, height, 1):
            blocks: dict[str, Expr] = {BLOCK[0]: x, BLOCK[1]: y, BLOCK[2]: zero}
        elif grid == (width * height, 1, 1):
            row = fold.binary(Op.MUL, y, fold.const(width, Ty.U32), Ty.U32)
            blocks = {BLOCK[0]: fold.binary(Op.ADD, row, x, Ty.U32), BLOCK[1]: zero, BLOCK[2]: zero}
        else:
            raise UnsupportedError(
                f"kernel {s.name} has a grid of {grid} blocks, not one for each of {width} x {height} PEs; "
                "work that PEs share, with data sent between them, is not lowered yet",
                s.place,
            )
        return replace(s, grid=(one, one, one), body=substitute(s.body, blocks))

    copy.body = map_stmts(copy.body, visit)
    return copy


def place_arrays(program: Program, layouts: Mapping[str, Layout]) -> Program:
    """Rewrite accesses to host arrays as accesses to the tensors that hold them.

    Args:
        program: A serial, simplified program whose exported buffers are host arrays.
        layouts: Layout of each host array.

    Raises:
        UnsupportedError: An element may be on another PE.
    """
    copy = replace(program, buffers=dict(program.buffers))
    ranges = program.ranges

    def place(name: str, index: Expr) -> Expr:
        return local_index(name, index, layouts[name], ranges)

    def visit(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in layouts:
            return Load(layouts[e.buffer].symbol, place(e.buffer, e.index), e.ty)
        return e

    def store(s: Stmt) -> Stmt:
        if isinstance(s, Store) and s.buffer in layouts:
            return Store(layouts[s.buffer].symbol, place(s.buffer, s.index), s.value)
        return s

    body = map_stmts(map_body(copy.body, lambda e: map_expr(e, visit)), store)
    left = {n for e in body_exprs(body) if isinstance(e, Var) for n in (e.name,)} & {PE_X, PE_Y}
    if left:
        raise UnsupportedError("a value depends on the block index beyond the choice of the PE's own data")
    types = {n: copy.buffers[n].ty for n in layouts if n in copy.buffers}
    for name in types:
        del copy.buffers[name]
    for name, ty in types.items():
        layout = layouts[name]
        copy.buffers[layout.symbol] = Buffer(layout.symbol, ty, fold.i32(layout.length), Space.GLOBAL, exported=True)
    copy.body = body
    return copy


def local_index(name: str, index: Expr, layout: Layout, ranges: dict[str, Range]) -> Expr:
    """The place on this PE of element `index` of an array.

    Raises:
        UnsupportedError: It may be on another PE, or its coordinates can't be told apart.
    """
    if layout.is_identity:
        return index
    coordinates = _coordinates(index, layout.shape, ranges)
    for coefficients, own in ((layout.x, PE_X), (layout.y, PE_Y)):
        if coefficients is None:
            continue
        position = linear(_affine(coefficients, coordinates), ranges)
        here = linear(Var(own, Ty.I32), ranges) if own in ranges else linear(fold.i32(0), ranges)
        if position.plus(here, -1) != linear(fold.i32(0), ranges):
            raise UnsupportedError(
                f"an element of {name} that a block reads or writes may be on another PE; "
                "communication between PEs is not lowered yet"
            )
    place = expression(_affine(layout.offset, coordinates), ranges)
    return build(linear(place, ranges, symbolic=True))


def _coordinates(index: Expr, shape: Sequence[int], ranges: dict[str, Range]) -> list[Expr]:
    """Coordinates of a flat index, by division and remainder that simplify where the index shows its structure."""
    out: list[Expr] = []
    rest = index
    for axis, extent in enumerate(reversed(shape)):
        last = axis == len(shape) - 1
        part = rest if last else expression(fold.binary(Op.MOD, rest, fold.i32(extent), Ty.I32), ranges)
        out.append(part)
        if not last:
            rest = expression(fold.binary(Op.DIV, rest, fold.i32(extent), Ty.I32), ranges)
    return list(reversed(out))


def _affine(coefficients: Sequence[int], coordinates: Sequence[Expr]) -> Expr:
    total: Expr = fold.i32(coefficients[0])
    for c, x in zip(coefficients[1:], coordinates, strict=True):
        if c:
            total = fold.binary(Op.ADD, fold.binary(Op.MUL, x, fold.i32(c), Ty.I32), total, Ty.I32)
    return total


__all__ = ["Layout", "blocks_to_pes", "local_index", "place_arrays"]
