"""Fabrica-Bench: a benchmark and an open toolchain for translating CUDA kernels to CSL for Cerebras wafers.

Importing the package loads nothing heavy: the names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fabrica_bench.version import SUITE_VERSION, __version__

if TYPE_CHECKING:
    from fabrica_bench.scoring.api import accept, fast_p, score
    from fabrica_bench.tasks import Task, list_tasks, load_task

__all__ = ["SUITE_VERSION", "Task", "__version__", "accept", "fast_p", "list_tasks", "load_task", "score"]

_HOMES: Final = {
    "Task": "fabrica_bench.tasks",
    "accept": "fabrica_bench.scoring.api",
    "fast_p": "fabrica_bench.scoring.api",
    "list_tasks": "fabrica_bench.tasks",
    "load_task": "fabrica_bench.tasks",
    "score": "fabrica_bench.scoring.api",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'fabrica_bench' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
