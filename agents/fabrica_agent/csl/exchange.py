"""CSL text of data movements between PEs: queues and descriptors of the fabric, and what each PE sends and receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabrica_agent.csl.names import Identifiers
from fabrica_agent.csl.stages import Part, Round
from fabrica_agent.lowering.ir import Ty, UnsupportedError
from fabrica_agent.mesh.lines import SIDES, Cast, Chain, Flood, Library, LineWay, MeshCast, Port, Ring, Tree, X, Y
from fabrica_agent.mesh.plan import OWN, Gather, Kind, Step
from fabrica_agent.mesh.shards import Dim, Shards, merged

MOVES = {
    Ty.F32: "@fmovs", Ty.F16: "@fmovh", Ty.I32: "@mov32", Ty.U32: "@mov32", Ty.I16: "@mov16", Ty.U16: "@mov16",
}  # fmt: skip
FIRST_OUTPUT_QUEUE, LAST_QUEUE = 1, 7
"""Queue 0 belongs to the host interface; outputs are numbered upwards and inputs downwards so that none is shared."""
MAX_DIMS = 4


@dataclass
class Fabric:
    """The queues of a module, by color name; they serve all sizes."""

    identifiers: Identifiers
    inputs: dict[str, tuple[str, Port]] = field(default_factory=dict)
    outputs: dict[str, tuple[str, Port]] = field(default_factory=dict)

    def inlet(self, port: Port) -> str:
        """Input queue of a color."""
        return self._queue(self.inputs, port, "in_queue")

    def outlet(self, port: Port) -> str:
        """Output queue of a color."""
        return self._queue(self.outputs, port, "out_queue")

    def _queue(self, table: dict[str, tuple[str, Port]], port: Port, suffix: str) -> str:
        if port.color not in table:
            if len(table) > LAST_QUEUE - FIRST_OUTPUT_QUEUE:
                raise UnsupportedError("the exchange needs more queues than a PE has")
            table[port.color] = (self.identifiers.fresh(f"{port.color}_{suffix}"), port)
        return table[port.color][0]

    def declarations(self) -> list[str]:
        """The queues."""
        lines = [
            f"const {name} = @get_input_queue({LAST_QUEUE - k});" for k, (name, _) in enumerate(self.inputs.values())
        ]
        free = LAST_QUEUE - len(self.inputs)
        for k, (name, _) in enumerate(self.outputs.values()):
            number = FIRST_OUTPUT_QUEUE + k
            text = str(number) if number <= free else f'if (@is_arch("wse3")) {number} else {free}'
            lines.append(f"const {name} = @get_output_queue({text});")
        return lines

    def initialisation(self) -> list[str]:
        """Statements for a comptime block; on WSE-2 colors have queues of their own accord."""
        lines: list[str] = []
        for name, port in (*self.inputs.values(), *self.outputs.values()):
            call = f"@initialize_queue({name}, .{{ .color = {port.color} }});"
            lines.append(f"    if ({port.used_if}) {{ {call} }}" if port.used_if else f"    {call}")
        return ['  if (@is_arch("wse3")) {', *lines, "  }"] if lines else []


@dataclass(frozen=True)
class Exchange:
    """What PEs do for each other around a program.

    Attributes:
        mesh: Width and height.
        gathers: Movements before it: each leaves an array as far as it is needed in a private array of its name.
        results: Arrays of which each PE hands its own part over afterwards.
        private: For each array, its private name and element type.
        tasks: Numbers of tasks that the layout uses.
    """

    mesh: tuple[int, int]
    gathers: tuple[Gather, ...]
    results: tuple[Shards, ...]
    private: dict[str, tuple[str, Ty]]
    tasks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Unit:
    """A box of an array that moves as a whole: its descriptor, and where it begins besides the place along the axis."""

    dsd: str
    count: int
    step: int
    base: str
    ty: Ty


class Transfers:
    """Writes the movements of one size."""

    def __init__(self, exchange: Exchange, fabric: Fabric, identifiers: Identifiers, own: Mapping[str, str]) -> None:
        self.own = own
        self.exchange = exchange
        self.fabric = fabric
        self.identifiers = identifiers
        self.dsds: dict[str, tuple[str, str]] = {}
        self.px = identifiers.fresh("px")
        self.py = identifiers.fresh("py")
        self.root = identifiers.fresh("root")
        self.block, self.came, self.dropped = (identifiers.fresh(name) for name in ("block", "came", "dropped"))
        self.blocks: dict[str, int] = {}
        self.before = [part for g in exchange.gathers for part in self._gather(g)]
        self.after = [line for s in exchange.results for line in self._hand_over(s)]

    def declarations(self) -> list[str]:
        """Descriptors, for the file level."""
        lines = [f"var {name} = @zeros([{words}]u32);" for name, words in self.blocks.items()]
        return [*lines, *(f"const {name} = {text};" for text, (name, _) in self.dsds.items())]

    def coordinates(self) -> list[str]:
        """The PE's place, for what needs it."""
        rounds = [p for p in self.before if isinstance(p, Round)]
        lines = [line for r in rounds for line in (r.place, r.only_if, *r.pack, *r.unpack)]
        text = "\n".join((*(p for p in self.before if isinstance(p, str)), *lines, *self.after))
        names = ((self.px, "get_x_coord"), (self.py, "get_y_coord"))
        return [f"const {n}: i16 = @as(i16, {self.own['position']}.{f}());" for n, f in names if n in text]

    # ---------------------------------------------------------------------------------------------------- one array

    def _gather(self, g: Gather) -> list[Part]:
        s = g.shards
        move = MOVES[self.exchange.private[s.array][1]]
        lines: list[Part] = [
            f"// {s.array}: the own part, then those of others.",
            f"{move}({self._own(s)}, {self._tensor(s)});",
        ]
        for step in g.steps:
            lines += self._step(s, step)
        return lines

    def _hand_over(self, s: Shards) -> list[str]:
        return [f"{MOVES[self.exchange.private[s.array][1]]}({self._tensor(s)}, {self._own(s)});"]

    def _own(self, s: Shards) -> str:
        """The PE's part in the whole array, in the order of its tensor."""
        name, ty = self.exchange.private[s.array]
        dims = [Dim(d.count, d.whole, d.whole) for d in s.dims]
        places = [(p, step) for p, step in zip((self.px, self.py), s.steps, strict=True) if step is not None]
        return _moved(self._dsd(name, dims, 0), [f"{p} * {step}" for p, step in places], ty)

    def _tensor(self, s: Shards) -> str:
        return self._dsd(s.symbol, [Dim(d.count, d.own, d.own) for d in s.dims], s.own_first)

    def _cast_to_all(self, s: Shards, way: MeshCast) -> list[str]:
        """The whole array, from the PE that has all of it."""
        name, ty = self.exchange.private[s.array]
        whole = self._dsd(name, [Dim(s.size, 1, 1)], 0)
        send, receive = self._outlet(way.send, s.size), self._inlet(way.receive, s.size)
        x, y = way.root
        here = f"{self.px} == {x} and {self.py} == {y}"
        return [f"if ({here}) {{ {MOVES[ty]}({send}, {whole}); }} else {{ {MOVES[ty]}({whole}, {receive}); }}"]

    def _unit(self, s: Shards, step: Step, way: LineWay) -> _Unit:
        """What moves along an axis at a time: a part, with the parts of the line that were brought together before."""
        name, ty = self.exchange.private[s.array]
        axis, other = way.axis, 1 - way.axis
        along, everything = step.kind is Kind.SPREAD, step.across != OWN
        dims = [Dim(d.count, d.whole, d.whole) for d in s.dims]
        for side, wanted in ((axis, along), (other, everything)):
            distance = s.steps[side]
            if wanted and distance is not None:
                dims.append(Dim(self.exchange.mesh[side], distance, distance))
        dims = merged(sorted(dims, key=lambda d: -d.whole))
        count = 1
        for d in dims:
            count *= d.count
        across = s.steps[other]
        base = "" if everything or across is None else f"{self.px if other == X else self.py} * {across}"
        return _Unit(self._dsd(name, dims, 0), count, 0 if along else s.steps[axis] or 0, base, ty)

    def _moved(self, unit: _Unit, place: str) -> str:
        return _moved(unit.dsd, [unit.base, f"({place}) * {unit.step}" if unit.step else ""], unit.ty)

    # ----------------------------------------------------------------------------------------------------- one step

    def _step(self, s: Shards, step: Step) -> list[Part]:
        if isinstance(step.way, MeshCast):
            return [*self._cast_to_all(s, step.way)]
        axis = step.way.axis
        place = self.px if axis == X else self.py
        unit = self._unit(s, step, step.way)
        count = self.exchange.mesh[axis]
        other = self.py if axis == X else self.px
        only_if = f"{other} == {step.across}" if step.across >= 0 and self.exchange.mesh[1 - axis] > 1 else ""
        if isinstance(step.way, Flood):  # everybody has to take in what its neighbours send
            return [*self._flood(step.way, unit, place, count)]
        if isinstance(step.way, Library):
            return [self._round(step.way, step, unit, place, count, only_if)]
        match step.way, step.kind:
            case Chain() as way, Kind.COLLECT:
                lines = self._pass_along(way, unit, place, count)
            case Chain() as way, Kind.SPREAD:
                lines = self._pass_on(way, unit, place, count, step.start)
            case Cast() as way, Kind.SPREAD:
                lines = self._cast(way, unit, place)
            case Ring() as way, Kind.COLLECT:
                lines = self._circulate(way, unit, place, count)
            case Tree() as way, Kind.COLLECT:
                lines = self._climb(way, unit, place, count)
            case _:
                raise UnsupportedError("a movement between PEs that has no form in CSL here")
        return [f"if ({only_if}) {{", *(f"  {line}" for line in lines), "}"] if only_if else [*lines]

    def _round(self, way: Library, step: Step, unit: _Unit, place: str, count: int, only_if: str) -> Round:
        """The library casts what each PE of a line has, or what one knows."""
        if unit.ty.bits != 32:
            raise UnsupportedError("the library's collective operations move 32-bit words only")
        first, last = (0, count - 1) if step.kind is Kind.COLLECT else (step.start, step.start)
        block = self._named(
            "block_part", f"@get_dsd(mem1d_dsd, .{{ .base_address = &{self.block}, .extent = {unit.count} }})"
        )
        part = self._moved(unit, self.root)
        return Round(
            axis=way.axis,
            param=way.param,
            first=first,
            last=last,
            words=unit.count,
            root=self.root,
            place=place,
            block=self.block,
            pack=(f"@mov32({block}, {part});",),
            unpack=(f"@mov32({part}, {block});",),
            only_if=only_if,
        )

    def _pass_along(self, way: Chain, unit: _Unit, place: str, count: int) -> list[str]:
        """Every PE sends its own part, then passes on what comes."""
        move = MOVES[unit.ty]
        send, receive = self._outlet(way.send, unit.count), self._inlet(way.receive, unit.count)
        more = f"{place} + 1 < {count}" if way.sign > 0 else f"{place} > 0"
        behind = place if way.sign > 0 else f"{count - 1} - {place}"
        part = f"{place} - 1 - back" if way.sign > 0 else f"{place} + 1 + back"
        return [
            f"if ({more}) {{ {move}({send}, {self._moved(unit, place)}); }}",
            f"for (@range(i16, {count - 1})) |back| {{",
            f"  if (back < {behind}) {{",
            f"    const part = {self._moved(unit, part)};",
            f"    {move}(part, {receive});",
            f"    if ({more}) {{ {move}({send}, part); }}",
            "  }",
            "}",
        ]

    def _pass_on(self, way: Chain, unit: _Unit, place: str, count: int, start: int) -> list[str]:
        """The PE at `start` sends; those behind it receive, and pass on."""
        move = MOVES[unit.ty]
        send, receive = self._outlet(way.send, unit.count), self._inlet(way.receive, unit.count)
        more = f"{place} + 1 < {count}" if way.sign > 0 else f"{place} > 0"
        behind, within = (">", ">=") if way.sign > 0 else ("<", "<=")
        data = self._moved(unit, "0")
        return [
            f"if ({place} {behind} {start}) {{ {move}({data}, {receive}); }}",
            f"if ({place} {within} {start} and {more}) {{ {move}({send}, {data}); }}",
        ]

    def _circulate(self, way: Ring, unit: _Unit, place: str, count: int) -> list[str]:
        """Every PE passes on what came last, word by word: if all sent whole parts first, nobody would take them."""
        self._need_blocks(unit, self.block, self.came)
        before = "-" if way.sign > 0 else "+"
        passed = self._moved(unit, f"({place} + {count} {before} back) % {count}")
        kept = self._moved(unit, f"({place} + {count} {before} 1 {before} back) % {count}")
        sent, came = (f"@increment_dsd_offset({self._whole(name, 1)}, word, u32)" for name in (self.block, self.came))
        return [
            f"for (@range(i16, {count - 1})) |back| {{",
            f"  @mov32({self._whole(self.block, unit.count)}, {passed});",
            f"  for (@range(i16, {unit.count})) |word| {{",
            f"    @mov32({self._outlet(way.send, 1)}, {sent});",
            f"    @mov32({came}, {self._inlet(way.receive, 1)});",
            "  }",
            f"  @mov32({kept}, {self._whole(self.came, unit.count)});",
            "}",
        ]

    def _need_blocks(self, unit: _Unit, *names: str) -> None:
        if unit.ty.bits != 32:
            raise UnsupportedError("parts that go through PEs word by word are of 32-bit words only here")
        for name in names:
            self.blocks[name] = max(self.blocks.get(name, 0), unit.count)

    def _flood(self, way: Flood, unit: _Unit, place: str, count: int) -> list[str]:
        """Parts go one way along the axis and then the other, a word of each PE at a time: none waits for long."""
        self._need_blocks(unit, self.block, self.came)
        self.blocks.setdefault(self.dropped, 1)
        send, sent, came = (self._outlet(way.send, 1), self._whole(self.block, 1), self._whole(self.came, 1))
        there = (f"{self.px} > 0", f"{self.px} + 1 < {self.exchange.mesh[X]}",
                 f"{self.py} > 0", f"{self.py} + 1 < {self.exchange.mesh[Y]}")  # fmt: skip
        lines: list[str] = []
        for sign in (1, -1):
            behind = place if sign > 0 else f"{count - 1} - {place}"
            before, minus = SIDES[2 * way.axis + (sign < 0)], "-" if sign > 0 else "+"
            lines += [
                f"for (@range(i16, {count - 1})) |back| {{",
                f"  if (back <= {behind}) {{ @mov32({self._whole(self.block, unit.count)}, "
                f"{self._moved(unit, f'{place} {minus} back')}); }}",
                f"  for (@range(i16, {unit.count})) |word| {{",
                f"    @mov32({send}, @increment_dsd_offset({sent}, word, u32));",
            ]
            for side, port, condition in zip(SIDES, way.receive, there, strict=True):
                if port is not None:
                    to = f"@increment_dsd_offset({came}, word, u32)" if side == before else self._whole(self.dropped, 1)
                    lines.append(f"    if ({condition}) {{ @mov32({to}, {self._inlet(port, 1)}); }}")
            lines += [
                "  }",
                f"  if (back < {behind}) {{ @mov32({self._moved(unit, f'{place} {minus} 1 {minus} back')}, "
                f"{self._whole(self.came, unit.count)}); }}",
                "}",
            ]
        return lines

    def _whole(self, array: str, words: int) -> str:
        """The first words of a block on its way."""
        return self._named(
            f"{array}_{words}", f"@get_dsd(mem1d_dsd, .{{ .base_address = &{array}, .extent = {words} }})"
        )

    def _cast(self, way: Cast, unit: _Unit, place: str) -> list[str]:
        move = MOVES[unit.ty]
        data = self._moved(unit, place)
        send, receive = self._outlet(way.send, unit.count), self._inlet(way.receive, unit.count)
        if not way.returns:
            return [
                f"if ({place} == {way.root}) {{ {move}({send}, {data}); }} else {{ {move}({data}, {receive}); }}",
            ]
        raise UnsupportedError("a channel that brings words back to their sender")

    def _climb(self, way: Tree, unit: _Unit, place: str, count: int) -> list[str]:
        """In each round, PEs hand all parts that they have to the PE that is a power of two before them."""
        move = MOVES[unit.ty]
        send = self._outlet(way.send, unit.count)
        lines: list[str] = []
        for k, port in enumerate(way.receive):
            distance, receive = 1 << k, self._inlet(port, unit.count)
            lines += [
                f"if ({place} % {2 * distance} == {distance}) {{",
                f"  for (@range(i16, {distance})) |next| {{",
                f"    if ({place} + next < {count}) {{ {move}({send}, {self._moved(unit, f'{place} + next')}); }}",
                "  }",
                f"}} else if ({place} % {2 * distance} == 0) {{",
                f"  for (@range(i16, {distance})) |next| {{",
                f"    if ({place} + {distance} + next < {count}) {{",
                f"      {move}({self._moved(unit, f'{place} + {distance} + next')}, {receive});",
                "    }",
                "  }",
                "}",
            ]
        return lines

    # -------------------------------------------------------------------------------------------------- descriptors

    def _inlet(self, port: Port, count: int) -> str:
        queue = self.fabric.inlet(port)
        return self._named(
            f"from_{port.color}",
            f"@get_dsd(fabin_dsd, .{{ .extent = {count}, .fabric_color = {port.color}, .input_queue = {queue} }})",
        )

    def _outlet(self, port: Port, count: int) -> str:
        queue = self.fabric.outlet(port)
        return self._named(
            f"to_{port.color}",
            f"@get_dsd(fabout_dsd, .{{ .extent = {count}, .fabric_color = {port.color}, .output_queue = {queue} }})",
        )

    def _dsd(self, array: str, dims: Sequence[Dim], start: int) -> str:
        if len(dims) > MAX_DIMS:
            raise UnsupportedError("parts of an array with more than four dimensions")
        variables = [self.own[f"i{k}"] for k in range(len(dims))]
        terms = [v if d.whole == 1 else f"{v} * {d.whole}" for v, d in zip(variables, dims, strict=True)]
        if start:
            terms.append(str(start))
        extents = ", ".join(str(d.count) for d in dims)
        kind = "mem1d_dsd" if len(dims) == 1 else "mem4d_dsd"
        place = f"{self.identifiers.of(array)}[{' + '.join(terms)}]"
        return self._named(
            f"{array}_part",
            f"@get_dsd({kind}, .{{ .tensor_access = |{', '.join(variables)}|{{{extents}}} -> {place} }})",
        )

    def _named(self, base: str, text: str) -> str:
        if text not in self.dsds:
            self.dsds[text] = (self.identifiers.fresh(base), text)
        return self.dsds[text][0]


def _moved(dsd: str, terms: Sequence[str], ty: Ty) -> str:
    offset = " + ".join(t for t in terms if t)
    return f"@increment_dsd_offset({dsd}, {offset}, {ty.value})" if offset else dsd


__all__ = ["Exchange", "Fabric", "Transfers"]
