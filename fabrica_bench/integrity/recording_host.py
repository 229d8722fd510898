"""A host module that keeps what a runner copies: where each output lies on the PEs, and what inputs there are.

    python -m fabrica_bench.integrity.recording_host < orders.json

Reads `{"arguments": [...], "support": true, "record": "copies.npz"}`, runs the runner once in the working directory, on
the embedded simulator, and writes for every copy the region and, for copies from the device, the words. It tells how
many elements of a symbol a PE holds: `fabrica_bench.integrity.wrong_programs` makes mutants from that.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat import cs_python

REGION: Final = ("x", "y", "width", "height", "per_pe")


class Recorder:
    """Stands between the runner and the device; the last copy of a symbol in each direction counts."""

    def __init__(self) -> None:
        self.kept: dict[str, npt.NDArray[Any]] = {}

    def install(self) -> None:
        """Let all copies of this process pass through."""
        runtime: Any = importlib.import_module("fabrica_bench.compat.runtime").SdkRuntime
        to_host, to_device = runtime.memcpy_d2h, runtime.memcpy_h2d

        def memcpy_d2h(device: Any, dest: npt.NDArray[Any], src: int, *region: int, **options: Any) -> Any:
            task = to_host(device, dest, src, *region, **options)
            name = _name(device, src)
            self.kept[f"out:{name}"] = np.array(region, dtype=np.int64)
            self.kept[f"words:{name}"] = dest.reshape(-1).view(np.uint32).copy()
            return task

        def memcpy_h2d(device: Any, dest: int, src: npt.NDArray[Any], *region: int, **options: Any) -> Any:
            self.kept[f"in:{_name(device, dest)}"] = np.array(region, dtype=np.int64)
            return to_device(device, dest, src, *region, **options)

        runtime.memcpy_d2h = memcpy_d2h
        runtime.memcpy_h2d = memcpy_h2d


def _name(device: Any, symbol: int) -> str:
    return next(str(name) for name in device._exports if device.get_id(name) == symbol)


def main() -> int:
    """Run the orders; the exit status is the runner's."""
    orders = json.load(sys.stdin)
    if orders["support"]:
        sys.path.append(os.getcwd())
    recorder = Recorder()
    recorder.install()
    status = int(cs_python.main(orders["arguments"]))
    if status == 0:
        np.savez(Path(orders["record"]), **recorder.kept)  # type: ignore[arg-type]
    return status


if __name__ == "__main__":
    sys.exit(main())
