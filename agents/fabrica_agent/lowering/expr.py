"""Expressions of the kernel IR: types, operators, and traversal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
