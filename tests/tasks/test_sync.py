"""What follows from elsewhere in the bundles is found and mended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fabrica_bench.cli.main import main as cli
from fabrica_bench.tasks import tasks_root
from fabrica_bench.tasks.selection import shipped_tasks_root


def main(words: list[str]) -> int:
    return cli(["tasks", "sync", *words])


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """--tasks sets the variable for the whole process; here it ends with the test."""
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(tasks_root()))


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
        assert (bundle / name).read_bytes() == (shipped_tasks_root() / "saxpy-1pe" / "csl" / name).read_bytes()
    assert main(["--check", "--tasks", str(root)]) == 0


def test_a_shared_passage_is_copied_from_the_first_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for slug in ("cg", "preconditioned-cg"):
        shutil.copytree(tasks_root() / slug, tmp_path / slug)
    first, second = (tmp_path / slug / "oracle.py" for slug in ("cg", "preconditioned-cg"))
    head = "# shared: stop\n"
    assert all(head in path.read_text(encoding="utf-8") for path in (first, second))
    for path, line in ((first, "# the model\n"), (second, "# a copy that went its own way\n")):
        path.write_text(path.read_text(encoding="utf-8").replace(head, head + line), encoding="utf-8")
    assert main(["--check", "--tasks", str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"differs: {second}\n"
    assert main(["--tasks", str(tmp_path)]) == 0
    assert head + "# the model\n" in second.read_text(encoding="utf-8")
    assert "went its own way" not in second.read_text(encoding="utf-8")
    assert main(["--check", "--tasks", str(tmp_path)]) == 0


def test_commands_files_follow_from_the_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = _copy(tmp_path)
    spec = root / "relu-1pe" / "spec.yaml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("params: {n: 4500}", "params: {n: 4501}"), encoding="utf-8")
    assert main(["--check", "--tasks", str(root)]) == 1
    assert capsys.readouterr().out.count("differs: ") == 2
    script = root / "relu-1pe" / "csl" / "commands_wse3.sh"
    script.unlink()
    assert main(["--tasks", str(root)]) == 0
    assert "medium) dims=8,3 params=n:4501 ;;" in script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)
    assert main(["--check", "--tasks", str(root)]) == 0


def test_the_shipped_tasks_are_in_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_a_missing_tasks_folder_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", "--tasks", str(tmp_path / "none")]) != 0
    assert capsys.readouterr().err.startswith("error: ")
