"""Measuring the references: the record in spec.yaml, and what is said when a tool fails."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from fabrica_bench.errors import FabricaError
from fabrica_bench.tasks import Task, load_spec, load_task
from fabrica_bench.tasks.measure import Measurement, Tools, main, measure, record
from fabrica_bench.tasks.spec import Arch


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A copy of ReLU-1PE without recorded cycles."""
    folder = tmp_path / "relu-1pe"
    shutil.copytree(load_task("ReLU-1PE").root, folder)
    path = folder / "spec.yaml"
    path.write_text(path.read_text(encoding="utf-8").split("reference_cycles:")[0], encoding="utf-8")
    return Task(load_spec(path), folder)


def _measured(variant: str, cycles: int | None, *, arch: Arch = "wse3", problem: str = "") -> Measurement:
    return Measurement("ReLU-1PE", arch, "small", variant, cycles, 1, 0.0, problem, 1.0)  # type: ignore[arg-type]


def test_a_record_adds_cycles_and_leaves_the_rest(task: Task) -> None:
    path = task.root / "spec.yaml"
    before = path.read_text(encoding="utf-8")
    record(task, [_measured("expert", 140), _measured("plain", 9000)], "test 1")
    assert path.read_text(encoding="utf-8").startswith(before.rstrip("\n"))
    reference = load_spec(path).reference_cycles
    assert reference.toolchain == "test 1"
    assert reference.cycles["wse3"]["small"].model_dump() == {"expert": 140, "plain": 9000}


def test_a_second_record_replaces_only_what_was_measured(task: Task) -> None:
    path = task.root / "spec.yaml"
    record(task, [_measured("expert", 140), _measured("plain", 9000)], "test 1")
    again = Task(load_spec(path), task.root)
    record(again, [_measured("expert", 139), _measured("expert", 500, arch="wse2")], "test 2")
    reference = load_spec(path).reference_cycles
    assert reference.toolchain == "test 2"
    assert reference.cycles["wse3"]["small"].model_dump() == {"expert": 139, "plain": 9000}
    assert reference.cycles["wse2"]["small"].model_dump() == {"expert": 500, "plain": None}
    assert path.read_text(encoding="utf-8").count("reference_cycles:") == 1


def test_a_record_in_the_middle_of_the_file_stays_there(task: Task) -> None:
    path = task.root / "spec.yaml"
    record(task, [_measured("expert", 140)], "test 1")
    path.write_text(path.read_text(encoding="utf-8") + "published: {}\n", encoding="utf-8")
    text = path.read_text(encoding="utf-8").replace("published: {}\n", "")
    head, tail = text.split("reference_cycles:")
    path.write_text(
        f"schema_version: 1\nreference_cycles:{tail}{head.replace('schema_version: 1', '', 1)}", encoding="utf-8"
    )
    record(Task(load_spec(path), task.root), [_measured("expert", 138)], "test 3")
    assert load_spec(path).reference_cycles.cycles["wse3"]["small"].expert == 138
    assert load_spec(path).published == task.spec.published


def test_failed_runs_are_not_recorded(task: Task) -> None:
    record(task, [_measured("expert", 140, problem="out differs"), _measured("plain", None)], "test 1")
    assert load_spec(task.root / "spec.yaml").reference_cycles.cycles == {}


def test_a_record_that_breaks_the_spec_is_not_written(task: Task) -> None:
    path = task.root / "spec.yaml"
    before = path.read_bytes()
    with pytest.raises(FabricaError, match="reference_cycles"):
        record(task, [_measured("expert", 0)], "test 1")
    assert path.read_bytes() == before
    assert sorted(item.name for item in task.root.iterdir()) == ["csl", "cuda", "oracle.py", "spec.yaml", "task.md"]


def test_a_failing_tool_is_reported_by_its_message(task: Task) -> None:
    script = "import sys; sys.exit('pe.csl:1:1: error: no such thing')"
    tools = Tools((sys.executable, "-c", script), (sys.executable, "-c", script), "broken")
    found = measure(task, "wse3", "small", "expert", tools)
    assert found.problem == "build: pe.csl:1:1: error: no such thing"
    assert found.cycles is None


def test_a_runner_that_writes_wrong_outputs_is_caught(task: Task) -> None:
    script = "import numpy as np; np.savez('outputs.npz', out=np.zeros(512, np.float32), cycles=np.int64(5))"
    tools = Tools((sys.executable, "-c", ""), (sys.executable, "-c", script), "wrong")
    found = measure(task, "wse3", "small", "expert", tools)
    assert found.problem.startswith("normal: out at [")


def test_another_toolchain_needs_all_three_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cslc", "cslc"]) == 2
    assert "--cslc, --cs-python and --toolchain together" in capsys.readouterr().err
