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


def example_cycles(name: str, arch: str, function: str, device_layout: str = "", iterations: int = 0) -> float:
    """Cycles of the example's launch of `function`, or what its host script prints about stamps inside it.

    Args:
        name: Folder under `benchmarks`.
        arch: Target.
        function: The launched function.
        iterations: What to pass as `--max-ite` instead of what the example's script has.
        device_layout: Layout of the variant that iterates on the device (`device_run.py`), if that is the one meant.

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
        if device_layout:
            script = plan.folder / f"commands_{arch}.sh"
            text = script.read_text(encoding="utf-8").replace("src/layout.csl", f"src/{device_layout}.csl")
            text = text.replace("run.py", "device_run.py")
            if iterations:
                text = re.sub(r"--max-ite=\d+", f"--max-ite={iterations}", text)
            script.write_text(text, encoding="utf-8")
        done = run_plan(plan, {}, TIMEOUT_S, capture=True)
    # With more iterations than an example was written for, rounding may exceed its own tolerance.
    checked = done.ok or (iterations > 0 and done.ending == "failed" and done.statistics is not None)
    if not checked:
        raise Unavailable(f"{name} ended with {done.ending} (exit status {done.exit_code})")
    printed = _PRINTED.search(done.output)
    if printed is not None:
        return float(printed[1])
    windows = [w for w in (done.statistics or {}).get("launches", []) if w["name"] == function]
    if not windows:
        raise Unavailable(f"{name} launched no function {function}")
    return float(windows[0]["end"] - windows[0]["start"])
