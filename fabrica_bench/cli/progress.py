"""Progress of a run on standard error: a live display on a terminal, one plain line per event elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from fabrica_bench.cli import console
from fabrica_bench.cli.app import checked_choice
from fabrica_bench.cli.console import counted
from fabrica_bench.errors import from_os_error
from fabrica_bench.json_text import json_text
from fabrica_bench.runs.events import EventKind, RunEvent

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

REFRESH_PER_SECOND: Final = 8
JOB_LINES: Final = 12
"""Running jobs shown at most; the oldest come first, as the ones most likely to be stuck."""


@dataclass
class _Job:
    """A job in progress."""

    started: float
    limit_s: float | None
    stage: str = "starting"


class PlainProgress:
    """One line per event, for logs and pipes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None

    def __call__(self, event: RunEvent) -> None:
        """Show an event; may be called from any thread."""
        with self._lock:
            line = self._line(event)
        if line:
            console.note(line)

    def _line(self, event: RunEvent) -> str | None:
        if event.kind in (EventKind.RUN_STARTED, EventKind.VERIFY_STARTED):
            self._total = _int(event.data, "total")
            self._done = _int(event.data, "finished")
            return run_line(event)
        if event.kind is EventKind.JOB_STARTED:
            limit = event.data.get("limit_s")
            within = f", limit {limit:.0f} s" if isinstance(limit, (int, float)) else ""
            return f"{self._count()} {job_name(event)}: started{within}"
        if event.kind is EventKind.JOB_PROGRESS and event.data.get("stage") == "model":
            # A wait or a retry: somebody may have to do something.
            return f"{self._count()} {job_name(event)}: {event.text}"
        if event.kind is EventKind.JOB_FINISHED:
            self._done += 1
            return f"{self._count()} {job_name(event)}: {finish_text(event)}"
        return None

    def _count(self) -> str:
        width = len(str(self._total))
        return f"[{self._done:>{width}}/{self._total}]"


class LiveProgress:
    """A bar, and below it the running jobs, oldest first; finished jobs scroll by above."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = 0
        self._done = 0
        self._jobs: dict[tuple[str, int], _Job] = {}
        self._console = console.stderr_console()
        self._live: Live | None = None
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        from rich.live import Live

        self._live = Live(
            get_renderable=self._render,
            console=self._console,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            # A JSON document on standard output must not pass through the display.
            redirect_stdout=False,
        )
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: RunEvent) -> None:
        """Show an event; may be called from any thread."""
        with self._lock:
            line = self._update(event)
        if line:
            from rich.text import Text

            self._console.print(Text(line))

    def _update(self, event: RunEvent) -> str | None:
        key = (event.task or "", event.attempt)
        if event.kind in (EventKind.RUN_STARTED, EventKind.VERIFY_STARTED):
            self._total = _int(event.data, "total")
            self._done = _int(event.data, "finished")
            return run_line(event)
        if event.kind is EventKind.JOB_STARTED:
            limit = event.data.get("limit_s")
            self._jobs[key] = _Job(time.monotonic(), float(limit) if isinstance(limit, (int, float)) else None)
        elif event.kind is EventKind.JOB_PROGRESS and key in self._jobs:
            self._jobs[key].stage = event.text
        elif event.kind is EventKind.JOB_FINISHED:
            self._jobs.pop(key, None)
            self._done += 1
            return f"{job_name(event)}: {finish_text(event)}"
        return None

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        with self._lock:
            done, total = self._done, self._total
            jobs = sorted(self._jobs.items(), key=lambda item: item[1].started)
        head = Table.grid(padding=(0, 1))
        head.add_row(
            Spinner("dots"),
            ProgressBar(total=max(total, 1), completed=done, width=30),
            Text(f"{done}/{counted(total, 'task')}, {now - self._began:.0f} s"),
        )
        body = Table.grid(padding=(0, 2))
        for (task, attempt), job in jobs[:JOB_LINES]:
            limit = f" of {job.limit_s:.0f}" if job.limit_s else ""
            name = task if attempt == 1 else f"{task} #{attempt}"
            body.add_row(Text(f"  {name}"), Text(f"{now - job.started:.0f}{limit} s"), Text(job.stage[:60]))
        if len(jobs) > JOB_LINES:
            body.add_row(Text(f"  and {len(jobs) - JOB_LINES} more"), Text(""), Text(""))
        return Group(head, body)


class JsonProgress:
    """One JSON object per event and line: `time` (UTC), `event`, `text`, `task`, `attempt`, `data`.

    Args:
        path: File to append to; None writes to standard error.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stream: TextIO | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            try:
                self._stream = self._path.open("a", encoding="utf-8", newline="\n")
            except OSError as error:
                raise from_os_error(error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._stream is not None:
            # What couldn't be written is tried again on closing; each line was flushed, and its failure told.
            with suppress(OSError):
                self._stream.close()

    def __call__(self, event: RunEvent) -> None:
        """Write an event; may be called from any thread."""
        body = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "event": str(event.kind),
            "text": event.text,
            "task": event.task,
            "attempt": event.attempt if event.task is not None else None,
            "data": dict(event.data),
        }
        line = json_text(body, default=str)
        with self._lock:
            if self._stream is None:
                console.note(line)
            else:
                try:
                    self._stream.write(line + "\n")
                    self._stream.flush()
                except OSError as error:
                    error.filename = str(self._path)
                    raise from_os_error(error) from error


class SeveralProgress:
    """Tells every one of several displays."""

    def __init__(self, displays: Sequence[PlainProgress | LiveProgress | JsonProgress]) -> None:
        self.displays = displays
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for display in self.displays:
            self._stack.enter_context(display)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()

    def __call__(self, event: RunEvent) -> None:
        """Show an event; may be called from any thread."""
        for display in self.displays:
            display(event)


PROGRESS_MODES: Final = ("auto", "live", "plain", "jsonl")


def progress_display(mode: str = "auto", events: Path | None = None) -> SeveralProgress:
    """The display of this mode on standard error, and a file of events beside it.

    Raises:
        UnknownNameError: There is no such mode.
    """
    display: PlainProgress | LiveProgress | JsonProgress
    match checked_choice("--progress", mode, PROGRESS_MODES):
        case "live":
            display = LiveProgress()
        case "plain":
            display = PlainProgress()
        case "jsonl":
            display = JsonProgress()
        case _:
            display = LiveProgress() if console.is_live(sys.stderr) else PlainProgress()
    return SeveralProgress([display, *([JsonProgress(events)] if events is not None else [])])


def run_line(event: RunEvent) -> str:
    """What is about to run, and where its records go."""
    data = event.data
    if event.kind is EventKind.VERIFY_STARTED:
        return f"{event.text} of {data.get('run_dir', '?')}, {_int(data, 'jobs')} at a time"
    taken_over = _int(data, "finished")
    resumed = f", {taken_over} already finished" if taken_over else ""
    toolchain = data.get("toolchain", "")
    name = toolchain.get("toolchain", "") if isinstance(toolchain, Mapping) else toolchain
    return (
        f"agent {data.get('agent', '?')} on {counted(_int(data, 'total'), 'task')}{resumed}; toolchain {name}, "
        f"{_int(data, 'jobs')} at a time; records in {data.get('run_dir', '?')}"
    )


def job_name(event: RunEvent) -> str:
    """The task, and the attempt where there are several."""
    return f"{event.task}" if event.attempt == 1 else f"{event.task} #{event.attempt}"


def finish_text(event: RunEvent) -> str:
    """Verdict, cycles and time of a finished job on one line."""
    verdict = event.data.get("verdict")
    seconds = event.data.get("seconds")
    took = f" ({seconds:.1f} s)" if isinstance(seconds, (int, float)) else ""
    if isinstance(verdict, Mapping) and verdict.get("kind") == "valid":
        return (
            f"valid, {verdict['cycles']:,} cycles, reference {verdict['reference_cycles']:,}, "
            f"speed-up {verdict['speedup']:.3f}{took}"
        )
    return f"{event.text}{took}"


def _int(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name, 0)
    return value if isinstance(value, int) else 0
