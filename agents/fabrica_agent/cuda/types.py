"""CUDA C++ types of libclang to the types of the translator."""

from __future__ import annotations

from typing import Any

from fabrica_agent.cuda.values import ArrayType, CType, OpaqueType, PointerType, ScalarType, StructType
from fabrica_agent.lowering.ir import Ty

_SCALARS = {
    "BOOL": Ty.BOOL, "CHAR_S": Ty.I8, "SCHAR": Ty.I8, "CHAR_U": Ty.U8, "UCHAR": Ty.U8, "SHORT": Ty.I16,
    "USHORT": Ty.U16, "INT": Ty.I32, "UINT": Ty.U32, "LONG": Ty.I64, "ULONG": Ty.U64, "LONGLONG": Ty.I64,
    "ULONGLONG": Ty.U64, "FLOAT": Ty.F32, "DOUBLE": Ty.F32, "LONGDOUBLE": Ty.F32, "HALF": Ty.F16, "FLOAT16": Ty.F16,
    "ENUM": Ty.I32,
}  # fmt: skip

FLOAT16 = 32
"""CXType_Float16 of clang-c/Index.h, missing in the Python binding of LLVM 18."""

_POINTERS = ("POINTER", "LVALUEREFERENCE", "RVALUEREFERENCE")


def ctype(clang_type: Any) -> CType:
    """The translator's type; anything it can't compute with becomes an `OpaqueType`."""
    canonical = clang_type.get_canonical()
    kind = kind_name(canonical)
    if kind in _SCALARS:
        return ScalarType(_SCALARS[kind])
    if kind in _POINTERS:
        target = ctype(canonical.get_pointee())
        return target if kind != "POINTER" else PointerType(target)
    if kind == "CONSTANTARRAY":
        element = ctype(canonical.element_type)
        if isinstance(element, ArrayType):
            return ArrayType(element.element, (canonical.element_count, *element.dims))
        return ArrayType(element, (canonical.element_count,))
    if kind == "INCOMPLETEARRAY":
        element = ctype(canonical.element_type)
        if isinstance(element, ArrayType):
            return ArrayType(element.element, (None, *element.dims))
        return ArrayType(element, (None,))
    if kind == "RECORD":
        name = canonical.spelling.removeprefix("const ").removeprefix("volatile ")
        fields = tuple((f.spelling, ctype(f.type)) for f in canonical.get_fields())
        if fields or name.startswith(("struct ", "class ")) or "lambda" not in name:
            return StructType(name, fields, canonical.get_declaration().kind.name == "UNION_DECL")
    return OpaqueType(canonical.spelling)


def kind_name(clang_type: Any) -> str:
    """Name of a type's kind, also for kinds that the Python binding doesn't list."""
    number = int(clang_type._kind_id)
    return "FLOAT16" if number == FLOAT16 else str(clang_type.kind.name)


def is_reference(clang_type: Any) -> bool:
    """Whether a parameter is taken by reference."""
    return kind_name(clang_type.get_canonical()) in ("LVALUEREFERENCE", "RVALUEREFERENCE")


def scalar_of(t: CType) -> Ty | None:
    """What an array in memory holds: the common scalar type of a scalar, of an array, or of a struct of equal scalars.

    A struct of different numbers of 32 bits, such as a value with its index, is held as their bits.
    """
    match t:
        case ScalarType(ty=ty):
            return ty
        case ArrayType(element=e):
            return scalar_of(e)
        case StructType(union=True):
            return None
        case StructType(fields=fields):
            found = {scalar_of(f) for _, f in fields}
            if len(found) > 1:
                return Ty.U32 if all(f is not None and f.bits == 32 for f in found) else None
            return found.pop() if found else None
        case _:
            return None


def holds_pointers(t: CType) -> bool:
    """Whether a value of the type is a pointer, or has some among its parts."""
    match t:
        case StructType(fields=fields, union=False):
            return any(holds_pointers(f) for _, f in fields)
        case ArrayType(element=element):
            return holds_pointers(element)
    return isinstance(t, PointerType)


def scalar_count(t: CType) -> int | None:
    """Number of scalars in one value of the type, None for unsized arrays and opaque types."""
    match t:
        case ScalarType():
            return 1
        case ArrayType(element=e, dims=dims):
            count = scalar_count(e)
            for dim in dims:
                count = None if count is None or dim is None else count * dim
            return count
        case StructType(fields=fields):
            counts = [scalar_count(f) for _, f in fields]
            return None if None in counts else sum(c for c in counts if c is not None)
        case _:
            return None


def size_of(t: CType) -> int | None:
    """`sizeof` in bytes for what the stub types can be: scalars, arrays and structs of equal scalars, pointers."""
    if isinstance(t, PointerType):
        return 8
    ty, count = scalar_of(t), scalar_count(t)
    return None if ty is None or count is None else max(1, ty.bits // 8) * count
