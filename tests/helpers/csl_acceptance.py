"""Programs that must compile, run and compute what their first lines say: tests/conformance/accept/*.csl.

    // accept wse2 wse3
    // flags --fp16-format=bf16              (optional: further options of `cslc`)
    // expect total i32 [6]                  (final content of a variable of the PE in the corner)
    // expect 1,0 total i32 [7]              (of the PE in column 1, row 0)

The numbers were worked out by hand from the rules of the language. A program with a layout block is compiled as it is;
any other is the code of the only PE of a program. Programs start by a task that is active from the beginning.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fabrica_bench.compat.cslc import compile_options
from fabrica_bench.compat.cslc_options import parse_options
from fabrica_bench.csl import ir
from fabrica_bench.csl.driver import compile_program
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.memory import MEMORY_BYTES
from fabrica_bench.wse.selection import open_machine
from helpers.csl_rejections import ONE_PE

FOLDER = Path(__file__).resolve().parents[1] / "conformance" / "accept"
_EXPECTATION = re.compile(r"// expect (?:(\d+),(\d+) )?(\w+) (\w+) (\[.*\])")


class Expectation(NamedTuple):
    """Final content of a variable."""

    x: int
    y: int
    name: str
    dtype: str
    values: list[Any]


@dataclass(frozen=True)
class Acceptance:
    """A program and what it computes."""

    path: Path
    arches: tuple[str, ...]
    flags: tuple[str, ...]
    expectations: tuple[Expectation, ...]


def programs() -> Iterator[Acceptance]:
    """All programs by name; files without a header are modules of others."""
    for path in sorted(FOLDER.glob("*.csl")):
        lines = path.read_text(encoding="utf-8").split("\n")
        if not lines[0].startswith("// accept "):
            continue
        flags: tuple[str, ...] = ()
        expectations = []
        for line in lines[1:]:
            if line.startswith("// flags "):
                flags = tuple(line.split()[2:])
            elif found := _EXPECTATION.fullmatch(line):
                x, y, name, dtype, values = found.groups()
                expectations.append(Expectation(int(x or 0), int(y or 0), name, dtype, ast.literal_eval(values)))
            elif line.startswith("// expect"):
                raise AssertionError(f"{path}: can't read {line!r}")
        assert expectations, f"{path} expects nothing"
        yield Acceptance(path, tuple(lines[0].split()[2:]), flags, tuple(expectations))


def compiled(path: Path, arch: str, flags: tuple[str, ...], folder: Path) -> ir.Program:
    """Compile the program; `folder` may hold files of its own meanwhile."""
    layout = path
    if re.search(r"^layout\b", path.read_text(encoding="utf-8"), re.MULTILINE) is None:
        layout = folder / "layout.csl"
        layout.write_text(ONE_PE.replace("PATH", str(path)), encoding="utf-8")
    return compile_program(compile_options(parse_options([str(layout), f"--arch={arch}", *flags]))).program


def run(path: Path, arch: str, flags: tuple[str, ...], folder: Path) -> tuple[Machine, Machine]:
    """Compile the program and run it until nothing more happens, on the native executor and on the reference."""
    program = compiled(path, arch, flags, folder)
    machines = open_machine(program, executor="native"), Machine(program)
    for machine in machines:
        machine.drain()
    return machines


def end_of(machine: Machine) -> tuple[int, list[str], list[str]]:
    """Cycle, printed lines, and digests of the PEs' memories."""
    places = [(x, y) for y in range(machine.program.height) for x in range(machine.program.width)]
    digests = [hashlib.sha256(machine.pe(x, y).memory.read(0, MEMORY_BYTES)).hexdigest() for x, y in places]
    return machine.cycle, machine.sim_log, digests


def differences(machine: Machine, items: tuple[Expectation, ...]) -> dict[str, tuple[list[Any], list[Any]]]:
    """Variable -> (what it holds, what it should), for those that are not as expected."""
    found = {}
    for item in items:
        dtype = f"<{item.dtype[0]}{int(item.dtype[1:]) // 8}"
        got = np.frombuffer(machine.read_symbol(item.x, item.y, item.name), dtype)
        wanted = np.array(item.values, dtype)
        if not np.array_equal(got, wanted):
            found[f"{item.x},{item.y} {item.name}"] = (got.tolist(), wanted.tolist())
    return found
