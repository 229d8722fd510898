"""Fabrica-Bench: a benchmark and an open toolchain for translating CUDA kernels to CSL for Cerebras wafers.

Importing the package loads nothing heavy: the names below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fabrica_bench.version import SUITE_VERSION, __version__

if TYPE_CHECKING:
    from fabrica_bench.errors import FabricaError
    from fabrica_bench.library import accept, fast_p, list_tasks, load_task, score
    from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid
    from fabrica_bench.tasks import Task
    from fabrica_bench.tasks.seeds import HeldOutKey

__all__ = [
    "SUITE_VERSION",
    "FabricaError",
    "HeldOutKey",
    "Invalid",
    "NotScored",
    "Task",
    "Valid",
    "__version__",
    "accept",
    "fast_p",
    "list_tasks",
    "load_task",
    "score",
]

_HOMES: Final = {
    "FabricaError": "fabrica_bench.errors",
    "HeldOutKey": "fabrica_bench.tasks.seeds",
    "Task": "fabrica_bench.tasks",
    **dict.fromkeys(("Invalid", "NotScored", "Valid"), "fabrica_bench.scoring.verdict"),
    **dict.fromkeys(("accept", "fast_p", "list_tasks", "load_task", "score"), "fabrica_bench.library"),
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'fabrica_bench' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names too, loaded or not: completion and `help` go by it."""
    return sorted({*globals(), *__all__})
