"""From arrays as CUDA sees them to tensors as they lie on a PE.

The host may pad, transpose or shard an array; an index into the array becomes an index into the PE's tensor. With one
CUDA block per PE, block indices are the PE's coordinates, and an access is local only if the coordinates cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fabrica_agent.lowering import fold
from fabrica_agent.lowering.intervals import Ranges, loop_range, refine
from fabrica_agent.lowering.ir import (
    BLOCK,
    Body,
    Buffer,
    Cast,
    Expr,
    For,
    If,
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
    bodies,
    body_exprs,
    map_expr,
    map_stmt_exprs,
    map_stmts,
    substitute,
    with_bodies,
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
        zero, one = fold.const(0, Ty.U32), fold.const(1, Ty.U32)
        x: Expr = Cast(Var(PE_X, Ty.I32), Ty.U32) if width > 1 else zero
        y: Expr = Cast(Var(PE_Y, Ty.I32), Ty.U32) if height > 1 else zero
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
    body = _placed(copy.body, dict(program.ranges), layouts)
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


def _placed(body: Body, env: Ranges, layouts: Mapping[str, Layout]) -> Body:
    """A body with its array accesses placed; conditions around an access narrow down where it may go."""

    def visit(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in layouts:
            return Load(layouts[e.buffer].symbol, local_index(e.buffer, e.index, layouts[e.buffer], env), e.ty)
        return e

    out: list[Stmt] = []
    for s in body:
        placed = map_stmt_exprs(s, lambda e: map_expr(e, visit))
        if isinstance(s, Store) and isinstance(placed, Store) and s.buffer in layouts:
            layout = layouts[s.buffer]
            placed = Store(layout.symbol, local_index(s.buffer, placed.index, layout, env), placed.value)
        if isinstance(s, If):
            sides = (s.then, refine(s.cond, env, True)), (s.other, refine(s.cond, env, False))
            placed = with_bodies(placed, tuple(_placed(b, inner, layouts) for b, inner in sides))
        elif isinstance(s, For):
            run = loop_range(s, env)
            inner = {**env, s.var: run} if run is not None else env
            placed = with_bodies(placed, (_placed(s.body, inner, layouts),))
        elif bodies(s):
            placed = with_bodies(placed, tuple(_placed(b, env, layouts) for b in bodies(s)))
        out.append(placed)
    return tuple(out)


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
        several = ranges.get(own, (0, 0)) != (0, 0)
        here = linear(Var(own, Ty.I32) if several else fold.i32(0), ranges)
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
