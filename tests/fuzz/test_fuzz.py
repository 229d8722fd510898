"""A slice of the fuzzing in every run of the suite: the same seeds each time, as many as fit in a few seconds."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from fuzz.fabrics import random_fabric
from fuzz.targets import RISKY, TARGETS

SECONDS = 4.0
"""For each target."""
AT_LEAST = 10
"""Inputs even on a slow machine."""


def test_most_programs_of_the_simulator_are_fabrics_whose_words_have_far_to_go() -> None:
    """They end by construction (the target holds that); here, that there is something to end."""
    assert RISKY < 0.5
    fabrics = [random_fabric(random.Random(seed)) for seed in range(40)]
    assert sum(any(sums.values()) for _, sums in fabrics) > 30
    assert sum(len(sums) > 3 for _, sums in fabrics) > 20
    texts = ["".join(files.values()) for files, _ in fabrics]
    for feature in ("@bind_data_task", ".async = true", "@allocate_fifo", ".tx = .{ EAST, RAMP }", "step_4("):
        assert sum(feature in text for text in texts) > 4, feature


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_no_input_breaks_a_promise(target: str) -> None:
    end = time.monotonic() + SECONDS
    for seed in itertools.count():
        if seed >= AT_LEAST and time.monotonic() > end:
            break
        TARGETS[target](seed)
