"""The small language of the native kernel."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import pytest

from fabrica_bench.wse.native.kernel_language import Kernel, KernelError
from fabrica_bench.wse.native.library import library


def run(source: str, *args: int) -> int:
    """Compile a module and call its function `f`."""
    library()  # LLVM is set up
    module: Any = Kernel([("test", source)]).compile(llvm.get_process_triple(), {})
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(engine.get_function_address("fb_f"))
    return int(function(*args))


def test_loops_conditions_and_calls() -> None:
    source = """
LIMIT = 3 + 4

def twice(x: "i64") -> "i64":
    return x * 2

def f(n: "i64") -> "i64":
    total = 0
    for i in range(0, n):
        if i == 2 or i > LIMIT and not i == 9:
            continue
        total += twice(i)
    while total > 1000:
        total -= 1000
    return total if n > 0 else -1
"""
    expected = sum(2 * i for i in range(12) if not (i == 2 or (i > 7 and i != 9)))
    assert run(source, 12) == expected
    assert run(source, 0) == -1


def test_structures_pointers_and_arrays() -> None:
    source = """
class Inner:
    a: "i64"
    b: "i64[3]"

class Outer:
    head: "i64"
    parts: "Inner[2]"
    link: "Outer*"

def f(at: "i64") -> "i64":
    outer = cast(Outer, at)
    outer.link = outer
    outer.parts[1].b[2] = 7
    same = outer.link
    same.parts[1].a = 35 + same.parts[1].b[2]
    return cast(ptr_i64, at)[5]
"""
    words = (ctypes.c_int64 * 16)()
    assert run(source, ctypes.addressof(words)) == 42
    assert list(words[:9]) == [0, 0, 0, 0, 0, 42, 0, 0, 7]


def test_what_is_not_in_the_language_is_named() -> None:
    with pytest.raises(KernelError, match="f:3: unknown name y"):
        run('\ndef f(x: "i64") -> "i64":\n    return x + y\n', 1)
