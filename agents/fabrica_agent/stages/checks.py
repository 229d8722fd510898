"""Checks of a design against the visible facts, before any code is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from fabrica_agent.stages.facts import VisibleFacts
from fabrica_agent.stages.records import DesignD, Numbered

PE_BYTES: Final = 48 * 1024
CODE_BYTES: Final = 4 * 1024
"""What the host interface and a small program take of the memory, measured with `fabrica-bench csl`: about 4 KiB."""

ELEMENT_BYTES: Final = {
    "f32": 4,
    "i32": 4,
    "u32": 4,
    "f16": 2,
    "i16": 2,
    "u16": 2,
    "i8": 1,
    "u8": 1,
    "bool": 1,
    "i64": 8,
    "u64": 8,
}
LOCAL_TASKS: Final = range(8, 31)
QUEUES: Final = {"wse2": (8, 6), "wse3": (8, 8)}
"""Input and output queues of a PE."""


def check_design(design: DesignD, facts: VisibleFacts, arch: str) -> list[str]:
    """What is wrong with a design, one sentence each; empty when it can be implemented."""
    problems = [*_mesh(design, facts), *_memory(design)]
    inputs, outputs = QUEUES.get(arch, QUEUES["wse3"])
    reserved = facts.reserved
    problems += _numbers("color", design.colors, range(24), reserved.colors, facts.colors())
    problems += _numbers("input queue", design.input_queues, range(inputs), reserved.input_queues)
    problems += _numbers("output queue", design.output_queues, range(outputs), reserved.output_queues)
    problems += _tasks(design, facts, arch)
    return problems


def _mesh(design: DesignD, facts: VisibleFacts) -> list[str]:
    rectangle = facts.rectangle()
    if rectangle is None or (design.width, design.height) == rectangle:
        return []
    return [f"the design is for {design.width} x {design.height} PEs, the layout has {rectangle[0]} x {rectangle[1]}"]


def _memory(design: DesignD) -> list[str]:
    problems = []
    total = CODE_BYTES
    for buffer in design.buffers:
        size = ELEMENT_BYTES.get(buffer.element.strip())
        if size is None:
            problems.append(f"buffer {buffer.name} has the unknown element type {buffer.element!r}")
            continue
        total += size * buffer.length
    if total > PE_BYTES:
        problems.append(f"the buffers and about {CODE_BYTES} bytes of code take {total} bytes; a PE has {PE_BYTES}")
    twice = [name for name, count in Counter(b.name for b in design.buffers).items() if count > 1]
    return problems + [f"buffer {name} is listed twice" for name in twice]


def _numbers(
    what: str, used: Sequence[Numbered], allowed: range, reserved: Iterable[int], owned: Iterable[int] = ()
) -> list[str]:
    problems = []
    seen: dict[int, str] = {}
    for item in used:
        if item.number not in allowed:
            problems.append(
                f"{what} {item.number} ({item.name}) doesn't exist; there are {allowed.start} to {allowed.stop - 1}"
            )
        elif item.number in reserved:
            problems.append(f"{what} {item.number} ({item.name}) belongs to the host interface")
        elif item.number in owned:
            problems.append(f"{what} {item.number} ({item.name}) belongs to the layout; take it from a param")
        if item.number in seen and seen[item.number] != item.name:
            problems.append(f"{what} {item.number} is used for {seen[item.number]} and for {item.name}")
        seen[item.number] = item.name
    return problems


def _tasks(design: DesignD, facts: VisibleFacts, arch: str) -> list[str]:
    if arch == "wse3":
        # Data tasks take the number of their input queue there, so numbers below 8 are theirs.
        return _numbers("task id", design.tasks, range(31), facts.reserved.tasks, facts.layout_tasks)
    problems = _numbers("task id", design.tasks, range(31), facts.reserved.tasks, facts.layout_tasks)
    colors = {c.number: c.name for c in design.colors}
    problems += [
        f"task id {t.number} ({t.name}) has the number of color {colors[t.number]}, whose data task it would be"
        for t in design.tasks
        if t.number in colors and colors[t.number] != t.name
    ]
    return problems
