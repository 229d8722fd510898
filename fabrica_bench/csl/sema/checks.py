"""Warnings about finished PE programs: things that are legal, but that leave a program waiting for ever.

Programs share one source over PEs that differ in their params, and leave out what a PE does not need, code that never
runs there included. So a queue or task counts as missing only if no PE with the same source has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fabrica_bench.csl import ir

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.unit import Unit

#: Ids that the system binds: teardown and timer (Cerebras SDK docs).
SYSTEM_TASK_IDS = frozenset((29, 30, 31))


def warn_about(compiled: Sequence[tuple[Unit, ir.Image]]) -> None:
    """Add the warnings for the linked images of one source."""
    queues: set[tuple[str, int]] = {(init.direction, init.queue) for _, image in compiled for init in image.queues}
    tasks = {task.id for _, image in compiled for task in image.tasks if task.kind == "local"}
    for unit, image in compiled:
        instructions = [instr for fn in image.functions.values() for block in fn.blocks for instr in block]
        instructions += image.dsr_loads
        if unit.session.arch == "wse3":
            _uninitialized_queues(unit, queues, instructions)
        _unbound_activations(unit, tasks | SYSTEM_TASK_IDS, instructions)


def _uninitialized_queues(unit: Unit, known: set[tuple[str, int]], instructions: list[ir.Instr]) -> None:
    """On WSE-3 a queue carries a color only after `@initialize_queue`, or a re-binding at run time."""
    if any(isinstance(instr, ir.Intrinsic) and instr.name == "rebind_queue" for instr in instructions):
        return
    for instr in instructions:
        for dsd in _descriptors(instr):
            direction = {"fabin": "input", "fabout": "output"}.get(dsd.kind)
            if direction is None or dsd.queue < 0 or (direction, dsd.queue) in known:
                continue
            span = unit.location_spans[instr.loc]
            unit.session.warn(
                span,
                f"{direction} queue {dsd.queue} is used but never initialized",
                f"call @initialize_queue(@get_{direction}_queue({dsd.queue}), .{{ .color = ... }}) at comptime",
            )


def _descriptors(instr: ir.Instr) -> Iterator[ir.Dsd]:
    operands: list[object] = []
    if isinstance(instr, ir.DsdOp):
        operands = [arg.value for arg in (*instr.sources, instr.dest) if arg is not None]
    elif isinstance(instr, ir.MapOp):
        operands = [arg.value for arg in (*instr.inputs, instr.output) if arg is not None]
    elif isinstance(instr, ir.LoadDsr):
        operands = [instr.dsd]
    for operand in operands:
        if isinstance(operand, ir.Imm) and isinstance(operand.value, ir.Dsd):
            yield operand.value


def _unbound_activations(unit: Unit, bound: set[int] | frozenset[int], instructions: list[ir.Instr]) -> None:
    """Activating an id that no task is bound to does nothing."""
    for instr in instructions:
        for operand in _activations(instr):
            if isinstance(operand, ir.Imm) and operand.value not in bound:
                span = unit.location_spans[instr.loc]
                unit.session.warn(
                    span,
                    f"local task id {operand.value} is activated, but no task is bound to it",
                    "bind one with @bind_local_task",
                )


def _activations(instr: ir.Instr) -> Iterator[ir.Operand]:
    if isinstance(instr, ir.Intrinsic) and instr.name == "activate":
        yield instr.args[0]
    if isinstance(instr, ir.DsdOp | ir.LoadDsr):
        for wake in (instr.config.on_done, instr.config.on_control):
            if wake is not None and wake.action == "activate":
                yield wake.id
