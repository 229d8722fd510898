"""The vendor's example programs, from a checkout that the user names."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from fabrica_bench.cli.commands.csl_process import copy_to, make_plan, run_plan

CHECKOUT_VARIABLE: Final = "FABRICA_CSL_EXAMPLES"
TIMEOUT_S: Final = 1500.0

# What the example with stamps inside its function prints about them.
_PRINTED: Final = re.compile(r"^Max cycles .*:\s*(\d+)$", re.MULTILINE)


class Unavailable(Exception):
    """The point can't be measured here; the message says what is missing."""


def example_cycles(name: str, arch: str, function: str) -> float:
    """Cycles of the example's launch of `function`, or what its host script prints about stamps inside it.

    Raises:
        Unavailable: No checkout is named, it lacks the example, or the example does not run.
    """
    root = os.environ.get(CHECKOUT_VARIABLE)
    if not root:
        raise Unavailable(f"set {CHECKOUT_VARIABLE} to a checkout of Cerebras/csl-examples")
    folder = Path(root) / "benchmarks" / name
    if not folder.is_dir():
        raise Unavailable(f"{folder} does not exist")
    with tempfile.TemporaryDirectory(prefix="fabrica-validation-") as scratch:
        # Some examples import their neighbours.
        library = folder.parent / "benchmark-libs"
        if library.is_dir():
            (Path(scratch) / "benchmark-libs").symlink_to(library)
        plan = copy_to(make_plan(folder, arch, ()), Path(scratch) / name)
        done = run_plan(plan, {}, TIMEOUT_S, capture=True)
    if not done.ok:
        raise Unavailable(f"{name} ended with {done.ending} (exit status {done.exit_code})")
    printed = _PRINTED.search(done.output)
    if printed is not None:
        return float(printed[1])
    windows = [w for w in (done.statistics or {}).get("launches", []) if w["name"] == function]
    if not windows:
        raise Unavailable(f"{name} launched no function {function}")
    return float(windows[0]["end"] - windows[0]["start"])
