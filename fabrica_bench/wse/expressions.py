"""Python text for IR expressions: wrapping integers, rounded floats, typed memory accesses.

Every text comes from numbers and fixed templates, never from names found in a program.
"""

from __future__ import annotations

from fabrica_bench.csl import ir
from fabrica_bench.wse.memory import MEMORY_BYTES

_INT_OPS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_CMP_OPS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def wrap(text: str, type_: ir.ScalarType) -> str:
    """`text` reduced to the range of an integer type."""
    mask = (1 << type_.bits) - 1
    if not type_.signed:
        return f"({text}&{mask})"
    half = 1 << (type_.bits - 1)
    return f"(({text}+{half}&{mask})-{half})"


def binary_int(op: str, type_: ir.ScalarType, a: str, b: str) -> str:
    """`a op b` on integers. May raise ZeroDivisionError when evaluated."""
    if op in ("and", "or", "xor"):
        return f"({a}{_INT_OPS[op]}{b})"
    if op in ("add", "sub", "mul"):
        return wrap(f"({a}){_INT_OPS[op]}({b})" if op != "add" else f"{a}+{b}", type_)
    if op == "shl":
        return wrap(f"(({a})<<({b}) if ({b})<{type_.bits} else 0)", type_)
    if op == "shr":
        return f"(({a})>>({b}))"
    if op == "div":
        return f"udiv({a},{b})" if not type_.signed else wrap(f"idiv({a},{b})", type_)
    return f"urem({a},{b})" if not type_.signed else f"irem({a},{b})"


def binary_float(op: str, a: str, b: str) -> str:
    """Unrounded `a op b`."""
    if op == "div":
        return f"fdiv({a},{b})"
    if op == "rem":
        return f"frem({a},{b})"
    return f"({a}){_INT_OPS[op]}({b})"


def compare(op: str, a: str, b: str) -> str:
    """Python condition."""
    return f"{a}{_CMP_OPS[op]}{b}"


def constant(value: int | float) -> str | None:
    """Literal for a number, or None if it needs a name."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return f"({value!r})" if value < 0 or repr(value).startswith("-") else repr(value)


def address(base: str, offset: int) -> str:
    """Address expression; never negative, since addresses are unsigned 16-bit numbers."""
    if not offset:
        return base
    return f"{base}+{offset}" if offset > 0 else f"({base}+{offset}&65535)"


#: (bits, signed) -> name of the typed view in generated code
_VIEWS = {(8, False): "B", (8, True): "b", (16, False): "H", (16, True): "h", (32, False): "I", (32, True): "i"}


def element(view: str, size: int, where: str) -> str:
    """Subscript expression of one memory element; `where` is evaluated once. `a` holds the address for faults."""
    if size == 1:
        return f"{view}[{where}]"
    mask, shift = 0xC001 if size == 2 else 3, size // 2
    if where.isdigit():
        number = int(where)
        if number & 1 == 0 and number < MEMORY_BYTES:
            return f"{view}[{number & mask}][{number >> shift}]"
    if where.isidentifier():
        return f"{view}[{where}&{mask}][{where}>>{shift}]"
    return f"{view}[(a:={where})&{mask}][a>>{shift}]"


def view_of(type_: ir.ScalarType) -> str | None:
    """Name of the view that reads registers of this type directly; None if a conversion is needed."""
    if type_.kind == "int":
        return _VIEWS.get((type_.bits, type_.signed))
    return "F" if type_.bits == 32 and type_.kind == "float" else None
