"""The frozen catalogue: the 49 tasks of the benchmark, their levels, sets and published cycles.

A task's folder may not be written yet; the catalogue knows it all the same, so that counts can't drift.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.tasks.spec import Identifier, Model, SetName, TaskName, Text, _tuples, read_yaml

FROZEN_COUNTS: Final = {
    "full": (11, 29, 8, 1),
    "core": (5, 20, 3, 0),
    "diagnostic": (4, 3, 1, 0),
    "knowledge": (3, 10, 2, 0),
    "probe": (1, 9, 2, 0),
    "w2": (2, 12, 0, 0),
}
"""Distinct tasks of each set at levels 1 to 4."""

FROZEN_SPLITS: Final = {("original", "train"): 8, ("original", "test"): 23, ("added", "test"): 18}
"""Tasks by origin and split."""


class CatalogueSize(Model):
    """A published or frozen size."""

    name: Identifier
    params: dict[Identifier, int | str]
    published_cycles: Annotated[int, Field(ge=1)] | None


class CatalogueEntry(Model):
    """Facts of one task. `mesh` is [columns, rows] of the published reference at its first size."""

    name: TaskName
    level: Literal[1, 2, 3, 4]
    origin: Literal["original", "added"]
    split: Literal["train", "test"]
    sets: tuple[SetName, ...]
    family: Text
    summary: Text
    mesh: tuple[int, int]
    sizes: tuple[CatalogueSize, ...] = Field(min_length=1)


@lru_cache(maxsize=1)
def load_catalogue() -> tuple[CatalogueEntry, ...]:
    """All 49 entries, in the published order."""
    path = Path(__file__).with_name("catalogue.yaml")
    try:
        return TypeAdapter(tuple[CatalogueEntry, ...]).validate_python(_tuples(read_yaml(path)["tasks"]))
    except ValidationError as error:  # the file ships with the package: a fault in it is ours
        raise FabricaError(f"the catalogue is broken: {error}", place=str(path), code=ExitCode.HARNESS) from error
