"""Fixtures for every suite."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Subprocesses and this process see the same plain surroundings, whatever the developer's shell has.
os.environ.update(NO_COLOR="1", TZ="UTC", PYTHONHASHSEED="0", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
os.environ.pop("FORCE_COLOR", None)
time.tzset()

# A shell that starts the suite in the background has it ignore interrupts, which the tests of interruption send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does.
settings.register_profile("project", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")


@pytest.fixture(scope="session", autouse=True)
def keys_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Held-out keys of the runs that tests make never lie among the developer's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FABRICA_BENCH_KEYS", str(tmp_path_factory.mktemp("keys")))
        # Nothing that an earlier test or the developer measured may stand in for what a test is about.
        patch.setenv("FABRICA_BENCH_EVALUATIONS", "off")
        yield
