"""A slice of the fuzzing in every run of the suite: the same seeds each time, as many as fit in a few seconds."""

from __future__ import annotations

import itertools
import time

import pytest
from fuzz.targets import TARGETS

SECONDS = 4.0
"""For each target."""
AT_LEAST = 10
"""Inputs even on a slow machine."""


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_no_input_breaks_a_promise(target: str) -> None:
    end = time.monotonic() + SECONDS
    for seed in itertools.count():
        if seed >= AT_LEAST and time.monotonic() > end:
            break
        TARGETS[target](seed)
