"""Listing, filtering and loading tasks, and what a wrong name or filter says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.tasks import (
    list_tasks,
    load_catalogue,
    load_task,
    require_tasks,
    slug_of,
    tasks_root,
    unwritten_tasks,
)
from fabrica_bench.tasks.selection import TASKS_VARIABLE


def _names(*filters: str) -> set[str]:
    return {task.name for task in list_tasks(filters)}


def test_every_task_is_listed_by_default() -> None:
    assert _names() == _names("set=full")
    assert "ReLU-1PE" in _names()


def test_filters_narrow_down() -> None:
    assert {"ReLU-1PE", "SAXPY-1PE"} <= _names("set=diagnostic")
    assert "Prefix-Sum-1PE" not in _names("set=diagnostic")
    assert _names("level=3", "name=*Reduce*") == {"ParReduce-Sum"}
    assert _names("name=relu-1pe,saxpy-1pe") == {"ReLU-1PE", "SAXPY-1PE"}
    assert _names("family=scan") == {"Prefix-Sum-1PE"}
    assert _names("split=test", "origin=original", "name=Laplacian2D-Halo") == {"Laplacian2D-Halo"}


def test_filters_may_be_a_mapping() -> None:
    assert [task.name for task in list_tasks({"name": "ReLU-1PE", "level": "1"})] == ["ReLU-1PE"]


def test_order_is_that_of_the_catalogue() -> None:
    names = [task.name for task in list_tasks()]
    assert names.index("Single-Tile-Matvec") < names.index("ReLU-1PE") < names.index("ParReduce-Sum")


@pytest.mark.parametrize(
    ("condition", "message", "remedy"),
    [
        ("sett=core", "unknown filter key 'sett'", "set"),
        ("set=cor", "unknown set in filter 'cor'", "core"),
        ("level=9", "unknown level in filter '9'", "1, 2, 3, 4"),
        ("split=tests", "unknown split in filter 'tests'", "test"),
        ("name=RelU-1PX", "unknown task 'RelU-1PX'", "ReLU-1PE"),
        ("family=scam", "unknown family in filter 'scam'", "scan"),
        ("core", "filter 'core' is not of the form key=value", "set=core"),
        ("set=", "filter 'set=' is not of the form key=value", "set=core"),
    ],
)
def test_wrong_filters_say_what_is_meant(condition: str, message: str, remedy: str) -> None:
    with pytest.raises(FabricaError) as caught:
        list_tasks([condition])
    assert caught.value.message == message
    assert remedy in (caught.value.remedy or "")
    assert caught.value.code is ExitCode.USAGE


def test_where_no_task_is_chosen_each_filter_says_what_it_chooses_by_itself(tmp_path: Path) -> None:
    shutil.copytree(tasks_root() / "relu-1pe", tmp_path / "relu-1pe")
    shutil.copytree(tasks_root() / "softmax-1pe", tmp_path / "softmax-1pe")
    assert [task.name for task in require_tasks(["name=relu*"], tmp_path)] == ["ReLU-1PE"]
    with pytest.raises(FabricaError) as caught:
        require_tasks(["name=ReLU-1PE", "level=4", "name=Softmax-1PE"], tmp_path)
    assert str(caught.value) == (
        "no task meets name=ReLU-1PE and level=4 and name=Softmax-1PE (by itself name=ReLU-1PE chooses ReLU-1PE, "
        "level=4 chooses none, name=Softmax-1PE chooses Softmax-1PE; `fabrica-bench list` shows all 2 tasks)"
    )
    assert caught.value.code is ExitCode.USAGE
    with pytest.raises(FabricaError, match="there is no task") as caught:
        require_tasks(root=tmp_path / "relu-1pe")
    assert (caught.value.place, caught.value.code) == (str(tmp_path / "relu-1pe"), ExitCode.USAGE)


@pytest.mark.parametrize("name", ["ReLU-1PE", "relu-1pe", "RELU-1PE"])
def test_a_task_loads_by_name_in_any_case(name: str) -> None:
    task = load_task(name)
    assert (task.name, task.slug) == ("ReLU-1PE", "relu-1pe")
    assert task.cuda_path.is_file()
    assert task.text_path.is_file()
    assert task.size("small") == {"n": 512}
    assert task.fabric_dims(task.size("small")) == (8, 3)


def test_a_task_loads_by_path() -> None:
    assert load_task(str(tasks_root() / "saxpy-1pe")).name == "SAXPY-1PE"


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(FabricaError, match="unknown task 'ReLU-2PE'") as caught:
        load_task("ReLU-2PE")
    assert "ReLU-1PE" in (caught.value.remedy or "")


def test_an_unwritten_task_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tasks_root() / "relu-1pe", tmp_path / "relu-1pe")
    monkeypatch.setenv(TASKS_VARIABLE, str(tmp_path))
    with pytest.raises(FabricaError, match="not written yet"):
        load_task("FFT-1D-2D")
    message = "task 'Cholesky' is in the catalogue, but its pair is not written yet"
    with pytest.raises(FabricaError, match=message) as caught:
        list_tasks(["name=Cholesky"])
    assert "fabrica-bench list" in (caught.value.remedy or "")


def test_an_unknown_size_names_the_known_ones() -> None:
    with pytest.raises(FabricaError, match="unknown size of ReLU-1PE 'big'") as caught:
        load_task("ReLU-1PE").size("big")
    assert "small" in (caught.value.remedy or "")


def test_the_root_comes_from_argument_then_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tasks_root() / "relu-1pe", tmp_path / "relu-1pe")
    assert [task.root.parent for task in list_tasks(root=tmp_path)] == [tmp_path]
    monkeypatch.setenv(TASKS_VARIABLE, str(tmp_path))
    assert tasks_root() == tmp_path
    monkeypatch.setenv(TASKS_VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(FabricaError, match="no such tasks folder") as caught:
        tasks_root()
    assert TASKS_VARIABLE in (caught.value.remedy or "")


def test_a_folder_must_be_called_like_its_task(tmp_path: Path) -> None:
    shutil.copytree(tasks_root() / "relu-1pe", tmp_path / "other")
    with pytest.raises(FabricaError, match="belongs in a folder called relu-1pe"):
        list_tasks(root=tmp_path)


def test_written_and_unwritten_tasks_make_up_the_catalogue() -> None:
    missing = {entry.name for entry in unwritten_tasks()}
    written = {task.name for task in list_tasks()}
    assert not missing & written
    assert missing | written >= {entry.name for entry in load_catalogue()}


def test_slugs_are_kebab_case() -> None:
    assert slug_of("FFT-1D-2D") == "fft-1d-2d"
