"""Measured cycles of the reference programs in spec.yaml: writing them, and comparing them with published ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import yaml

from fabrica_bench.errors import FabricaError
from fabrica_bench.tasks.spec import Arch, CyclePair, TaskSpec, load_spec
from fabrica_bench.tasks.task import SPEC_FILE, Task

Variant = Literal["expert", "plain"]
VARIANTS: Final[tuple[Variant, ...]] = ("expert", "plain")
FIELD: Final = "reference_cycles"
AS_PUBLISHED: Final = "plain_as_published"


FAR: Final = 0.2
"""A plain form further than this from the published cycles isn't the published program's like; the spec says why."""

PUBLISHED_ARCH: Final[Arch] = "wse3"
"""The target of all published cycles of the suite."""


@dataclass(frozen=True)
class MeasuredCycles:
    """Cycles of one reference at one size.

    Attributes:
        cycles: Those of its verdict, the median over the inputs.
        first: Those of the first visible input.
    """

    arch: Arch
    size: str
    variant: Variant
    cycles: int
    first: int


def record(task: Task, measured: Sequence[MeasuredCycles], toolchain: str) -> None:
    """Write measured cycles into the task's spec.yaml, leaving every other line as it is.

    Raises:
        FabricaError: The file would no longer be a valid spec; it is left unchanged.
    """
    path = task.root / SPEC_FILE
    cycles: dict[str, dict[str, dict[str, int | None]]] = {}
    for arch, sizes in task.spec.reference_cycles.cycles.items():
        cycles[arch] = {size: _pair(pair) for size, pair in sizes.items()}
    for item in measured:
        pair = cycles.setdefault(item.arch, {}).setdefault(item.size, {"expert": None, "plain": None})
        pair[item.variant] = item.cycles
        if item.variant == "plain" and item.arch == PUBLISHED_ARCH and task.spec.size(item.size).published_cycles:
            pair[AS_PUBLISHED] = item.first
    content: dict[str, Any] = {"toolchain": toolchain}
    if task.spec.reference_cycles.note:
        content["note"] = task.spec.reference_cycles.note
    content["cycles"] = cycles
    dumped = yaml.safe_dump({FIELD: content}, sort_keys=False, width=120, default_flow_style=None)
    text = _replace_block(path.read_text(encoding="utf-8"), dumped)
    draft = path.with_suffix(".yaml.new")
    draft.write_text(text, encoding="utf-8")
    try:
        load_spec(draft)
    except FabricaError:
        draft.unlink()
        raise
    draft.replace(path)


def _pair(pair: CyclePair) -> dict[str, int | None]:
    values: dict[str, int | None] = pair.model_dump()
    if values[AS_PUBLISHED] is None:
        del values[AS_PUBLISHED]
    return values


@dataclass(frozen=True)
class Comparison:
    """The plain form beside the published cycles of one size."""

    size: str
    published: int
    measured: int | None

    @property
    def ratio(self) -> float | None:
        """Measured over published."""
        return None if self.measured is None else self.measured / self.published

    @property
    def far(self) -> bool:
        return self.ratio is not None and abs(self.ratio - 1) > FAR


def comparisons(spec: TaskSpec) -> list[Comparison]:
    """One for each size with published cycles."""
    measured = spec.reference_cycles.cycles.get(PUBLISHED_ARCH, {})
    return [
        Comparison(size.name, size.published_cycles, getattr(measured.get(size.name), AS_PUBLISHED, None))
        for size in spec.sizes
        if size.published_cycles is not None
    ]


def _replace_block(text: str, block: str) -> str:
    """Replace the top-level `reference_cycles` block, or append it."""
    pattern = re.compile(rf"^{FIELD}:.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(text):
        return pattern.sub(lambda _: block, text, count=1)
    return text.rstrip("\n") + "\n" + block
