"""The builtins of CSL, one small function each, grouped as the documentation groups them.

Importing this package fills `registry.BUILTINS`.
"""

from fabrica_bench.csl.builtins import registry

__all__ = ["registry"]
