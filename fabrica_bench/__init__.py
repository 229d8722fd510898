"""Fabrica-Bench: a benchmark and an open toolchain for translating CUDA kernels to CSL for Cerebras wafers.

The package root imports nothing heavy; import the part that you need, e.g. `fabrica_bench.plugins`.
"""

from __future__ import annotations

from fabrica_bench.version import SUITE_VERSION, __version__

__all__ = ["SUITE_VERSION", "__version__"]
