"""Checks of finished PE programs: queues that carry no color, activations without a task.

Programs share one source over PEs that differ in their params, and leave out what a PE does not need, code that never
runs there included. So a queue or task counts as missing only if no PE with the same source has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fabrica_bench.csl import ir
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity
from fabrica_bench.csl.sema.reserved import QUEUES, another_than, imports, queue_numbers

if TYPE_CHECKING:
    from fabrica_bench.csl.sema.unit import Unit

#: Ids that the system binds: teardown and timer (Cerebras SDK docs).
SYSTEM_TASK_IDS = frozenset((29, 30, 31))
#: Intrinsics that may give a queue its color at run time.
_QUEUE_BINDERS = frozenset(("rebind_queue", "config_write"))


def instructions_of(image: ir.Image) -> list[ir.Instr]:
    """All instructions, and the DSR loads of the initial state."""
    found = [instr for fn in image.functions.values() for block in fn.blocks for instr in block]
    return found + list(image.dsr_loads)


def check_images(compiled: Sequence[tuple[Unit, ir.Image]]) -> None:
    """Check the linked images of one source: adds warnings, raises `CslError`."""
    queues: set[tuple[str, int]] = {(init.direction, init.queue) for _, image in compiled for init in image.queues}
    tasks = {task.id for _, image in compiled for task in image.tasks if task.kind == "local"}
    errors: list[Diagnostic] = []
    for unit, image in compiled:
        instructions = instructions_of(image)
        if unit.session.arch == "wse3":
            errors += _uninitialized_queues(unit, image, queues, instructions)
        else:
            errors += _loads_of_uninitialized_queues(unit, queues, instructions)
        errors += _reserved_queues(unit, instructions)
        _unbound_activations(unit, tasks | SYSTEM_TASK_IDS, instructions)
    if errors:
        raise CslError(errors)


def _uninitialized_queues(
    unit: Unit, image: ir.Image, known: set[tuple[str, int]], instructions: list[ir.Instr]
) -> Iterator[Diagnostic]:
    """On WSE-3 a queue carries a color only after `@initialize_queue`, or a re-binding at run time."""
    if any(isinstance(instr, ir.Intrinsic) and instr.name in _QUEUE_BINDERS for instr in instructions):
        return
    uses = [(*use, unit.location_spans[instr.loc]) for instr in instructions for use in _queue_uses(instr)]
    uses += [("input", task.id, task.span) for task in unit.pe_state.tasks if task.kind == "data"]
    for direction, queue, span in uses:
        # Libraries initialize what their parameters make them use, not what lies behind a condition that never holds.
        if (direction, queue) not in known and not (span is not None and span.file.is_system):
            yield Diagnostic(
                Severity.ERROR,
                f"{direction} queue {queue} is used but never initialized",
                span,
                f"call @initialize_queue(@get_{direction}_queue({queue}), .{{ .color = ... }}) at comptime",
            )


def _loads_of_uninitialized_queues(
    unit: Unit, known: set[tuple[str, int]], instructions: list[ir.Instr]
) -> Iterator[Diagnostic]:
    """On WSE-2 an operation binds the queue of its fabin_dsd by itself, but not that of one in an explicit DSR."""
    for instr in instructions:
        if not isinstance(instr, ir.LoadDsr):
            continue
        for direction, queue in _queue_uses(instr):
            if direction == "input" and ("input", queue) not in known:
                yield Diagnostic(
                    Severity.ERROR,
                    f"input queue {queue} is used but never initialized",
                    unit.location_spans[instr.loc],
                    "a fabin_dsd in an explicit DSR needs @initialize_queue for its queue",
                )


def _reserved_queues(unit: Unit, instructions: list[ir.Instr]) -> Iterator[Diagnostic]:
    """Fabric operations on queues of the host I/O layer."""
    if not imports(unit, "memcpy/memcpy"):
        return
    for instr in instructions:
        for direction, queue in _queue_uses(instr):
            if (direction, queue) in QUEUES[unit.session.arch]:
                yield Diagnostic(
                    Severity.ERROR,
                    f"{direction} queue {queue} is reserved for the host I/O layer",
                    unit.location_spans[instr.loc],
                    another_than(queue_numbers(unit.session.arch, direction)),
                )


def _queue_uses(instr: ir.Instr) -> Iterator[tuple[str, int]]:
    for dsd in descriptors(instr):
        direction = {"fabin": "input", "fabout": "output"}.get(dsd.kind)
        if direction is not None and dsd.queue >= 0:
            yield direction, dsd.queue


def descriptors(instr: ir.Instr) -> Iterator[ir.Dsd]:
    """DSDs among the operands of an instruction that are known at compile time."""
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


def has_unknown_descriptor(instr: ir.Instr) -> bool:
    """Whether an operand is a DSD that only run time knows."""
    arguments: list[ir.DsdArg | None] = []
    if isinstance(instr, ir.DsdOp):
        arguments = [*instr.sources, instr.dest]
    elif isinstance(instr, ir.MapOp):
        arguments = [*instr.inputs, instr.output]
    elif isinstance(instr, ir.LoadDsr):
        return not isinstance(instr.dsd, ir.Imm)
    return any(arg is not None and arg.kind == "dsd" and not isinstance(arg.value, ir.Imm) for arg in arguments)


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
