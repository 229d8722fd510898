"""`SdkRuntime`: the vendor's host API on the embedded simulator.

Commands run strictly in the order in which they were issued. A blocking call advances the simulation until its command
is done; a nonblocking one only queues it, and time advances with the next blocking call, `task_wait` or `stop`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat import sessions
from fabrica_bench.compat.artifacts import read_artifact
from fabrica_bench.compat.direct_links import DirectLinks, receive_command, send_command, store
from fabrica_bench.compat.launch_args import typed_arguments, untyped_arguments
from fabrica_bench.compat.platforms import (
    MemcpyDataType,
    MemcpyOrder,
    Platform,
    SdkCompileArtifacts,
    require_simulation,
)
from fabrica_bench.compat.sessions import HostError, Session, SimulatorStopped
from fabrica_bench.compat.statistics import write_log, write_statistics
from fabrica_bench.compat.tracing import Recording, recording_from_environment
from fabrica_bench.compat.transfers import Region, Words, check_array, check_order, check_region, to_device, to_host
from fabrica_bench.csl.ir import ExportName
from fabrica_bench.errors import from_os_error
from fabrica_bench.wse.commands import Command, CopyIn, CopyOut, Handle, Launch, Limits, StreamIn, StreamOut
from fabrica_bench.wse.faults import SimulationError
from fabrica_bench.wse.leftovers import describe
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.selection import open_machine

CYCLES_VARIABLE: Final = "FABRICA_SIM_MAX_CYCLES"
SECONDS_VARIABLE: Final = "FABRICA_SIM_MAX_SECONDS"
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


class _State(Enum):
    NEW = "not loaded yet"
    LOADED = "loaded but not running"
    RUNNING = "running"
    STOPPED = "stopped"


class Task:
    """A command that was issued; see `SdkRuntime.is_task_done` and `task_wait`."""

    def __init__(self, handles: Sequence[Handle], finish: Callable[[], None] | None = None) -> None:
        self.handles = tuple(handles)
        self._finish = finish

    def complete(self) -> bool:
        """Whether the device has done it; results then are in the host's buffers."""
        if not all(handle.done for handle in self.handles):
            return False
        if self._finish is not None:
            self._finish()
            self._finish = None
        return True


class SdkRuntime:
    """Runs one compiled program.

    Args:
        bindir: Artefact directory, or `SdkCompileArtifacts`.
        platform: Result of `get_platform` or `get_simulator`; its architecture must be the program's.
        cmaddr: Must be empty: there is no CS system behind this API.
        suppress_simfab_trace, simfab_numthreads, memcpy_required: Accepted; no effect.
        msg_level: DEBUG, INFO, WARNING or ERROR; no effect.

    Raises:
        FabricaError: The artefact can't be used.
        HostError: An argument can't.
    """

    def __init__(
        self,
        bindir: str | os.PathLike[str] | SdkCompileArtifacts,
        platform: Platform | None = None,
        *,
        cmaddr: str | None = None,
        suppress_simfab_trace: bool = False,
        simfab_numthreads: int = 5,
        msg_level: str = "WARNING",
        memcpy_required: bool = True,
    ) -> None:
        require_simulation(cmaddr)
        if msg_level not in _LEVELS:
            raise HostError(f"SdkRuntime: unknown msg_level {msg_level!r}", remedy=f"one of {', '.join(_LEVELS)}")
        path = bindir.path if isinstance(bindir, SdkCompileArtifacts) else bindir
        self._directory = Path(path)
        self._platform = platform
        self._program = read_artifact(self._directory)
        if platform is not None and platform.target.value != self._program.arch:
            raise HostError(
                f"SdkRuntime: a program compiled for {self._program.arch} on a {platform.target.value} platform",
                remedy="pass the matching SdkTarget, or compile with another --arch",
            )
        self._links = DirectLinks(self._directory)
        self._exports = {export.name: export for export in self._program.exports}
        self._by_id = {export.id: export for export in self._program.exports}
        self._state = _State.NEW
        self._machine: Machine | None = None
        self._recording: Recording | None = None
        self._session: Session | None = None
        self._pending: list[Task] = []
        self._failure: SimulatorStopped | None = None

    # ------------------------------------------------------------------------------------------- life cycle

    def load(self) -> None:
        """Put the program on the simulated fabric."""
        self._require("load", _State.NEW)
        self._recording = recording_from_environment(self._program, self._directory)
        sink = self._recording.recorder if self._recording is not None else None
        try:
            self._machine = open_machine(self._program, limits=limits_from_environment(), trace=sink)
        except SimulationError as error:
            raise SimulatorStopped(f"fabrica-sim: {error.kind}: {error.text}") from None
        self._links.write_memory(self._program, self._machine)
        self._state = _State.LOADED

    def run(self) -> None:
        """Start the program; it then waits for commands."""
        self._require("run", _State.LOADED)
        assert self._machine is not None
        self._session = Session(self._directory, self._program, self._machine)
        sessions.register(self._session)
        self._state = _State.RUNNING

    def stop(self) -> None:
        """Wait for all commands, let the device finish what it is doing, write `sim.log` and `sim_stats.json`."""
        if self._failure is not None:
            # A `finally: runner.stop()` must not replace the report by a complaint of its own.
            raise self._failure
        machine = self._running("stop")
        if self._pending:
            self._advance(self._pending[-1])
        self._simulate(machine.drain)
        self._pending = [item for item in self._pending if not item.complete()]
        forgotten = describe(machine.leftovers())
        if forgotten:
            sys.stderr.write(f"fabrica-sim: warning: {forgotten}\n")
        self._close()

    def _close(self) -> None:
        assert self._machine is not None
        assert self._session is not None
        self._state = _State.STOPPED
        self._session.stopped = True
        sys.stderr.writelines(f"fabrica-sim: warning: {text}\n" for text in self._machine.extents.describe())
        write_log(self._machine)
        write_statistics(self._machine)
        if self._recording is not None:
            self._recording.write()
        config = self._platform.config if self._platform is not None else None
        if config is not None and config.dump_core:
            self.dump_core(config.core_path or "out.core")

    # --------------------------------------------------------------------------------------------- symbols

    def get_id(self, name: str) -> int:
        """Handle of an exported tensor or function.

        Raises:
            HostError: The program exports no such name.
        """
        return self._export("get_id", name).id

    def read_symbol(self, x: int, y: int, name: str, dtype: npt.DTypeLike = "uint8") -> npt.NDArray[Any]:
        """A copy of a variable of the PE in column `x`, row `y` of the program, as an array of `dtype`.

        Raises:
            HostError: No such PE or variable, or a dtype that doesn't divide its size.
        """
        if self._machine is None:
            raise HostError("read_symbol before load()", remedy="read symbols after stop()")
        return read_variable(self._machine, self._program, (int(x), int(y)), name, dtype)

    def coord_logical_to_physical(self, coordinate: tuple[int, int]) -> tuple[int, int]:
        """Fabric coordinates of a PE of the program rectangle."""
        x, y = coordinate
        return x + self._program.offset[0], y + self._program.offset[1]

    # ---------------------------------------------------------------------------------------------- copies

    def memcpy_h2d(
        self,
        dest: int,
        src: npt.NDArray[Any],
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy to every PE of a region; see `transfers` for the order of `src`.

        `dest` is a tensor's `get_id`, or with `streaming` the number of a color.
        """
        region = self._region("memcpy_h2d", px, py, w, h, elem_per_pe)
        words = to_device("memcpy_h2d", src, (region.h, region.w, region.l), order)
        return self._copy_in("memcpy_h2d", dest, words, region, streaming, data_type, nonblock)

    def memcpy_h2d_rowbcast(
        self,
        dest: int,
        src: npt.NDArray[Any],
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """As `memcpy_h2d`, all PEs of a row getting the same data: `src` is [h, l]."""
        region = self._region("memcpy_h2d_rowbcast", px, py, w, h, elem_per_pe)
        rows = to_device("memcpy_h2d_rowbcast", src, (region.h, region.l), order)
        words = np.repeat(rows[:, np.newaxis, :], region.w, axis=1)
        return self._copy_in("memcpy_h2d_rowbcast", dest, words, region, streaming, data_type, nonblock)

    def memcpy_h2d_colbcast(
        self,
        dest: int,
        src: npt.NDArray[Any],
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """As `memcpy_h2d`, all PEs of a column getting the same data: `src` is [w, l]."""
        region = self._region("memcpy_h2d_colbcast", px, py, w, h, elem_per_pe)
        columns = to_device("memcpy_h2d_colbcast", src, (region.w, region.l), order)
        words = np.repeat(columns[np.newaxis, :, :], region.h, axis=0)
        return self._copy_in("memcpy_h2d_colbcast", dest, words, region, streaming, data_type, nonblock)

    def memcpy_h2d_stride(
        self,
        dest: int,
        src: npt.NDArray[Any],
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        row_stride: int,
        col_stride: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy to every `row_stride`-th column and `col_stride`-th row of a region.

        `src` is [rows, columns, l] with columns = 1 + (w-1)//row_stride and rows = 1 + (h-1)//col_stride.
        """
        region = self._region("memcpy_h2d_stride", px, py, w, h, elem_per_pe)
        if row_stride < 1 or col_stride < 1:
            raise HostError("memcpy_h2d_stride: strides must be at least 1", remedy="use 1 for neighbouring PEs")
        columns, rows = range(0, region.w, int(row_stride)), range(0, region.h, int(col_stride))
        words = to_device("memcpy_h2d_stride", src, (len(rows), len(columns), region.l), order)
        commands: list[Command] = []
        for i, y in enumerate(rows):
            for j, x in enumerate(columns):
                one = Region(region.px + x, region.py + y, 1, 1, region.l)
                data = words[i : i + 1, j : j + 1]
                commands.append(self._copy_command("memcpy_h2d_stride", dest, data, one, streaming, data_type))
        return self._issue("memcpy_h2d_stride", commands, None, nonblock)

    def memcpy_d2h(
        self,
        dest: npt.NDArray[Any],
        src: int,
        px: int,
        py: int,
        w: int,
        h: int,
        elem_per_pe: int,
        *,
        streaming: bool,
        data_type: MemcpyDataType,
        order: MemcpyOrder,
        nonblock: bool,
    ) -> Task:
        """Copy from every PE of a region into `dest`, in the order that `transfers` explains.

        `src` is a tensor's `get_id`, or with `streaming` the number of a color.
        """
        call = "memcpy_d2h"
        region = self._region(call, px, py, w, h, elem_per_pe)
        check_array(call, dest, region.w * region.h * region.l, writable=True)
        check_order(call, order)
        command: Command
        if streaming:
            command = StreamOut(self._stream_color(call, src, "d2h"), *region)
        else:
            command = CopyOut(self._tensor(call, src).name, *region, bits=_bits(call, data_type))

        def store(handle: Handle) -> None:
            assert handle.result is not None
            to_host(dest, handle.result, order)

        return self._issue(call, [command], store, nonblock)

    # -------------------------------------------------------------------------------------------- launches

    def launch(self, name: str, *args: Any, nonblock: bool) -> Task:
        """Call an exported function on all PEs. Done when every PE has called `unblock_cmd_stream`.

        Raises:
            HostError: No such function, or arguments of the wrong number or type.
        """
        export = self._function("launch", name)
        return self._issue("launch", [Launch(name, typed_arguments(name, export.params, args))], None, nonblock)

    def call(self, name: str, args: Sequence[Any], *, nonblock: bool) -> Task:
        """Deprecated form of `launch`: the arguments are 32-bit words, unchecked."""
        export = self._function("call", name)
        return self._issue("call", [Launch(name, untyped_arguments(name, export.params, list(args)))], None, nonblock)

    # ------------------------------------------------------------------------------------------ direct links

    def get_port_id(self, name: str) -> int:
        """Id of a stream of an `SdkLayout` program.

        Raises:
            HostError: The program has no stream of this name.
        """
        return self._links.find("get_port_id", name).id

    def report_port_infos(self) -> str:
        """The streams of an `SdkLayout` program, one per line."""
        return "\n".join(map(str, self._links.streams))

    def send(self, port: str | int, src: npt.NDArray[Any], count: int | None = None, *, nonblock: bool = False) -> Task:
        """Send the first `count` 32-bit words of `src` (default: all) into an input stream, given by name or id.

        A blocking call ends when the device has taken the words, or when nothing but them waits.
        """
        command = send_command("send", self._links.find("send", port, "h2d"), src, count)
        return self._issue("send", [command], None, nonblock)

    def receive(
        self, port: str | int, dest: npt.NDArray[Any], count: int | None = None, *, nonblock: bool = False
    ) -> Task:
        """Receive `count` 32-bit words (default: as many as `dest` holds) from an output stream into `dest`."""
        command = receive_command("receive", self._links.find("receive", port, "d2h"), dest, count)

        def keep(handle: Handle) -> None:
            assert handle.result is not None
            store(dest, handle.result)

        return self._issue("receive", [command], keep, nonblock)

    def receive_tofile(
        self, port: str | int, path: str | os.PathLike[str], count: int | None = None, *, nonblock: bool = False
    ) -> Task:
        """Receive words (default: the size of the stream's port) and write them to a file, little endian."""
        stream = self._links.find("receive_tofile", port, "d2h")
        words = np.empty(stream.size if count is None else int(count), dtype="<u4")
        command = receive_command("receive_tofile", stream, words, None)

        def keep(handle: Handle) -> None:
            assert handle.result is not None
            store(words, handle.result)
            try:
                Path(path).write_bytes(words.tobytes())
            except OSError as error:
                raise from_os_error(error) from error

        return self._issue("receive_tofile", [command], keep, nonblock)

    def is_task_done(self, task: Task) -> bool:
        """Whether the command is done. Time advances until it is, since nothing else would advance it."""
        self.task_wait(task)
        return True

    def task_wait(self, task: Task) -> None:
        """Advance until the command, and all before it, are done."""
        self._running("task_wait")
        self._advance(task)

    # ----------------------------------------------------------------------------------------------- dumps

    def dump_core(self, path: str | os.PathLike[str]) -> None:
        """Write the memories of all PEs, for `debug_util` in another process."""
        from fabrica_bench.compat.cores import write_core

        if self._machine is None:
            raise HostError("dump_core before load()", remedy="call it after a blocking call or after stop()")
        write_core(Path(path), self._program, self._machine)

    # ---------------------------------------------------------------------------------------------- helpers

    def _copy_in(
        self,
        call: str,
        dest: int,
        words: Words,
        region: Region,
        streaming: bool,
        data_type: MemcpyDataType,
        nonblock: bool,
    ) -> Task:
        command = self._copy_command(call, dest, words, region, streaming, data_type)
        return self._issue(call, [command], None, nonblock)

    def _copy_command(
        self, call: str, dest: int, words: Words, region: Region, streaming: bool, data_type: MemcpyDataType
    ) -> Command:
        words = np.ascontiguousarray(words)
        if streaming:
            return StreamIn(self._stream_color(call, dest, "h2d"), region.px, region.py, region.w, region.h, words)
        export = self._tensor(call, dest)
        if not export.mutable:
            raise HostError(
                f"{call}: {export.name} is exported as immutable", remedy="export it with @export_name(..., true)"
            )
        return CopyIn(export.name, *region, data=words, bits=_bits(call, data_type))

    def _issue(
        self, call: str, commands: Sequence[Command], store: Callable[[Handle], None] | None, nonblock: bool
    ) -> Task:
        machine = self._running(call)
        handles = [machine.submit(command) for command in commands]
        task = Task(handles, partial(store, handles[-1]) if store is not None else None)
        self._pending.append(task)
        if not nonblock:
            self._advance(task)
        return task

    def _advance(self, task: Task) -> None:
        machine = self._running("wait")
        self._simulate(lambda: machine.wait(task.handles[-1]))
        self._pending = [item for item in self._pending if not item.complete()]

    def _simulate(self, step: Callable[[], object]) -> None:
        try:
            step()
        except SimulationError as error:
            self._failure = SimulatorStopped(f"fabrica-sim: {error.kind}: {error.text}")
            self._close()
            raise self._failure from None

    def _require(self, call: str, wanted: _State) -> None:
        if self._state is not wanted:
            raise HostError(
                f"{call}() while the program is {self._state.value}",
                remedy="the order is load(), run(), commands, stop()",
            )

    def _running(self, call: str) -> Machine:
        self._require(call, _State.RUNNING)
        assert self._machine is not None
        return self._machine

    def _region(self, call: str, px: int, py: int, w: int, h: int, count: int) -> Region:
        region = Region(int(px), int(py), int(w), int(h), int(count))
        check_region(call, region, self._program.width, self._program.height)
        return region

    def _export(self, call: str, name: str) -> ExportName:
        if name not in self._exports:
            known = ", ".join(sorted(self._exports)) or "none"
            raise HostError(f"{call}: the program exports no {name!r}", remedy=f"exported names: {known}")
        return self._exports[name]

    def _function(self, call: str, name: str) -> ExportName:
        export = self._export(call, name)
        if export.kind != "fn":
            raise HostError(f"{call}: {name} is a variable", remedy="launch takes the name of an exported function")
        if not any(name in image.exports for image in self._program.images):
            # The layout block has @export_name, but no program of a PE has @export_symbol: cslc only warns.
            raise HostError(
                f"{call}: no PE exports the function {name!r}",
                remedy=f"add `@export_symbol({name});` to the comptime block of the PE program",
            )
        return export

    def _tensor(self, call: str, identifier: int) -> ExportName:
        export = None if isinstance(identifier, str) else self._by_id.get(int(identifier))
        if export is None:
            raise HostError(
                f"{call}: {identifier!r} is no id of an exported tensor",
                remedy="pass the result of get_id, or streaming=True",
            )
        if export.kind != "var":
            raise HostError(f"{call}: {export.name} is a function", remedy="pass the get_id of an exported tensor")
        return export

    def _stream_color(self, call: str, color: int, way: Literal["h2d", "d2h"]) -> int:
        number = int(color)
        if self._program.stream_colors.get(number) != way:
            known = sorted(c for c, kind in self._program.stream_colors.items() if kind == way)
            raise HostError(
                f"{call}: color {number} is not a {way} stream of the program",
                remedy=f"its {way} streams are {known}" if known else f"give <memcpy/get_params> MEMCPY{way.upper()}_1",
            )
        return number


def read_variable(
    machine: Machine, program: Any, position: tuple[int, int], name: str, dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """A copy of a PE's variable as an array.

    Raises:
        HostError: No such PE or variable, or a dtype that doesn't divide its size.
    """
    x, y = position
    if not (0 <= x < program.width and 0 <= y < program.height):
        raise HostError(
            f"PE ({x},{y}) is not in the program rectangle",
            remedy=f"columns are 0 to {program.width - 1} and rows 0 to {program.height - 1}",
        )
    image = program.images[program.tiles[y][x]]
    if name not in image.globals:
        raise HostError(
            f"PE ({x},{y}) has no variable {name!r}",
            remedy="it may be unused and removed; declare it `export var` to keep it",
        )
    return as_array(machine.read_symbol(x, y, name), name, dtype)


def as_array(data: bytes, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Bytes of a variable as a fresh array of `dtype`.

    Raises:
        HostError: The dtype doesn't divide the size.
    """
    kind = np.dtype(dtype)
    if len(data) % kind.itemsize:
        raise HostError(f"{name} has {len(data)} bytes, which are no {kind} elements", remedy="use a smaller dtype")
    return np.frombuffer(data, dtype=kind).copy()


def limits_from_environment() -> Limits:
    """Budgets of the simulation from the environment.

    Raises:
        HostError: A value isn't a positive number.
    """
    defaults = Limits()
    cycles = _positive(CYCLES_VARIABLE, int)
    seconds = _positive(SECONDS_VARIABLE, float)
    return Limits(
        max_cycles=int(cycles) if cycles is not None else defaults.max_cycles,
        wall_seconds=seconds if seconds is not None else defaults.wall_seconds,
    )


def _positive(variable: str, kind: Callable[[str], float]) -> float | None:
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    try:
        value = kind(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise HostError(f"{variable} is {text!r}", remedy="set it to a positive number, or unset it")
    return value


def _bits(call: str, data_type: MemcpyDataType) -> Literal[16, 32]:
    if data_type is MemcpyDataType.MEMCPY_16BIT:
        return 16
    if data_type is MemcpyDataType.MEMCPY_32BIT:
        return 32
    raise HostError(f"{call}: data_type is {data_type!r}", remedy="pass MemcpyDataType.MEMCPY_16BIT or MEMCPY_32BIT")
