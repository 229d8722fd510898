"""Bounds on what a program may ask of the compiler: programs are untrusted, and compilation must end.

Work at comptime is counted in steps: a round of a loop costs one and more for a long body, a call costs ten and more
for a long body, and what handles many elements at once costs more. Each distinct PE program, and each node of the
functions that are translated for it, counts as well, so that the budget bounds a whole compilation: a step takes some
10 us. The largest of the public CSL programs needs 333,000 steps. Large layouts need more, so each PE that gets its
code, and each distinct PE program, adds to what is allowed.
"""

from __future__ import annotations

from typing import Final

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.walk import size

#: Default of `--max-comptime-steps`: some seconds of a loop that never ends.
COMPTIME_STEPS: Final = 500_000
#: Further steps that each `@set_tile_code` allows, and each distinct PE program.
STEPS_PER_PE: Final = 100
STEPS_PER_PROGRAM: Final = 10_000
#: These add at most so many times `--max-comptime-steps`: by default enough for a whole wafer.
MOST_EARNED: Final = 150
#: Steps that a distinct PE program costs besides those of its functions.
PROGRAM_STEPS: Final = 80
#: Nodes of a loop's or function's syntax tree that one step covers, beyond the first.
NODES_PER_STEP: Final = 16
#: Default of `--max-comptime-memory`: MiB that compiling may add to the process.
COMPTIME_MEGABYTES: Final = 2048
#: Steps after which the memory in use is looked at again; each handles 512 bytes of values or so.
STEPS_PER_MEMORY_CHECK: Final = 4096
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
#: Instructions of all functions of one PE program before the linker looks at them.
PROGRAM_INSTRUCTIONS: Final = 60_000
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


def code_steps(node: ast.Node) -> int:
    """Steps that running this code once costs, besides those of the loops and calls in it."""
    return 1 + size(node) // NODES_PER_STEP


def translation_steps(node: ast.Node) -> int:
    """Steps that translating this code to IR costs."""
    return 1 + size(node)


def bulk_steps(count: int) -> int:
    """Steps that handling `count` elements or bytes costs."""
    return count // ELEMENTS_PER_STEP


def check_size(type_: t.Type, span: ast.Span) -> None:
    """Refuse types whose values would take too much memory at comptime."""
    count = t.leaf_count(type_)
    if count > ARRAY_ELEMENTS:
        kind = "an array" if isinstance(type_, t.ArrayType) else "a struct"
        fail(span, f"{kind} of {count} elements is too large", f"the limit is {ARRAY_ELEMENTS}")
