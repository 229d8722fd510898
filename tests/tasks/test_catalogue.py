"""The frozen counts of the benchmark, and that written tasks keep to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fabrica_bench.tasks import list_tasks, load_catalogue
from fabrica_bench.tasks.catalogue import FROZEN_COUNTS, FROZEN_SPLITS


def test_names_are_49_and_distinct() -> None:
    assert len({entry.name for entry in load_catalogue()}) == len(load_catalogue()) == 49


def test_counts_by_set_and_level_are_frozen() -> None:
    for name, wanted in FROZEN_COUNTS.items():
        levels = Counter(entry.level for entry in load_catalogue() if name == "full" or name in entry.sets)
        assert tuple(levels[level] for level in (1, 2, 3, 4)) == wanted, name


def test_splits_are_frozen() -> None:
    assert Counter((entry.origin, entry.split) for entry in load_catalogue()) == FROZEN_SPLITS


def test_written_tasks_agree_with_the_catalogue() -> None:
    entries = {entry.name: entry for entry in load_catalogue()}
    for task in list_tasks():
        if task.spec.origin == "user":
            continue
        spec, entry = task.spec, entries[task.name]
        assert (spec.level, spec.origin, spec.split) == (entry.level, entry.origin, entry.split), task.name
        assert set(spec.sets) == set(entry.sets), task.name
        assert spec.family == entry.family, task.name
        for size in entry.sizes:
            assert _problem(task.size(size.name)) == _problem(size.params), task.name
            assert spec.size(size.name).published_cycles == size.published_cycles, task.name
        assert task.mesh(task.size(entry.sizes[0].name)) == entry.mesh, task.name


def _problem(params: Mapping[str, int | str]) -> dict[str, int]:
    """Published parameters without those that number a color or name the data: neither is part of the problem."""
    return {
        name: value
        for name, value in params.items()
        if isinstance(value, int) and not name.endswith("_ID") and not name.endswith("_COLOR")
    }


def test_the_first_six_are_written() -> None:
    first_six = {"ReLU-1PE", "SAXPY-1PE", "Prefix-Sum-1PE", "Single-Tile-Matvec", "Laplacian2D-Halo", "ParReduce-Sum"}
    assert first_six <= {task.name for task in list_tasks()}
