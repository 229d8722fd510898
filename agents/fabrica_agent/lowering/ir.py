"""Kernel IR: typed expressions and structured statements.

The same nodes describe a CUDA program (with `Launch`, `Barrier` and `LaneRead`) and, after serialisation, a plain
sequential program for one PE. All nodes are immutable; passes build new trees. Scalar variables are function-wide and
have unique names; memory is a set of named, flat `Buffer`s, so a pointer is always (buffer, element offset).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique

from fabrica_agent.lowering.expr import (
    COMPARISONS as COMPARISONS,
)
from fabrica_agent.lowering.expr import (
    NEGATED as NEGATED,
)
from fabrica_agent.lowering.expr import (
    SWAPPED as SWAPPED,
)
from fabrica_agent.lowering.expr import (
    Bin as Bin,
)  # fmt: skip
from fabrica_agent.lowering.expr import (
    Bitcast as Bitcast,
)
from fabrica_agent.lowering.expr import (
    Call as Call,
)
from fabrica_agent.lowering.expr import (
    Cast as Cast,
)
from fabrica_agent.lowering.expr import (
    Const as Const,
)
from fabrica_agent.lowering.expr import (
    Expr as Expr,
)
from fabrica_agent.lowering.expr import (
    LaneRead as LaneRead,
)
from fabrica_agent.lowering.expr import (
    Load as Load,
)
from fabrica_agent.lowering.expr import (
    Op as Op,
)
from fabrica_agent.lowering.expr import (
    Param as Param,
)
from fabrica_agent.lowering.expr import (
    Place as Place,
)
from fabrica_agent.lowering.expr import (
    Select as Select,
)
from fabrica_agent.lowering.expr import (
    Ty as Ty,
)
from fabrica_agent.lowering.expr import (
    Un as Un,
)
from fabrica_agent.lowering.expr import (
    UnsupportedError as UnsupportedError,
)
from fabrica_agent.lowering.expr import (
    Var as Var,
)
from fabrica_agent.lowering.expr import (
    children as children,
)
from fabrica_agent.lowering.expr import (
    int_limits as int_limits,
)
from fabrica_agent.lowering.expr import (
    map_expr as map_expr,
)
from fabrica_agent.lowering.expr import (
    names_in as names_in,
)
from fabrica_agent.lowering.expr import (
    rebuild as rebuild,
)
from fabrica_agent.lowering.expr import (
    walk as walk,
)
from fabrica_agent.lowering.expr import (
    wrap_int as wrap_int,
)


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    buffer: str
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Atomic:
    """Read-modify-write; `result` (if named) gets the old value. `op`: add sub min max and or xor exch cas inc dec."""

    op: str
    buffer: str
    index: Expr
    value: Expr
    ty: Ty
    result: str | None = None
    compare: Expr | None = None


@dataclass(frozen=True, slots=True)
class If:
    cond: Expr
    then: Body
    other: Body = ()


@unique
class Parallel(StrEnum):
    """Why the iterations of a loop may run in any order: they are threads of one barrier interval, or blocks.

    Iterations communicate through atomics only. Each iteration of a THREAD loop has LOCAL buffers of its own, each of a
    BLOCK loop SHARED ones too. NO is false in a condition.
    """

    NO = ""
    THREAD = "thread"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class For:
    """`var` runs from `start` in steps of the constant `step` while it is below (above, for negative steps) `stop`."""

    var: str
    ty: Ty
    start: Expr
    stop: Expr
    step: int
    body: Body
    parallel: Parallel = Parallel.NO


@dataclass(frozen=True, slots=True)
class While:
    """`step` runs after each iteration and on `continue`."""

    cond: Expr
    body: Body
    step: Body = ()


@dataclass(frozen=True, slots=True)
class Break:
    pass


@dataclass(frozen=True, slots=True)
class Continue:
    pass


@dataclass(frozen=True, slots=True)
class Return:
    """Only before return elimination."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the block (or warp) meet; shared and lane values written before are visible after."""

    scope: str = "block"


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel launch with its body already specialised to the arguments. `grid` may depend on host variables."""

    name: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    body: Body
    place: Place


@dataclass(frozen=True, slots=True)
class Note:
    """A remark that ends up as a comment in the output."""

    text: str


@dataclass(frozen=True, slots=True)
class Access:
    """`count` elements of a buffer from `start` on, `stride` elements apart: a one-dimensional DSD operand."""

    buffer: str
    start: Expr
    stride: int
    count: Expr


@unique
class VecOp(StrEnum):
    """Bulk operations of the target: one DSD builtin each."""

    MOVE = "move"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    MAX = "max"
    NEG = "neg"
    ABS = "abs"
    FMA = "fma"


@dataclass(frozen=True, slots=True)
class Vector:
    """`dest[k] = op(sources[k])` for all k in ascending order; sources are accesses or scalars.

    FMA is `sources[0][k] + sources[1][k] * sources[2]` with a scalar last source, rounded once.
    """

    op: VecOp
    dest: Access
    sources: tuple[Access | Expr, ...]
    ty: Ty


@dataclass(frozen=True, slots=True)
class Reduce:
    """`acc = acc op source[k]` for all k in ascending order; `acc` is a variable, or element `index` of a buffer."""

    op: VecOp
    target: str
    index: Expr | None
    source: Access
    ty: Ty


@dataclass(frozen=True, slots=True)
class View:
    """A box of elements: from `start` on, for each dimension (count, stride in elements), outermost first."""

    buffer: str
    start: Expr
    dims: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """Number of elements."""
        total = 1
        for extent, _ in self.dims:
            total *= extent
        return total


@dataclass(frozen=True, slots=True)
class Grid:
    """As `Vector`, for boxes of up to four dimensions; all views have the same extents."""

    op: VecOp
    dest: View
    sources: tuple[View | Expr, ...]
    ty: Ty


@dataclass(frozen=True, slots=True)
class Columns:
    """`dest[:] += column[:] * factors[k]` for all k in ascending order, the column moving on by `step` elements."""

    dest: View
    column: View
    step: int
    factors: View
    ty: Ty


@dataclass(frozen=True, slots=True)
class Elementary:
    """`dest[k] = fn(dest[k])` for a contiguous array of its own; `scratch` are arrays of at least its length."""

    fn: str
    dest: View
    scratch: tuple[str, ...]
    ty: Ty


Stmt = (
    Assign
    | Store
    | Atomic
    | If
    | For
    | While
    | Break
    | Continue
    | Return
    | Barrier
    | Launch
    | Note
    | Vector
    | Reduce
    | Grid
    | Columns
    | Elementary
)
Body = tuple[Stmt, ...]

THREAD = tuple(f"threadIdx.{d}" for d in "xyz")
BLOCK = tuple(f"blockIdx.{d}" for d in "xyz")


@unique
class Space(StrEnum):
    """Where a buffer lives in CUDA; on the PE all are arrays in its SRAM."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A flat array. `length` is in elements, None while only its use tells it. `init`: constant contents."""

    name: str
    ty: Ty
    length: Expr | None
    space: Space
    init: tuple[float, ...] | None = None
    exported: bool = False


@dataclass(slots=True)
class Program:
    """A translated CUDA program: host statements with launches, or, once serialised, plain statements.

    Attributes:
        body: Statements.
        buffers: Arrays by name.
        types: Types of scalar variables by name.
        args: Run-time arguments.
        notes: Remarks about what was left out.
        ranges: Ranges of integer variables, as of the last simplification.
        given: Ranges of variables that are set from outside, such as the coordinates of the PE.
    """

    body: Body
    buffers: dict[str, Buffer]
    types: dict[str, Ty]
    args: tuple[Var, ...] = ()
    notes: list[str] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    given: dict[str, tuple[int, int]] = field(default_factory=dict)


def stmt_exprs(s: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in a statement, not those of nested statements."""
    match s:
        case Assign(value=v):
            return (v,)
        case Store(index=i, value=v):
            return (i, v)
        case Atomic(index=i, value=v, compare=c):
            return (i, v) if c is None else (i, v, c)
        case If(cond=c) | While(cond=c):
            return (c,)
        case For(start=a, stop=b):
            return (a, b)
        case Launch(grid=g):
            return g
        case Vector(dest=d, sources=sources):
            return tuple(e for x in (d, *sources) for e in ((x.start, x.count) if isinstance(x, Access) else (x,)))
        case Reduce(index=index, source=x):
            return (x.start, x.count) if index is None else (index, x.start, x.count)
        case Grid(dest=view, sources=parts):
            return (view.start, *(x.start if isinstance(x, View) else x for x in parts))
        case Columns(dest=view, column=column, factors=factors):
            return (view.start, column.start, factors.start)
        case _:
            return ()


def bodies(s: Stmt) -> tuple[Body, ...]:
    """The nested statement lists of a statement."""
    match s:
        case If(then=t, other=o):
            return (t, o)
        case For(body=b) | Launch(body=b):
            return (b,)
        case While(body=b, step=st):
            return (b, st)
        case _:
            return ()


def with_bodies(s: Stmt, new: tuple[Body, ...]) -> Stmt:
    """`s` with other nested statement lists."""
    match s:
        case If():
            return replace(s, then=new[0], other=new[1])
        case For() | Launch():
            return replace(s, body=new[0])
        case While():
            return replace(s, body=new[0], step=new[1])
        case _:
            return s


def map_stmt_exprs(s: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """Apply `f` to each expression directly in `s`."""
    match s:
        case Assign():
            return replace(s, value=f(s.value))
        case Store():
            return replace(s, index=f(s.index), value=f(s.value))
        case Atomic():
            compare = None if s.compare is None else f(s.compare)
            return replace(s, index=f(s.index), value=f(s.value), compare=compare)
        case If() | While():
            return replace(s, cond=f(s.cond))
        case For():
            return replace(s, start=f(s.start), stop=f(s.stop))
        case Launch():
            return replace(s, grid=(f(s.grid[0]), f(s.grid[1]), f(s.grid[2])))
        case Vector():
            sources = tuple(_map_access(x, f) if isinstance(x, Access) else f(x) for x in s.sources)
            return replace(s, dest=_map_access(s.dest, f), sources=sources)
        case Reduce():
            index = None if s.index is None else f(s.index)
            return replace(s, index=index, source=_map_access(s.source, f))
        case Grid():
            parts = tuple(_map_view(x, f) if isinstance(x, View) else f(x) for x in s.sources)
            return replace(s, dest=_map_view(s.dest, f), sources=parts)
        case Columns():
            views = (_map_view(x, f) for x in (s.dest, s.column, s.factors))
            return Columns(next(views), next(views), s.step, next(views), s.ty)
        case _:
            return s


def _map_view(x: View, f: Callable[[Expr], Expr]) -> View:
    return replace(x, start=f(x.start))


def _map_access(x: Access, f: Callable[[Expr], Expr]) -> Access:
    return replace(x, start=f(x.start), count=f(x.count))


def map_body(body: Body, f: Callable[[Expr], Expr]) -> Body:
    """Apply `f` to every expression of every statement, nested ones included."""
    return tuple(with_bodies(map_stmt_exprs(s, f), tuple(map_body(b, f) for b in bodies(s))) for s in body)


def map_stmts(body: Body, f: Callable[[Stmt], Stmt]) -> Body:
    """Rewrite every statement, nested ones first."""
    return tuple(f(with_bodies(s, tuple(map_stmts(b, f) for b in bodies(s)))) for s in body)


def walk_stmts(body: Body) -> Iterator[Stmt]:
    """Every statement, parents first."""
    for s in body:
        yield s
        for b in bodies(s):
            yield from walk_stmts(b)


def own_level(body: Body) -> list[Stmt]:
    """Statements of a loop body that are not inside an inner loop."""
    found: list[Stmt] = []
    for s in body:
        found.append(s)
        if isinstance(s, If):
            found += own_level(s.then) + own_level(s.other)
    return found


def body_exprs(body: Body) -> Iterator[Expr]:
    """Every expression node of every statement."""
    for s in walk_stmts(body):
        for e in stmt_exprs(s):
            yield from walk(e)


def assigned(body: Body) -> frozenset[str]:
    """Scalar variables that a body may write, loop variables included."""
    out = set()
    for s in walk_stmts(body):
        match s:
            case Assign(name=n) | For(var=n):
                out.add(n)
            case Atomic(result=r) if r is not None:
                out.add(r)
            case Reduce(target=n, index=None):
                out.add(n)
    return frozenset(out)


def read_names(body: Body) -> frozenset[str]:
    """Scalar variables that a body reads."""
    found = {n.name for n in body_exprs(body) if isinstance(n, Var | LaneRead)}
    return frozenset(found | {s.target for s in walk_stmts(body) if isinstance(s, Reduce) and s.index is None})


def written_buffers(body: Body) -> frozenset[str]:
    """Buffers that a body may write."""
    out = {s.buffer for s in walk_stmts(body) if isinstance(s, Store | Atomic)}
    for s in walk_stmts(body):
        match s:
            case Vector(dest=dest):
                out.add(dest.buffer)
            case Grid(dest=view) | Columns(dest=view):
                out.add(view.buffer)
            case Elementary(dest=view, scratch=scratch):
                out |= {view.buffer, *scratch}
    return frozenset(out | {s.target for s in walk_stmts(body) if isinstance(s, Reduce) and s.index is not None})


def read_buffers(body: Body) -> frozenset[str]:
    """Buffers that a body reads."""
    loads = {n.buffer for n in body_exprs(body) if isinstance(n, Load)}
    for s in walk_stmts(body):
        match s:
            case Atomic(buffer=b):
                loads.add(b)
            case Vector(sources=sources):
                loads.update(x.buffer for x in sources if isinstance(x, Access))
            case Grid(sources=parts):
                loads.update(x.buffer for x in parts if isinstance(x, View))
            case Columns(dest=view, column=column, factors=factors):
                loads.update((view.buffer, column.buffer, factors.buffer))
            case Elementary(dest=view, scratch=scratch):
                loads.update((view.buffer, *scratch))
            case Reduce(target=target, index=index, source=x):
                loads.add(x.buffer)
                if index is not None:
                    loads.add(target)
    return frozenset(loads)


def substitute(body: Body, mapping: dict[str, Expr]) -> Body:
    """Replace reads of scalar variables by expressions."""

    def visit(e: Expr) -> Expr:
        return mapping.get(e.name, e) if isinstance(e, Var) else e

    return map_body(body, lambda e: map_expr(e, visit))


def substitute_expr(e: Expr, mapping: dict[str, Expr]) -> Expr:
    """As `substitute`, for one expression."""
    return map_expr(e, lambda n: mapping.get(n.name, n) if isinstance(n, Var) else n)
