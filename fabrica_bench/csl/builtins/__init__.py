"""The builtins of CSL, one small function each, grouped as the documentation groups them."""


def load_all() -> None:
    """Import every group, which fills `registry.BUILTINS`."""
    from fabrica_bench.csl.builtins import config, dsd, dsd_ops, dsr, general, host, layout, queues, tasks, types

    assert all((config, dsd, dsd_ops, dsr, general, host, layout, queues, tasks, types))
