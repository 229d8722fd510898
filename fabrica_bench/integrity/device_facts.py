"""What is known of a PE program from outside: the symbols that the host copies, and where the program starts and ends.

The symbols' sizes are recorded from a run of the reference (`fabrica_bench.integrity.recording_host`); the places are
read off the syntax tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabrica_bench.csl import ast
from fabrica_bench.integrity.frozen import exported_functions, returns, stamp_name, window_use
from fabrica_bench.integrity.outputs import POISON_WORDS
from fabrica_bench.integrity.syntax import builtin_calls, declarations, export_name_of, parse_text


@dataclass(frozen=True)
class Symbol:
    """An array that the host copies, on each PE.

    Attributes:
        name: Host-visible name.
        pointer: What the program calls the exported pointer.
        dtype: CSL type of an element: f32, f16, u32 or u16.
        per_pe: Elements on a PE.
        words: What the host read back from the reference, uint32 [rows, columns, per_pe]; None for what it only wrote.
    """

    name: str
    pointer: str
    dtype: str
    per_pe: int
    words: npt.NDArray[np.uint32] | None = None

    @property
    def written(self) -> list[tuple[int, int]]:
        """(column, row) of the PEs that wrote all of it: nothing there is what the host had poisoned it with."""
        assert self.words is not None
        poison = POISON_WORDS[16 if self.dtype.endswith("16") else 32]
        rows, columns, _ = self.words.shape
        return [(x, y) for y in range(rows) for x in range(columns) if not (self.words[y, x] == poison).any()]


@dataclass(frozen=True)
class Program:
    """A PE program and its host-visible arrays.

    Attributes:
        text: The source.
        outputs, inputs: Arrays that the host reads as outputs, and those that it only writes.
        begins: Offsets right after each start stamp.
        ends: Offsets of each end stamp that is followed by a return to the host.
        mesh: PE (columns, rows).
    """

    text: str
    outputs: tuple[Symbol, ...]
    inputs: tuple[Symbol, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    mesh: tuple[int, int]


def read_program(text: str, record: Path, *, outputs: Sequence[str], window: str, launches: Sequence[str]) -> Program:
    """Put together what a text and a record tell.

    Args:
        text: A program that keeps the frozen interface, e.g. a reference kernel.
        record: File that the recording host wrote.
        outputs: Names of the task's outputs.
        window, launches: File of the timing window, and what the host launches.
    """
    tree = parse_text("pe.csl", text)
    use = window_use(tree, window, launches)
    assert use is not None
    with np.load(record, allow_pickle=False) as archive:
        kept = {name: archive[name] for name in archive.files}
    exported = exported_functions(tree)
    # A statement's span ends before its semicolon.
    begins = [text.index(";", _first(exported[entry]).span.end) + 1 for entry in use.entries]
    ends = [before.span.start for before, _ in returns(tree) if before and stamp_name(before, use.name) == use.stop]
    region = kept[f"out:{outputs[0]}"]
    return Program(
        text,
        tuple(_symbol(tree, name, kept, "out") for name in outputs),
        tuple(
            _symbol(tree, name, kept, "in")
            for name in (key.removeprefix("in:") for key in kept if key.startswith("in:"))
            if name not in outputs
        ),
        tuple(begins),
        tuple(ends),
        (int(region[2]), int(region[3])),
    )


def _symbol(tree: ast.File, name: str, kept: Mapping[str, npt.NDArray[Any]], direction: str) -> Symbol:
    pointer = next(call.args[0] for call in builtin_calls(tree, "export_symbol") if export_name_of(call) == name)
    assert isinstance(pointer, ast.Ident)
    declared = next(item.type_expr for item in declarations(tree) if item.name == pointer.name)
    assert isinstance(declared, ast.PointerType)
    assert isinstance(declared.element, ast.Ident)
    region = kept[f"{direction}:{name}"]
    count = int(region[4])
    words = kept[f"words:{name}"].reshape(int(region[3]), int(region[2]), count) if direction == "out" else None
    return Symbol(name, pointer.name, declared.element.name, count, words)


def _first(function: ast.FnDecl) -> ast.Stmt:
    assert function.body is not None
    return function.body.stmts[0]
