"""Predeclared names, and what to say about a name that is not declared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from fabrica_bench.csl import ast, ir
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.spelling import did_you_mean
from fabrica_bench.csl.values import Const

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.frame import Frame

MAX_INT_BITS = 16777215

_TYPES: tuple[t.Type, ...] = (
    t.VOID,
    t.BOOL,
    t.TYPE,
    t.ANYOPAQUE,
    t.F16,
    t.F32,
    t.BF16,
    t.CB16,
    t.COMPTIME_INT,
    t.COMPTIME_FLOAT,
    t.COMPTIME_STRING,
    t.COMPTIME_STRUCT,
    t.MODULE,
    t.COLOR,
    t.DIRECTION,
    t.DATA_TASK_ID,
    t.LOCAL_TASK_ID,
    t.CONTROL_TASK_ID,
    t.INPUT_QUEUE,
    t.OUTPUT_QUEUE,
    t.UT_ID,
    t.MEM1D,
    t.MEM4D,
    t.CIRCBUF,
    t.FABIN,
    t.FABOUT,
    t.DSR_DEST,
    t.DSR_SRC0,
    t.DSR_SRC1,
    t.DSR_FIFO_DEST,
    t.DSR_FIFO_SRC1,
    t.XDSR,
    t.SR,
)
PREDECLARED: dict[str, Const] = {type_.name: Const(t.TYPE, type_) for type_ in _TYPES}
PREDECLARED |= {name: Const(t.DIRECTION, code) for name, code in ir.DIRECTION_CODES.items()}

#: Names that users of other languages expect, and what CSL has instead.
OTHER_LANGUAGES: dict[str, str] = {
    **dict.fromkeys(("int", "int32_t", "long"), "CSL's type is 'i32' (or 'i16', the machine's word)"),
    **dict.fromkeys(("unsigned", "uint", "uint32_t", "size_t", "usize"), "CSL's type is 'u32' (or 'u16')"),
    **dict.fromkeys(("float", "double", "float32", "f64"), "CSL's types are 'f32' and 'f16'"),
    "half": "CSL's type is 'f16'",
    "short": "CSL's type is 'i16'",
    "char": "CSL's type is 'u8'",
    "string": "CSL's type is 'comptime_string'",
    **dict.fromkeys(("null", "nullptr", "NULL", "undefined"), "CSL has no such value; leave a 'var' without a value"),
    **dict.fromkeys(("printf", "print", "println"), "import <simprint>, and call its fmt or print_string"),
    **dict.fromkeys(("sqrt", "sqrtf", "exp", "log", "sin", "cos", "pow", "fabs", "abs", "min", "max"), "import <math>"),
    "range": "write @range(T, stop)",
    "_": "CSL doesn't count the elements of an array for you; write [N]T",
    "sizeof": "import <types>, and call its byte_size_of",
}

_INT_TYPE = re.compile(r"[iu](0|[1-9][0-9]{0,7})")


def predeclared(name: str) -> Const | None:
    """The type or value that a name means without being declared."""
    known = PREDECLARED.get(name)
    if known is None and _INT_TYPE.fullmatch(name) and int(name[1:]) <= MAX_INT_BITS:
        known = PREDECLARED[name] = Const(t.TYPE, t.IntType(int(name[1:]), name[0] == "i"))
    return known


def undeclared(frame: Frame, name: str, span: ast.Span) -> NoReturn:
    """Report an unknown name, with the closest known one."""
    known = list(frame.module.entries) + list(PREDECLARED)
    scope = frame.scope
    while scope is not None:
        known += scope.names
        if scope.parent is None:
            break
        scope = scope.parent
    hint = OTHER_LANGUAGES.get(name)
    if hint is None:
        hint = did_you_mean(name, known)
    fail(span, f"use of undeclared identifier '{name}'", hint)
