"""Both references of every task on the embedded toolchain."""

from __future__ import annotations

import pytest

from fabrica_bench.tasks import Task, list_tasks, load_task
from fabrica_bench.tasks.measure import VARIANTS, Tools, Variant, measure
from fabrica_bench.tasks.spec import ARCHS, Arch

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)


@BY_NAME
def test_references_are_right_at_the_small_size_on_wse3_and_the_expert_is_quicker(task: Task) -> None:
    expert = measure(task, "wse3", "small", "expert", Tools())
    plain = measure(task, "wse3", "small", "plain", Tools(), every=False)
    assert (expert.problem, plain.problem) == ("", "")
    assert expert.cycles is not None
    assert plain.cycles is not None
    assert task.lower_bound(task.size("small"), "wse3") < expert.cycles < plain.cycles


@BY_NAME
def test_the_expert_is_right_at_the_medium_size_on_wse2(task: Task) -> None:
    found = measure(task, "wse2", "medium", "expert", Tools(), every=False)
    assert found.problem == ""
    assert found.cycles is not None
    assert found.cycles > task.lower_bound(task.size("medium"), "wse2")


ODD_SIZES: list[tuple[str, dict[str, int]]] = [
    ("Laplacian2D-Halo", {"width": 1, "height": 1, "Mt": 3, "Nt": 5}),
    ("Laplacian2D-Halo", {"width": 5, "height": 1, "Mt": 1, "Nt": 1}),
    ("Laplacian2D-Halo", {"width": 3, "height": 4, "Mt": 7, "Nt": 2}),
    ("Laplacian2D-Halo", {"width": 1, "height": 3, "Mt": 9, "Nt": 16}),
    ("ParReduce-Sum", {"width": 1, "n_per_pe": 7}),
    ("ParReduce-Sum", {"width": 2, "n_per_pe": 41}),
    ("ParReduce-Sum", {"width": 7, "n_per_pe": 44}),
    ("ParReduce-Sum", {"width": 11, "n_per_pe": 1}),
    ("ParReduce-Sum", {"width": 16, "n_per_pe": 100}),
    ("Prefix-Sum-1PE", {"n": 51}),
    ("Prefix-Sum-1PE", {"n": 1000}),
    ("Single-Tile-Matvec", {"width": 1, "height": 2, "tile_size": 7}),
    ("Single-Tile-Matvec", {"width": 1, "height": 1, "tile_size": 4}),
    ("ReLU-1PE", {"n": 1}),
    ("SAXPY-1PE", {"n": 3}),
]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "params"), ODD_SIZES, ids=lambda value: value if isinstance(value, str) else None)
def test_references_are_right_at_sizes_that_no_spec_has(name: str, params: dict[str, int], arch: Arch) -> None:
    task = load_task(name)
    small = task.spec.sizes[0]
    odd = small.model_copy(update={"name": "odd", "params": {**small.params, **params}})
    task = Task(task.spec.model_copy(update={"sizes": (odd,)}), task.root)
    for variant in VARIANTS:
        assert measure(task, arch, "odd", variant, Tools()).problem == "", variant


@pytest.mark.slow
@BY_NAME
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("variant", ["expert", "plain"])
def test_references_are_right_everywhere(task: Task, arch: Arch, variant: Variant) -> None:
    for size in task.spec.size_names:
        found = measure(task, arch, size, variant, Tools())
        assert found.problem == "", size
