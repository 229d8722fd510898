"""The network of `<message_passing>`: a direct model, since its protocol isn't public.

Each PE that takes part has a link in place of the router's route for the library's color. It takes the words that the
PE sends: a header (destination and number of words), then the words. Once a message is complete, its words appear one
per cycle at the input queue of the destination, behind the messages that came there before, as late as its way of
hops along the row and then the column takes. The last word is a control wavelet.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from fabrica_bench.csl.ir import RAMP
from fabrica_bench.wse.router import CONTROL
from fabrica_bench.wse.streams import StreamFeeder, StreamSink

if TYPE_CHECKING:
    from fabrica_bench.wse.pe import ProcessingElement

# Header: column, row, number of words.
_COLUMN_SHIFT, _ROW_SHIFT = 19, 6
_PLACE_MASK, _LENGTH_MASK = 0x1FFF, 0x3F


class MessageInbox(StreamFeeder):
    """Messages on the last hop to a PE. Whole messages follow each other; they don't mix."""

    def __init__(self, pe: ProcessingElement, color: int) -> None:
        super().__init__(pe.fabric, pe, color, lambda: None)
        self.interval = 1
        self._lengths: deque[int] = deque()

    def deliver(self, message: list[int], now: int) -> None:
        """Append a message, header first."""
        self._lengths.append(len(message))
        self.push(message, now)

    def _feed(self, now: int) -> None:
        if not self.words or now < self._next or not self.pe.can_receive(self.color, self):
            return
        word = self.words.popleft()
        self._lengths[0] -= 1
        is_last = not self._lengths[0]
        if is_last:
            self._lengths.popleft()
        self.pe.receive(self.color, now + self.fabric.ramp, word, CONTROL if is_last else 0)
        if self.fabric.trace is not None:
            self.fabric.trace.forward(now, self.pe.x, self.pe.y, self.color, 0, -1, RAMP, word, is_last)
        self._next = now + self.interval
        if self.words:
            self.wake(self._next)


class MessageLink(StreamSink):
    """A PE's end of the network."""

    def __init__(self, pe: ProcessingElement, color: int) -> None:
        super().__init__(pe.fabric, pe.router)
        self.pe = pe
        self.color = color
        self.inbox = MessageInbox(pe, color)

    def accepts(self, now: int) -> bool:
        """Always: the network has room for every message."""
        return True

    def take(self, word: int, now: int) -> None:
        """One more word of the message that is being sent."""
        self.words.append(word)
        header = self.words[0]
        if len(self.words) <= (header & _LENGTH_MASK):
            return
        message, self.words = self.words, []
        x, y = header >> _COLUMN_SHIFT & _PLACE_MASK, header >> _ROW_SHIFT & _PLACE_MASK
        program = self.pe.machine.program
        if not (x < program.width and y < program.height):
            raise self.pe.fault(
                f"a message to PE({x},{y}), which is outside of the program rectangle", {"column": x, "row": y}
            )
        inbox = open_link(self.pe.machine.pe(x, y), self.color).inbox
        hops = abs(x - self.pe.x) + abs(y - self.pe.y)
        self.fabric.call(lambda cycle: inbox.deliver(message, cycle), now + max(1, hops * self.fabric.hop))


def open_link(pe: ProcessingElement, color: int) -> MessageLink:
    """The link of a PE, made on first use."""
    state = pe.router.color_state(color)
    if not isinstance(state.sink, MessageLink):
        state.sink = MessageLink(pe, color)
    return state.sink
