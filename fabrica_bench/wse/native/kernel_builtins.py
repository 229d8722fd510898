"""Types of the kernel language in LLVM, and its built-in functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
WORD = 8
Typed = tuple[Any, str]  # LLVM value, kernel type


def llvm_type(name: str) -> Any:
    """LLVM type of a kernel type: pointers for everything that is no number."""
    return {"i64": I64, "f64": F64}.get(name, PTR)


def _bits_of_f32(build: Any, values: list[Typed]) -> Typed:
    return build.zext(build.bitcast(build.fptrunc(values[0][0], F32), I32), I64), "i64"


def _f32_of_bits(build: Any, values: list[Typed]) -> Typed:
    return build.fpext(build.bitcast(build.trunc(values[0][0], I32), F32), F64), "f64"


def _indirect(build: Any, values: list[Typed]) -> Typed:
    kind = ir.FunctionType(I64, [llvm_type(type_) for _, type_ in values[1:]])
    pointer = build.inttoptr(values[0][0], PTR)
    pointer_typed = _CallTarget(pointer, kind)
    return build.call(pointer_typed, [value for value, _ in values[1:]]), "i64"


def _prefetch(build: Any, values: list[Typed]) -> Typed:
    """Ask for the cache line of an address that will be needed soon."""
    name = "llvm.prefetch.p0"
    function = build.module.globals.get(name)
    if function is None:
        function = ir.Function(build.module, ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32]), name)
    address = values[0][0] if values[0][1] != "i64" else build.inttoptr(values[0][0], PTR)
    build.call(function, [address, ir.Constant(I32, 0), ir.Constant(I32, 3), ir.Constant(I32, 1)])
    return ir.Constant(I64, 0), "i64"


def _atomic_load(build: Any, values: list[Typed]) -> Typed:
    """Word at an address; what its writer wrote before is visible then."""
    return build.load_atomic(build.inttoptr(values[0][0], PTR), "acquire", WORD, typ=I64), "i64"


def _atomic_store(build: Any, values: list[Typed]) -> Typed:
    # llvmlite's atomic store takes typed pointers only
    return build.atomic_rmw("xchg", build.inttoptr(values[0][0], PTR), values[1][0], "acq_rel"), "i64"


def _atomic_add(build: Any, values: list[Typed]) -> Typed:
    """Add to the word at an address; its value before."""
    return build.atomic_rmw("add", build.inttoptr(values[0][0], PTR), values[1][0], "acq_rel"), "i64"


class _CallTarget:
    """A pointer with the function type that llvmlite's `call` asks for."""

    def __init__(self, value: Any, function_type: Any) -> None:
        self.function_type = function_type
        self.ftype = function_type
        self.type = value.type
        self._value = value
        self.attributes = None

    def get_reference(self) -> str:
        return str(self._value.get_reference())

    @property
    def args(self) -> tuple[Any, ...]:
        return ()


BUILTINS: dict[str, Callable[[Any, list[Typed]], Typed]] = {
    "addr": lambda b, v: (b.ptrtoint(v[0][0], I64), "i64"),
    "fbits": lambda b, v: (b.bitcast(v[0][0], I64), "i64"),
    "bitsf": lambda b, v: (b.bitcast(v[0][0], F64), "f64"),
    "f32_bits": _bits_of_f32,
    "f32_value": _f32_of_bits,
    "to_float": lambda b, v: (b.sitofp(v[0][0], F64), "f64"),
    "to_int": lambda b, v: (b.fptosi(v[0][0], I64), "i64"),
    "shift_right": lambda b, v: (b.lshr(v[0][0], v[1][0]), "i64"),
    "low_bit": lambda b, v: (b.cttz(v[0][0], ir.Constant(I1, 0)), "i64"),
    "leading_zeros": lambda b, v: (b.ctlz(v[0][0], ir.Constant(I1, 0)), "i64"),
    "bit_count": lambda b, v: (b.ctpop(v[0][0]), "i64"),
    "call_at": _indirect,
    "prefetch": _prefetch,
    "atomic_load": _atomic_load,
    "atomic_store": _atomic_store,
    "atomic_add": _atomic_add,
}
