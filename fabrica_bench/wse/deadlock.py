"""Find out why nothing can advance: who waits for what, where wavelets are stuck, and which waits are circular."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fabrica_bench.csl.ir import RAMP
from fabrica_bench.csl.pe_groups import pe_list
from fabrica_bench.wse import control, traffic
from fabrica_bench.wse.endpoints import FabricIn, FabricOut
from fabrica_bench.wse.faults import (
    DeadlockReport,
    MissingWavelets,
    PePosition,
    SourceLocation,
    StuckPe,
    StuckWavelets,
    quote,
)
from fabrica_bench.wse.pe import ProcessingElement, State
from fabrica_bench.wse.router import CONTROL, DIRECTION_NAMES, Channel, ColorState, Router, mask_names

if TYPE_CHECKING:
    from fabrica_bench.wse.microthread import FabricOp
    from fabrica_bench.wse.queues import InputQueue

_MAX_CIRCLES = 2  # one shows the cause; a second shows whether there are more
_MAX_SENDERS = 64
_MAX_BUSY = 4
_SYSTEM_TASKS = (27, 28, 29, 30)  # teardown and memcpy's own (Cerebras SDK docs, "Task identifiers")


class _Hold(NamedTuple):
    """Why a wavelet does not move. `next`: the full channel before it; `receiver`: the PE that does not take it."""

    reason: str
    lacks_receiver: bool = False
    next: Channel | None = None
    receiver: ProcessingElement | None = None


def explain(
    elements: Sequence[ProcessingElement],
    cycle: int,
    host_wait: str,
    never_unblocked: list[PePosition],
    undelivered: list[StuckWavelets],
    queued_streams: Mapping[int, str],
    fed: Mapping[tuple[int, int, int], int],
) -> DeadlockReport:
    """Report for the state in which every component sleeps.

    Args:
        queued_streams: Color -> the host's stream to the device that waits behind the command which does not end.
        fed: (column, row, color) -> words that the host's streams have brought there.
    """
    waits = {pe.position: (*_thread_waits(pe), *_task_waits(pe)) for pe in elements}
    stuck = tuple(StuckPe(position, texts) for position, texts in waits.items() if texts)
    wavelets = list(undelivered)
    for pe in elements:
        wavelets += _router_wavelets(pe.router)
        wavelets += _queue_wavelets(pe)
    silent = set(never_unblocked)
    idle = [pe for pe in elements if pe.position in silent and not waits[pe.position]]
    missing = _missing(elements, waits, silent, fed)
    behind = sorted({item.color for item in missing} & set(queued_streams))
    return DeadlockReport(
        cycle,
        host_wait,
        stuck_pes=stuck,
        idle_pes=tuple(StuckPe(pe.position, _idle_tasks(pe)) for pe in idle),
        wavelets=tuple(wavelets),
        missing=tuple(item for item in missing if item.senders or item.color not in queued_streams),
        never_unblocked=tuple(never_unblocked),
        circles=_circles(elements, waits),
        hints=(
            *_hints(never_unblocked, bool(stuck), bool(idle)),
            *(_queued(queued_streams[color], color, missing) for color in behind),
            *_merged(pe for pe in elements if waits[pe.position] or pe in idle),
        ),
    )


def _hints(never_unblocked: list[PePosition], any_stuck: bool, any_idle: bool) -> tuple[str, ...]:
    if never_unblocked and any_idle and not any_stuck:
        return (
            "a launch ends when every PE has called unblock_cmd_stream: call it at the end of the launched function,"
            " or in the last task that it starts",
        )
    return ()


def _queued(stream: str, color: int, missing: Iterable[MissingWavelets]) -> str:
    """Words that the host will only send after the launch that waits for them."""
    pes = pe_list([pe for item in missing if item.color == color for pe in item.waiting])
    return (
        f"{pes} need what the {stream} brings, which waits behind the launch: host commands begin in order, so let the"
        " launched function call unblock_cmd_stream before it needs the words"
    )


def _merged(elements: Iterable[ProcessingElement]) -> Iterator[str]:
    """Activations that had no effect of their own: a task that counts on them waits for ever."""
    found: dict[tuple[str, int], list[PePosition]] = {}
    for pe in elements:
        for id_, name in pe.tasks.local.items():
            if pe.tasks.merged.get(id_) and id_ not in _SYSTEM_TASKS:
                found.setdefault((name, id_), []).append(pe.position)
    for (name, id_), pes in sorted(found.items())[:_MAX_BUSY]:
        twice = f"local task {name} (id {id_}) was activated while it was active already, on {pe_list(pes)}"
        yield f"{twice}: an activation is a flag, not a count, so the task ran once for both"


# ---------------------------------------------------------------------------------------------- who waits for what


def _thread_waits(pe: ProcessingElement) -> Iterator[str]:
    for op in pe.ops:
        where = f"in microthread {op.thread}, started by {_task(op.task)}," if op.is_async else f"in {_task(op.task)}"
        place = pe.location(op.loc)
        lines = [f"waits {where} at {place}: @{op.name} {_need(pe, op)}", *quote(place, pe.source_line(place))]
        yield "\n".join(lines)
    if pe.state == State.POLL:
        place = pe.location(pe.loc)
        lines = [f"waits in {_task(pe.task_name)} at {place}: @map needs {pe.polled.what}"]
        yield "\n".join([*lines, *quote(place, pe.source_line(place))])


def _task(name: str) -> str:
    return f"task {name}" if name else "no task"


def _need(pe: ProcessingElement, op: FabricOp) -> str:
    """What the operation needs to go on, and how much of it."""
    if op.thread >= 0 and pe.blocked_threads >> op.thread & 1:
        return f"stands still: microthread {op.thread} is blocked"
    gate = _closed_gate(pe, op)
    per_word = op.batch
    left = "" if op.infinite else f"{-(-op.remaining // per_word)} more of {-(-op.count // per_word)} "
    if isinstance(gate, FabricIn):
        queue = gate.queue
        where = f" on input queue {queue.number}" if queue.number >= 0 else ""
        return f"needs {left or 'further '}wavelets of color {queue.color}{where}"
    if isinstance(gate, FabricOut):
        what = f"{left}wavelets" if left else "its wavelets"
        return f"cannot send {what} of color {gate.color}: output queue {gate.channel.queue_id} is full"
    if gate is None:
        return f"is under way, {left}elements left" if left else "is under way, without end"
    what = str(getattr(gate, "what", gate))
    return f"needs {what} to change" + (f", {left}elements left" if left else "")


def _closed_gate(pe: ProcessingElement, op: FabricOp) -> object:
    return next((gate for gate in op.gates if not gate.ready(pe.fabric.now)), None)


def _task_waits(pe: ProcessingElement) -> Iterator[str]:
    for id_, name in sorted(pe.tasks.local.items()):
        if pe.tasks.active >> id_ & 1 and pe.tasks.is_blocked(id_):
            yield f"local task {name} (id {id_}) is activated but blocked, and nobody unblocks it"


def _idle_tasks(pe: ProcessingElement) -> tuple[str, ...]:
    """What could still run on a PE that is idle."""
    lines = [f"the last task that ran is {pe.last_task}" if pe.last_task else "never ran anything"]
    for id_, name in sorted(pe.tasks.data.items()):
        kind = "color" if pe.is_wse2 else "input queue"
        lines.append(f"data task {name} ({kind} {id_}): no wavelet waits for it")
    for id_, name in sorted(pe.tasks.local.items()):
        if name not in pe.ran and id_ not in _SYSTEM_TASKS:
            lines.append(f"local task {name} (id {id_}): nobody activated it")
    return tuple(lines)


# ------------------------------------------------------------------------------------------- wavelets that are missing


def _inputs_waited_for(pe: ProcessingElement, is_silent: bool) -> Iterator[int]:
    """Colors that operations of the PE wait for; or, if it is idle and keeps the host waiting, its data tasks."""
    if is_silent and not pe.ops and pe.state == State.IDLE:
        yield from (queue.color for queue in pe.inputs if queue.task_id in pe.tasks.data and not queue.queue)
    for op in pe.ops:
        gate = _closed_gate(pe, op)
        if isinstance(gate, FabricIn):
            yield gate.queue.color
    if pe.state == State.POLL and isinstance(pe.polled, FabricIn):
        yield pe.polled.queue.color


def _missing(
    elements: Iterable[ProcessingElement],
    waits: dict[PePosition, tuple[str, ...]],
    silent: set[PePosition],
    fed: Mapping[tuple[int, int, int], int],
) -> tuple[MissingWavelets, ...]:
    """Grouped by color and set of senders, or number of words from the host."""
    groups: dict[tuple[int, tuple[tuple[PePosition, str], ...], int | None], list[PePosition]] = {}
    for pe in elements:
        for color in _inputs_waited_for(pe, pe.position in silent):
            senders = traffic.feeding(pe.router, color)[:_MAX_SENDERS]
            states = tuple((sender.pe.position, _sender_state(sender, waits)) for sender in senders)
            from_host = None if states else fed.get((pe.x, pe.y, color))
            groups.setdefault((color, states, from_host), []).append(pe.position)
    merged: dict[int, MissingWavelets] = {}
    orphans: list[MissingWavelets] = []
    for (color, states, from_host), pes in groups.items():
        if not states:
            orphans.append(MissingWavelets(color, tuple(pes), (), from_host))
            continue
        entry = merged.get(color)
        known = dict(entry.senders) if entry is not None else {}
        known.update(states)
        before = entry.waiting if entry is not None else ()
        merged[color] = MissingWavelets(color, before + tuple(pes), tuple(known.items()))
    return (*orphans, *merged.values())


def _sender_state(sender: traffic.Sender, waits: dict[PePosition, tuple[str, ...]]) -> str:
    pe = sender.pe
    sent = f"sent it last at {pe.location(sender.loc)}" if sender.loc else "could send it, but never did"
    return f"{sent}, and {'waits itself' if waits[pe.position] else 'has nothing to do'}"


# --------------------------------------------------------------------------------------------- wavelets that are stuck


def _queue_wavelets(pe: ProcessingElement) -> Iterator[StuckWavelets]:
    for queue in pe.inputs:
        if queue.queue:
            reason, lacks = _queue_reason(pe, queue)
            place = f"input queue {queue.number}" if queue.number >= 0 else "the input queue of the color"
            yield StuckWavelets(pe.position, queue.color, len(queue.queue), place, reason, lacks)


def _queue_reason(pe: ProcessingElement, queue: InputQueue) -> tuple[str, bool]:
    """Why the queue's words are not read, and whether nothing there reads them."""
    if queue.op is not None:
        return f"@{queue.op.name} at {pe.location(queue.op.loc)} reads it, but waits for something else", False
    word, is_control = queue.queue[0][1:]
    bound = pe.tasks.data.get(queue.task_id)
    if is_control and not pe.tasks.is_blocked(queue.task_id):
        return f"control task {control.entry(word)} does not run", False
    if bound and pe.tasks.is_blocked(queue.task_id):
        return f"its data task {bound} is blocked", False
    if bound:
        return f"its data task {bound} cannot start while another task runs", False
    return "no data task is bound to it and no DSD operation reads it", True


def _router_wavelets(router: Router) -> Iterator[StuckWavelets]:
    for channel in router.active:
        _, _, flags, color = channel.queue[0]
        hold = _hold(router, channel, router.color_state(color), flags)
        yield StuckWavelets(router.pe.position, color, len(channel.queue), _place(channel), *hold[:2])


def _place(channel: Channel) -> str:
    if channel.port == RAMP:
        return f"output queue {channel.queue_id}"
    return f"the router's input from {DIRECTION_NAMES[channel.port]}"


def _hold(router: Router, channel: Channel, state: ColorState, flags: int) -> _Hold:
    if state.sink is not None:
        return _Hold("the host has not asked for more words of this stream", True)
    if state.teardown:
        return _Hold("the color is in teardown, and nobody called its exit")
    rx, tx = state.rx[state.current], state.tx[state.current]
    switch = f"switch position {state.current}" if any(state.valid[1:]) else "the route"
    if not rx & channel.port:
        return _Hold(f"{switch} receives from {mask_names(rx)} only")
    if not tx:
        return _Hold(f"{switch} sends nowhere")
    for bit, target in router._outputs(state):
        if len(target.queue) >= target.depth:
            name = DIRECTION_NAMES[bit]
            if target.router is None:
                return _Hold(f"{name} leads out of the program rectangle, where nobody takes wavelets", True)
            return _Hold(f"the buffer of the next router to the {name} is full", next=target)
    if tx & RAMP:
        queue = router.pe.queue_for(state.color)
        if queue is None:
            return _Hold("no input queue is bound to the color", True, receiver=router.pe)
        if len(queue.queue) >= queue.capacity:
            return _Hold("the PE's input queue is full", receiver=router.pe)
    return _Hold("the control wavelet waits" if flags & CONTROL else "unknown")


def _blocker(channel: Channel) -> ProcessingElement | None:
    """The PE that does not take the wavelets behind which `channel` is stuck."""
    seen: set[int] = set()
    at: Channel | None = channel
    while at is not None and at.router is not None and at.queue and id(at) not in seen:
        seen.add(id(at))
        _, _, flags, color = at.queue[0]
        hold = _hold(at.router, at, at.router.color_state(color), flags)
        if hold.next is None:
            return hold.receiver
        at = hold.next
    return None


# -------------------------------------------------------------------------------------------------- circular waits


def _circles(
    elements: Iterable[ProcessingElement], waits: dict[PePosition, tuple[str, ...]]
) -> tuple[tuple[tuple[PePosition, str], ...], ...]:
    """Circles in the graph "PE waits for PE", shortest first from the first PE that has one; disjoint."""
    edges: dict[PePosition, dict[PePosition, str]] = {}
    for pe in elements:
        if waits[pe.position]:
            edges[pe.position] = {to: text for to, text in _waits_for(pe) if waits.get(to)}
    found: list[tuple[tuple[PePosition, str], ...]] = []
    used: set[PePosition] = set()
    for start in edges:
        if len(found) == _MAX_CIRCLES:
            break
        circle = _shortest_circle(edges, start)
        if circle is not None and not used & set(circle):
            used |= set(circle)
            following = [*circle[1:], circle[0]]
            found.append(tuple((pe, edges[pe][to]) for pe, to in zip(circle, following, strict=True)))
    return tuple(found)


def _waits_for(pe: ProcessingElement) -> Iterator[tuple[PePosition, str]]:
    for op in pe.ops:
        gate = _closed_gate(pe, op)
        if isinstance(gate, FabricIn):
            color = gate.queue.color
            for sender in traffic.feeding(pe.router, color)[:_MAX_SENDERS]:
                yield sender.pe.position, f"({pe.location(op.loc)}) waits for color {color}"
        elif isinstance(gate, FabricOut):
            blocker = _blocker(gate.channel)
            if blocker is not None:
                yield blocker.position, f"({pe.location(op.loc)}) waits for room for color {gate.color}"


def _shortest_circle(edges: dict[PePosition, dict[PePosition, str]], start: PePosition) -> list[PePosition] | None:
    before: dict[PePosition, PePosition] = {}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for to in edges.get(here, ()):
            if to == start:
                path = [here]
                while path[-1] != start:
                    path.append(before[path[-1]])
                return path[::-1]
            if to not in before:
                before[to] = here
                queue.append(to)
    return None


def busy(elements: Iterable[ProcessingElement]) -> list[str]:
    """What PEs are doing that still run, for a run that is cut short."""
    return grouped((pe.position, _activity(pe)) for pe in elements if pe.state != State.IDLE)


def grouped(activities: Iterable[tuple[PePosition, str]]) -> list[str]:
    """A line for the PEs that do the same."""
    groups: dict[str, list[PePosition]] = {}
    for position, activity in activities:
        groups.setdefault(activity, []).append(position)
    lines = [f"  {pe_list(pes)}: {text}" for text, pes in list(groups.items())[:_MAX_BUSY]]
    if len(groups) > _MAX_BUSY:
        lines.append(f"  ... and {len(groups) - _MAX_BUSY} more kinds of work")
    return lines


def _activity(pe: ProcessingElement) -> str:
    for op in pe.ops:
        if not op.is_async:
            return f"in {_task(op.task)} at {pe.location(op.loc)}: @{op.name} {_need(pe, op)}"
    place = pe.location(pe.place())
    return in_task(pe.task_name, place, pe.source_line(place))


def in_task(name: str, place: SourceLocation, line: str) -> str:
    """Words for a place in a task, with its source line."""
    return "\n".join([f"in {_task(name)} at {place}", *quote(place, line, "    ")])
