"""A program that waits for collective operations: it is cut into tasks, each of which begins when one has ended.

`<collectives_2d/pe>` brings a block of one PE to all others of its line. Round by round each PE that has something to
say casts its block; the same task takes over what has come and begins the next round, until it goes on with what
follows in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabrica_agent.csl.names import Identifiers
from fabrica_agent.lowering.ir import UnsupportedError
from fabrica_agent.mesh.lines import X

FIRST_TASK, LAST_TASK = 14, 20
"""Numbers of local tasks that neither the host interface nor, usually, a layout uses."""

MODULES = ("along_x", "along_y")
"""Names of the library's module for an axis."""


@dataclass(frozen=True)
class Round:
    """Casts along the lines of an axis, one after the other.

    Attributes:
        axis: X or Y.
        param: The parameter that configures the library for it.
        first, last: Places of the first and the last PE that casts.
        words: 32-bit words of a block.
        root: Name of the place of the PE whose turn it is, in `pack` and `unpack`.
        place: Name of the PE's own place along the axis.
        block: Name of the array that holds a block on its way.
        pack: Statements that put the root's data into the block.
        unpack: Statements that take a block over.
        only_if: A condition on the PE's coordinates; elsewhere nothing happens. Empty for all.
    """

    axis: int
    param: str
    first: int
    last: int
    words: int
    root: str
    place: str
    block: str
    pack: tuple[str, ...]
    unpack: tuple[str, ...]
    only_if: str


Part = str | Round
"""A line of the program, or casts for which it waits there."""


@dataclass(frozen=True)
class Stage:
    """What one task does: rounds, then the lines that follow them. `task`, `id` and `turn` are names."""

    round: Round
    lines: tuple[str, ...]
    task: str
    id: str
    turn: str


class Stages:
    """A program's body, cut at its rounds.

    Attributes:
        opening: Lines before the first round.
        stages: The rest.
    """

    def __init__(self, parts: Sequence[Part], coordinates: Sequence[str], identifiers: Identifiers) -> None:
        rounds = [k for k, part in enumerate(parts) if isinstance(part, Round)]
        ends = [*rounds[1:], len(parts)]
        self.coordinates = tuple(coordinates)
        self.opening = tuple(str(part) for part in parts[: rounds[0]])
        self.stages = tuple(
            Stage(
                part,
                tuple(str(line) for line in parts[k + 1 : end]),
                identifiers.fresh(f"stage_{number}"),
                identifiers.fresh(f"stage_{number}_id"),
                identifiers.fresh(f"turn_{number}"),
            )
            for number, (k, end) in enumerate(zip(rounds, ends, strict=True))
            if isinstance(part := parts[k], Round)
        )

    @property
    def axes(self) -> dict[int, str]:
        """The parameter of each axis in use."""
        return {stage.round.axis: stage.round.param for stage in self.stages}

    def declarations(self, free: Sequence[int]) -> list[str]:
        """Blocks, turns and task ids, for the file level. `free`: numbers of tasks that may be used."""
        if len(self.stages) > len(free):
            raise UnsupportedError("the collective operations need more tasks than are free")
        blocks: dict[str, int] = {}
        for stage in self.stages:
            blocks[stage.round.block] = max(blocks.get(stage.round.block, 0), stage.round.words)
        lines = [f"var {name} = @zeros([{words}]u32);" for name, words in blocks.items()]
        lines += [f"var {name}_ptr: [*]u32 = &{name};" for name in blocks]
        for stage, number in zip(self.stages, free, strict=False):
            lines.append(f"var {stage.turn}: i16 = {stage.round.first};")
            lines.append(f"const {stage.id} = @get_local_task_id({number});")
        return lines

    def opened(self) -> list[str]:
        """The lines of the entry function: up to the first round, which then begins."""
        reset = [f"{stage.turn} = {stage.round.first};" for stage in self.stages]
        return [*self.coordinates, *self.opening, *reset, f"@activate({self.stages[0].id});"]

    def tasks(self, modules: Sequence[str], ending: Sequence[str]) -> list[str]:
        """The tasks. `ending`: what the last one does in the end."""
        lines: list[str] = []
        for stage, following in zip(self.stages, (*self.stages[1:], None), strict=True):
            behind = ending if following is None else [f"@activate({following.id});"]
            body = [*self.coordinates, *_turn(stage, modules[stage.round.axis]), *stage.lines, *behind]
            lines += [f"task {stage.task}() void {{", *(f"  {line}" for line in body), "}", ""]
        return lines[:-1]

    def bindings(self) -> list[str]:
        """Statements for a comptime block."""
        return [f"@bind_local_task({stage.task}, {stage.id});" for stage in self.stages]


def _turn(stage: Stage, module: str) -> list[str]:
    """Take over what has come, and begin the next cast; falls through when there is none left."""
    r = stage.round
    lines = [
        f"if ({stage.turn} > {r.first} and {r.place} != {stage.turn} - 1) {{",
        f"  const {r.root}: i16 = {stage.turn} - 1;",
        *(f"  {line}" for line in r.unpack),
        "}",
        f"if ({stage.turn} <= {r.last}) {{",
        f"  const {r.root}: i16 = {stage.turn};",
        f"  if ({r.place} == {r.root}) {{",
        *(f"    {line}" for line in r.pack),
        "  }",
        f"  {stage.turn} += 1;",
        f"  {module}.broadcast(@as(u16, {r.root}), {r.block}_ptr, {r.words}, {stage.id});",
        "  return;",
        "}",
    ]
    if not r.only_if:
        return lines
    return [f"if ({r.only_if}) {{", *(f"  {line}" for line in lines), "}"]


def module_import(name: str, axis: int, param: str) -> str:
    """The library's module for an axis; the other axis gets other queues and registers."""
    queues, register = ("2, 4", 1) if axis == X else ("3, 5", 2)
    fields = ", ".join(f".{kind}_dsr_ids = [1]u16{{ {register} }}" for kind in ("dest", "src0", "src1"))
    configuration = f".{{ .dim_params = {param}, .queues = [2]u16{{ {queues} }}, {fields} }}"
    return f'const {name} = @import_module("<collectives_2d/pe>", {configuration});'
