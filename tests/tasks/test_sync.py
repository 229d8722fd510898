"""The common files of the bundles are copied from the model task."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fabrica_bench.tasks import tasks_root
from fabrica_bench.tasks.sync import main


def _copy(folder: Path) -> Path:
    shutil.copytree(tasks_root() / "relu-1pe", folder / "relu-1pe")
    return folder


def test_a_differing_and_a_missing_file_are_found_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = _copy(tmp_path)
    bundle = root / "relu-1pe" / "csl"
    (bundle / "window.csl").write_text("// mine\n", encoding="utf-8")
    (bundle / "host.py").unlink()
    assert main(["--check", "--tasks", str(root)]) == 1
    assert capsys.readouterr().out.count("differs: ") == 2
    assert (bundle / "window.csl").read_text(encoding="utf-8") == "// mine\n"
    assert main(["--tasks", str(root)]) == 0
    for name in ("window.csl", "host.py"):
        assert (bundle / name).read_bytes() == (tasks_root() / "saxpy-1pe" / "csl" / name).read_bytes()
    assert main(["--check", "--tasks", str(root)]) == 0


def test_a_missing_tasks_folder_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--tasks", str(tmp_path / "none")]) != 0
    assert capsys.readouterr().err.startswith("error: ")
