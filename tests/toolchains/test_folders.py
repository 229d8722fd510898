"""A child's folder goes away whatever the child left in it."""

from __future__ import annotations

import os
from pathlib import Path

from fabrica_bench.toolchains.folders import private_folder, remove_folder


def dig(folder: Path, depth: int) -> None:
    """A chain of folders, deeper than any path may be long."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_a_folder_deeper_than_the_stack_and_than_any_path_goes() -> None:
    with private_folder("fabrica-test-") as folder:
        dig(folder, 3_000)
    assert not folder.exists()


def test_names_links_and_modes_do_not_matter(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("text")
    folder = tmp_path / "folder"
    (folder / "a" / "b" / ".0").mkdir(parents=True)
    (folder / ".0").mkdir()
    (folder / "a" / "c").symlink_to(kept)
    (folder / "link").symlink_to(kept)
    os.mkfifo(folder / "a" / "b" / "pipe")
    (folder / os.fsdecode(b"\xff\n")).write_text("text")
    (folder / "a" / "b").chmod(0)
    (folder / "a").chmod(0)
    folder.chmod(0)
    remove_folder(folder)
    assert not folder.exists()
    assert (kept / "file").read_text() == "text"


def test_a_folder_that_is_gone_is_no_reason_to_fail(tmp_path: Path) -> None:
    remove_folder(tmp_path / "none")
