"""Put a sample on one PE: facts as the extractor would find them, and a run of the emitted CSL on the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fabrica_agent.analyst import analyse
from fabrica_agent.architect import design
from fabrica_agent.csl.module import write_module
from fabrica_agent.cuda.source import parse
from fabrica_agent.extraction.layout import layout_facts, window_facts
from fabrica_agent.lowering.ir import Program
from fabrica_agent.lowering.options import Options
from fabrica_agent.lowering.pipeline import lower, to_program
from fabrica_agent.records import ArrayFact, Design, HostFacts, Placement, SourceAnalysis, TaskFacts

from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.wse.commands import CopyIn, CopyOut, Launch
from fabrica_bench.wse.machine import Machine
from tests.agents.fabrica.samples import Arrays, Sample

WINDOW = """
param unblock: fn ()void;
const time = @import_module("<time>");
var first = @zeros([3]u16);
var stamps = @zeros([6]u16);
var stamps_ptr: [*]u16 = &stamps;
fn window_open() void {
  time.enable_tsc();
  unblock();
}
fn start() void {
  time.get_timestamp(&first);
}
fn end() void {
  time.get_timestamp(&first);
}
comptime {
  @export_symbol(stamps_ptr, "window_stamps");
  @export_symbol(window_open);
}
"""

_ELEMENTS = {"float32": "f32", "float16": "f16", "int32": "i32", "uint32": "u32"}


def layout_text(sample: Sample, arrays: Arrays) -> str:
    """A layout for one PE that exports the sample's arrays."""
    params = "\n".join(f"param {n}: u16;" for n in sample.sizes)
    fields = "".join(f", .{n} = {n}" for n in sample.sizes)
    tensors = "\n".join(f'  @export_name("{n}", [*]{_ELEMENTS[str(a.dtype)]}, true);' for n, a in arrays.items())
    args = ", ".join("f32" for _ in sample.scalars)
    return f"""{params}
const memcpy = @import_module("<memcpy/get_params>", .{{ .width = 1, .height = 1 }});
layout {{
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{{ .memcpy_params = memcpy.get_params(0){fields} }});
{tensors}
  @export_name("compute", fn({args})void);
  @export_name("window_open", fn()void);
  @export_name("window_stamps", [*]u16, true);
}}
"""


def facts_of(sample: Sample, arrays: Arrays) -> TaskFacts:
    """What the extractor would find in a bundle for the sample."""
    layout = layout_facts(layout_text(sample, arrays), sample.sizes)
    window = window_facts({"window.csl": WINDOW}, layout.functions)
    known = [ArrayFact(name=n, shape=a.shape, dtype=str(a.dtype)) for n, a in arrays.items()]
    scalars = [ArrayFact(name=n, shape=(1,), dtype="float32") for n in sample.scalars]
    host = HostFacts(
        inputs=(*known, *scalars),
        outputs=tuple(k for k in known if k.name in sample.outputs),
        placements=tuple(
            Placement(array=n, shape=(a.size,), symbol=n, length=a.size, x=None, y=None, offset=(0, int(a.size > 1)))
            for n, a in arrays.items()
        ),
        launches=("window_open", "compute"),
        arguments={"compute": tuple(sample.scalars)},
    )
    entry = next(f for f in layout.functions if f.name == "compute")
    return TaskFacts(layout=layout, window=window, host=host, entry=entry, sizes={"given": dict(sample.sizes)})


def plan_of(sample: Sample, arrays: Arrays) -> tuple[Any, SourceAnalysis, TaskFacts, Design]:
    """Source, analysis, facts and design."""
    source = parse(sample.text, f"{sample.name}.cu")
    analysis = analyse(source)
    facts = facts_of(sample, arrays)
    return source, analysis, facts, design(analysis, facts, dict(sample.sizes))


def translated(sample: Sample, arrays: Arrays) -> Program:
    """The sample as kernel IR, before serialisation."""
    source, _, facts, chosen = plan_of(sample, arrays)
    return to_program(source, chosen, facts, sample.sizes)


def lowered(sample: Sample, arrays: Arrays, options: Options) -> tuple[Program, str]:
    """The serial program and the compute file."""
    source, _, facts, chosen = plan_of(sample, arrays)
    variant = lower(source, chosen, facts, sample.sizes, options)
    return variant.program, write_module([variant])


def run_csl(sample: Sample, arrays: Arrays, text: str, folder: Path, arch: str = "wse3") -> tuple[Arrays, int]:
    """Compile and run the file on the simulator.

    Returns:
        The arrays afterwards, and the cycles of the launch.
    """
    (folder / "layout.csl").write_text(layout_text(sample, arrays), encoding="utf-8")
    (folder / "window.csl").write_text(WINDOW, encoding="utf-8")
    (folder / "pe.csl").write_text(text, encoding="utf-8")
    output = compile_program(
        CompileOptions(
            folder / "layout.csl",
            arch=arch,
            fabric_dims=(8, 3),
            fabric_offsets=(4, 1),
            params=sample.sizes,
            memcpy=True,  # type: ignore[arg-type]
        )
    )
    machine = Machine(output.program)
    for name, array in arrays.items():
        words, bits = _words(array)
        machine.wait(machine.submit(CopyIn(name, 0, 0, 1, 1, array.size, words, bits)))  # type: ignore[arg-type]
    args = tuple(int(np.float32(v).view(np.uint32)) for v in sample.scalars.values())
    machine.wait(machine.submit(Launch("compute", args)))
    after: Arrays = {}
    for name, array in arrays.items():
        _, bits = _words(array)
        handle = machine.submit(CopyOut(name, 0, 0, 1, 1, array.size, bits))  # type: ignore[arg-type]
        machine.wait(handle)
        after[name] = _array(np.asarray(handle.result).ravel(), array)
    window = machine.launch_windows[-1]
    return after, int(window.end_cycle or 0) - int(window.start_cycle or 0)


def _words(array: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint32], int]:
    flat = np.ascontiguousarray(array).ravel()
    if flat.dtype.itemsize == 2:
        return flat.view(np.uint16).astype(np.uint32).reshape(1, 1, -1), 16
    return flat.view(np.uint32).reshape(1, 1, -1), 32


def _array(words: npt.NDArray[np.uint32], like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if like.dtype.itemsize == 2:
        return words.astype(np.uint16).view(like.dtype).reshape(like.shape)
    return words.view(like.dtype).reshape(like.shape)


def copies(arrays: Arrays) -> Arrays:
    """Fresh copies of all arrays."""
    return {n: a.copy() for n, a in arrays.items()}


def deviations(sample: Sample, arrays: Arrays, after: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
    """For each output, the largest error as a fraction of what is allowed."""
    expected = sample.expected(arrays, sample.sizes)
    out: dict[str, float] = {}
    for name in sample.outputs:
        want = np.asarray(expected[name], np.float64).ravel()
        have = np.asarray(after[name], np.float64).ravel()
        allowed = sample.atol + sample.rtol * np.abs(want)
        error = np.abs(have - want) / allowed
        out[name] = float(np.where(np.isfinite(have), error, np.inf).max())
    return out
