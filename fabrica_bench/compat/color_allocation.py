"""Physical colors for the symbolic colors of a layout.

Connected ports share a color, so the symbolic colors form classes (`ColorClasses`). Classes that some PE uses together
get different values; others may share one, lowest value first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from fabrica_bench.compat.path_search import Place
from fabrica_bench.compat.routing_positions import MAX_COLOR, Color
from fabrica_bench.compat.sessions import HostError

ALL: Final = frozenset(range(MAX_COLOR + 1))


class ColorClasses:
    """Which symbolic colors must have one physical value. A class is named by the global name of one of its colors."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self.members: dict[str, dict[int, Color]] = {}

    def add(self, color: Color) -> str:
        """The class of a color, a new one if it's unknown."""
        name = color.get_global_name()
        if name not in self._parent:
            self._parent[name] = name
        self.members.setdefault(name, {})[id(color)] = color
        return self.find(name)

    def find(self, name: str) -> str:
        """The class of a known global name."""
        while self._parent[name] != name:
            name = self._parent[name]
        return name

    def join(self, first: Color, second: Color) -> None:
        """Make two colors one class."""
        self._parent[self.add(second)] = self.add(first)

    def fixed_value(self, name: str) -> int | None:
        """The value that the program gave to a class, if any.

        Raises:
            HostError: It gave two.
        """
        found: dict[int, str] = {}
        for global_name, colors in self.members.items():
            if self.find(global_name) != name:
                continue
            for color in colors.values():
                value = color.get_value()
                if value is not None:
                    found[value] = global_name
        if len(found) > 1:
            text = " and ".join(f"{value} for {color!r}" for value, color in sorted(found.items()))
            raise HostError(f"connected colors have different values: {text}", remedy="give one of them no value")
        return next(iter(found), None)

    def resolve(self, values: Mapping[str, int]) -> dict[str, int]:
        """Tell every color object its value; returns global name -> value."""
        resolved = {}
        for global_name, colors in self.members.items():
            resolved[global_name] = values[self.find(global_name)]
            for color in colors.values():
                color.resolve(resolved[global_name])
        return dict(sorted(resolved.items()))


def allocate(
    uses: Mapping[Place, Iterable[str]], fixed: Mapping[str, int], switched: Iterable[str], arch: str
) -> dict[str, int]:
    """A value for every class.

    Args:
        uses: The classes that each PE uses.
        fixed: Values that the program gave.
        switched: Classes with more than one routing position: WSE-3 has switches for some colors only.
        arch: wse2 or wse3.

    Raises:
        HostError: There is no solution, or this greedy search finds none.
    """
    from fabrica_bench.csl.sema.colors import WSE3_SWITCHABLE

    neighbors: dict[str, set[str]] = defaultdict(set)
    for classes in uses.values():
        together = set(classes)
        for name in together:
            neighbors[name] |= together - {name}
    needs_switch = set(switched) if arch == "wse3" else set()
    values: dict[str, int] = {}
    for name in sorted(fixed):
        clash = next((other for other in sorted(neighbors[name]) if values.get(other) == fixed[name]), None)
        if clash is not None:
            raise HostError(
                f"colors {clash!r} and {name!r} are both {fixed[name]} on one PE", remedy="change one value"
            )
        if name in needs_switch and fixed[name] not in WSE3_SWITCHABLE:
            raise HostError(
                f"color {name!r} is {fixed[name]}, which has no switches on WSE-3",
                remedy=f"use one of {', '.join(map(str, sorted(WSE3_SWITCHABLE)))}",
            )
        values[name] = fixed[name]
    rest = [name for name in neighbors if name not in fixed]
    for name in sorted(rest, key=lambda item: (item not in needs_switch, -len(neighbors[item]), item)):
        allowed = WSE3_SWITCHABLE if name in needs_switch else ALL
        free = allowed - {values[other] for other in neighbors[name] if other in values}
        if not free:
            raise HostError(
                f"no color is left for {name!r}: {len(neighbors[name])} others are used on the same PEs",
                remedy="use fewer colors, or move regions apart",
            )
        values[name] = min(free)
    return values
