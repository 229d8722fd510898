"""The cost table of an architecture: every number about time and capacity, with unit, source and confidence.

The numbers live in `costs_<arch>.toml` beside this module. Code asks for them by name and holds none of its own.

Timing rules that every executor follows, besides the numbers:
    - static cost of a block: `code_cost.block_costs`, which knows repeated addresses and loads
    - calls: of a function in `code_cost.inlined_functions(image, costs)` nothing, nor does its return; of others
      `branch.call` and `code_cost.return_cost`; a task's return is free, its end is `task.end`
    - `@map`: `dsd.map_setup` once, `dsd.map_element` and the body per element; no call or return
    - a synchronous fabric operation whose registers are loaded issues its first element in the cycle of its start,
      unless another operation has issued in that cycle (`pe.ProcessingElement._start_operation`)
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

Confidence = Literal["A", "B", "C", "D", "estimate"]
Value = int | float | tuple[int, ...]

_BY_OPERATION: Final = ("dsd_width", "silicon")  # sections that name operations in groups


@dataclass(frozen=True)
class CostEntry:
    """One number (or one list by queue id) of the table. `name` is `section.key`."""

    name: str
    value: Value
    unit: str
    source: str
    confidence: Confidence


class CostTable:
    """Costs of one architecture, looked up by `section.key`."""

    def __init__(self, arch: str, entries: dict[str, CostEntry]) -> None:
        self.arch = arch
        self._entries = entries

    def __iter__(self) -> Iterator[CostEntry]:
        return iter(self._entries.values())

    def __getitem__(self, name: str) -> int:
        """A whole number of cycles, elements, bytes or words."""
        value = self._entries[name].value
        if not isinstance(value, int):
            raise TypeError(f"{name} of {self.arch} is not a whole number: {value!r}")
        return value

    def number(self, name: str) -> float:
        """A number that may have a fraction."""
        value = self._entries[name].value
        if isinstance(value, tuple):
            raise TypeError(f"{name} of {self.arch} is a list: {value!r}")
        return float(value)

    def by_queue(self, name: str) -> tuple[int, ...]:
        """A list indexed by queue id."""
        value = self._entries[name].value
        if not isinstance(value, tuple):
            raise TypeError(f"{name} of {self.arch} is not a list: {value!r}")
        return value

    def factor(self, op: str) -> float:
        """Hardware over simulated cycles of a long memory operation: an estimate, 1 if nothing is known."""
        name = f"silicon.{op}"
        return self.number(name) if name in self._entries else 1.0

    def get(self, name: str, fallback: str) -> int:
        """`name` if the table has it, else `fallback`."""
        return self[name if name in self._entries else fallback]


@cache
def load_costs(arch: str) -> CostTable:
    """The table of `arch` ("wse2" or "wse3").

    Raises:
        ValueError: Unknown architecture, or an entry without value, unit, source or confidence.
    """
    if arch not in ("wse2", "wse3"):
        raise ValueError(f"unknown architecture {arch!r}: expected wse2 or wse3")
    text = resources.files("fabrica_bench.wse").joinpath(f"costs_{arch}.toml").read_text(encoding="utf-8")
    entries: dict[str, CostEntry] = {}
    for section, content in tomllib.loads(text).items():
        if section in _BY_OPERATION:
            for group in content:
                for op in group["ops"]:
                    entries[f"{section}.{op}"] = _entry(arch, f"{section}.{op}", group)
        else:
            for key, fields in content.items():
                entries[f"{section}.{key}"] = _entry(arch, f"{section}.{key}", fields)
    return CostTable(arch, entries)


def _entry(arch: str, name: str, fields: dict[str, Any]) -> CostEntry:
    missing = [key for key in ("value", "unit", "source", "confidence") if key not in fields]
    if missing:
        raise ValueError(f"costs_{arch}.toml: {name} lacks {', '.join(missing)}")
    if fields["confidence"] not in ("A", "B", "C", "D", "estimate"):
        raise ValueError(f"costs_{arch}.toml: {name} has unknown confidence {fields['confidence']!r}")
    value = tuple(fields["value"]) if isinstance(fields["value"], list) else fields["value"]
    return CostEntry(name, value, fields["unit"], fields["source"], fields["confidence"])
