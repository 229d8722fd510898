"""Programs that try to hang the toolchain, eat its memory or read the host's files: each must end with one clear error,
within a ceiling of time and memory, in a child process that is watched from here.

The small ones are the files in `hostile`; their first line names the stage that must fail and words of the message. The
large ones are written by `hostile/generated.py`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.csl_programs import uniform_layout
from helpers.failing_programs import CONFORMANCE

FOLDER = CONFORMANCE / "hostile"
RUN = CONFORMANCE / "faults" / "run.py"
STEPS = 50_000
"""Comptime steps allowed here: a tenth of the default, so that the suite stays quick."""
CPU_SECONDS = 20
MEGABYTES = 400
OUTPUT_BYTES = 4 << 20
ADDRESS_SPACE = 4 << 30


def _generated() -> Any:
    spec = importlib.util.spec_from_file_location("hostile_generated", FOLDER / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATED = _generated().PROGRAMS
FILES = sorted(FOLDER.glob("*.csl"))


class Ending(NamedTuple):
    """How a child ended."""

    status: int
    text: str
    cpu_seconds: float
    megabytes: float


#: A small process between this one and the child: the peak memory that the system tells of a child begins with that of
#: the process that started it, and test processes grow large.
_WATCHER = """
import json, os, resource, subprocess, sys
cpu, memory, report = map(int, sys.argv[1:4])
def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
status = subprocess.run(sys.argv[4:], preexec_fn=limit).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
os.write(report, json.dumps([status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]).encode())
"""


def watched(command: list[str], cwd: Path) -> Ending:
    """Run a command under limits; what it used."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = os.environ | {"PYTHONPATH": path, "FABRICA_SIM_MAX_CYCLES": "200000"}
    log = cwd / "log.txt"
    receiver, sender = os.pipe()
    watcher = [sys.executable, "-S", "-c", _WATCHER, str(CPU_SECONDS), str(ADDRESS_SPACE), str(sender)]
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [*watcher, sys.executable, "-m", *command],
            cwd=cwd,
            env=environment,
            stdout=stream,
            stderr=stream,
            pass_fds=[sender],
            start_new_session=True,
        )
        os.close(sender)
        try:
            child.wait(10 * CPU_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            pytest.fail(f"{command[0]} did not end")
    with open(receiver, encoding="utf-8") as report:
        status, cpu_seconds, megabytes = json.load(report)
    assert log.stat().st_size < OUTPUT_BYTES
    text = log.read_text(encoding="utf-8", errors="replace")
    return Ending(status, text, cpu_seconds, megabytes)


def compile_in(folder: Path, *flags: str) -> Ending:
    """`cslc` as the embedded toolchain calls it."""
    arguments = [
        "layout.csl",
        "--arch=wse3",
        "--fabric-dims=4096,4096",
        "--fabric-offsets=4,1",
        "--memcpy",
        "-o",
        "out",
    ]
    safety = ["--confine-imports", f"--max-comptime-steps={STEPS}"]
    return watched(["fabrica_bench.compat.cslc", *arguments, *safety, *flags], folder)


def assert_refused(ending: Ending, expected: str) -> None:
    """One clear error, and no more time and memory than the ceiling."""
    assert "Traceback" not in ending.text
    assert expected in ending.text
    assert ending.status in (1, 3)
    assert ending.cpu_seconds < CPU_SECONDS
    assert ending.megabytes < MEGABYTES


def surroundings(folder: Path) -> Path:
    """A program's folder with links, a pipe, folders and odd files in it, below a folder with a secret."""
    program = folder / "program"
    program.mkdir()
    (folder / "outside.csl").write_text("fn f() void {}\n", encoding="utf-8")
    (folder / "secret.json").write_text('"the secret"', encoding="utf-8")
    (program / "link.csl").symlink_to(folder / "outside.csl")
    (program / "link.json").symlink_to(folder / "secret.json")
    (program / "linked").symlink_to(folder)
    os.mkfifo(program / "pipe.csl")
    (program / "folder.csl").mkdir()
    (program / "huge.csl").write_text("// " + "x" * (1 << 20), encoding="utf-8")
    (program / "binary.csl").write_bytes(bytes(range(128, 256)))
    (program / "deep.json").write_text('{"a:i16": ' * 100_000 + "1" + "}" * 100_000, encoding="utf-8")
    (program / "layout.csl").write_text(uniform_layout(1, 1, {}), encoding="utf-8")
    return program


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_small_hostile_program_is_refused(file: Path, tmp_path: Path) -> None:
    folder = surroundings(tmp_path)
    text = file.read_text(encoding="utf-8")
    stage, expected = text.split("\n", 1)[0].removeprefix("// ").split(" must fail: ")
    (folder / "pe.csl").write_text(text, encoding="utf-8")
    compiled = compile_in(folder)
    assert "the secret" not in compiled.text
    if stage == "compile":
        assert_refused(compiled, expected)
        assert not (folder / "out").exists()
        return
    assert compiled.status == 0, compiled.text
    assert_refused(watched(["fabrica_bench.compat.cs_python", str(RUN), "out"], folder), expected)


@pytest.mark.parametrize("name", sorted(GENERATED))
def test_a_large_hostile_program_is_refused(name: str, tmp_path: Path) -> None:
    program = GENERATED[name]
    for file, text in program.files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    assert_refused(compile_in(tmp_path, *program.flags), program.expected)


@pytest.mark.parametrize(
    "flag",
    [
        "--params=n:" + "9" * 100_000,
        "--params=" + ",".join(f"p{i}:1" for i in range(5_000)),
        "--params=../x:1",
        "--params=n:1;rm",
        "--params=n:-1",
        "--colors=c:99",
        "--import-path=/dev/zero",
        "--channels=0",
    ],
    ids=lambda flag: flag[:24],
)
def test_odd_flags_end_with_a_clear_message(flag: str, tmp_path: Path) -> None:
    folder = surroundings(tmp_path)
    (folder / "pe.csl").write_text(FILES[0].read_text(encoding="utf-8"), encoding="utf-8")
    ending = compile_in(folder, flag)
    assert "Traceback" not in ending.text
    assert "error: " in ending.text
    assert ending.status in (1, 2)
    assert len(ending.text) < 10_000 + 2 * len(flag)


def test_by_hand_a_program_may_import_what_lies_elsewhere(tmp_path: Path) -> None:
    """Absolute paths and parents are part of the language; only `--confine-imports` forbids them."""
    folder = surroundings(tmp_path)
    text = (FOLDER / "import_parent.csl").read_text(encoding="utf-8")
    (folder / "pe.csl").write_text(text, encoding="utf-8")
    arguments = ["layout.csl", "--arch=wse3", "--fabric-dims=8,3", "--fabric-offsets=4,1", "--memcpy", "-o", "out"]
    ending = watched(["fabrica_bench.compat.cslc", *arguments], folder)
    assert ending.status == 0, ending.text


def test_a_search_path_is_no_way_out(tmp_path: Path) -> None:
    folder = surroundings(tmp_path)
    text = (
        (FOLDER / "import_through_library_name.csl").read_text(encoding="utf-8").replace("../../outside", "../outside")
    )
    (folder / "pe.csl").write_text(text, encoding="utf-8")
    assert_refused(compile_in(folder, f"--import-path={folder}"), "lies outside the program's folder")
