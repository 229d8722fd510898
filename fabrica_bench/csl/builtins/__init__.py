"""The builtins of CSL, one small function each, grouped as the documentation groups them."""

from importlib import import_module

GROUPS = ("config", "dsd", "dsd_ops", "dsr", "general", "host", "layout", "older", "queues", "tasks", "types")


def load_all() -> None:
    """Import every group, which fills `registry.BUILTINS`."""
    for group in GROUPS:
        import_module(f"{__name__}.{group}")
