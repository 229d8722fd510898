"""Filters on the way from the router to the compute element (Cerebras SDK docs, "Filters")."""

from __future__ import annotations

from fabrica_bench.csl.ir import FilterConfig


class Filter:
    """State of one color's filter. `admit` decides about a wavelet and counts it."""

    __slots__ = ("config", "counter", "dropped", "limit", "max_counter", "passed", "second_limit", "transparent")

    def __init__(self, config: FilterConfig) -> None:
        self.config = config
        self.counter = config.init_counter
        self.limit = config.limit1
        self.second_limit = config.limit2
        self.max_counter = config.max_counter
        self.transparent = False
        self.passed = 0
        self.dropped = 0

    def would_admit(self, word: int, control: bool) -> bool:
        """What `admit` would answer, without counting."""
        config = self.config
        if config.kind == "range":
            return control or config.min_idx <= word >> 16 <= config.max_idx
        if self.transparent:
            return True
        if config.filter_control:
            return control and self.counter == self.max_counter
        counted = config.count_control if control else config.count_data
        return not counted or self.counter <= self.max_counter

    def admit(self, word: int, control: bool) -> bool:
        """True if the wavelet goes on to the compute element; counts it."""
        answer = self.would_admit(word, control)
        if answer:
            self.passed += 1
        else:
            self.dropped += 1
        config = self.config
        if config.kind != "range" and (config.count_control if control else config.count_data):
            self._count()
        return answer

    def _count(self) -> None:
        if self.counter != self.limit:
            self.counter += 1
            return
        self.counter = 0
        if self.config.kind == "sparse_counter":
            if self.second_limit:
                self.limit, self.second_limit = self.second_limit, 0
            else:
                self.transparent = True
