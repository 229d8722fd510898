"""What is fuzzed, one function per target: it makes an input from a seed, feeds it, and raises if a promise is broken.

The promises: bad input ends with `CslError` (or, of a run, `SimulationError`) and nothing else; everything ends in
bounded time; the same input gives the same result.
"""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.fabrics import random_fabric
from fuzz.mutations import mutate
from fuzz.programs import random_program

from fabrica_bench.csl import fmt, ir
from fabrica_bench.csl.artifact import encode_program
from fabrica_bench.csl.diagnostics import CslError, render
from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.tasks import load_task
from fabrica_bench.wse.commands import Launch, Limits
from fabrica_bench.wse.faults import SimulationError
from fabrica_bench.wse.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20
"""After which an input counts as hanging. Most take milliseconds."""
ARCHES = ("wse2", "wse3")
RISKY = 0.25
"""Part of the simulator's programs that may fault, deadlock or have errors."""
DONE = "done"
_LIMITS = Limits(max_cycles=30_000, drain_cycles=5_000, log_lines=1_000)
_ENOUGH = Limits(max_cycles=1_000_000, drain_cycles=5_000, log_lines=1_000)
"""For programs that end of themselves."""


class Finding(AssertionError):
    """A broken promise; carries the input."""

    def __init__(self, what: str, files: dict[str, str]) -> None:
        super().__init__(what)
        self.files = files


@contextmanager
def _deadline(files: dict[str, str]) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise Finding(f"took longer than {SECONDS} s of processor time", files)

    # processor time: on a loaded machine the clock says nothing about the input
    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    except (Finding, CslError, SimulationError):
        raise
    except Exception as problem:
        raise Finding(f"{type(problem).__name__}: {problem}", files) from problem
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def _seeds() -> list[str]:
    """Texts to start from: this project's own CSL files."""
    folders = ("fabrica_bench/csl/lib", "tasks", "tests/conformance")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.csl"))]
    return [path.read_text(encoding="utf-8", errors="replace") for path in files]


def _mutant(rng: random.Random) -> str:
    seeds = _seeds()
    return mutate(rng, rng.choice(seeds), rng.choice(seeds))


def fuzz_parser(seed: int) -> None:
    """Lexer and parser take any text; what parses can be formatted, and the formatted text means the same."""
    text = _mutant(random.Random(seed))
    files = {"pe.csl": text}
    with _deadline(files):
        try:
            parse_file(virtual_source("pe.csl", text))
        except CslError as error:
            for diagnostic in error.diagnostics:
                render(diagnostic)
            return
        once = fmt.format_source(text)
        if fmt.format_source(once) != once:
            raise Finding("formatting is not stable", files)


def fuzz_analyser(seed: int) -> None:
    """The analyser takes any file that parses or not, as the code of a PE or as a layout."""
    rng = random.Random(seed)
    program = random_program(rng)
    name = rng.choice(("pe.csl", "pe.csl", "pe.csl", "layout.csl"))
    program[name] = mutate(rng, program[name], rng.choice(_seeds()))
    with _folder(program) as folder, _deadline(program):
        _compile(folder, rng.choice(ARCHES))


def fuzz_bundles(seed: int) -> None:
    """As `fuzz_analyser`, from the programs of the task suite; what still compiles is launched."""
    rng = random.Random(seed)
    layouts = sorted((ROOT / "tasks").glob("*/csl/layout.csl"))
    source = rng.choice(layouts).parent
    program = {path.name: path.read_text(encoding="utf-8") for path in sorted(source.glob("*.csl"))}
    name = rng.choice(sorted(program))
    program[name] = mutate(rng, program[name], rng.choice(_seeds()))
    with _folder(program) as folder, _deadline(program):
        compiled = _compile(folder, rng.choice(ARCHES), _size(source.parent.name))
        if compiled is not None:
            _run(compiled)


@cache
def _size(slug: str) -> dict[str, int]:
    """Params of a task's first size."""
    task = load_task(slug)
    return task.size(task.spec.sizes[0].name)


def fuzz_simulator(seed: int) -> None:
    """A program connected by construction runs to its end, and each word arrives once; one of `random_program`, now and
    then, runs to its end or to a report. Both do the same twice."""
    rng = random.Random(seed)
    if rng.random() < RISKY:
        _compile_and_run_twice(random_program(rng), rng.choice(ARCHES))
        return
    program, sums = random_fabric(rng)
    ran = _compile_and_run_twice(program, rng.choice(ARCHES), _ENOUGH)
    if ran is None:
        raise Finding("a program without errors does not compile", program)
    compiled, (ending, *_, memory) = ran
    if ending != DONE:
        raise Finding(f"a connected program does not run to its end: {ending}", program)
    found = {(x, y): _sum(compiled, x, y, memory) for x, y in sums}
    if found != sums:
        raise Finding(f"sums of received words: expected {sums}, got {found}", program)


def _sum(program: ir.Program, x: int, y: int, memory: Any) -> int:
    """Variable `sum` of a PE; `memory` has the PEs row by row."""
    address = program.images[program.tiles[y][x]].globals["sum"].address
    return int.from_bytes(memory[y * program.width + x][address : address + 4], "little")


def _compile_and_run_twice(
    files: dict[str, str], arch: str, limits: Limits = _LIMITS
) -> tuple[ir.Program, tuple[Any, ...]] | None:
    """The program and its run; None if it has errors."""
    with _folder(files) as folder, _deadline(files):
        compiled = _compile(folder, arch)
        if compiled is None:
            return None
        again = _compile(folder, arch)
        if again is None or encode_program(compiled) != encode_program(again):
            raise Finding("compiling twice gives two programs", files)
        first, second = _run(compiled, limits), _run(again, limits)
        if first != second:
            raise Finding(f"two runs differ: {first[:2]} and {second[:2]}", files)
        return compiled, first


def _compile(folder: Path, arch: str, params: Mapping[str, int] | None = None) -> ir.Program | None:
    options = CompileOptions(
        folder / "layout.csl",
        arch=arch,  # type: ignore[arg-type]
        fabric_offsets=(4, 1),
        memcpy=True,
        params=params or {},
        max_comptime_steps=20_000,
        confine_imports=True,
    )
    try:
        return compile_program(options).program
    except CslError as error:
        for diagnostic in error.diagnostics:
            render(diagnostic)
        return None


def _run(program: ir.Program, limits: Limits = _LIMITS) -> tuple[Any, ...]:
    entries = [export for export in program.exports if export.kind == "fn"]
    try:
        machine = Machine(program, limits=limits)
    except SimulationError as error:
        return (error.text,)
    try:
        for entry in entries:
            machine.wait(machine.submit(Launch(entry.name, (0,) * len(entry.params))))
        machine.drain()
        ending = DONE
    except SimulationError as error:
        ending = error.text
    memory = [bytes(pe.memory.u8) for pe in machine.elements]
    return ending, machine.cycle, machine.sim_log, memory


@contextmanager
def _folder(files: dict[str, str]) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8", errors="replace")
        yield folder
    finally:
        shutil.rmtree(folder)


TARGETS: dict[str, Callable[[int], None]] = {
    "parser": fuzz_parser,
    "analyser": fuzz_analyser,
    "bundles": fuzz_bundles,
    "simulator": fuzz_simulator,
}
