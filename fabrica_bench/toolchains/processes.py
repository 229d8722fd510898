"""Child processes that can't outlive their welcome.

Everything that compiles or runs something we didn't write goes through here: a session of its own, a scrubbed
environment, a private working directory, resource limits, and a deadline after which the whole process tree is killed
and verified gone. What was in force is recorded with each result.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import secrets
import selectors
import signal
import site
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Final, cast

from fabrica_bench.toolchains.forked import ForkedProcess, Work
from fabrica_bench.toolchains.process_table import ProcessFacts, below_this, children_of, descendants

MARKER: Final = "FABRICA_CHILD"
"""Environment variable with a random value per child, after those of the processes it descends from: finds
descendants that left the session."""

OUTPUT_LIMIT: Final = 1 << 20
"""Bytes of each output stream that are kept, half from the start and half from the end."""

KILL_GRACE_S: Final = 10.0
"""How long killed processes may take to disappear before that is reported as a failure of the machine."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CHUNK: Final = 1 << 16
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

NEW_PROGRAM: Final = "each a new program"


@dataclass(frozen=True)
class Limits:
    """Resource limits of one child; None leaves the inherited one.

    Attributes:
        cpu_s: CPU seconds of one process.
        address_space: Bytes of virtual memory of one process.
        file_size: Bytes of one written file.
        processes: Processes that may be added to those that exist on the machine at the start.
        open_files: File descriptors.
    """

    cpu_s: int | None = 120
    address_space: int | None = 8 << 30
    file_size: int | None = 1 << 30
    processes: int | None = 64
    open_files: int | None = 512

    def describe(self) -> str:
        """One line for the records, units included."""
        parts = [
            f"cpu {self.cpu_s} s" if self.cpu_s is not None else "",
            f"memory {self.address_space >> 20} MiB" if self.address_space is not None else "",
            f"file {self.file_size >> 20} MiB" if self.file_size is not None else "",
            f"processes +{self.processes}" if self.processes is not None else "",
            f"open files {self.open_files}" if self.open_files is not None else "",
        ]
        return ", ".join(part for part in parts if part) or "none"


@dataclass(frozen=True)
class ProcessResult:
    """How a child ended.

    Attributes:
        returncode: Exit status, negative for a signal.
        timed_out: The deadline passed and the tree was killed.
        survivors: Descendants that were still alive when the child itself had ended, and were killed.
        stdout, stderr: Decoded output; the middle of a very long stream is left out.
        seconds: Wall-clock time.
        cpu_s: Processor time of the child itself and what it waited for; None where it isn't known.
    """

    returncode: int
    timed_out: bool
    survivors: int
    stdout: str
    stderr: str
    seconds: float
    cpu_s: float | None = None

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and not self.timed_out

    def ending(self) -> str:
        """Words for how it ended: `exit status 3`, `signal SIGSEGV`, ..."""
        if self.returncode >= 0:
            return f"exit status {self.returncode}"
        try:
            return f"signal {signal.Signals(-self.returncode).name}"
        except ValueError:
            return f"signal {-self.returncode}"


def scrubbed_environment(workdir: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """A small fixed environment: nothing of the caller's is inherited except what `extra` names.

    HOME and the temporary folder are the private working directory; time zone, locale, hash seed and the number of
    numerical threads are fixed so that results don't depend on the machine's settings.
    """
    environment = {
        "PATH": os.defpath,
        "HOME": str(workdir),
        "TMPDIR": str(workdir),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    environment.update(extra or {})
    return environment


def python_environment() -> dict[str, str]:
    """Variables with which a Python child of scrubbed environment imports from where this process does."""
    import fabrica_bench

    root = str(Path(fabrica_bench.__file__).resolve().parent.parent)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # Absolute: the child works in another folder.
    entries = [root, *(str(Path(entry).absolute()) for entry in inherited if entry)]
    variables = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(entries))}
    if site.ENABLE_USER_SITE:
        # The child's HOME is another, and packages may be installed for the user only.
        variables["PYTHONUSERBASE"] = site.getuserbase()
    else:
        variables["PYTHONNOUSERSITE"] = "1"
    return variables


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def adopt_orphans() -> bool:
    """Make this process the parent of every descendant whose own parent ends; False where the system can't.

    Only for a process that is wholly ours, such as a job: see `kill_orphans`.
    """
    return _LIBC is not None and bool(_LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def kill_orphans() -> int:
    """Kill every child of this process, and what they started, and wait until all are gone; returns how many.

    For a process that called `adopt_orphans` and has no child of its own left: a daemon that left its session and
    cleaned its environment ends up here.

    Raises:
        OSError: Something survives SIGKILL.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + KILL_GRACE_S
    while _has_child():
        children = children_of(os.getpid())
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        killed |= children
        if time.monotonic() > deadline:
            raise OSError(f"processes survive SIGKILL: {sorted(children)}")
        time.sleep(0.002)
    return len(killed)


def cut_output(data: bytes) -> str:
    """Output as text, with the middle of a very long one left out."""
    tail = _Tail()
    tail.add(data)
    return tail.text()


def isolation_report(
    limits: Limits, *, start: str = NEW_PROGRAM, confinement: str = "none", calls: str = "not confined"
) -> dict[str, str]:
    """What confines a child started here, for the records."""
    return {
        "start": start,
        "session": "own session and process group, tree killed at the deadline",
        "environment": "scrubbed",
        "working directory": "private",
        "limits": limits.describe(),
        "file system": confinement,
        "system calls": calls,
        "network": "not confined",
    }


class ChildProcess:
    """A running child; leaving the `with` block kills its whole tree and waits until it is gone.

    Args:
        program: Program and arguments; or what a fork of this process does in its place. Only a process that has one
            thread, has adopted its orphans and has no other child may fork: whatever lives below it is the child's.
        workdir: Working directory.
        environment: The complete environment (see `scrubbed_environment`).
        limits: Resource limits.
        interactive: Open a pipe to its standard input; otherwise that is `stdin`.
        stdin: File to read as standard input, or a socket; None for an empty one.
        confine: Called in the child before it starts the program, e.g. to restrict its file access.
    """

    def __init__(
        self,
        program: Sequence[str] | Work,
        *,
        workdir: Path,
        environment: Mapping[str, str],
        limits: Limits,
        interactive: bool = False,
        stdin: Path | socket.socket | None = None,
        confine: Callable[[], None] | None = None,
    ) -> None:
        self._token = secrets.token_hex(16)
        self._gone = False
        self._forked = callable(program)
        self.started = time.monotonic()
        marked = {**environment, MARKER: _marker_chain(self._token)}
        setup = child_setup(limits, os.getpid(), confine)
        self.popen: subprocess.Popen[bytes] | ForkedProcess
        try:
            with _source(stdin) as source, _interrupts_held():
                if callable(program):
                    self.popen = ForkedProcess(program, workdir=workdir, environment=marked, stdin=source, setup=setup)
                else:
                    self.popen = subprocess.Popen(
                        list(program),
                        cwd=workdir,
                        env=marked,
                        stdin=subprocess.PIPE if interactive else source,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        start_new_session=True,
                        close_fds=True,
                        preexec_fn=setup,
                    )
        except KeyboardInterrupt:
            if hasattr(self, "popen"):  # nobody will enter the context that ends it
                os.killpg(self.popen.pid, signal.SIGKILL)
                self.popen.wait()
            raise
        self.pid = self.popen.pid

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                # Closing flushes; the reader is gone, and that is fine.
                with contextlib.suppress(OSError):
                    stream.close()

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def members(self) -> set[int]:
        """The processes of its tree that live, itself included."""
        return {self.pid, *descendants(self.pid, self._token)}

    def kill(self) -> int:
        """Kill the tree and wait until it is gone.

        Returns:
            How many processes beside the child itself had to be killed.

        Raises:
            OSError: Something survives SIGKILL, e.g. a process stuck in the kernel.
        """
        if self._gone:
            return 0
        killed: set[int] = set()
        # Also what dies along with the child has to be followed to its end: see `ProcessFacts.lives`.
        followed = self._others() if self.running else {}
        deadline = time.monotonic() + KILL_GRACE_S
        while True:
            # The group id can't be reused while a member lives, and a reused pid of ours can't exist before wait().
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            alive = self._others()
            for pid in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed |= alive.keys()
            followed = {pid: facts for pid, facts in {**followed, **alive}.items() if facts.lives(pid)}
            if not (alive or followed) and self.popen.poll() is not None and not (self._forked and _has_child()):
                self._gone = True
                return len(killed)
            if time.monotonic() > deadline:
                raise OSError(f"process {self.pid} or a descendant survives SIGKILL: {sorted(followed)}")
            time.sleep(0.002)

    def _others(self) -> dict[int, ProcessFacts]:
        """What lives of its tree beside itself."""
        if not self._forked:
            found = descendants(self.pid, self._token)
        elif self.popen.poll() is not None and not _has_child():
            return {}
        else:
            found = below_this()
        return {pid: facts for pid, facts in found.items() if pid != self.pid}


def run_process(
    program: Sequence[str] | Work,
    *,
    workdir: Path,
    environment: Mapping[str, str],
    limits: Limits,
    deadline_s: float,
    stdin: Path | None = None,
    confine: Callable[[], None] | None = None,
) -> ProcessResult:
    """Run a program, or a fork (see `ChildProcess`), to its end or to its deadline, whichever comes first.

    The clock starts with the process. Output is drained all the time, so that a chatty child neither blocks nor fills
    memory. When the child ends, whatever it left running is killed.
    """
    with ChildProcess(
        program, workdir=workdir, environment=environment, limits=limits, stdin=stdin, confine=confine
    ) as child:
        out, err = _Tail(), _Tail()
        timed_out = _drain(child, out, err, child.started + deadline_s)
        survivors = child.kill()
        _drain_rest(child, out, err)
        seconds = time.monotonic() - child.started
        cpu_s = child.popen.cpu_s if isinstance(child.popen, ForkedProcess) else None
        return ProcessResult(child.popen.returncode, timed_out, survivors, out.text(), err.text(), seconds, cpu_s)


class _Tail:
    """Keeps the first and the last half of `OUTPUT_LIMIT` bytes."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        half = OUTPUT_LIMIT // 2
        room = half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[room:] if room > 0 else data
        excess = len(self._tail) - half
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def text(self) -> str:
        gap = f"\n[... {self._dropped} bytes left out ...]\n".encode() if self._dropped else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", errors="replace")


def _drain(child: ChildProcess, out: _Tail, err: _Tail, deadline: float) -> bool:
    """Read both streams until the child ends or the deadline passes; True when it passed."""
    with selectors.DefaultSelector() as selector:
        for stream, tail in ((child.popen.stdout, out), (child.popen.stderr, err)):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, tail)
        while child.running:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return True
            if not selector.get_map():
                # Both streams are closed, the process lives on: only waiting is left.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.popen.wait(min(remaining, 0.5))
                continue
            # The cap makes a child that ends while a descendant holds the pipe noticed soon.
            for key, _ in selector.select(min(remaining, 0.05)):
                data = os.read(key.fd, _CHUNK)
                if data:
                    key.data.add(data)
                else:
                    selector.unregister(key.fileobj)
        return False


def _drain_rest(child: ChildProcess, out: _Tail, err: _Tail) -> None:
    for stream, tail in ((child.popen.stdout, out), (child.popen.stderr, err)):
        assert stream is not None
        _read_available(stream, tail)


def _read_available(stream: IO[bytes], tail: _Tail) -> None:
    while True:
        try:
            data = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            return
        tail.add(data)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Deliver Ctrl-C and its like only afterwards: Python drops an exception that arises in its hooks around a fork.

    Handlers run in the main thread, whichever thread the system gave the signal to; so a mask alone would not do."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    handlers = {number: signal.getsignal(number) for number in _INTERRUPTS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, hold)
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for late in arrived:
            signal.raise_signal(late)


def _source(stdin: Path | socket.socket | None) -> IO[bytes]:
    if isinstance(stdin, socket.socket):
        return cast(IO[bytes], stdin.makefile("rb", buffering=0))
    return open(os.devnull if stdin is None else stdin, "rb")


def _marker_chain(token: str) -> str:
    inherited = os.environ.get(MARKER)
    return f"{inherited}/{token}" if inherited else token


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread of `parent` that started it ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)


def outlive_thread() -> None:
    """Undo `die_with_parent`, for a process that may be used by other threads than the one that started it."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


def child_setup(limits: Limits, parent: int, confine: Callable[[], None] | None) -> Callable[[], None]:
    """What a forked child does first: die with its parent, take its limits, confine itself."""
    values = _limit_values(limits)

    def setup() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
        # A parent that is killed must not leave its children running.
        die_with_parent(parent)
        for kind, value in values:
            hard = resource.getrlimit(kind)[1]
            limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (limit, limit))
        if confine is not None:
            confine()

    return setup


def _limit_values(limits: Limits) -> list[tuple[int, int]]:
    pairs = [
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_AS, limits.address_space),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ]
    if limits.processes is not None:
        # The kernel counts every thread of the user, not only ours.
        pairs.append((resource.RLIMIT_NPROC, _machine_threads() + limits.processes))
    return [(kind, value) for kind, value in pairs if value is not None]


def _machine_threads() -> int:
    try:
        return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].split("/")[1])
    except (OSError, ValueError, IndexError):
        return 4096


def _has_child() -> bool:
    """Whether this process has a child; those that have ended are collected first.

    For one that adopts orphans: the kernel hands it what its descendants leave behind, so none is left without a child.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
