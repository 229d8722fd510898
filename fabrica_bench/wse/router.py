"""Router of one PE: 24 colors, switch positions, filters, teardown, one wavelet per link and cycle.

A wavelet sits in a `Channel`: the input buffer of one direction and color, or an output queue of the compute element.
In each cycle a router looks at the heads of its non-empty channels, in turn, and forwards every wavelet whose targets
(all of them at once, for a multicast) have room and whose links are free in this cycle.

Order independence: whatever one router does in a cycle is visible to another one only later. A forwarded wavelet
arrives `hop` cycles later; a freed buffer slot counts as free from the next cycle on (`Channel.departed`); and channels
whose heads arrive in one cycle have their turn in a fixed order (`Channel.turn`), behind those that wait for longer. So
the order in which routers are visited within a cycle changes nothing.

A color may be received from several directions, but "wavelets never arrive from two at once; otherwise undefined
behaviour" (Cerebras SDK docs): two that arrive in one cycle are a fault. A wavelet arrives in the cycle from which it
may move on: `hop` cycles after its neighbour sent it, or as soon as it has come up the ramp.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from fabrica_bench.csl.ir import EAST, NORTH, RAMP, SOUTH, WEST, ColorConfig
from fabrica_bench.wse import control, traffic
from fabrica_bench.wse.filters import Filter

if TYPE_CHECKING:
    from fabrica_bench.wse.fabric import Fabric
    from fabrica_bench.wse.faults import Fault
    from fabrica_bench.wse.microthread import FabricOp
    from fabrica_bench.wse.pe import ProcessingElement
    from fabrica_bench.wse.streams import StreamSink

#: flag bits of a wavelet beside its 32-bit payload
CONTROL = 1
ADVANCE_AFTER = 2

OPPOSITE = {NORTH: SOUTH, SOUTH: NORTH, EAST: WEST, WEST: EAST}
OFFSETS = {NORTH: (0, -1), SOUTH: (0, 1), EAST: (1, 0), WEST: (-1, 0)}
DIRECTION_NAMES = {NORTH: "NORTH", SOUTH: "SOUTH", EAST: "EAST", WEST: "WEST", RAMP: "RAMP"}
#: Cycles that a wavelet's arrival may lie ahead, at least.
ARRIVAL_SLOTS = 8
POP_MODES = ("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop")

#: (cycle from which it may move, payload, flags, color)
Wavelet = tuple[int, int, int, int]


def mask_names(mask: int) -> str:
    """`{WEST, RAMP}` for a mask of directions."""
    return "{" + ", ".join(name for bit, name in DIRECTION_NAMES.items() if mask & bit) + "}"


class Channel:
    """A bounded queue of wavelets in front of a router. `router` is None beyond the edge of the program rectangle: such
    a channel drops what it takes, or takes wavelets until it is full and never lets one go."""

    __slots__ = (
        "color",
        "departed",
        "depth",
        "feeder_waits",
        "loc",
        "op",
        "port",
        "queue",
        "queue_id",
        "router",
        "sent_color",
    )

    def __init__(self, router: Router | None, port: int, color: int, depth: int, queue_id: int = -1) -> None:
        self.router = router
        self.port = port
        self.color = color
        self.depth = depth
        self.queue_id = queue_id
        self.queue: deque[Wavelet] = deque()
        self.departed = -1
        self.feeder_waits = False
        # of an output queue: the operation that fills it, and color and source place of the last one
        self.op: FabricOp | None = None
        self.sent_color = -1
        self.loc = 0

    def turn(self, now: int) -> tuple[int, ...]:
        """Sorts the non-empty channels of a router: those that wait keep their order, then come those whose heads
        arrive now."""
        if self.queue[0][0] < now:
            return ()
        return self.port, self.color, self.queue_id

    def has_room(self, now: int) -> bool:
        """Room for a wavelet sent by another router in this cycle."""
        return len(self.queue) + (self.departed == now) < self.depth


class ColorState:
    """Routing state of one color on one PE. `rx`, `tx`, `valid` are by switch position, positions made cumulative."""

    __slots__ = (
        "arrivals",
        "color",
        "config",
        "configured",
        "current",
        "filter",
        "inputs",
        "merges",
        "outputs",
        "overrides",
        "pop_mode",
        "ring",
        "rx",
        "sink",
        "teardown",
        "tx",
        "valid",
    )

    def __init__(self, color: int, config: ColorConfig) -> None:
        self.color = color
        self.config = config
        self.overrides: list[tuple[int, int, bool]] = [(config.rx, config.tx, True)]
        for position in config.positions:
            if position is None or position.invalid:
                self.overrides.append((0, 0, False))
            else:
                self.overrides.append((position.rx, position.tx, True))
        self.rx = [0, 0, 0, 0]
        self.tx = [0, 0, 0, 0]
        self.valid = [True, False, False, False]
        self.current = config.current
        self.ring = config.ring_mode
        self.pop_mode: int = POP_MODES.index(config.pop_mode)
        self.teardown = config.teardown
        self.filter = Filter(config.filter) if config.filter is not None else None
        self.inputs: dict[int, Channel] = {}
        self.outputs: list[tuple[tuple[int, Channel], ...] | None] = [None] * 4
        self.sink: StreamSink | None = None
        self.configured = False
        # of a color that is received from several directions at once: (cycle, directions) of arrivals, by cycle
        self.merges = False
        self.arrivals: list[tuple[int, int]] = [(0, 0)] * ARRIVAL_SLOTS
        self.resolve()

    def resolve(self) -> None:
        """Recompute the cumulative positions after a change."""
        rx = tx = 0
        for index, (new_rx, new_tx, valid) in enumerate(self.overrides):
            self.valid[index] = valid
            if valid:
                rx, tx = (new_rx or rx, new_tx or tx) if index else (new_rx, new_tx)
            self.rx[index], self.tx[index] = rx, tx
            self.outputs[index] = None
        self.configured = any(self.rx) or any(self.tx)
        self.merges = any(mask & (mask - 1) for mask in self.rx)

    def meets(self, port: int, cycle: int) -> bool:
        """Note an arrival; True if another direction has one in the same cycle."""
        slot = cycle % ARRIVAL_SLOTS
        noted, ports = self.arrivals[slot]
        ports = ports | port if noted == cycle else port
        self.arrivals[slot] = cycle, ports
        return ports != port

    def advance(self) -> bool:
        """Go to the next valid position; True if the position changed."""
        for position in range(self.current + 1, 4):
            if self.valid[position]:
                self.current = position
                return True
        if self.ring and self.current != 0:
            self.current = 0
            return True
        return False


class Router:
    """See the module's docstring. `neighbors` maps a direction to the router there."""

    __slots__ = (
        "active",
        "colors",
        "fabric",
        "meetings",
        "neighbors",
        "pe",
        "scheduled",
        "stepped",
        "switched",
        "x",
        "y",
    )

    def __init__(self, fabric: Fabric, x: int, y: int, configs: dict[int, ColorConfig]) -> None:
        self.fabric = fabric
        self.x = x
        self.y = y
        self.colors = {color: ColorState(color, config) for color, config in configs.items()}
        self.neighbors: dict[int, Router] = {}
        self.active: list[Channel] = []
        self.meetings: dict[int, int] = {}  # cycle -> mask of colors that arrive from several directions in it
        self.scheduled = -1
        self.stepped = -1
        self.switched = False
        self.pe: ProcessingElement

    def color_state(self, color: int) -> ColorState:
        """State of a color, created empty on first use."""
        state = self.colors.get(color)
        if state is None:
            state = self.colors[color] = ColorState(color, ColorConfig())
        return state

    # -------------------------------------------------------------------------------------------- topology

    def _outputs(self, state: ColorState) -> tuple[tuple[int, Channel], ...]:
        """(link, input channel there) for each direction but RAMP of the current position."""
        outputs = state.outputs[state.current]
        if outputs is None:
            mask = state.tx[state.current]
            found = [(bit, self._target(state.color, bit)) for bit in (NORTH, SOUTH, EAST, WEST) if mask & bit]
            outputs = state.outputs[state.current] = tuple(found)
        return outputs

    def _target(self, color: int, direction: int) -> Channel:
        neighbor = self.neighbors.get(direction)
        if neighbor is None:
            return self.fabric.edge_channel(self, direction, color)
        return neighbor.input_channel(OPPOSITE[direction], color)

    def input_channel(self, port: int, color: int) -> Channel:
        """Input buffer for wavelets that come in from `port` with `color`, color swap applied."""
        partner = self.colors.get(color ^ 1)
        if partner is not None:
            swap = partner.config.color_swap_x if port in (EAST, WEST) else partner.config.color_swap_y
            if swap:
                color ^= 1
        state = self.color_state(color)
        channel = state.inputs.get(port)
        if channel is None:
            channel = state.inputs[port] = Channel(self, port, color, self.fabric.buffer_depth)
        return channel

    def ramp_color(self, color: int) -> int:
        """Color that an injected wavelet gets: swapped if the partner swaps on both axes."""
        partner = self.colors.get(color ^ 1)
        if partner is not None and partner.config.color_swap_x and partner.config.color_swap_y:
            return color ^ 1
        return color

    # -------------------------------------------------------------------------------------------- traffic

    def put(self, channel: Channel, wavelet: Wavelet) -> None:
        """Append a wavelet to one of this router's channels."""
        if not channel.queue:
            self.active.append(channel)
            self.fabric.wake_router(self, wavelet[0])
        channel.queue.append(wavelet)
        cycle, _, _, color = wavelet
        state = self.colors.get(color)
        if state is not None and state.merges and state.meets(channel.port, cycle):
            self.meetings[cycle] = self.meetings.get(cycle, 0) | 1 << color
            self.fabric.wake_router(self, cycle)

    def _check_meetings(self, colors: int, now: int) -> None:
        """Fault if the current routes take a color from several directions of this cycle's arrivals."""
        for color, state in sorted(self.colors.items()):
            ports = state.arrivals[now % ARRIVAL_SLOTS][1] & state.rx[state.current]
            if colors >> color & 1 and not state.teardown and ports & (ports - 1):
                raise traffic.blame_meeting(self, color, [bit for bit in DIRECTION_NAMES if ports & bit])

    def step(self, now: int) -> None:
        """Forward what can go in this cycle."""
        if self.stepped == now:
            return
        self.stepped = now
        if self.meetings:
            self._check_meetings(self.meetings.pop(now, 0), now)
        used = 0
        ramp_in = False
        wake = 0
        served: list[Channel] = []
        if len(self.active) > 1:
            self.active.sort(key=lambda channel: channel.turn(now))
        for channel in self.active:
            head = channel.queue[0]
            if head[0] > now:
                if not wake or head[0] < wake:
                    wake = head[0]
                continue
            from_ramp = channel.port == RAMP
            if from_ramp and ramp_in:
                wake = now + 1
                continue
            result = self._forward(channel, head, now, used)
            if result > 0:
                used |= result
                ramp_in = ramp_in or from_ramp
                served.append(channel)
            elif result == _LINK_BUSY:
                wake = now + 1
        for channel in served:
            self.active.remove(channel)
            if channel.queue:
                self.active.append(channel)
                due = max(channel.queue[0][0], now + 1)
                if not wake or due < wake:
                    wake = due
        if self.switched and self.active:
            self.switched = False
            wake = now + 1  # a new position may let another channel go
        if wake:
            self.fabric.wake_router(self, wake)

    def _forward(self, channel: Channel, head: Wavelet, now: int, used: int) -> int:
        """Mask of the links used (bit 32 if none was needed), `_HELD`, or `_LINK_BUSY`."""
        _, word, flags, color = head
        state = self.colors.get(color) or self.color_state(color)
        if state.sink is not None:
            return self._drain(channel, state.sink, word, now)
        if not state.configured and not state.teardown:
            raise self._no_route(color, channel)
        if state.teardown or not state.rx[state.current] & channel.port:
            return _HELD
        mask = state.tx[state.current]
        if not mask:
            return _HELD
        is_control = flags & CONTROL
        if is_control and control.first_ignores_ce(word):
            mask &= ~RAMP
        # 1. links free in this cycle?
        if mask & used:
            return _LINK_BUSY
        # 2. room at every target?
        outputs = self._outputs(state)
        for _, target in outputs:
            if not target.has_room(now):
                if target.departed == now:
                    return _LINK_BUSY  # the slot that got free in this cycle counts from the next one on
                target.feeder_waits = True
                return _HELD
        if mask & RAMP:
            deliver = state.filter is None or state.filter.would_admit(word, bool(is_control))
            if deliver and not self.pe.can_receive(color):
                return _HELD
        # 3. the switch executes the first command; copies for others carry the rest of the list
        onward = word
        if is_control:
            onward = self._execute(state, word)
        # 4. send
        fabric = self.fabric
        arrival = now + fabric.hop
        onward_flags = flags & CONTROL
        for _, target in outputs:
            if target.router is not None:
                target.router.put(target, (arrival, onward, onward_flags, target.color))
            else:
                target.queue.append((arrival, onward, onward_flags, color))
        left_to = mask
        if mask & RAMP:
            if state.filter is None or state.filter.admit(word, bool(is_control)):
                self.pe.receive(color, now + fabric.ramp, word, is_control)
            else:
                left_to &= ~RAMP
        if flags & ADVANCE_AFTER:
            state.advance()
            self.switched = True
        if fabric.trace is not None:
            self._trace(now, channel, color, left_to, word, is_control)
        # 5. leave the channel
        self._leave(channel, now)
        return mask or _NO_LINK

    def _drain(self, channel: Channel, sink: StreamSink, word: int, now: int) -> int:
        """A wavelet for the host: memcpy's own routes are not modelled."""
        if not sink.accepts(now):
            return _HELD
        sink.take(word, now)
        if self.fabric.trace is not None:
            self._trace(now, channel, channel.queue[0][3], RAMP, word, 0)
        self._leave(channel, now)
        return _NO_LINK

    def _no_route(self, color: int, channel: Channel) -> Fault:
        pe = self.pe
        if channel.port == RAMP:
            pe.loc = channel.loc
            message = f"a wavelet of color {color} was sent, but this PE's router has no route for this color"
            return pe.fault(message, {"color": color})
        message = f"a wavelet of color {color} from {DIRECTION_NAMES[channel.port]} reached a router without a route"
        return traffic.blame_sender(
            traffic.senders(self, channel.port, color), pe, f"{message} for this color", {"color": color}
        )

    def _leave(self, channel: Channel, now: int) -> None:
        """Remove the head; tell whoever fills the channel that a slot got free."""
        channel.queue.popleft()
        channel.departed = now
        if not channel.feeder_waits:
            return
        channel.feeder_waits = False
        if channel.port == RAMP:
            self.fabric.wake_pe(self.pe, now)
        else:
            self.fabric.wake_router(self.neighbors[channel.port], now + 1)

    def _execute(self, state: ColorState, word: int) -> int:
        """Run the first command on the switch; the payload to send on."""
        opcode = control.first_opcode(word)
        moved = False
        self.switched = self.switched or opcode != control.Opcode.NOP
        if opcode == control.Opcode.ADVANCE:
            moved = state.advance()
        elif opcode == control.Opcode.RESET:
            moved = state.current != 0
            state.current = 0
        elif opcode == control.Opcode.TEARDOWN:
            state.teardown = True
            self.pe.on_teardown(state.color)
        mode = state.pop_mode
        if mode == 1 or (mode >= 2 and moved) or (mode == 3 and opcode == control.Opcode.NOP):
            return control.pop(word)
        return word

    def _trace(self, now: int, channel: Channel, color: int, mask: int, word: int, is_control: int) -> None:
        trace = self.fabric.trace
        if trace is not None:
            trace.forward(now, self.x, self.y, color, channel.port, channel.queue_id, mask, word, bool(is_control))
            for bit in (NORTH, SOUTH, EAST, WEST, RAMP):
                if mask & bit:
                    trace.wavelet(now, self.x, self.y, color, bit, word, bool(is_control))


_HELD = 0
_LINK_BUSY = -1
_NO_LINK = 32
