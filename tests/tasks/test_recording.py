"""Recorded cycles: what is written into spec.yaml, how it compares with published cycles, and the page of all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fabrica_bench.errors import FabricaError
from fabrica_bench.tasks import Task, list_tasks, load_spec, load_task
from fabrica_bench.tasks.cycles_page import cycles_page
from fabrica_bench.tasks.recording import MeasuredCycles, Variant, comparisons, record
from fabrica_bench.tasks.spec import Arch

ROOT = Path(__file__).parents[2]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A copy of ReLU-1PE without recorded cycles."""
    folder = tmp_path / "relu-1pe"
    shutil.copytree(load_task("ReLU-1PE").root, folder)
    path = folder / "spec.yaml"
    path.write_text(path.read_text(encoding="utf-8").split("reference_cycles:")[0], encoding="utf-8")
    return Task(load_spec(path), folder)


def _measured(variant: Variant, cycles: int, *, arch: Arch = "wse3") -> MeasuredCycles:
    return MeasuredCycles(arch, "small", variant, cycles, cycles + 7)


def test_a_record_adds_cycles_and_leaves_the_rest(task: Task) -> None:
    path = task.root / "spec.yaml"
    before = path.read_text(encoding="utf-8")
    record(task, [_measured("expert", 140), _measured("plain", 9000)], "test 1")
    assert path.read_text(encoding="utf-8").startswith(before.rstrip("\n"))
    reference = load_spec(path).reference_cycles
    assert reference.toolchain == "test 1"
    assert reference.cycles["wse3"]["small"].model_dump(exclude_none=True) == {
        "expert": 140,
        "plain": 9000,
        "plain_as_published": 9007,
    }


def test_a_second_record_replaces_only_what_was_measured(task: Task) -> None:
    path = task.root / "spec.yaml"
    record(task, [_measured("expert", 140), _measured("plain", 9000)], "test 1")
    again = Task(load_spec(path), task.root)
    record(again, [_measured("expert", 139), _measured("expert", 500, arch="wse2")], "test 2")
    reference = load_spec(path).reference_cycles
    assert reference.toolchain == "test 2"
    assert reference.cycles["wse3"]["small"].expert == 139
    assert reference.cycles["wse3"]["small"].plain == 9000
    assert reference.cycles["wse2"]["small"].model_dump() == dict.fromkeys(("plain", "plain_as_published")) | {
        "expert": 500
    }
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


def test_a_record_that_breaks_the_spec_is_not_written(task: Task) -> None:
    path = task.root / "spec.yaml"
    before = path.read_bytes()
    with pytest.raises(FabricaError, match="reference_cycles"):
        record(task, [_measured("expert", 0)], "test 1")
    assert path.read_bytes() == before
    assert sorted(item.name for item in task.root.iterdir()) == ["csl", "cuda", "oracle.py", "spec.yaml", "task.md"]


def test_only_the_plain_form_is_compared_and_only_where_cycles_are_published(task: Task) -> None:
    assert [(found.size, found.measured, found.ratio) for found in comparisons(task.spec)] == [("small", None, None)]
    record(task, [_measured("plain", 9422), _measured("plain", 5, arch="wse2")], "test 1")
    spec = load_spec(task.root / "spec.yaml")
    (found,) = comparisons(spec)
    assert (found.published, found.measured, found.far) == (11787, 9429, True)  # 9,429.6 is 80 % of 11,787
    record(Task(spec, task.root), [_measured("plain", 9423)], "test 1")
    assert not comparisons(load_spec(task.root / "spec.yaml"))[0].far


@pytest.mark.parametrize("task", list_tasks(), ids=lambda task: task.slug)
def test_every_size_has_recorded_cycles_of_both_references(task: Task) -> None:
    cycles = task.spec.reference_cycles.cycles
    assert "wse3" in cycles
    for arch, sizes in cycles.items():
        assert set(sizes) == set(task.spec.size_names), arch
        assert all(pair.expert and pair.plain for pair in sizes.values()), arch
    assert all(found.measured for found in comparisons(task.spec))


def test_the_page_of_reference_cycles_is_what_the_specs_record() -> None:
    page = (ROOT / "docs" / "reference-cycles.md").read_text(encoding="utf-8")
    assert page == cycles_page(list_tasks()), (
        "write it with `fabrica-bench tasks cycles --out docs/reference-cycles.md`"
    )
