"""A child is held to what it may take with all that it starts, however it takes it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from fabrica_bench.toolchains.processes import ChildProcess, Limits
from fabrica_bench.toolchains.watch import TreeLimits, excess, tree_watched

LIMITS = TreeLimits(bytes=1 << 20, entries=50, depth=5)
NONE = Limits(cpu_s=None, address_space=None, file_size=None, processes=None, open_files=None)


def child(code: str, folder: Path) -> ChildProcess:
    return ChildProcess([sys.executable, "-c", code], workdir=folder, environment={}, limits=NONE)


def test_what_lies_in_a_folder_is_added_up(tmp_path: Path) -> None:
    assert excess(tmp_path, [], LIMITS) is None
    (tmp_path / "a").write_bytes(bytes(600 << 10))
    assert excess(tmp_path, [], LIMITS) is None
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b").write_bytes(bytes(600 << 10))
    assert excess(tmp_path, [], LIMITS) == "its files take more than 1 MiB"


def test_another_name_for_a_file_and_a_hole_in_one_take_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(600 << 10))
    os.link(tmp_path / "a", tmp_path / "b")
    with open(tmp_path / "hole", "wb") as stream:
        stream.truncate(1 << 30)
    (tmp_path / "link").symlink_to("/usr")
    assert excess(tmp_path, [], LIMITS) is None


def test_entries_and_depth_are_limited(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").touch()
    assert excess(tmp_path, [], LIMITS) is None
    (tmp_path / "one more").touch()
    assert excess(tmp_path, [], LIMITS) == "its folder holds more than 50 entries"
    deep = tmp_path / "49x"
    deep.joinpath(*"abcd").mkdir(parents=True)
    assert excess(tmp_path, [], TreeLimits(depth=5)) is None
    deep.joinpath(*"abcde").mkdir(parents=True)
    assert excess(tmp_path, [], TreeLimits(depth=5)) == "its folder is nested more than 5 levels deep"


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to the superuser")
def test_a_closed_folder_could_hold_anything(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    assert excess(tmp_path, [], LIMITS) == "it closed a folder of its own to whoever adds up what it takes"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_files_without_a_name_count_while_a_process_holds_them(tmp_path: Path) -> None:
    with open(tmp_path / "gone", "wb") as stream:
        os.unlink(tmp_path / "gone")
        stream.write(bytes(2 << 20))
        stream.flush()
        assert excess(tmp_path, [], LIMITS) is None
        assert excess(tmp_path, [os.getpid()], LIMITS) == "its files take more than 1 MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="needs descriptors of processes")
def test_a_child_that_takes_too_much_is_killed_while_it_works(tmp_path: Path) -> None:
    code = "import time; open('big', 'wb').write(bytes(2 << 20)); time.sleep(600)"
    with child(code, tmp_path) as started, tree_watched(started, tmp_path, LIMITS) as look:
        while started.running:
            time.sleep(0.05)
        assert look() == "its files take more than 1 MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_processes_and_threads_are_counted(tmp_path: Path) -> None:
    """Whatever system limit there is: none holds the superuser."""
    code = (
        "import os, threading, time\n"
        "for _ in range(3):\n"
        "    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "os.fork()\n"
        "time.sleep(600)\n"
    )
    assert excess(tmp_path, [os.getpid()], TreeLimits(threads=0)) == "it runs more than 0 processes and threads"
    with child(code, tmp_path) as started, tree_watched(started, tmp_path, TreeLimits(threads=4)) as look:
        while started.running:
            time.sleep(0.05)
        assert look() == "it runs more than 4 processes and threads"


def test_a_child_that_stays_within_its_limits_is_left_alone(tmp_path: Path) -> None:
    with child("open('small', 'wb').write(bytes(2 << 10))", tmp_path) as started:
        with tree_watched(started, tmp_path, LIMITS) as look:
            started.popen.wait()
            assert look() is None
        assert started.popen.returncode == 0
