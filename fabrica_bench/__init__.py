"""Fabrica-Bench: a benchmark and an open toolchain for translating CUDA kernels to CSL for Cerebras wafers.

Importing the package loads nothing heavy: the names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fabrica_bench.version import SUITE_VERSION, __version__

if TYPE_CHECKING:
    from fabrica_bench.library import accept, fast_p, list_tasks, load_task, score
    from fabrica_bench.tasks import Task

__all__ = ["SUITE_VERSION", "Task", "__version__", "accept", "fast_p", "list_tasks", "load_task", "score"]

_HOMES: Final = {
    "Task": "fabrica_bench.tasks",
    **dict.fromkeys(("accept", "fast_p", "list_tasks", "load_task", "score"), "fabrica_bench.library"),
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'fabrica_bench' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
