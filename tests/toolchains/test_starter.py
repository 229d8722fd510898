"""Forks of a starter: they are as apart from each other, and from who asks, as programs of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from helpers.children import forked_python, program_python
from helpers.double_it import all_cases, double_it, plain

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import frozen_texts
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.scoring.staging import Stage
from fabrica_bench.toolchains import get_toolchain
from fabrica_bench.toolchains.embedded import EmbeddedToolchain
from fabrica_bench.toolchains.landlock import landlock_abi
from fabrica_bench.toolchains.starter import _POOL, Access, close_starters

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are supervised through /proc")

FIND = """
import os, re
needles = {needles!r}
own = open("/proc/self/mem", "rb", 0)
for line in open("/proc/self/maps"):
    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
    if line.split()[1][0] != "r" or line.rstrip().endswith(("[vvar]", "[vvar_vclock]", "[vsyscall]")):
        continue
    own.seek(begin)
    try:
        data = own.read(end - begin)
    except (OSError, ValueError, OverflowError):
        continue
    for number, (first, second) in enumerate(needles):
        if re.search(re.escape(first.encode() + b"-") + second.encode(), data):
            print(number)
"""
"""Prints which words are in the memory of the process; each comes in two halves, or the search would find itself."""

TELL = "import os, time; open('new', 'w').write(str({pid})); os.rename('new', 'pid'); time.sleep(60)"
"""Leaves a number in the file `pid` and stays."""


def test_a_child_finds_nothing_of_another_request_or_of_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELD_OUT_KEY", "of-the-scorer")
    forked_python("print('in-code')\nword = 'in' + '-print'\nprint(word)", tmp_path)
    (tmp_path / "file").write_text("in-file", encoding="utf-8")
    forked_python("print(open('file').read())", tmp_path)
    needles = [("of", "the-scorer"), ("in", "code"), ("in", "print"), ("in", "file"), ("in", "this")]
    result = forked_python(FIND.format(needles=needles) + "# in-this request\n", tmp_path)
    assert result.stdout.split() == ["4"], result.stderr


def test_a_child_has_no_descriptor_but_its_three_streams(tmp_path: Path) -> None:
    code = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    # One more is that of the listing itself.
    assert forked_python(code, tmp_path).stdout == "['0', '1', '2', '3']\n" == program_python(code, tmp_path).stdout


def test_hashes_and_the_working_of_streams_are_as_in_a_program(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal, time, tempfile\n"
        "print(hash('word'), sys.stdin.read(), sys.stdout.encoding, sys.stdout.errors)\n"
        "print(sys.stderr.errors, sys.stdout.line_buffering, signal.getsignal(signal.SIGPIPE), os.umask(0))\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []), time.tzname, tempfile.gettempdir(), os.nice(0))\n"
    )
    assert forked_python(code, tmp_path).stdout == program_python(code, tmp_path).stdout


def test_a_message_of_exit_goes_to_standard_error_and_an_exception_is_shown(tmp_path: Path) -> None:
    for code in ("import sys; sys.exit('why')", "raise ValueError('why')", "import sys; sys.exit()"):
        fork, program = (run(code, tmp_path) for run in (forked_python, program_python))
        assert fork.returncode == program.returncode
        assert fork.stderr.splitlines()[-1:] == program.stderr.splitlines()[-1:]


def test_a_start_that_fails_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        forked_python("print()", tmp_path / "none")
    assert forked_python("print(1)", tmp_path).stdout == "1\n"


@pytest.mark.skipif(landlock_abi() < 6, reason="this kernel can't restrict signals")
def test_a_confined_child_cannot_signal_or_look_into_what_started_it(tmp_path: Path) -> None:
    code = (
        "import errno, os, signal\n"
        "for act in (lambda: os.kill(os.getppid(), signal.SIGKILL), lambda: os.kill(os.getppid(), 0),\n"
        "            lambda: open(f'/proc/{os.getppid()}/environ'), lambda: open(f'/proc/{os.getppid()}/mem', 'r+b'),\n"
        "            lambda: os.listdir(f'/proc/{os.getppid()}/fd')):\n"
        "    try: act()\n"
        "    except OSError as error:\n"
        "        if error.errno in (errno.EPERM, errno.EACCES, errno.EROFS): print('denied')\n"
    )
    access = Access(read=(Path("/usr"),), listed=(), write=(tmp_path,))
    assert forked_python(code, tmp_path, access=access).stdout.split() == ["denied"] * 5


def test_the_end_of_the_starter_is_a_fault_of_the_harness_and_the_next_child_has_a_new_one(tmp_path: Path) -> None:
    def end() -> None:
        os.kill(int(_wait_for(tmp_path / "pid")), signal.SIGKILL)

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(FabricaError, match="ended before its answer") as found:
        forked_python(TELL.format(pid="os.getppid()"), tmp_path)
    thread.join()
    assert found.value.code == ExitCode.HARNESS
    assert forked_python("print(1)", tmp_path).stdout == "1\n"


def test_a_starter_that_ends_while_it_is_idle_is_replaced(tmp_path: Path) -> None:
    close_starters()
    forked_python("print(1)", tmp_path)
    ((_, starter),) = _POOL._idle
    os.kill(starter._child.pid, signal.SIGKILL)
    starter._child.popen.wait()
    assert forked_python("print(2)", tmp_path).stdout == "2\n"


def test_an_interrupt_ends_what_is_running(tmp_path: Path) -> None:
    def interrupt() -> None:
        _wait_for(tmp_path / "pid")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    tell = TELL.format(pid="os.getpid()")
    thread = threading.Thread(target=interrupt)
    thread.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        forked_python("import os, time\nif os.fork(): time.sleep(60)\nos.setsid()\n" + tell, tmp_path, deadline_s=90)
    thread.join()
    assert time.monotonic() - begin < 45
    assert not _alive(int(_wait_for(tmp_path / "pid")))


def test_children_end_when_who_asked_is_killed(tmp_path: Path) -> None:
    tell = TELL.format(pid='f"{os.getpid()} {os.getppid()}"')
    code = (
        f"from pathlib import Path\nfrom helpers.children import forked_python\n"
        f"forked_python({tell!r}, Path({str(tmp_path)!r}))\n"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}) as scorer:
        pids = [int(word) for word in _wait_for(tmp_path / "pid").split()]
        scorer.kill()
    deadline = time.monotonic() + 10
    while any(map(_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in pids if _alive(pid)] == []


def test_threads_are_served_side_by_side_and_a_starter_outlives_the_thread_that_made_it(tmp_path: Path) -> None:
    meet = (
        "import os, sys, time\nopen(sys.argv[0] and {own!r}, 'w').close()\n"
        "while not os.path.exists({other!r}): time.sleep(0.01)\nprint('met')"
    )
    found: list[str] = []

    def work(own: str, other: str) -> None:
        found.append(forked_python(meet.format(own=own, other=other), tmp_path).stdout)

    close_starters()
    threads = [threading.Thread(target=work, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["met\n", "met\n"]
    pids = [starter._child.pid for _, starter in _POOL._idle]
    time.sleep(0.1)
    assert forked_python("print(1)", tmp_path).stdout == "1\n"
    assert [starter._child.pid for _, starter in _POOL._idle if starter.alive] == pids[1:] + pids[:1]


def test_verdicts_and_artefacts_are_the_same_however_children_start() -> None:
    usual = get_toolchain("embedded")
    assert isinstance(usual, EmbeddedToolchain)
    told = []
    for toolchain in (usual, dataclasses.replace(usual, forks=False)):
        conditions = Conditions(double_it(), toolchain)
        with Scorer(conditions) as scorer:
            verdicts = [
                scorer.judge({"pe.csl": text}, all_cases()[:1]).model_dump(mode="json")
                for text in (plain(), plain().replace("x[i]", "z[i]"))
            ]
        with Stage({"pe.csl": plain()}, frozen_texts(double_it(), "W1")) as stage:
            result = toolchain.build(stage.bundle, conditions.build_options())
            assert result.artifact is not None
            files = {path.name: path.read_bytes() for path in sorted(result.artifact.rglob("*")) if path.is_file()}
        told.append((json.dumps(verdicts), files, toolchain.isolation()["start"]))
    (verdicts, files, start), (other_verdicts, other_files, other_start) = told
    assert verdicts == other_verdicts
    assert files == other_files
    assert start != other_start


def _wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "the child doesn't start"
        time.sleep(0.01)
    return path.read_text(encoding="utf-8")


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
