"""A confined child can't change modes, times or owners outside its folders, and all it does inside works."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fabrica_bench.toolchains.landlock import Confinement, describe_confinement, python_paths
from fabrica_bench.toolchains.mounts import describe_mounts, mounts_available
from fabrica_bench.toolchains.processes import Limits, ProcessResult, run_process, scrubbed_environment

needs_mounts = pytest.mark.skipif(not mounts_available(), reason=describe_mounts())


def confined(code: str, workdir: Path, *, others: tuple[Path, ...] = ()) -> ProcessResult:
    paths = python_paths(hidden=[workdir / "none"])
    with Confinement(read=paths.read, listed=paths.listed, write=[workdir, *others], network=False) as confinement:
        return run_process(
            [sys.executable, "-c", "import os, errno, ctypes\n" + code],
            workdir=workdir,
            environment=scrubbed_environment(workdir),
            limits=Limits(),
            deadline_s=20,
            confine=confinement.apply,
        )


@needs_mounts
@pytest.mark.parametrize("act", ["os.chmod({}, 0)", "os.utime({}, (1, 1))", "os.chown({}, os.getuid(), os.getgid())"])
def test_a_file_of_the_same_user_keeps_its_mode_times_and_owner(act: str, tmp_path: Path) -> None:
    work, records = tmp_path / "work", tmp_path / "records.jsonl"
    work.mkdir()
    records.write_text("{}", encoding="utf-8")
    before = os.stat(records)
    code = f"try: {act.format(repr(str(records)))}\nexcept OSError as error: print(errno.errorcode[error.errno])"
    assert confined(code, work).stdout == "EROFS\n"
    assert os.stat(records)[:9] == before[:9]


@needs_mounts
def test_in_its_own_folders_everything_works_and_stays(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    code = f"""
import shutil, subprocess
open("script", "w").write("#!/bin/sh\\necho $1\\n")
os.chmod("script", 0o755)
os.utime("script", (5, 5))
shutil.copy2("script", "copied")
shutil.move("copied", {str(other / "moved")!r})
os.mkdir("folder"); os.link("script", "folder/link"); os.symlink("script", "folder/symbolic")
print(os.getuid() == {os.getuid()}, os.getcwd() == {str(work.resolve())!r}, flush=True)
subprocess.run(["./script", "ran"], check=True)
"""
    result = confined(code, work, others=(other,))
    assert (result.stdout, result.stderr) == ("True True\nran\n", "")
    assert (work / "script").stat().st_mode & 0o777 == 0o755
    assert (work / "script").stat().st_mtime == 5
    assert (work / "script").stat().st_uid == os.getuid()
    assert (other / "moved").is_file()


@needs_mounts
def test_the_mounts_cannot_be_undone(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    code = """
libc = ctypes.CDLL(None, use_errno=True)
clear = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
tries = [
    lambda: libc.mount(None, b"/", None, 0x1020, None),
    lambda: libc.syscall(442, -100, b"/", 0x8000, clear, 32),
    lambda: libc.umount2(os.getcwd().encode(), 2),
]
for attempt in (1, 2):
    print([attempt() for attempt in tries])
    libc.unshare(0x10020000)  # a further pair of namespaces, with all privileges inside
"""
    assert confined(code, work).stdout == "[-1, -1, -1]\n" * 2


def test_the_description_says_what_is_in_force() -> None:
    assert describe_mounts() in describe_confinement(network=False)
    assert describe_mounts().startswith("modes, owners") == mounts_available()
