"""A confined child can leave no state in the kernel and can't touch other processes; it works all the same."""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
from pathlib import Path
from typing import Final

import pytest

from fabrica_bench.toolchains.embedded import embedded_toolchain
from fabrica_bench.toolchains.landlock import Confinement, python_paths
from fabrica_bench.toolchains.processes import Limits, ProcessResult, run_process, scrubbed_environment
from fabrica_bench.toolchains.seccomp import DENIED, MACHINES, Machine, describe_calls, filter_program

HEADERS: Final = (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h"))
needs_seccomp = pytest.mark.skipif(not describe_calls().startswith("seccomp"), reason=describe_calls())

REFUSED: Final = {
    "shared memory": "libc.shmget(0xFAB, 4096, 0o1666)",
    "attached shared memory": "-(libc.shmat(1, 0, 0) == -1)",
    "semaphores": "libc.semget(0xFAB, 1, 0o1666)",
    "messages": "libc.msgget(0xFAB, 0o1666)",
    "POSIX messages": "libc.syscall(number['mq_open'], b'fabrica', 0o102, 0o666, None)",
    "keyring": "libc.syscall(number['add_key'], b'user', b'fabrica', b'note', 4, -4)",
    "key looked for": "libc.syscall(number['keyctl'], 10, -4, b'user', b'fabrica', 0)",
    "limits of the parent": "libc.prlimit(os.getppid(), 7, (ctypes.c_ulong * 2)(99, 99), None)",
    "priority of the parent": "libc.setpriority(0, os.getppid(), 5)",
    "priority of the user": "libc.setpriority(2, 0, 5)",
    "processors of the parent": "libc.sched_setaffinity(os.getppid(), 8, (ctypes.c_ulong * 1)(1))",
    "tracing": "libc.ptrace(0, 0, 0, 0)",
    "io_uring": "libc.syscall(425, 1, ctypes.create_string_buffer(120))",
    "a socket of this machine": "libc.socket(1, 1, 0)",
    "datagrams of this machine": "libc.socketpair(1, 2, 0, (ctypes.c_int * 2)())",
    "a call of x32": "libc.syscall(0x40000000 + 39)",
}

PRELUDE: Final = """
import ctypes, errno, os, resource
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_long
number = {number}
"""


def confined(code: str, workdir: Path) -> ProcessResult:
    column = MACHINES[os.uname().machine].column
    numbers = {name: denied.numbers[column] for name, denied in DENIED.items()}
    paths = python_paths(hidden=[workdir / "none"])
    with Confinement(read=paths.read, listed=paths.listed, write=[workdir], network=False) as confinement:
        return run_process(
            [sys.executable, "-c", PRELUDE.replace("{number}", repr(numbers)) + code],
            workdir=workdir,
            environment=scrubbed_environment(workdir),
            limits=Limits(),
            deadline_s=20,
            confine=confinement.apply,
        )


@needs_seccomp
def test_nothing_can_be_left_in_the_kernel_or_done_to_the_parent(tmp_path: Path) -> None:
    code = "\n".join(
        f"assert ({call}) == -1, {what!r}\nprint({what!r}, errno.errorcode[ctypes.get_errno()], sep=': ')"
        for what, call in REFUSED.items()
        if "x32" not in what or os.uname().machine == "x86_64"
    )
    result = confined(code, tmp_path)
    assert result.ok, result.stderr
    errors = dict(line.split(": ") for line in result.stdout.splitlines())
    assert errors.pop("a call of x32", "ENOSYS") == "ENOSYS"
    assert errors == {what: "EPERM" for what in REFUSED if "x32" not in what}


@needs_seccomp
def test_an_extended_attribute_is_refused_so_that_copies_go_on(tmp_path: Path) -> None:
    code = """
import shutil
open("a", "w").write("text")
try:
    os.setxattr("a", "user.note", b"text")
except OSError as error:
    print(error.errno == errno.EOPNOTSUPP)
shutil.copy2("a", "b")
print(open("b").read())
"""
    assert confined(code, tmp_path).stdout == "True\ntext\n"


@needs_seccomp
def test_what_a_process_does_to_itself_is_allowed(tmp_path: Path) -> None:
    code = """
import asyncio, subprocess, socket, sys, threading, mmap, signal
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
os.nice(1)
os.sched_setaffinity(0, os.sched_getaffinity(0))
thread = threading.Thread(target=print, args=("thread",), kwargs={"flush": True}); thread.start(); thread.join()
print(len(mmap.mmap(-1, 4096)), flush=True)
subprocess.run([sys.executable, "-c", "print('child')"], check=True)
asyncio.run(asyncio.sleep(0))
socket.socket().close()
near, far = socket.socketpair(); near.sendall(b"pair"); print(far.recv(4))
"""
    result = confined(code, tmp_path)
    assert (result.stdout, result.stderr) == ("thread\n4096\nchild\nb'pair'\n", "")


@needs_seccomp
def test_a_child_of_a_confined_one_is_confined_too(tmp_path: Path) -> None:
    code = """
import subprocess, sys
inner = "import ctypes; print(ctypes.CDLL(None).shmget(0xFAB, 4096, 0o1666))"
subprocess.run([sys.executable, "-c", inner], check=True)
"""
    assert confined(code, tmp_path).stdout == "-1\n"


@pytest.mark.skipif(not all(path.is_file() for path in HEADERS), reason="the kernel's headers aren't installed")
@pytest.mark.parametrize("column", [0, 1], ids=["x86-64", "arm64"])
def test_the_numbers_are_the_kernels(column: int) -> None:
    text = HEADERS[column].read_text(encoding="utf-8")
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", text)}
    newest = max(known.values())
    for name, denied in DENIED.items():
        if name in known or denied.numbers[column] <= newest:
            assert known[name] == denied.numbers[column], name


def judge(machine: Machine, call: int, *arguments: int, abi: int | None = None) -> int:
    """What the filter answers: the number of an error, or 0 for leave. It reads the bytecode as the kernel does."""
    seen = struct.pack("=IIQ6Q", call, machine.abi if abi is None else abi, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    place = word = 0
    while True:
        kind, yes, no, value = steps[place]
        place += 1
        match kind:
            case 0x20:
                (word,) = struct.unpack_from("=I", seen, value)
            case 0x15:
                place += yes if word == value else no
            case 0x54:
                word &= value
            case 0x35:
                place += yes if word >= value else no
            case 0x06:
                assert value >> 16 in (5, 0x7FFF)  # an error, or leave
                return value & 0xFFFF
            case _:
                raise AssertionError(f"unknown step {kind:#x}")


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_on_either_machine_the_filter_refuses_what_it_lists_and_nothing_else(machine: Machine) -> None:
    listed = {denied.numbers[machine.column]: denied for denied in DENIED.values()}
    number = {name: denied.numbers[machine.column] for name, denied in DENIED.items()}
    for call in range(600):
        if call == number["socket"]:
            continue
        # As a call to another process: no process has such a number.
        assert judge(machine, call, 1 << 30, 1 << 30) == (listed[call].error if call in listed else 0)
    assert judge(machine, number["prlimit64"], 0, 7) == 0
    assert judge(machine, number["setpriority"], 0, 0, 5) == 0
    assert judge(machine, number["setpriority"], 2, 0, 5) == errno.EPERM
    assert judge(machine, number["setpriority"], 0, 9, 5) == errno.EPERM
    assert judge(machine, number["ioprio_set"], 1, 0) == 0
    assert judge(machine, number["ioprio_set"], 3, 0) == errno.EPERM
    stream, datagram, raw = 1, 2, 3
    for flags in (0, 0o4000, 0o2000000):
        assert judge(machine, number["socket"], 1, stream | flags) == errno.EPERM
        assert judge(machine, number["socket"], 2, stream | flags) == 0
        assert judge(machine, number["socketpair"], 1, stream | flags) == 0
        assert judge(machine, number["socketpair"], 1, datagram | flags) == errno.EPERM
        assert judge(machine, number["socketpair"], 1, raw | flags) == errno.EPERM
    assert judge(machine, 1, abi=0x40000003) == errno.ENOSYS


def test_the_isolation_report_says_what_is_denied() -> None:
    assert embedded_toolchain().isolation()["system calls"] == describe_calls()
