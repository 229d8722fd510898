"""How much memory this process uses, for the ceiling on compilation."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")
MEBIBYTE: Final = 1 << 20


def resident_bytes() -> int:
    """Bytes of this process in memory; where the system tells only the most there ever were, those."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
