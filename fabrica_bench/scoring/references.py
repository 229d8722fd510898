"""Validation of tasks: both reference programs are judged as if they were candidates, at any size and for any target.

A cell is one task at one size for one target. Cells are independent of each other: several are worked on at a time,
what is found is kept in a file, and one that fails takes nothing from the others.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import multiprocessing
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.firewall.bundle import bundle_texts
from fabrica_bench.json_text import parse_json
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
from fabrica_bench.scoring.scorer import AnyVerdict, Scorer
from fabrica_bench.scoring.staging import task_digest
from fabrica_bench.scoring.verdict import Blame, Invalid, NotScored, Valid
from fabrica_bench.tasks import Task, load_task
from fabrica_bench.tasks.recording import VARIANTS, MeasuredCycles, Variant, record
from fabrica_bench.tasks.seeds import RECORD_KEY, HeldOutKey
from fabrica_bench.tasks.spec import Arch
from fabrica_bench.toolchains import get_toolchain
from fabrica_bench.version import SUITE_VERSION, __version__

TOOLCHAIN: Final = "embedded"
RECORDED_AS: Final = f"fabrica-embedded {__version__}"


@dataclass(frozen=True)
class Cell:
    """One task at one size for one target.

    Attributes:
        root: The task's folder, absolute.
    """

    root: str
    arch: Arch
    size: str


@dataclass(frozen=True)
class ReferenceRow:
    """What became of one reference.

    Attributes:
        verdict: `valid`, `invalid` or `not scored`.
        cycles: Of the verdict, the median over the inputs; None unless valid.
        samples: Cycles of every input, visible ones first.
        reason: Why it isn't valid.
    """

    task: str
    arch: Arch
    size: str
    reference: Variant
    verdict: str
    cycles: int | None
    samples: tuple[int, ...]
    reason: str | None

    @property
    def ok(self) -> bool:
        return self.verdict == "valid"


@dataclass(frozen=True)
class CellResult:
    """The rows of one cell, and the wall time they took."""

    cell: Cell
    rows: tuple[ReferenceRow, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return bool(self.rows) and all(row.ok for row in self.rows)


def cells(tasks: Iterable[Task], *, size: str | None = None) -> list[Cell]:
    """The cells of these tasks for every target; with `size` only those of tasks that have it.

    Returns:
        Cells task by task, in the order of the spec.
    """
    return [
        Cell(str(task.root.absolute()), target, name)
        for task in tasks
        for target in task.spec.bundle.archs
        for name in task.spec.size_names
        if size in (None, name)
    ]


def validate_cell(cell: Cell, *, recording: bool = False) -> CellResult:
    """Judge both references of a cell on three visible and five held-out inputs.

    Args:
        cell: The cell.
        recording: Take the held-out inputs of `RECORD_KEY` instead of fresh ones.

    Returns:
        One row per reference. Whatever goes wrong is in the rows.
    """
    started = time.monotonic()
    rows: list[ReferenceRow] = []
    name = Path(cell.root).name
    try:
        task = load_task(cell.root)
        name = task.name
        texts = bundle_texts(task)
        bundle = task.spec.bundle
        key = RECORD_KEY if recording else HeldOutKey.fresh()
        cases = (*visible_cases(task), *held_out_cases(task, held_out_seeds(task, key)))
        with Scorer(Conditions(task, get_toolchain(TOOLCHAIN), cell.arch, cell.size)) as scorer:
            for variant, file in zip(VARIANTS, (bundle.compute, bundle.plain), strict=True):
                if file is not None:
                    verdict = scorer.score({bundle.compute: texts[file]}, cases, trusted=True)
                    rows.append(_row(name, cell, variant, verdict))
    except FabricaError as error:
        rows.append(_row(name, cell, "expert", NotScored(blame=Blame.HARNESS, reason=str(error))))
    return CellResult(cell, tuple(rows), time.monotonic() - started)


def _row(task: str, cell: Cell, variant: Variant, verdict: AnyVerdict) -> ReferenceRow:
    match verdict:
        case Valid():
            return ReferenceRow(
                task, cell.arch, cell.size, variant, "valid", verdict.cycles, tuple(verdict.samples), None
            )
        case Invalid():
            word = f"fails {verdict.predicate}"
        case NotScored():
            word = "not scored"
    return ReferenceRow(task, cell.arch, cell.size, variant, word, None, (), " ".join(verdict.reason.split()))


def validate_cells(wanted: Sequence[Cell], *, jobs: int = 1, recording: bool = False) -> Iterator[CellResult]:
    """`validate_cell` of each cell, several at a time; results come as they are ready.

    Closing the iterator early, or an exception in the caller's loop, ends what is running.

    Args:
        wanted: The cells.
        jobs: Cells at a time, each in a process of its own; 1 works in this process.
        recording: As for `validate_cell`.
    """
    if jobs == 1 or len(wanted) < 2:
        for cell in wanted:
            yield validate_cell(cell, recording=recording)
        return
    try:
        folder = tempfile.mkdtemp(prefix="fabrica-validate-")
    except OSError as error:
        raise from_os_error(error) from error
    # spawn: a fork would take this process's threads and handlers along.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(jobs, len(wanted)), context, _start_worker, (folder,))
    try:
        futures = [pool.submit(validate_cell, cell, recording=recording) for cell in wanted]
        for future in as_completed(futures):
            yield future.result()
    except BrokenExecutor as error:
        raise FabricaError(
            "a process that validates was killed from outside",
            remedy="see whether memory is short; --jobs 1 needs the least",
            code=ExitCode.ENVIRONMENT,
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        shutil.rmtree(folder, ignore_errors=True)


def _start_worker(folder: str) -> None:
    """In a fresh worker: its temporary files are removed by the parent, and Ctrl-C just ends it."""
    tempfile.tempdir = folder
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# ------------------------------------------------------------------------------------------- results kept


def cell_keys(wanted: Sequence[Cell], *, recording: bool = False) -> dict[Cell, str]:
    """For each cell a hash of what decides its result beside fresh inputs: task, size, target, harness, toolchain."""
    tasks = {root: task_digest(load_task(root)) for root in {cell.root for cell in wanted}}
    fixed = [__version__, SUITE_VERSION, repr(sorted(get_toolchain(TOOLCHAIN).describe().items())), str(recording)]
    keys: dict[Cell, str] = {}
    for cell in wanted:
        digest = hashlib.sha256()
        for part in (*fixed, tasks[cell.root], cell.arch, cell.size):
            digest.update(len(part.encode()).to_bytes(8, "big") + part.encode())
        keys[cell] = digest.hexdigest()
    return keys


class ResultsFile:
    """Results of cells, one JSON object a line, kept as they arrive.

    Args:
        path: The file; it need not exist.

    Raises:
        FabricaError: The file can't be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, CellResult] = {}
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise FabricaError(f"can't be read: {reason}", place=str(path), remedy="name another file") from error
        whole, _, rest = text.rpartition("\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                entry = parse_json(line)
                self._kept[entry["key"]] = _result_from_json(entry)
            except (ValueError, KeyError, TypeError) as error:
                raise FabricaError(
                    "is no line of results", place=f"{path}:{number}", remedy="remove the line, or name another file"
                ) from error
        if rest:  # the end of a run that was interrupted while it wrote
            self._write(path, whole + "\n" if whole else "", "w")

    def valid(self, key: str) -> CellResult | None:
        """The result that is kept under this key, if it was good."""
        kept = self._kept.get(key)
        return kept if kept is not None and kept.ok else None

    def keep(self, key: str, result: CellResult) -> None:
        """Append a result. Raises `FabricaError` when the file can't be written."""
        self._kept[key] = result
        self._write(self._path, json.dumps({"key": key, **dataclasses.asdict(result)}) + "\n", "a")

    @staticmethod
    def _write(path: Path, text: str, mode: Literal["a", "w"]) -> None:
        try:
            with path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise from_os_error(error) from error


def _result_from_json(entry: Mapping[str, Any]) -> CellResult:
    rows = tuple(ReferenceRow(**{**row, "samples": tuple(row["samples"])}) for row in entry["rows"])
    return CellResult(Cell(**entry["cell"]), rows, float(entry["seconds"]))


def record_cycles(results: Iterable[CellResult]) -> list[Task]:
    """Write the cycles of all valid rows into the specs of their tasks.

    Returns:
        The tasks that were written.

    Raises:
        FabricaError: A spec can't be written.
    """
    by_root: dict[str, list[MeasuredCycles]] = {}
    for result in results:
        found = by_root.setdefault(result.cell.root, [])
        found += [
            MeasuredCycles(row.arch, row.size, row.reference, row.cycles, row.samples[0])
            for row in result.rows
            if row.cycles is not None
        ]
    written = []
    for root, measured in by_root.items():
        if measured:
            task = load_task(root)
            record(task, measured, RECORDED_AS)
            written.append(task)
    return written
