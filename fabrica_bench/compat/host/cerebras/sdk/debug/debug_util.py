"""Memory and trace reader under the vendor's module name."""

from fabrica_bench.compat.debug_util import debug_util

__all__ = ["debug_util"]
