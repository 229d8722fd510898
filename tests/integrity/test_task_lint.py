"""Each way in which a task can be wrong is found, and named by its file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fabrica_bench.integrity.task_lint import folders_without_spec, lint_record, lint_task
from fabrica_bench.tasks import list_tasks, load_task
from fabrica_bench.tasks.selection import shipped_tasks_root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a good task that a test may spoil."""
    return Path(shutil.copytree(shipped_tasks_root() / "relu-1pe", tmp_path / "relu-1pe"))


def lint(folder: Path) -> list[str]:
    return [f"{Path(problem.place).name}: {problem.message}" for problem in lint_task(load_task(f"{folder}/"))]


def spoil(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("task", list_tasks(root=shipped_tasks_root()), ids=lambda task: task.slug)
def test_shipped_tasks_are_in_order(task) -> None:
    assert [*lint_task(task), *lint_record(task)] == []


@pytest.mark.parametrize("name", ["oracle.py", "task.md", "cuda/kernel.cu", "csl/plain.csl", "csl/commands_wse2.sh"])
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    assert lint(folder) == [f"{Path(name).name}: is missing"]


def test_a_file_too_many_and_one_that_is_not_text(folder):
    (folder / "csl" / "notes.txt").write_text("x", encoding="utf-8")
    (folder / "task.md").write_bytes(b"caf\xe9")
    assert lint(folder) == ["notes.txt: doesn't belong to a task", "task.md: byte 3 is not UTF-8"]


def test_a_script_that_cannot_be_executed(folder):
    (folder / "csl" / "commands_wse3.sh").chmod(0o644)
    assert lint(folder) == ["commands_wse3.sh: is not executable"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("np.maximum(", "0 * np.maximum(", "no output depends on input 'x'"),
        ('draw(rng, size["n"], distribution)', 'np.ones(size["n"])', "every seed gives the same inputs"),
        ('inputs["x"]', 'inputs["y"]', "expected() fails: KeyError: 'y'"),
        ("import numpy as np", "import numpy as np\nimport os", "must be pure"),
        ('"out": ', '"result": ', "expected() must return exactly out"),
    ],
)
def test_a_broken_oracle(folder, old, new, found):
    spoil(folder / "oracle.py", old, new)
    problems = lint(folder)
    assert any(problem.startswith("oracle.py:") and found in problem for problem in problems), problems


def test_a_tolerance_that_accepts_zeros(folder):
    spoil(folder / "spec.yaml", "atol: 0", 'atol: "1000000000"')
    assert "oracle.py: outputs of zeros would be right" in lint(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("csl/layout.csl", '@export_name("out"', '@export_name("other"', "frozen.symbols"),
        ("csl/pe.csl", "param n: u16;", "param m: u16;\nconst n = m;", "frozen.params"),
        ("csl/layout.csl", "param n: u16;", "param m: u16;\nconst n = m;", "field 'sizes'"),
        ("csl/plain.csl", "window.start();", "", "must begin with `window.start();`"),
        ("csl/pe.csl", "window.start();", "", "must be exported and begin with a stamp"),
        ("csl/pe.csl", "window.end();", "", "one must precede every return to the host"),
        ("csl/pe.csl", "@export_symbol(compute);", "", "must be exported"),
        ("csl/pe.csl", "fn compute() void {", "fn compute( {", "doesn't parse"),
        ("csl/window.csl", "// Timing", "// My timing", "is not the common timing window"),
        ("task.md", "window.start();", "the start", "doesn't mention window.start();"),
        ("cuda/kernel.cu", 'extern "C" ', "", 'has no extern "C" launcher relu()'),
        ("spec.yaml", 'wse3: "n / 4"', 'wse3: "0"', "lower_bound.wse3 is 0 cycles"),
        ("spec.yaml", 'wse3: "n / 4"', 'wse3: "n * 1000"', "published are 11787"),
    ],
)
def test_sources_that_disagree(folder, name, old, new, found):
    spoil(folder / name, old, new)
    problems = lint(folder)
    assert any(found in problem for problem in problems), problems


def test_a_folder_without_spec_is_named(tmp_path):
    (tmp_path / "half-done").mkdir()
    (tmp_path / "_common").mkdir()
    assert [Path(problem.place).name for problem in folders_without_spec(tmp_path)] == ["half-done"]
