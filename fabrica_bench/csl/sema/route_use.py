"""Code that sends or receives on colors which the routes of its PEs don't connect to the RAMP.

Programs share one source over PEs with different parts, and tell them apart at run time; such code names colors that a
PE never uses. So an operation that some run-time condition guards is judged by all PEs with the same source, and one
that is certain to run, because nothing guards it in an exported function or in a task that starts by itself, by each PE
that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.csl.diagnostics import Diagnostic, Severity
from fabrica_bench.csl.sema.checks import descriptors, has_unknown_descriptor

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.routing import Routes
    from fabrica_bench.csl.sema.unit import BoundTask

Place = tuple[int, int]

#: The colors from here on are those of the host I/O layer.
_FIRST_SYSTEM_COLOR = 21


def errors_of_use(routes: Routes, numbers: Sequence[int], unjudged: set[int]) -> Iterator[Diagnostic]:
    """Errors of the programs with these numbers, one for each color and source; `unjudged` colors are left out.

    A warning remains for guarded code with a color that no route of the program mentions: published programs use such a
    color as the placeholder for what a PE doesn't have. Another remains for data tasks, and guarded code that receives,
    if no code is sure to send on the color: what never comes needs no way.
    """
    sent = cache(lambda: surely_used(routes, "output"))
    seen: set[tuple[str, str, int]] = set()
    skipped = unjudged | set(routes.streams)
    with_code: dict[int, list[Place]] = {}
    with_source: dict[str, list[Place]] = {}
    for x, y in routes.places():
        tile = routes.tiles[y][x]
        with_code.setdefault(tile, []).append((x, y))
        with_source.setdefault(routes.images[tile][1].file, []).append((x, y))
    for number in numbers:
        file = routes.images[number][1].file
        use = _Use(routes, number, with_code.get(number, ()), with_source.get(file, ()), sent)
        for direction, color, problem in (*use.operations(skipped), *use.data_tasks(skipped)):
            key = use.image.file, direction, color
            if key not in seen:
                seen.add(key)
                yield problem


def surely_used(routes: Routes, direction: str) -> set[int]:
    """Colors that code sends (`direction` "output") or receives ("input") on without a run-time condition, in a task or
    exported function of any program. A descriptor made at run time may be of every color that its program could use."""
    found: set[int] = set()
    for unit, image in routes.images:
        is_wse2 = unit.session.arch == "wse2"
        bound = {init.queue: init.color for init in image.queues if init.direction == direction}
        if direction == "input":
            found |= {color for task in unit.pe_state.tasks if (color := _task_color(task, is_wse2, bound)) is not None}
        everything = set(range(_FIRST_SYSTEM_COLOR)) if is_wse2 else set(bound.values())
        begins = [symbol.target for symbol in image.exports.values() if symbol.kind == "fn"]
        certain = CertainCode(image, begins + [task.fn for task in image.tasks])
        for function, index, instr in _instructions(image):
            if isinstance(instr, ir.Intrinsic) and instr.name == "rebind_queue" and instr.text == direction:
                found |= set(range(_FIRST_SYSTEM_COLOR))
            colors = {
                dsd.color if is_wse2 else bound.get(dsd.queue, -1)
                for dsd in descriptors(instr)
                if dsd.kind == ("fabin" if direction == "input" else "fabout")
            }
            if has_unknown_descriptor(instr):
                colors |= everything
            if colors - found and (function is None or certain.runs(function, index)):
                found |= colors
    return found


def _task_color(task: BoundTask, is_wse2: bool, bound: dict[int, int]) -> int | None:
    if task.kind != "data":
        return None
    return task.id if is_wse2 else bound.get(task.id)


class _Use:
    """The colors that one program uses, on the PEs that have it and on those that have the same source."""

    def __init__(
        self,
        routes: Routes,
        number: int,
        with_code: Sequence[Place],
        with_source: Sequence[Place],
        sent: Callable[[], set[int]],
    ) -> None:
        self._routes = routes
        self._sent = sent
        self._unit, self.image = routes.images[number]
        self._with_source = with_source
        self._with_code = with_code
        self._bound: dict[tuple[str, int], int] = {
            (init.direction, init.queue): init.color for init in self.image.queues
        }
        self._is_wse2 = self._unit.session.arch == "wse2"

    def _has_ramp(self, place: tuple[int, int], color: int, receives: bool) -> bool:
        from fabrica_bench.csl.sema.routing import masks

        config = self._routes.colors[place[1]][place[0]].get(color)
        return config is not None and bool(masks(config)[receives] & ir.RAMP)

    def operations(self, skipped: set[int]) -> Iterator[tuple[str, int, Diagnostic]]:
        """DSD operations without a route."""
        image = self.image
        begins = [symbol.target for symbol in image.exports.values() if symbol.kind == "fn"]
        starts = [task.fn for task in image.tasks if task.kind == "local" and task.id in image.activated]
        started = CertainCode(image, begins + starts)
        bindable = CertainCode(image, begins + [task.fn for task in image.tasks])
        for function, index, instr in _instructions(image):
            for dsd in descriptors(instr):
                span = self._unit.location_spans[instr.loc]
                if dsd.kind not in ("fabin", "fabout") or (span is not None and span.file.is_system):
                    continue  # a library knows its own channels, also those that the simulator models without routes
                direction = "input" if dsd.kind == "fabin" else "output"
                color = dsd.color if self._is_wse2 else self._bound.get((direction, dsd.queue), -1)
                if not 0 <= color < _FIRST_SYSTEM_COLOR or color in skipped:
                    continue
                receives = direction == "input"
                lacking = [place for place in self._with_code if not self._has_ramp(place, color, receives)]
                if not lacking:
                    continue
                message = f"this {'receives' if receives else 'sends'} on color {color}, but "
                is_certain = started.runs(function, index)
                if is_certain:
                    message += f"PE ({lacking[0][0]}, {lacking[0][1]}) has no RAMP"
                elif not any(self._has_ramp(place, color, receives) for place in self._with_source):
                    message += "no PE with this code has RAMP"
                else:
                    continue
                message += f" in the '{'tx' if receives else 'rx'}' of the color"
                hint = self._hint(color, receives)
                is_idle = receives and not is_certain and color not in self._sent()
                if is_idle or (self._is_placeholder(color) and not bindable.runs(function, index)):
                    self._unit.session.warn(span, message, hint)
                else:
                    yield direction, color, Diagnostic(Severity.ERROR, message, span, hint)

    def data_tasks(self, skipped: set[int]) -> Iterator[tuple[str, int, Diagnostic]]:
        """Data tasks that no wavelet can start, on any PE with this source."""
        for task in self._unit.pe_state.tasks:
            if task.kind != "data":
                continue
            color = task.id if self._is_wse2 else self._bound.get(("input", task.id), -1)
            if not 0 <= color < _FIRST_SYSTEM_COLOR or color in skipped:
                continue
            if not any(self._has_ramp(place, color, receives=True) for place in self._with_source):
                message = f"a data task takes color {color}, but no PE with this code has RAMP in the 'tx' of the color"
                hint = self._hint(color, receives=True)
                if color in self._sent():
                    yield "input", color, Diagnostic(Severity.ERROR, message, task.span, hint)
                else:
                    self._unit.session.warn(task.span, message, hint)

    def _hint(self, color: int, receives: bool) -> str:
        if any(color in self._routes.colors[y][x] for x, y in self._with_code):
            return f"add RAMP to its '{'tx' if receives else 'rx'}'"
        return "configure the color with @set_color_config"

    def _is_placeholder(self, color: int) -> bool:
        return not any(color in configs for row in self._routes.colors for configs in row)


def _instructions(image: ir.Image) -> Iterator[tuple[ir.Function | None, int, ir.Instr]]:
    """(function, block, instruction); no function for the DSR loads of the initial state."""
    for function in image.functions.values():
        for index, block in enumerate(function.blocks):
            for instr in block:
                yield function, index, instr
    for load in image.dsr_loads:
        yield None, 0, load


class CertainCode:
    """Blocks that are sure to run once all of some functions do."""

    def __init__(self, image: ir.Image, begins: Sequence[str]) -> None:
        self._image = image
        self._begins = begins
        self._functions: set[str] | None = None

    def runs(self, function: ir.Function | None, index: int) -> bool:
        """Whether this block of the function is one."""
        if function is None:
            return False
        if self._functions is None:
            self._functions = self._certain_functions()
        return function.name in self._functions and _on_every_path(function.blocks, index)

    def _certain_functions(self) -> set[str]:
        image = self._image
        found = set(self._begins)
        pending = list(found)
        while pending:
            function = image.functions.get(pending.pop())
            if function is None:
                continue
            for index, block in enumerate(function.blocks):
                called = {instr.fn for instr in block if isinstance(instr, ir.Call)} - found
                if called and _on_every_path(function.blocks, index):
                    found |= called
                    pending += called
        return found


def _on_every_path(blocks: Sequence[Sequence[ir.Instr]], index: int) -> bool:
    """Every path from the first block to a return leads through the block with this index, and there is one."""
    return index == 0 or (_returns(blocks, 0, without=-1) and not _returns(blocks, 0, without=index))


def _returns(blocks: Sequence[Sequence[ir.Instr]], start: int, without: int) -> bool:
    seen = {start, without}
    pending = [start]
    while pending:
        last = blocks[pending.pop()][-1]
        if isinstance(last, ir.Ret):
            return True
        for target in _successors(last):
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return False


def _successors(last: ir.Instr) -> tuple[int, ...]:
    match last:
        case ir.Jump(target=target):
            return (target,)
        case ir.Branch(then=then, otherwise=otherwise):
            return then, otherwise
        case ir.SwitchInt(cases=cases, default=default):
            return (*(target for _, target in cases), default)
    return ()
