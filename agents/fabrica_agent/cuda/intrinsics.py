"""CUDA and C library functions that the translator gives their meaning by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fabrica_agent.cuda.source import Cursor
from fabrica_agent.cuda.types import ctype
from fabrica_agent.cuda.values import Element, Opaque, Pointer, ScalarType, Value
from fabrica_agent.lowering import fold
from fabrica_agent.lowering.ir import (
    Assign,
    Atomic,
    Barrier,
    Bin,
    Bitcast,
    Call,
    Cast,
    Const,
    Expr,
    For,
    If,
    LaneRead,
    Load,
    Op,
    Store,
    Ty,
    Un,
    Var,
)  # fmt: skip

if TYPE_CHECKING:
    from fabrica_agent.cuda.translator import Translator

Handler = Callable[["Translator", Cursor, Sequence[Value]], Value]
HANDLERS: dict[str, Handler] = {}

WARP = 32

_MATH_1 = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
    "erf",
    "erfc",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
]
_ALIASES = {
    "__expf": "exp", "__logf": "log", "__log2f": "log2", "__log10f": "log10", "__sinf": "sin", "__cosf": "cos",
    "__tanf": "tan", "__fsqrt_rn": "sqrt", "__frsqrt_rn": "rsqrt",
}  # fmt: skip


def handler(*names: str) -> Callable[[Handler], Handler]:
    """Register the meaning of functions."""

    def register(function: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = function
        return function

    return register


def _scalars(t: Translator, cursor: Cursor, args: Sequence[Value]) -> list[Expr]:
    return [t.scalar_from(a, cursor) for a in args]


def _result_type(cursor: Cursor) -> Ty:
    target = ctype(cursor.type)
    return target.ty if isinstance(target, ScalarType) else Ty.I32


def _register_math() -> None:
    def make(fn: str) -> Handler:
        def call(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
            (x,) = _scalars(t, cursor, args)
            return Call(fn, (fold.cast(x, Ty.F32) if not x.ty.is_float else x,), Ty.F32 if not x.ty.is_float else x.ty)

        return call

    for fn in _MATH_1:
        HANDLERS[fn] = HANDLERS[fn + "f"] = make(fn)
    for name, fn in _ALIASES.items():
        HANDLERS[name] = make(fn)


_register_math()


def _register_binary(names: str, op: Op) -> None:
    def call(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
        a, b = _scalars(t, cursor, args)
        ty = _result_type(cursor)
        return fold.binary(op, fold.cast(a, ty), fold.cast(b, ty), ty)

    for name in names.split():
        HANDLERS[name] = call


_register_binary("fmaxf fmax max", Op.MAX)
_register_binary("fminf fmin min", Op.MIN)
_register_binary("__fadd_rn __hadd", Op.ADD)
_register_binary("__fsub_rn __hsub", Op.SUB)
_register_binary("__fmul_rn __hmul __mul24 __umul24", Op.MUL)
_register_binary("__fdividef __fdiv_rn", Op.DIV)


@handler("fmaf", "fma", "__fmaf_rn", "__hfma")
def _fma(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    a, b, c = (fold.cast(x, _result_type(cursor)) for x in _scalars(t, cursor, args))
    return fold.binary(Op.ADD, fold.binary(Op.MUL, a, b, a.ty), c, a.ty)


@handler("fabs", "fabsf", "abs", "labs")
def _abs(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    if x.ty.is_float:
        return Call("abs", (x,), x.ty)
    x = t.save(x)
    return fold.select(fold.binary(Op.LT, x, fold.const(0, x.ty), Ty.BOOL), fold.unary("-", x, x.ty), x)


@handler("pow", "powf", "__powf")
def _pow(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    x, y = (fold.cast(a, Ty.F32) for a in _scalars(t, cursor, args))
    power = fold.value(y)
    if power in (2.0, 3.0, 4.0):
        x = t.save(x)
        square = fold.binary(Op.MUL, x, x, Ty.F32)
        if power == 2.0:
            return square
        return fold.binary(Op.MUL, square, x if power == 3.0 else square, Ty.F32)
    if power == 0.5:
        return Call("sqrt", (x,), Ty.F32)
    return Call("pow", (x, y), Ty.F32)


@handler("fmod", "fmodf", "atan2", "atan2f", "hypot", "hypotf", "copysign", "copysignf", "fdim", "fdimf")
def _other_binary_math(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    x, y = (fold.cast(a, Ty.F32) for a in _scalars(t, cursor, args))
    name = cursor.spelling.removesuffix("f") if cursor.spelling != "fmodf" else "fmod"
    if name == "hypot":
        x, y = t.save(x), t.save(y)
        square = fold.binary(Op.ADD, Bin(Op.MUL, x, x, Ty.F32), Bin(Op.MUL, y, y, Ty.F32), Ty.F32)
        return Call("sqrt", (square,), Ty.F32)
    if name == "fdim":
        return Bin(Op.MAX, fold.binary(Op.SUB, x, y, Ty.F32), fold.const(0.0, Ty.F32), Ty.F32)
    if name == "fmod":
        x, y = t.save(x), t.save(y)
        whole = Call("trunc", (Bin(Op.DIV, x, y, Ty.F32),), Ty.F32)
        return Bin(Op.SUB, x, Bin(Op.MUL, whole, y, Ty.F32), Ty.F32)
    if name == "copysign":
        size = Bin(Op.AND, Bitcast(x, Ty.U32), fold.const(0x7FFFFFFF, Ty.U32), Ty.U32)
        sign = Bin(Op.AND, Bitcast(y, Ty.U32), fold.const(0x80000000, Ty.U32), Ty.U32)
        return Bitcast(Bin(Op.OR, size, sign, Ty.U32), Ty.F32)
    t.fail(f"{name} has no counterpart on the target", cursor)


@handler("__saturatef")
def _saturate(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return Bin(Op.MIN, Bin(Op.MAX, x, fold.const(0.0, Ty.F32), Ty.F32), fold.const(1.0, Ty.F32), Ty.F32)


@handler("__frcp_rn")
def _reciprocal(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return Bin(Op.DIV, fold.const(1.0, Ty.F32), x, Ty.F32)


@handler("isnan")
def _isnan(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    x = t.save(_scalars(t, cursor, args)[0])
    return Bin(Op.NE, x, x, Ty.BOOL)


@handler("signbit")
def _signbit(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return fold.binary(Op.LT, Bitcast(fold.cast(x, Ty.F32), Ty.I32), fold.i32(0), Ty.BOOL)


@handler("isinf")
def _isinf(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return Bin(Op.GT, Call("abs", (x,), x.ty), fold.const(3.4028234663852886e38, x.ty), Ty.BOOL)


@handler("isfinite")
def _isfinite(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return Bin(Op.LE, Call("abs", (x,), x.ty), fold.const(3.4028234663852886e38, x.ty), Ty.BOOL)


@handler("__float_as_int", "__float_as_uint", "__int_as_float", "__uint_as_float")
def _reinterpret(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    ty = _result_type(cursor)
    if isinstance(x, Bitcast) and x.a.ty is ty:
        return x.a
    return Bitcast(x, ty)


@handler(
    "__int2float_rn", "__uint2float_rn", "__float2int_rz", "__float2uint_rz", "__half2float", "__float2half",
    "__float2half_rn",
)  # fmt: skip
def _conversion(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return fold.cast(x, _result_type(cursor))


@handler("__float2int_rd")
def _floor_to_int(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return fold.cast(Call("floor", (x,), x.ty), Ty.I32)


@handler("__float2int_rn")
def _round_to_int(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return fold.cast(Call("rint", (x,), x.ty), Ty.I32)


@handler("__popc", "__clz", "__ffs", "__brev")
def _bit_count(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    (x,) = _scalars(t, cursor, args)
    return Call(cursor.spelling.strip("_"), (fold.cast(x, Ty.U32),), Ty.I32)


@handler("__ldg", "__ldcs")
def _read_only_load(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    pointer = _pointer(t, cursor, args[0])
    return t.read(Element(pointer.buffer, pointer.offset, pointer.target), cursor)


@handler("__stcs")
def _streaming_store(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    pointer = _pointer(t, cursor, args[0])
    t.write(Element(pointer.buffer, pointer.offset, pointer.target), args[1], cursor)
    return Opaque("void")


def _pointer(t: Translator, cursor: Cursor, value: Value) -> Pointer:
    if not isinstance(value, Pointer):
        t.fail("this argument must point into a known array", cursor)
    return value


# --------------------------------------------------------------------------------------- barriers and warp functions


@handler("__syncthreads")
def _syncthreads(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    t.out.append(Barrier("block"))
    return Opaque("void")


@handler("__syncwarp")
def _syncwarp(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    t.out.append(Barrier("warp"))
    return Opaque("void")


@handler("__threadfence", "__threadfence_block", "__threadfence_system", "printf")
def _no_effect(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    if cursor.spelling == "printf":
        t.notes.append(f"{t.source.place(cursor)}: printf is left out")
    return Opaque("void")


@handler("__activemask")
def _activemask(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    return fold.const(0xFFFFFFFF, Ty.U32)


@handler("__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync")
def _shuffle(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    _, value, amount, *rest = _scalars(t, cursor, args)
    width = fold.int_value(rest[0]) if rest else WARP
    if width is None or width <= 0 or width & (width - 1):
        t.fail("the width of a shuffle must be a constant power of two", cursor)
    me = t.thread_index()
    by = t.save(fold.cast(amount, Ty.I32), "delta")
    lane = fold.binary(Op.AND, me, fold.i32(width - 1), Ty.I32)
    if "_down_" in cursor.spelling:
        inside = fold.binary(Op.LT, Bin(Op.ADD, lane, by, Ty.I32), fold.i32(width), Ty.BOOL)
        origin = fold.select(inside, fold.binary(Op.ADD, me, by, Ty.I32), me)
    elif "_up_" in cursor.spelling:
        inside = fold.binary(Op.GE, lane, by, Ty.BOOL)
        origin = fold.select(inside, fold.binary(Op.SUB, me, by, Ty.I32), me)
    elif "_xor_" in cursor.spelling:
        origin = fold.binary(Op.XOR, me, by, Ty.I32)
    else:
        first = fold.binary(Op.SUB, me, lane, Ty.I32)
        origin = fold.binary(Op.ADD, first, fold.binary(Op.AND, by, fold.i32(width - 1), Ty.I32), Ty.I32)
    return t.save(LaneRead(_publish(t, value).name, origin, value.ty), "lane_value")


def _publish(t: Translator, value: Expr, scope: str = "warp") -> Var:
    """Write a per-thread value and meet, so that every thread's copy can be read."""
    var = t.fresh("lane", value.ty)
    t.out += [Assign(var.name, value), Barrier(scope)]
    return var


def _fold_lanes(
    t: Translator, value: Expr, first: Expr, count: int, op: Op, unit: Expr, *, shift: bool = False, scope: str = "warp"
) -> Var:
    """Combine the published copies of `count` threads from `first` on; with `shift`, lane k contributes bit k."""
    var = _publish(t, value, scope)
    result = t.fresh("combined", unit.ty)
    lane = t.loop_variable("lane", Ty.I32)
    read: Expr = LaneRead(var.name, fold.binary(Op.ADD, first, lane, Ty.I32), value.ty)
    if shift:
        bit = Bin(Op.SHL, fold.const(1, unit.ty), Cast(lane, unit.ty), unit.ty)
        step: tuple[Assign | If, ...] = (
            If(
                Bin(Op.NE, read, fold.const(0, read.ty), Ty.BOOL), (Assign(result.name, Bin(op, result, bit, unit.ty)),)
            ),
        )
    else:
        step = (Assign(result.name, Bin(op, result, fold.cast(read, unit.ty), unit.ty)),)
    t.out += [Assign(result.name, unit), For(lane.name, Ty.I32, fold.i32(0), fold.i32(count), 1, step)]
    return result


def _warp(t: Translator) -> tuple[Expr, int]:
    me = t.thread_index()
    return fold.binary(Op.SUB, me, fold.binary(Op.AND, me, fold.i32(WARP - 1), Ty.I32), Ty.I32), min(
        WARP, t.block_size()
    )


def _truth(t: Translator, cursor: Cursor, value: Value) -> Expr:
    test = fold.cast(t.scalar_from(value, cursor), Ty.BOOL)
    return fold.select(test, fold.i32(1), fold.i32(0)) if not isinstance(test, Const) else fold.cast(test, Ty.I32)


@handler("__ballot_sync")
def _ballot(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    first, count = _warp(t)
    return _fold_lanes(t, _truth(t, cursor, args[1]), first, count, Op.OR, fold.const(0, Ty.U32), shift=True)


@handler("__any_sync", "__all_sync")
def _vote(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    first, count = _warp(t)
    every = cursor.spelling == "__all_sync"
    return _fold_lanes(
        t, _truth(t, cursor, args[1]), first, count, Op.AND if every else Op.OR, fold.i32(1 if every else 0)
    )


@handler("__reduce_add_sync", "__reduce_max_sync", "__reduce_min_sync")
def _warp_reduce(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    first, count = _warp(t)
    value = t.scalar_from(args[1], cursor)
    op, unit = {
        "add": (Op.ADD, 0), "max": (Op.MAX, -(1 << 31)), "min": (Op.MIN, (1 << 31) - 1)
    }[cursor.spelling.split("_")[3]]  # fmt: skip
    return _fold_lanes(t, value, first, count, op, fold.const(unit, Ty.I32))


@handler("__syncthreads_count", "__syncthreads_and", "__syncthreads_or")
def _block_vote(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    test = _truth(t, cursor, args[0])
    op, unit = {"count": (Op.ADD, 0), "and": (Op.AND, 1), "or": (Op.OR, 0)}[cursor.spelling.split("_")[3]]
    return _fold_lanes(t, test, fold.i32(0), t.block_size(), op, fold.i32(unit), scope="block")


# ----------------------------------------------------------------------------------------------------------- atomics


def _register_atomics() -> None:
    for name in ("Add", "Sub", "Max", "Min", "And", "Or", "Xor", "Exch", "Inc", "Dec"):
        for suffix in ("", "_block"):
            HANDLERS[f"atomic{name}{suffix}"] = _atomic
    HANDLERS["atomicCAS"] = _atomic


def _atomic(t: Translator, cursor: Cursor, args: Sequence[Value]) -> Value:
    pointer = _pointer(t, cursor, args[0])
    op = cursor.spelling.removesuffix("_block")[6:].lower()
    values = _scalars(t, cursor, args[1:])
    ty = t.buffers[pointer.buffer].ty
    target = pointer.target
    if not isinstance(target, ScalarType):
        t.fail("an atomic operation needs a scalar element", cursor)
    index = t.save(pointer.offset, "at")
    if target.ty is not ty:
        return _reinterpreted_atomic(t, cursor, op, Element(pointer.buffer, index, target), values)
    result = t.fresh("old", ty)
    compare = fold.cast(values[0], ty) if op == "cas" else None
    t.out.append(Atomic(op, pointer.buffer, index, fold.cast(values[-1], ty), ty, result.name, compare))
    return result


def _reinterpreted_atomic(t: Translator, cursor: Cursor, op: str, place: Element, values: list[Expr]) -> Value:
    """Compare-and-swap or exchange on the bits of a float: on one PE nothing can come between."""
    assert isinstance(place.type, ScalarType)
    old = t.fresh("old", place.type.ty)
    t.out.append(Assign(old.name, t.scalar_from(t.read(place, cursor), cursor)))
    with t.capture() as store:
        t.write(place, values[-1], cursor)
    if op == "exch":
        t.out.extend(store)
    elif op == "cas":
        t.out.append(If(Bin(Op.EQ, old, fold.cast(values[0], old.ty), Ty.BOOL), tuple(store)))
    elif op in ("max", "min"):
        new = Bin(Op.MAX if op == "max" else Op.MIN, old, fold.cast(values[0], old.ty), old.ty)
        with t.capture() as store:
            t.write(place, new, cursor)
        t.out.extend(store)
    else:
        t.fail(f"atomic {op} on reinterpreted bits is not supported", cursor)
    return old


_register_atomics()

__all__ = ["HANDLERS", "Handler", "Load", "Store", "Un"]
