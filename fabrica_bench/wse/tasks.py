"""Task table of a compute element: which ids are bound, active, blocked; which task runs next.

Ids share one number space (Cerebras SDK docs, "Task identifiers"): data tasks are numbered by color on WSE-2 and by
input queue on WSE-3, local tasks take the rest. Control tasks have a table of their own here; a collision with another
kind is a compile-time matter.
"""

from __future__ import annotations

from fabrica_bench.csl.ir import Function, Image

TEARDOWN_TASK = 29


class TaskTable:
    """Flags are bit masks by id. `data`, `local`, `control` map an id to a function name. `data_ids`: how many ids can
    be data tasks (colors on WSE-2, input queues on WSE-3)."""

    __slots__ = (
        "active",
        "blocked",
        "control",
        "counters",
        "data",
        "due",
        "high",
        "last",
        "late",
        "late_at",
        "local",
        "merged",
        "rotating",
    )

    def __init__(self, image: Image, data_ids: int) -> None:
        self.data: dict[int, str] = {}
        self.local: dict[int, str] = {}
        self.control: dict[int, str] = {}
        for binding in image.tasks:
            table = {"data": self.data, "local": self.local, "control": self.control}[binding.kind]
            table[binding.id] = binding.fn
        self.active = 0
        self.late = 0
        self.late_at = -1
        self.merged: dict[int, int] = {}
        self.due: list[tuple[int, int]] = []
        self.high = 0
        self.last = -1
        # A data id without a task starts blocked, so that a fabric DSD can read its wavelets.
        self.blocked = sum(1 << id_ for id_ in range(data_ids) if id_ not in self.data and id_ not in self.local)
        for id_ in image.activated:
            self.active |= 1 << id_
        for _, id_ in image.blocked:
            self.blocked |= 1 << id_
        for _, id_ in image.unblocked:
            self.blocked &= ~(1 << id_)
        self.rotating = {id_: (alternative, limit) for _, alternative, id_, limit, _ in image.rotating_tasks}
        self.counters = {id_: initial for _, _, id_, _, initial in image.rotating_tasks}

    def data_function(self, id_: int) -> str:
        """Function of the next run of a data task; a rotating pair takes turns."""
        if id_ in self.rotating:
            alternative, limit = self.rotating[id_]
            if self.counters[id_] >= limit:
                self.counters[id_] = 0
                return alternative
            self.counters[id_] += 1
        return self.data[id_]

    def activate(self, id_: int) -> None:
        """Set an active flag; `merged` counts how often it was set already, so that one run serves several calls."""
        if self.active >> id_ & 1:
            self.merged[id_] = self.merged.get(id_, 0) + 1
        self.active |= 1 << id_

    def activate_late(self, id_: int, now: int) -> None:
        """As `activate`, by an operation's end: if the task is active already and is picked in the same cycle, it was
        picked first, and will run once more."""
        if self.late_at != now:
            self.late, self.late_at = 0, now
        if self.active >> id_ & 1:
            self.late |= 1 << id_
        self.activate(id_)

    def activate_at(self, id_: int, cycle: int) -> None:
        """Let an operation's end activate a task at `cycle`."""
        self.due.append((cycle, id_))

    def activate_due(self, now: int) -> None:
        """Set the flags that are due by now."""
        due, self.due = self.due, [entry for entry in self.due if entry[0] > now]
        for cycle, id_ in due:
            if cycle <= now:
                self.activate_late(id_, now)

    def take(self, id_: int, now: int) -> None:
        """Clear the active flag of a task that is picked, but for what came after."""
        if self.late_at == now and self.late >> id_ & 1:
            self.late &= ~(1 << id_)
            self.merged[id_] -= 1
        else:
            self.active &= ~(1 << id_)

    def is_blocked(self, id_: int) -> bool:
        """The id's block flag."""
        return bool(self.blocked >> id_ & 1)

    def pick(self, data_ready: int) -> int:
        """Next id to run, or -1. `data_ready`: ids whose queue has a word for a task. High priority goes first; among
        equals the ids take turns, so that no task starves."""
        ready = (self.active | data_ready) & ~self.blocked
        if not ready:
            return -1
        urgent = ready & self.high
        ready = urgent or ready
        later = ready >> (self.last + 1)
        if later:
            chosen = self.last + 1 + (later & -later).bit_length() - 1
        else:
            chosen = (ready & -ready).bit_length() - 1
        self.last = chosen
        return chosen


def data_arguments(function: Function, word: int) -> tuple[int, ...]:
    """Bit patterns of a data or control task's parameters: one 32-bit parameter takes the word, 16-bit ones its low and
    then its high half."""
    parameters = function.registers[: function.param_count]
    if len(parameters) == 1:
        return (word if parameters[0].bits == 32 else word & 0xFFFF,)
    return (word & 0xFFFF, word >> 16)[: len(parameters)]
