"""Fixtures for every suite."""

from __future__ import annotations

import os
import time

# Subprocesses and this process see the same plain surroundings, whatever the developer's shell has.
os.environ.update(NO_COLOR="1", TZ="UTC", PYTHONHASHSEED="0", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
os.environ.pop("FORCE_COLOR", None)
time.tzset()
