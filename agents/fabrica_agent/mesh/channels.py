"""What a layout lets PEs send to each other, found by evaluating it for a size.

A channel is a color on which one PE sends and others receive. The compute file knows colors by the names of its
parameters, so a channel is of use only if a name stands for it on the sender, and one on each receiver.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from fabrica_bench.csl import ir
from fabrica_bench.csl.builtins import load_all
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.driver import CompileOptions
from fabrica_bench.csl.sema import register_all
from fabrica_bench.csl.sema.program import evaluate_layout
from fabrica_bench.csl.sema.session import Session
from fabrica_bench.csl.types import COLOR, COMPTIME_FLOAT, COMPTIME_INT, LOCAL_TASK_ID, ArrayType, StructType
from fabrica_bench.csl.values import Const

Pe = tuple[int, int]
"""Column and row."""

STEPS: dict[int, Pe] = {ir.NORTH: (0, -1), ir.SOUTH: (0, 1), ir.EAST: (1, 0), ir.WEST: (-1, 0)}
OPPOSITE = {ir.NORTH: ir.SOUTH, ir.SOUTH: ir.NORTH, ir.EAST: ir.WEST, ir.WEST: ir.EAST}


@dataclass(frozen=True)
class Channel:
    """A color on which `source` sends to `receivers`."""

    color: int
    source: Pe
    receivers: frozenset[Pe]


@dataclass(frozen=True)
class Mesh:
    """An evaluated layout.

    Attributes:
        width: PE columns.
        height: PE rows.
        params: The compute file's parameters in the order of the layout.
        colors: On each PE, the names that stand for a color, elements of arrays included, with its number.
        flags: On each PE, the parameters that are true or false.
        types: Types of the compute file's parameters, where their values tell.
        axes: Names of parameters that configure `<collectives_2d/pe>` along rows, and along columns.
        channels: By sender and color.
        tasks: Numbers of tasks that the layout gives to modules of the PEs.
    """

    width: int
    height: int
    params: tuple[str, ...]
    colors: Mapping[Pe, Mapping[str, int]]
    flags: Mapping[Pe, Mapping[str, bool]]
    types: Mapping[str, str]
    axes: tuple[str | None, str | None]
    channels: Mapping[tuple[Pe, int], Channel]
    tasks: frozenset[int] = frozenset()

    @property
    def pes(self) -> tuple[Pe, ...]:
        """All PEs, row by row."""
        return tuple((x, y) for y in range(self.height) for x in range(self.width))

    def names(self, pe: Pe, color: int) -> frozenset[str]:
        """Names that stand for a color on a PE."""
        return frozenset(n for n, c in self.colors.get(pe, {}).items() if c == color)


def read_mesh(files: Mapping[str, str], sizes: Mapping[str, int], arch: str) -> Mesh | None:
    """Evaluate the visible layout; None where that isn't possible."""
    with tempfile.TemporaryDirectory(prefix="fabrica-layout-") as folder:
        for name, text in files.items():
            if name.endswith(".csl"):
                (Path(folder) / name).write_text(text, encoding="utf-8")
        for name in _code_files(files):
            path = Path(folder) / name
            if not path.exists():
                path.write_text("", encoding="utf-8")
        options = CompileOptions(
            file=Path(folder) / "layout.csl",
            arch=cast(Literal["wse2", "wse3"], arch),
            params=dict(sizes),
            memcpy=True,
        )
        load_all()
        register_all()
        try:
            unit, _ = evaluate_layout(Session(options), options.file)
        except CslError:
            return None
    layout = unit.layout
    assert layout is not None
    params = {pe: code.params for pe, code in layout.tiles.items()}
    return Mesh(
        width=layout.width,
        height=layout.height,
        params=tuple(next(iter(params.values()))),
        colors={pe: _colors(p) for pe, p in params.items()},
        flags={pe: {n: c.data for n, c in p.items() if isinstance(c.data, bool)} for pe, p in params.items()},
        types=_types(params),
        axes=_axes(next(iter(params.values()))),
        channels=_channels(layout.colors),
        tasks=frozenset(n for p in params.values() for c in p.values() for n in _task_ids(c)),
    )


def _code_files(files: Mapping[str, str]) -> set[str]:
    """Files that a layout may name as code, so that evaluating it finds them."""
    import re

    return set(re.findall(r'"([\w./-]+\.csl)"', files.get("layout.csl", "")))


def _types(params: Mapping[Pe, Mapping[str, Const]]) -> dict[str, str]:
    """The spelling of each parameter's type, if its values have the same one on all PEs."""
    found: dict[str, set[str]] = {}
    for values in params.values():
        for name, value in values.items():
            plain = value.type not in (COMPTIME_INT, COMPTIME_FLOAT)
            text = "comptime_struct" if isinstance(value.type, StructType) else value.type.name
            found.setdefault(name, set()).add(text if plain else "")
    return {n: texts.pop() for n, texts in found.items() if len(texts) == 1 and texts != {""}}


def _colors(params: Mapping[str, Const]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in params.items():
        if value.type == COLOR:
            found[name] = int(value.data)
        elif isinstance(value.type, ArrayType) and value.type.element == COLOR:
            found.update({f"{name}[{k}]": int(_number(c)) for k, c in enumerate(value.data)})
    return found


def _number(value: Any) -> int:
    return int(value.data if isinstance(value, Const) else value)


def _task_ids(value: Const) -> Iterator[int]:
    """Numbers of local tasks in a value."""
    if value.type == LOCAL_TASK_ID:
        yield int(value.data)
    elif isinstance(value.type, ArrayType) and isinstance(value.data, Sequence):
        for item in value.data:
            yield from _task_ids(item if isinstance(item, Const) else Const(value.type.element, item))
    elif isinstance(value.type, StructType):
        parts = value.data.values() if isinstance(value.data, dict) else value.data
        for field, item in zip(value.type.fields, parts, strict=False):
            yield from _task_ids(item if isinstance(item, Const) else Const(field.type, item))


def _fields(value: Const) -> Mapping[str, Any]:
    """The fields of a struct."""
    if isinstance(value.data, dict):
        return value.data
    assert isinstance(value.type, StructType)
    return dict(zip((str(f.name) for f in value.type.fields), value.data, strict=False))


def _axes(params: Mapping[str, Const]) -> tuple[str | None, str | None]:
    """Parameters of the collectives' modules: structs that say which axis they are for."""
    found: list[str | None] = [None, None]
    for name, value in params.items():
        if isinstance(value.type, StructType):
            along = _fields(value).get("along_x")
            if along is not None:
                flag = along.data if isinstance(along, Const) else along
                found[0 if flag else 1] = name
    return found[0], found[1]


def _channels(colors: Mapping[Pe, Mapping[int, ir.ColorConfig]]) -> dict[tuple[Pe, int], Channel]:
    found: dict[tuple[Pe, int], Channel] = {}
    for pe, configs in colors.items():
        for color, config in configs.items():
            if config.rx == ir.RAMP and not any(config.positions) and not config.teardown:
                receivers = _receivers(pe, color, colors)
                if receivers:
                    found[pe, color] = Channel(color, pe, frozenset(receivers))
    return found


def _receivers(source: Pe, color: int, colors: Mapping[Pe, Mapping[int, ir.ColorConfig]]) -> set[Pe] | None:
    """PEs that words of a color reach, from router to router; None if a router on the way changes its mind."""
    found = {source} if colors[source][color].tx & ir.RAMP else set()
    seen = {source}
    todo = [(source, d) for d in STEPS if colors[source][color].tx & d]
    while todo:
        (x, y), direction = todo.pop()
        step = STEPS[direction]
        pe = (x + step[0], y + step[1])
        config = colors.get(pe, {}).get(color)
        if config is None or not config.rx & OPPOSITE[direction] or pe in seen:
            continue
        if any(config.positions) or config.teardown or config.filter is not None:
            return None
        seen.add(pe)
        if config.tx & ir.RAMP:
            found.add(pe)
        todo += [(pe, d) for d in STEPS if config.tx & d]
    return found
