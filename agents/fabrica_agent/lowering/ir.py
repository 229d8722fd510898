"""Kernel IR: typed expressions and structured statements.

The same nodes describe a CUDA program (with `Launch`, `Barrier` and `LaneRead`) and, after serialisation, a plain
sequential program for one PE. All nodes are immutable; passes build new trees. Scalar variables are function-wide and
have unique names; memory is a set of named, flat `Buffer`s, so a pointer is always (buffer, element offset).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique


@unique
class Ty(StrEnum):
    """Scalar types, spelled as in CSL. CUDA `double` is carried as F32, since the target has no 64-bit float."""

    BOOL = "bool"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    F16 = "f16"
    F32 = "f32"

    @property
    def is_float(self) -> bool:
        return self in (Ty.F16, Ty.F32)

    @property
    def is_int(self) -> bool:
        return not self.is_float and self is not Ty.BOOL

    @property
    def bits(self) -> int:
        return 8 if self is Ty.BOOL else int(self.value[1:])

    @property
    def is_signed(self) -> bool:
        return self.value[0] in "if"


def int_limits(ty: Ty) -> tuple[int, int]:
    """Smallest and largest value of an integer type (BOOL counts as 0..1)."""
    if ty is Ty.BOOL:
        return 0, 1
    return (-(1 << (ty.bits - 1)), (1 << (ty.bits - 1)) - 1) if ty.is_signed else (0, (1 << ty.bits) - 1)


def wrap_int(value: int, ty: Ty) -> int:
    """`value` reduced to the range of `ty`, two's complement."""
    low, high = int_limits(ty)
    return value if low <= value <= high else (value - low) % (high - low + 1) + low


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the CUDA source something stands; printed as `file:line`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class UnsupportedError(Exception):
    """A construct that the lowering doesn't understand, with its place in the CUDA source."""

    def __init__(self, what: str, place: Place | None = None) -> None:
        super().__init__(f"{place}: {what}" if place else what)
        self.what = what
        self.place = place


# ----------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Const:
    value: int | float | bool
    ty: Ty


@dataclass(frozen=True, slots=True)
class Param:
    """A compile-time size of the bundle: symbolic in the output, with its value known to the passes."""

    name: str
    value: int
    ty: Ty


@dataclass(frozen=True, slots=True)
class Var:
    name: str
    ty: Ty


@dataclass(frozen=True, slots=True)
class Load:
    buffer: str
    index: Expr
    ty: Ty


@dataclass(frozen=True, slots=True)
class LaneRead:
    """Another thread's copy of a per-thread variable; `lane` is a linear thread index in the block."""

    name: str
    lane: Expr
    ty: Ty


@unique
class Op(StrEnum):
    """Infix operators; comparison and logic give BOOL. MIN and MAX follow fminf/fmaxf for floats."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    MOD = "%"
    SHL = "<<"
    SHR = ">>"
    AND = "&"
    OR = "|"
    XOR = "^"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ = "=="
    NE = "!="
    LAND = "and"
    LOR = "or"
    MIN = "min"
    MAX = "max"


COMPARISONS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE})
NEGATED = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT, Op.EQ: Op.NE, Op.NE: Op.EQ}
SWAPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.EQ: Op.EQ, Op.NE: Op.NE}


@dataclass(frozen=True, slots=True)
class Bin:
    op: Op
    a: Expr
    b: Expr
    ty: Ty


@dataclass(frozen=True, slots=True)
class Un:
    """`op` is `-`, `!` or `~`."""

    op: str
    a: Expr
    ty: Ty


@dataclass(frozen=True, slots=True)
class Cast:
    a: Expr
    ty: Ty


@dataclass(frozen=True, slots=True)
class Bitcast:
    a: Expr
    ty: Ty


@dataclass(frozen=True, slots=True)
class Select:
    """`cond ? a : b`, evaluating only the branch taken."""

    cond: Expr
    a: Expr
    b: Expr
    ty: Ty


@dataclass(frozen=True, slots=True)
class Call:
    """A mathematical function by its C name without suffix (`exp`, `sqrt`, `pow`, `floor`, ...)."""

    fn: str
    args: tuple[Expr, ...]
    ty: Ty


Expr = Const | Param | Var | Load | LaneRead | Bin | Un | Cast | Bitcast | Select | Call


def children(e: Expr) -> tuple[Expr, ...]:
    """Direct operands."""
    match e:
        case Const() | Param() | Var():
            return ()
        case Load(index=i):
            return (i,)
        case LaneRead(lane=i):
            return (i,)
        case Bin(a=a, b=b):
            return (a, b)
        case Un(a=a) | Cast(a=a) | Bitcast(a=a):
            return (a,)
        case Select(cond=c, a=a, b=b):
            return (c, a, b)
        case Call(args=args):
            return args


def rebuild(e: Expr, kids: tuple[Expr, ...]) -> Expr:
    """`e` with other operands."""
    match e:
        case Const() | Param() | Var():
            return e
        case Load():
            return replace(e, index=kids[0])
        case LaneRead():
            return replace(e, lane=kids[0])
        case Bin():
            return replace(e, a=kids[0], b=kids[1])
        case Un() | Cast() | Bitcast():
            return replace(e, a=kids[0])
        case Select():
            return replace(e, cond=kids[0], a=kids[1], b=kids[2])
        case Call():
            return replace(e, args=kids)


def map_expr(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Rewrite bottom-up: operands first, then `f` on the node."""
    kids = children(e)
    new = tuple(map_expr(k, f) for k in kids)
    return f(e if new == kids else rebuild(e, new))


def walk(e: Expr) -> Iterator[Expr]:
    """Every node, parents first."""
    yield e
    for kid in children(e):
        yield from walk(kid)


def names_in(e: Expr) -> frozenset[str]:
    """Names of the scalar variables an expression reads (lane reads included)."""
    return frozenset(n.name for n in walk(e) if isinstance(n, Var | LaneRead))


# ------------------------------------------------------------------------------------------------ statements


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


Stmt = (
    Assign | Store | Atomic | If | For | While | Break | Continue | Return | Barrier | Launch | Note | Vector | Reduce
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
        case _:
            return s


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
    out |= {s.dest.buffer for s in walk_stmts(body) if isinstance(s, Vector)}
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
