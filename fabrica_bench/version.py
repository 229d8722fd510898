"""The one place that names the version of the package and of the benchmark suite."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"

SUITE_VERSION: Final = "1"
"""Version of the task suite; held-out seeds are derived over it, so a change makes every old result stale."""
