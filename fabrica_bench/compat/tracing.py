"""Traces of a host script's runs, asked for by environment variables.

`FABRICA_SIM_TRACE`          directory for the trace files; without it nothing is recorded
`FABRICA_SIM_TRACE_FORMATS`  `perfetto`, `wse-viz`, or both separated by a comma (default: both)
`FABRICA_SIM_TRACE_CYCLES`   `FIRST-LAST`: only events of these cycles
`FABRICA_SIM_TRACE_PES`      `X` or `X0-X1`, a comma, `Y` or `Y0-Y1`: only events of these PEs of the program rectangle
`FABRICA_SIM_TRACE_EVENTS`   most events kept (default 500000)
`FABRICA_SIM_PROFILE`        instead of all that: directory for profiles, see `profiling`

Each run writes `<artefact>.perfetto.json` and `<artefact>.wse-viz.log`, further runs of one process
`<artefact>-2...`. `<artefact>.trace.json` beside them lists the files, the number of events, and where a trace was cut.
A run that faults or deadlocks writes its trace too, and so does one that the script never stopped.
"""

from __future__ import annotations

import atexit
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from fabrica_bench.compat.artifacts import write_json
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.errors import from_os_error
from fabrica_bench.wse.trace_recorder import DEFAULT_MAX_EVENTS, LAST_CYCLE, TraceRecorder, TraceWindow

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.trace import TraceSink
    from fabrica_bench.wse.trace_timeline import Timeline

DIRECTORY_VARIABLE: Final = "FABRICA_SIM_TRACE"
PROFILE_VARIABLE: Final = "FABRICA_SIM_PROFILE"
FORMATS_VARIABLE: Final = "FABRICA_SIM_TRACE_FORMATS"
CYCLES_VARIABLE: Final = "FABRICA_SIM_TRACE_CYCLES"
PES_VARIABLE: Final = "FABRICA_SIM_TRACE_PES"
EVENTS_VARIABLE: Final = "FABRICA_SIM_TRACE_EVENTS"
FORMATS: Final = {"perfetto": "perfetto.json", "wse-viz": "wse-viz.log"}
"""Name of a format, and how the names of its files end."""
SUMMARY_SUFFIX: Final = ".trace.json"
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
_used_names: set[Path] = set()


class Recording(ABC):
    """What a run writes down when it ends, one way or another. `recorder` is the machine's trace sink."""

    def __init__(self, recorder: TraceSink, directory: Path, name: str) -> None:
        self.recorder = recorder
        self.directory = directory
        self.name = name
        self._written = False
        atexit.register(self.write)

    def write(self) -> None:
        """Write the files; a second call does nothing.

        Raises:
            FabricaError: The directory can't be written.
        """
        if self._written:
            return
        self._written = True
        atexit.unregister(self.write)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._write_files()
        except OSError as error:
            raise from_os_error(error) from error

    @abstractmethod
    def _write_files(self) -> None:
        """Write into the existing directory."""


class TraceRecording(Recording):
    """The trace of one run."""

    def __init__(self, recorder: TraceRecorder, directory: Path, name: str, formats: tuple[str, ...]) -> None:
        super().__init__(recorder, directory, name)
        self._trace = recorder
        self.formats = formats

    def _write_files(self) -> None:
        from fabrica_bench.wse.trace_timeline import build_timeline

        line = build_timeline(self._trace)
        files = {name: f"{self.name}.{FORMATS[name]}" for name in self.formats}
        for name, file in files.items():
            with (self.directory / file).open("w", encoding="utf-8") as stream:
                _writer(name)(line, stream)
        write_json(self.directory / f"{self.name}{SUMMARY_SUFFIX}", self._summary(files))

    def _summary(self, files: dict[str, str]) -> dict[str, Any]:
        return {
            "files": files,
            "events": self._trace.count,
            "last_cycle": self._trace.last_cycle,
            "truncated_at_cycle": self._trace.truncated_at,
        }


def recording_from_environment(program: Program, artifact: Path) -> Recording | None:
    """The trace or profile that the environment asks for, or None.

    Raises:
        HostError: A variable has a value that makes no sense.
    """
    directory = os.environ.get(DIRECTORY_VARIABLE, "").strip()
    profiles = os.environ.get(PROFILE_VARIABLE, "").strip()
    if profiles:
        from fabrica_bench.compat.profiling import ProfileRecording

        if directory:
            raise HostError(
                f"{DIRECTORY_VARIABLE} and {PROFILE_VARIABLE} are both set", remedy="ask for a trace or for a profile"
            )
        folder = Path(profiles).absolute()
        return ProfileRecording(program, folder, _free_name(folder, artifact))
    if not directory:
        return None
    window = TraceWindow(_cycles(), _region(program), _max_events())
    folder = Path(directory).absolute()
    return TraceRecording(TraceRecorder(program, window), folder, _free_name(folder, artifact), _formats())


def parse_range(text: str) -> tuple[int, int] | None:
    """`7` or `3-9` as first and last number; None if it is neither."""
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return None
    first, last = int(found[1]), int(found[2] or found[1])
    return (first, last) if first <= last else None


def _free_name(directory: Path, artifact: Path) -> str:
    base = artifact.resolve().name or "trace"
    number = 1
    while directory / (name := base if number == 1 else f"{base}-{number}") in _used_names:
        number += 1
    _used_names.add(directory / name)
    return name


def _writer(name: str) -> Callable[[Timeline, TextIO], None]:
    if name == "perfetto":
        from fabrica_bench.wse.trace_perfetto import write_perfetto

        return write_perfetto
    from fabrica_bench.wse.trace_wseviz import write_wseviz

    return write_wseviz


def _formats() -> tuple[str, ...]:
    text = os.environ.get(FORMATS_VARIABLE, "").strip()
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip())) or tuple(FORMATS)
    for name in names:
        if name not in FORMATS:
            raise HostError(f"{FORMATS_VARIABLE}: unknown format {name!r}", remedy=f"known: {', '.join(FORMATS)}")
    return names


def _cycles() -> tuple[int, int]:
    text = os.environ.get(CYCLES_VARIABLE, "").strip()
    if not text:
        return 0, LAST_CYCLE
    cycles = parse_range(text)
    if cycles is None:
        raise HostError(f"{CYCLES_VARIABLE} is {text!r}", remedy="write FIRST-LAST, e.g. 1000-5000")
    return cycles


def _region(program: Program) -> tuple[int, int, int, int] | None:
    text = os.environ.get(PES_VARIABLE, "").strip()
    if not text:
        return None
    columns, _, rows = text.partition(",")
    xs, ys = parse_range(columns), parse_range(rows)
    if xs is None or ys is None:
        raise HostError(f"{PES_VARIABLE} is {text!r}", remedy="write columns and rows, e.g. 0-3,0-3 or 2,1")
    if xs[0] >= program.width or ys[0] >= program.height:
        raise HostError(
            f"{PES_VARIABLE} is {text!r}: no such PE",
            remedy=f"columns are 0 to {program.width - 1} and rows 0 to {program.height - 1}",
        )
    return (*xs, *ys)


def _max_events() -> int:
    text = os.environ.get(EVENTS_VARIABLE, "").strip()
    if not text:
        return DEFAULT_MAX_EVENTS
    if not text.isdecimal() or not 0 < int(text) < 1 << 40:
        raise HostError(f"{EVENTS_VARIABLE} is {text!r}", remedy="set it to a positive number, or unset it")
    return int(text)
