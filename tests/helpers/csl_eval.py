"""Compile small CSL sources from text, look at their errors, or run them and read variables back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_bench.csl.diagnostics import CslError, Severity
from fabrica_bench.csl.driver import CompileOptions, CompileOutput, compile_program

ONE_PE = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("main", fn()void);
}
"""
HEAD = """
param memcpy_params: comptime_struct;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
"""
TAIL = "\ncomptime { @export_symbol(main); }\n"


def compile_text(
    folder: Path, pe: str = "", *, layout: str = ONE_PE, files: Mapping[str, str] | None = None, **options: Any
) -> CompileOutput:
    """Compile `layout` with `pe` as pe.csl and further files beside it."""
    sources = {"layout.csl": layout, "pe.csl": pe, **(files or {})}
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    settings = {"memcpy": True, "fabric_offsets": (4, 1), **options}
    return compile_program(CompileOptions(folder / "layout.csl", **settings))


def compile_body(folder: Path, body: str, **options: Any) -> CompileOutput:
    """Compile a one-PE program: `body` is everything but the memcpy import; `main`, if there is one, is exported."""
    tail = TAIL if "fn main(" in body else ""
    layout = ONE_PE if tail else ONE_PE.replace('  @export_name("main", fn()void);\n', "")
    return compile_text(folder, HEAD + body + tail, layout=layout, **options)


def errors_of(folder: Path, body: str, **options: Any) -> list[str]:
    """Messages of the errors in a one-PE program; fails if it compiles."""
    try:
        compile_body(folder, body, **options)
    except CslError as problem:
        return error_messages(problem)
    raise AssertionError("the program compiles")


def error_messages(problem: CslError) -> list[str]:
    """The errors among the diagnostics of a failed compilation."""
    return [entry.message for entry in problem.diagnostics if entry.severity is Severity.ERROR]


def layout_errors(folder: Path, layout: str, pe: str = "", **options: Any) -> list[str]:
    """Messages of the errors in a program given as layout text."""
    try:
        compile_text(folder, pe, layout=layout, **options)
    except CslError as problem:
        return error_messages(problem)
    raise AssertionError("the program compiles")


class Ran:
    """Memory of the PE after `main` has run."""

    def __init__(self, output: CompileOutput) -> None:
        from fabrica_bench.wse.commands import Launch
        from fabrica_bench.wse.machine import Machine

        self.output = output
        self.machine = Machine(output.program)
        self.machine.wait(self.machine.submit(Launch("main")))

    def array(self, name: str, dtype: npt.DTypeLike) -> list[Any]:
        """Elements of a global variable."""
        values: list[Any] = np.frombuffer(self.machine.read_symbol(0, 0, name), dtype).tolist()
        return values

    def value(self, name: str, dtype: npt.DTypeLike) -> Any:
        """Value of a scalar global variable."""
        return self.array(name, dtype)[0]


def run_body(folder: Path, body: str, **options: Any) -> Ran:
    """Compile and run a one-PE program; `main` must call `done()` at its end."""
    return Ran(compile_body(folder, "fn done() void { sys_mod.unblock_cmd_stream(); }\n" + body, **options))
