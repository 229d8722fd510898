"""`python -m fabrica_bench`: the same command line as the console script `fabrica-bench`."""

from __future__ import annotations

import sys

from fabrica_bench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
