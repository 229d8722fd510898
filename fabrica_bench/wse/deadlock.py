"""Explain why nothing can advance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fabrica_bench.csl.ir import RAMP
from fabrica_bench.wse import control
from fabrica_bench.wse.endpoints import FabricIn, FabricOut
from fabrica_bench.wse.faults import DeadlockReport, PePosition, StuckPe, StuckWavelets
from fabrica_bench.wse.pe import ProcessingElement, State
from fabrica_bench.wse.router import CONTROL, DIRECTION_NAMES, Channel, ColorState, Router, mask_names

if TYPE_CHECKING:
    from fabrica_bench.wse.queues import InputQueue


def explain(
    elements: Iterable[ProcessingElement],
    cycle: int,
    host_wait: str,
    never_unblocked: list[PePosition],
    undelivered: list[StuckWavelets],
) -> DeadlockReport:
    """Report for the state in which every component sleeps."""
    stuck: list[StuckPe] = []
    wavelets = list(undelivered)
    for pe in elements:
        waits = [*_thread_waits(pe), *_task_waits(pe)]
        if waits:
            stuck.append(StuckPe(pe.position, tuple(waits)))
        wavelets += _router_wavelets(pe.router)
        wavelets += _queue_wavelets(pe)
    hints = []
    if never_unblocked and not stuck:
        hints.append("the launched function, or a task it starts, must call unblock_cmd_stream on every PE")
    return DeadlockReport(cycle, host_wait, tuple(stuck), tuple(wavelets), tuple(never_unblocked), tuple(hints))


def _thread_waits(pe: ProcessingElement) -> list[str]:
    waits = []
    for op in pe.ops:
        thread = f"microthread {op.thread}" if op.is_async else f"main thread ({pe.task_name})"
        progress = "without end" if op.infinite else f"{op.count - op.remaining} of {op.count} done"
        if op.thread >= 0 and pe.blocked_threads >> op.thread & 1:
            reason = "the microthread is blocked"
        else:
            reason = next((_gate_reason(pe, gate) for gate in op.gates if not gate.ready(pe.fabric.now)), "nothing")
        waits.append(f"{thread}: @{op.name} at {pe.location(op.loc)} waits for {reason} ({progress})")
    if pe.state == State.POLL:
        waits.append(f"main thread ({pe.task_name}): @map at {pe.location(pe.loc)} waits for {pe.polled.what}")
    return waits


def _gate_reason(pe: ProcessingElement, gate: object) -> str:
    if isinstance(gate, FabricIn):
        return f"a wavelet on {gate.queue.label}"
    if isinstance(gate, FabricOut):
        return f"room in {gate.what}"
    return str(getattr(gate, "what", gate))


def _task_waits(pe: ProcessingElement) -> list[str]:
    waits = []
    for id_, name in sorted(pe.tasks.local.items()):
        if pe.tasks.active >> id_ & 1 and pe.tasks.is_blocked(id_):
            waits.append(f"local task {name} (id {id_}) is activated but blocked; nobody unblocks it")
    return waits


def _queue_wavelets(pe: ProcessingElement) -> list[StuckWavelets]:
    return [
        StuckWavelets(pe.position, queue.color, len(queue.queue), queue.label, _queue_reason(pe, queue))
        for queue in pe.inputs
        if queue.queue
    ]


def _queue_reason(pe: ProcessingElement, queue: InputQueue) -> str:
    if queue.op is not None:
        return f"@{queue.op.name} at {pe.location(queue.op.loc)} reads it, but waits for something else"
    word, is_control = queue.queue[0][1:]
    if pe.tasks.is_blocked(queue.task_id):
        bound = pe.tasks.data.get(queue.task_id)
        return f"its task {bound} is blocked" if bound else "no data task is bound to it and no DSD operation reads it"
    if is_control:
        return f"control task {control.entry(word)} does not run"
    return "no data task is bound to it and no DSD operation reads it"


def _router_wavelets(router: Router) -> list[StuckWavelets]:
    found = []
    position = router.pe.position
    for channel in router.active:
        _, _, flags, color = channel.queue[0]
        place = (
            f"output queue {channel.queue_id}"
            if channel.port == RAMP
            else (f"the router's input from {DIRECTION_NAMES[channel.port]}")
        )
        state = router.color_state(color)
        reason = _hold_reason(router, channel, state, flags)
        found.append(StuckWavelets(position, color, len(channel.queue), place, reason))
    return found


def _hold_reason(router: Router, channel: Channel, state: ColorState, flags: int) -> str:
    if state.sink is not None:
        return "the host has not asked for more words of this stream"
    if state.teardown:
        return "the color is in teardown; nobody called its exit"
    rx, tx = state.rx[state.current], state.tx[state.current]
    switch = f"switch position {state.current}" if any(state.valid[1:]) else "its route"
    if not rx & channel.port:
        return f"{switch} receives from {mask_names(rx)} only"
    if not tx:
        return f"{switch} sends nowhere"
    for bit, target in router._outputs(state):
        if len(target.queue) >= target.depth:
            if target.router is None:
                return f"{DIRECTION_NAMES[bit]} leads out of the program rectangle, where nobody takes wavelets"
            return f"the buffer of {target.router.pe.position} to the {DIRECTION_NAMES[bit]} is full"
    if tx & RAMP:
        queue = router.pe.queue_for(state.color)
        if queue is None:
            return "no input queue of this PE is bound to the color"
        if len(queue.queue) >= queue.capacity:
            return f"{queue.label} is full"
    return "control wavelet" if flags & CONTROL else "unknown"
