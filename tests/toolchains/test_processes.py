"""Child processes are confined, drained, and gone when we say so."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.children import Python, forked_python, program_python

from fabrica_bench.toolchains.processes import (
    OUTPUT_LIMIT,
    ChildProcess,
    Limits,
    run_process,
    scrubbed_environment,
)

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="forks are supervised through /proc")


@pytest.fixture(params=[program_python, pytest.param(forked_python, marks=LINUX_ONLY)], ids=["program", "fork"])
def python(request: pytest.FixtureRequest) -> Python:
    """Both ways to start a child must keep what is promised here."""
    run: Python = request.param
    return run


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_output_and_exit_status_come_back(python: Python, tmp_path: Path) -> None:
    result = python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (result.returncode, result.stdout, result.stderr, result.timed_out) == (3, "out\n", "err\n", False)
    assert result.ending() == "exit status 3"
    assert not result.ok


def test_the_environment_holds_nothing_of_the_callers(
    python: Python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    result = python("import os; print(sorted(os.environ))", tmp_path)
    assert "SECRET" not in result.stdout
    assert "HOME" in result.stdout


def test_a_child_has_a_session_and_a_folder_of_its_own(python: Python, tmp_path: Path) -> None:
    result = python("import os; print(os.getsid(0) == os.getpid(), os.getcwd())", tmp_path)
    assert result.stdout.split() == ["True", str(tmp_path.resolve())]


def test_the_deadline_kills_the_whole_tree(python: Python, tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    begin = time.monotonic()
    result = python(code, tmp_path, deadline_s=1.5)
    assert result.timed_out
    assert time.monotonic() - begin < 10
    assert not alive(int(result.stdout))


@LINUX_ONLY
def test_a_daemon_that_left_the_session_is_killed_too(python: Python, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        open('pid', 'w').write(str(os.getpid()))\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "while not os.path.exists('pid') or not open('pid').read(): time.sleep(0.01)\n"
    )
    result = python(code, tmp_path)
    assert result.returncode == 0
    assert result.survivors == 1
    assert not alive(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_a_survivor_that_holds_the_pipe_does_not_delay_the_answer(python: Python, tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'])"
    begin = time.monotonic()
    assert python(code, tmp_path).returncode == 0
    assert time.monotonic() - begin < 10


def test_endless_output_neither_blocks_nor_fills_memory(python: Python, tmp_path: Path) -> None:
    result = python("import sys\nfor i in range(3_000_000): sys.stdout.write('0123456789')", tmp_path)
    assert result.returncode == 0
    assert len(result.stdout) < OUTPUT_LIMIT + 100
    assert "bytes left out" in result.stdout


def test_undecodable_output_is_replaced(python: Python, tmp_path: Path) -> None:
    result = python("import sys; sys.stdout.buffer.write(b'a\\xffb')", tmp_path)
    assert result.stdout == "a\ufffdb"


@pytest.mark.parametrize(
    ("code", "limits"),
    [
        ("bytearray(2 << 30)", Limits(address_space=1 << 30)),
        ("open('big', 'wb').write(bytes(2 << 20))", Limits(file_size=1 << 20)),
        ("while True: pass", Limits(cpu_s=1)),
        ("[open('/dev/null') for _ in range(100)]", Limits(open_files=50)),
    ],
    ids=["memory", "file size", "cpu", "open files"],
)
def test_each_resource_limit_is_in_force(python: Python, code: str, limits: Limits, tmp_path: Path) -> None:
    result = python(code, tmp_path, limits=limits)
    assert result.returncode != 0
    assert not result.timed_out


def test_signals_are_named(python: Python, tmp_path: Path) -> None:
    result = python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", tmp_path)
    assert result.ending() == "signal SIGSEGV"


def test_leaving_the_block_kills_a_running_child(tmp_path: Path) -> None:
    with ChildProcess(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        workdir=tmp_path,
        environment=scrubbed_environment(tmp_path),
        limits=Limits(),
    ) as child:
        assert child.running
    assert not child.running
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@LINUX_ONLY
def test_a_daemon_that_takes_long_to_die_is_waited_for(tmp_path: Path) -> None:
    # While its memory is freed, a killed process has no environment to know it by any more, and no parent below the
    # child; that of this one takes tens of milliseconds.
    code = (
        "import os, time\n"
        "if os.fork():\n"
        "    time.sleep(60)\n"
        "os.setsid()\n"
        "held = bytearray(256 << 20)\n"
        "open('new', 'w').write(str(os.getpid()))\n"
        "os.rename('new', 'pid')\n"
        "time.sleep(60)\n"
    )
    with ChildProcess(
        [sys.executable, "-c", code],
        workdir=tmp_path,
        environment=scrubbed_environment(tmp_path),
        limits=Limits(),
    ):
        deadline = time.monotonic() + 30
        while not (tmp_path / "pid").exists():
            assert time.monotonic() < deadline, "the daemon doesn't start"
            time.sleep(0.01)
        daemon = int((tmp_path / "pid").read_text(encoding="utf-8"))
        assert alive(daemon)
    assert not alive(daemon)


def test_a_missing_program_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_process(["/nonexistent/tool"], workdir=tmp_path, environment={}, limits=Limits(), deadline_s=5.0)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["main thread", "another thread"])
def test_an_interrupt_during_a_start_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """Python drops what a signal handler raises inside its hooks around a fork; the signal must wait until then."""
    started = subprocess.Popen
    ready, sent = threading.Event(), threading.Event()

    def send_elsewhere() -> None:
        ready.wait(30)
        signal.raise_signal(signal.SIGINT)
        sent.set()

    thread = threading.Thread(target=send_elsewhere)
    if elsewhere:
        thread.start()  # before the start of the child: a new thread would inherit a mask

    def at_the_fork() -> None:
        ready.set()
        sent.wait(30)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if elsewhere:
            with contextlib.suppress(KeyboardInterrupt):  # as Python's hooks around a fork do
                at_the_fork()
        else:
            signal.raise_signal(signal.SIGINT)
        process = started(*arguments, **options)
        children.append(process)
        return process

    children: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_process([sys.executable, "-c", "input()"], workdir=tmp_path, environment={}, limits=Limits(), deadline_s=30)
    assert [child.returncode for child in children] == [-signal.SIGKILL]
