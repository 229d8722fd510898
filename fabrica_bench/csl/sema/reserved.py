"""What the host I/O layer (memcpy) keeps for itself (Cerebras SDK docs, "Host memcpy": reserved resources).

The documentation adds that not all conflicts are detected by the vendor's compiler; here the ones about numbers that a
program writes down are, because such a program can't work.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fabrica_bench.csl import ast
from fabrica_bench.csl import types as t
from fabrica_bench.csl.sema.errors import fail
from fabrica_bench.csl.sema.session import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fabrica_bench.csl.sema.session import Session
    from fabrica_bench.csl.sema.unit import Unit

COLORS: Final = frozenset((21, 22, 23))
LOCAL_TASKS: Final = frozenset((27, 28, 30))
CONTROL_TASKS: Final = frozenset(range(33, 38))
QUEUES: Final = {
    # Output queue 0 is documented as reserved too, but the vendor's compiler lets official examples use it.
    "wse2": frozenset((("input", 0),)),
    "wse3": frozenset((("input", 0), ("input", 1), ("output", 0))),
}
_FOLDERS: Final = (LIBRARY / "memcpy", LIBRARY / "memcpy_multi")


def imports(unit: Unit, library: str) -> bool:
    """Whether a module of the unit is the system library `library`."""
    path = str(LIBRARY / f"{library}.csl")
    return any(instance.source.absolute == path for instance in unit.instances)


def warn_of_missing_layer(session: Session, units: Iterable[Unit]) -> None:
    """A program made for host I/O that is compiled without the PEs around it, which carry commands and data.

    The documentation doesn't call that an error, and the program may be compiled just to see whether it compiles.
    """
    for unit in units:
        for instance in unit.instances:
            if Path(instance.source.absolute).parent in _FOLDERS and instance.origin is not None:
                session.warn(
                    instance.origin,
                    f"'{instance.source.path}' is part of the host I/O layer, which is left out without --memcpy: on "
                    "hardware a host can neither copy data to this program nor launch its functions",
                    "compile with --memcpy --channels=1",
                )
                return


def stream_colors(unit: Unit) -> dict[int, str]:
    """Colors of the host streams (color -> `h2d` or `d2h`): params of the layout's `<memcpy/get_params>`."""
    colors: dict[int, str] = {}
    for instance in unit.instances:
        if instance.source.absolute != str(LIBRARY / "memcpy" / "get_params.csl"):
            continue
        for name, value in instance.params.items():
            direction = "h2d" if name.startswith("MEMCPYH2D_") else "d2h" if name.startswith("MEMCPYD2H_") else ""
            if not direction or value.type == t.VOID:
                continue
            if value.type != t.COLOR:
                fail(instance.origin, f"'{name}' must be a color, got: '{value.type.name}'")
            if value.data in colors:
                fail(instance.origin, f"color {value.data} is used by two host streams")
            colors[value.data] = direction
    return colors


def launch_colors(unit: Unit) -> set[int]:
    """Colors that the unit's `<memcpy/memcpy>` got as LAUNCH, the channel of host calls until SDK 1.0."""
    memcpy = str(LIBRARY / "memcpy" / "memcpy.csl")
    bound = [instance.params.get("LAUNCH") for instance in unit.instances if instance.source.absolute == memcpy]
    return {value.data for value in bound if value is not None and value.type == t.COLOR}


def another_than(taken: Iterable[int]) -> str:
    """The remedy for a reserved number: which ones of its kind are taken."""
    numbers = sorted(taken)
    return f"use another number than {', '.join(str(number) for number in numbers)}"


def queue_numbers(arch: str, direction: str) -> list[int]:
    """Queues of a direction that the host I/O layer keeps."""
    return [number for kind, number in QUEUES[arch] if kind == direction]


def check_color(unit: Unit, color: int, span: ast.Span) -> None:
    """Refuse a route that the layout gives to a color of the host I/O layer."""
    if not imports(unit, "memcpy/get_params"):
        return
    if color in COLORS:
        fail(span, f"color {color} is reserved for the host I/O layer", another_than(COLORS))
    if color in stream_colors(unit):
        fail(
            span,
            f"color {color} carries a host stream, so the program can't route it",
            another_than(COLORS.union(stream_colors(unit))),
        )


def check_program(unit: Unit) -> None:
    """Refuse task ids, queues and routes of a PE program that the host I/O layer needs."""
    if not imports(unit, "memcpy/memcpy"):
        return
    state = unit.pe_state
    for task in state.tasks:
        taken = {"local": LOCAL_TASKS, "control": CONTROL_TASKS}.get(task.kind, frozenset())
        if task.id in taken:
            message = f"{task.kind} task id {task.id} is reserved for the host I/O layer"
            remedy = another_than(taken)
            unit.attempt(lambda task=task, message=message, remedy=remedy: fail(task.span, message, remedy))  # type: ignore[misc]
    for (direction, number), (_, span) in state.queues.items():
        if (direction, number) in QUEUES[unit.session.arch] and not span.file.is_system:
            message = f"{direction} queue {number} is reserved for the host I/O layer"
            remedy = another_than(queue_numbers(unit.session.arch, direction))
            unit.attempt(lambda span=span, message=message, remedy=remedy: fail(span, message, remedy))  # type: ignore[misc]
    for color, span in state.local_color_spans.items():
        if color in COLORS:
            message = f"color {color} is reserved for the host I/O layer"
            unit.attempt(lambda span=span, message=message: fail(span, message, another_than(COLORS)))  # type: ignore[misc]
