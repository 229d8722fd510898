"""Bounds on what a program may ask of the compiler: programs are untrusted, and compilation must end.

Work at comptime is counted in steps: one for a statement or a round of a loop, more for a call and for what handles
many elements at once. The largest of the public CSL programs needs about 5,000 of them; a layout of a whole wafer
needs several million.
"""

from __future__ import annotations

from typing import Final

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail

#: Default of `--max-comptime-steps`: about a minute of a loop that never ends.
COMPTIME_STEPS: Final = 10_000_000
#: Steps that a comptime call costs, beside those of its statements.
CALL_STEPS: Final = 10
#: Elements or bytes that one step covers when many are handled at once.
ELEMENTS_PER_STEP: Final = 64
#: Elements of the largest array; the memory of a PE holds at most 49152 bytes.
ARRAY_ELEMENTS: Final = 1 << 20
#: Bytes of the longest string.
STRING_BYTES: Final = 1 << 20
#: Bits of the largest `comptime_int`.
INTEGER_BITS: Final = 4096
#: PEs of the largest rectangle; a whole wafer has fewer than 900,000.
RECTANGLE_PES: Final = 1 << 20
#: Instructions of the largest function before the linker looks at it; at 4 bytes each they fill PE memory 8 times.
FUNCTION_INSTRUCTIONS: Final = 100_000
#: Functions, generic instances included, of one PE program.
FUNCTIONS: Final = 5_000
#: Module instances of one PE program.
MODULES: Final = 1_000
#: Lines of `@comptime_print`, and characters of one.
PRINTED_LINES: Final = 10_000
PRINTED_CHARACTERS: Final = 10_000
#: Errors after which the rest of a block, or of a program, is not looked at.
ERRORS: Final = 100
#: Known names among which the nearest to an unknown one is looked for.
SUGGESTIONS: Final = 500
#: Distinct warnings that are kept.
WARNINGS: Final = 1_000


def bulk_steps(count: int) -> int:
    """Steps that handling `count` elements or bytes costs."""
    return count // ELEMENTS_PER_STEP


def check_size(type_: t.Type, span: ast.Span) -> None:
    """Refuse types whose values would take too much memory at comptime."""
    count = t.leaf_count(type_)
    if count > ARRAY_ELEMENTS:
        kind = "an array" if isinstance(type_, t.ArrayType) else "a struct"
        fail(span, f"{kind} of {count} elements is too large", f"the limit is {ARRAY_ELEMENTS}")
