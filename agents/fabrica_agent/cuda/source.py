"""Parse a CUDA file with libclang, without any CUDA toolkit: a small stub header supplies the declarations.

The cursors of `clang.cindex` are wrapped here only as far as the binding falls short: operator kinds and constant
evaluation are C functions of libclang that the Python package doesn't expose.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from clang import cindex

from fabrica_agent.lowering.ir import Place, UnsupportedError

INCLUDE_DIR = Path(__file__).parent / "include"
ARGUMENTS = (
    "-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-host-only", "-std=c++17", "-nostdinc", "-nostdinc++",
    "-Wno-unknown-cuda-version", "-include", "fabrica_cuda.h", f"-I{INCLUDE_DIR}",
)  # fmt: skip

Cursor = Any
"""A `clang.cindex.Cursor`; the package has no type information."""

# Order of enum CXBinaryOperatorKind and CXUnaryOperatorKind in clang-c/Index.h (LLVM 17 and later), from 1.
_BINARY = tuple(
    ".* ->* * / % + - << >> <=> < > <= >= == != & ^ | && || = *= /= %= += -= <<= >>= &= ^= |= ,".split()  # noqa: SIM905
)
_UNARY = ["post++", "post--", "pre++", "pre--", "&", "*", "+", "-", "~", "!", "real", "imag", "ext", "coawait"]


@lru_cache(maxsize=1)
def _library() -> Any:
    lib = cindex.conf.lib
    try:
        for name in ("clang_getCursorBinaryOperatorKind", "clang_getCursorUnaryOperatorKind"):
            getattr(lib, name).argtypes = [cindex.Cursor]
            getattr(lib, name).restype = ctypes.c_int
    except AttributeError as error:
        raise UnsupportedError(
            "this libclang is too old: version 17 or later is needed (pip install libclang)"
        ) from error
    lib.clang_Cursor_Evaluate.argtypes = [cindex.Cursor]
    lib.clang_Cursor_Evaluate.restype = ctypes.c_void_p
    for name, result in (
        ("clang_EvalResult_getKind", ctypes.c_int),
        ("clang_EvalResult_getAsLongLong", ctypes.c_longlong),
        ("clang_EvalResult_getAsDouble", ctypes.c_double),
        ("clang_EvalResult_isUnsignedInt", ctypes.c_uint),
        ("clang_EvalResult_getAsUnsigned", ctypes.c_ulonglong),
        ("clang_EvalResult_dispose", None),
    ):
        getattr(lib, name).argtypes = [ctypes.c_void_p]
        getattr(lib, name).restype = result
    return lib


def binary_operator(cursor: Cursor) -> str:
    """Spelling of a BINARY_OPERATOR or COMPOUND_ASSIGNMENT_OPERATOR, e.g. `+` or `<<=`."""
    return _BINARY[int(_library().clang_getCursorBinaryOperatorKind(cursor)) - 1]


def unary_operator(cursor: Cursor) -> str:
    """Spelling of a UNARY_OPERATOR, with `pre`/`post` before `++` and `--`."""
    return _UNARY[int(_library().clang_getCursorUnaryOperatorKind(cursor)) - 1]


def evaluate(cursor: Cursor) -> int | float | None:
    """The value of a constant expression, None when it isn't one."""
    lib = _library()
    result = lib.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    try:
        kind = lib.clang_EvalResult_getKind(result)
        if kind == 1:
            if lib.clang_EvalResult_isUnsignedInt(result):
                return int(lib.clang_EvalResult_getAsUnsigned(result))
            return int(lib.clang_EvalResult_getAsLongLong(result))
        return float(lib.clang_EvalResult_getAsDouble(result)) if kind == 2 else None
    finally:
        lib.clang_EvalResult_dispose(result)


def kids(cursor: Cursor) -> list[Cursor]:
    """Child cursors as a list."""
    return list(cursor.get_children())


def subtree(cursor: Cursor) -> Iterator[Cursor]:
    """A cursor and all below it, parents first."""
    yield cursor
    for kid in cursor.get_children():
        yield from subtree(kid)


def strip(cursor: Cursor) -> Cursor:
    """Look through parentheses and implicit nodes with a single child."""
    while cursor.kind.name in ("UNEXPOSED_EXPR", "PAREN_EXPR"):
        below = kids(cursor)
        if len(below) != 1:
            break
        cursor = below[0]
    return cursor


@dataclass(frozen=True)
class CudaSource:
    """A parsed translation unit: function definitions by place, global variables, and the text they came from."""

    unit: Any
    name: str
    functions: tuple[Cursor, ...]
    variables: tuple[Cursor, ...]

    def place(self, cursor: Cursor) -> Place:
        """The line of a cursor; macro expansions count as their use."""
        return Place(self.name, cursor.location.line)


def parse(text: str, name: str = "kernel.cu") -> CudaSource:
    """Parse CUDA text.

    Raises:
        UnsupportedError: It isn't valid CUDA C++ as far as the stub header goes; names the first errors and lines.
    """
    try:
        unit = cindex.Index.create().parse(name, args=list(ARGUMENTS), unsaved_files=[(name, text)])
    except cindex.TranslationUnitLoadError as error:
        raise UnsupportedError(f"libclang can't read {name}: {error}") from error
    errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        first = "; ".join(f"{d.location.file or name}:{d.location.line}: {d.spelling}" for d in errors[:3])
        raise UnsupportedError(f"the source doesn't parse: {first}")
    functions: list[Cursor] = []
    variables: list[Cursor] = []
    _collect(unit.cursor, name, functions, variables)
    return CudaSource(unit, name, tuple(functions), tuple(variables))


def _collect(cursor: Cursor, name: str, functions: list[Cursor], variables: list[Cursor]) -> None:
    for kid in cursor.get_children():
        if kid.location.file is None or kid.location.file.name != name:
            continue
        kind = kid.kind.name
        if kind == "FUNCTION_DECL" and kid.is_definition():
            functions.append(kid)
        elif kind == "VAR_DECL":
            variables.append(kid)
        elif kind in ("NAMESPACE", "LINKAGE_SPEC", "UNEXPOSED_DECL"):
            _collect(kid, name, functions, variables)


def has_attribute(cursor: Cursor, name: str) -> bool:
    """Whether a declaration carries a CUDA attribute: `CUDAGLOBAL`, `CUDADEVICE`, `CUDASHARED`, `CUDACONSTANT`."""
    return any(kid.kind.name == f"{name}_ATTR" for kid in cursor.get_children())


def is_kernel(cursor: Cursor) -> bool:
    """Whether a function is `__global__`."""
    return has_attribute(cursor, "CUDAGLOBAL")


def is_launch(cursor: Cursor) -> bool:
    """Whether a CALL_EXPR is `kernel<<<...>>>(...)`."""
    below = kids(cursor)
    return len(below) >= 2 and below[1].kind.name == "CALL_EXPR" and below[1].spelling in (
        "__cudaPushCallConfiguration", "cudaConfigureCall",
    )  # fmt: skip


def body_of(function: Cursor) -> Cursor | None:
    """The COMPOUND_STMT of a function or lambda."""
    return next((k for k in function.get_children() if k.kind.name == "COMPOUND_STMT"), None)
