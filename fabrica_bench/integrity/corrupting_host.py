"""Check 6, the host's side: a host module that falsifies what a runner reads back from the device.

    python -m fabrica_bench.integrity.corrupting_host < orders.json

Reads `{"symbols": [...], "changes": [...], "arguments": [...], "folders": [...], "support": true}` and runs the runner
once per change, each time in a process of its own in the next of the folders, on the embedded simulator. Every copy of
one of the symbols to the host is changed on its way. Writes one exit status per line.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fabrica_bench.compat import cs_python

Words = npt.NDArray[np.uint32]
Places = npt.NDArray[np.intp]


def _zeros(words: Words, firsts: Places) -> None:
    words[:] = 0


def _never_written(words: Words, firsts: Places) -> None:
    words[:] = 0xFFFFFFFF


def _one_bit(words: Words, firsts: Places) -> None:
    """The most significant bit of the mantissa of one value of each PE, or that bit of an integer: a runner may read
    more PEs than hold results."""
    chosen = words[firsts]
    words[firsts] = chosen ^ np.where(chosen >> 16, np.uint32(1 << 22), np.uint32(1 << 8))


def _one_nan(words: Words, firsts: Places) -> None:
    """No number in one value of each PE, read as single precision or, in its lower half, as half precision."""
    words[firsts] = 0x7FC07E00


def _shifted(words: Words, firsts: Places) -> None:
    words[:] = np.roll(words, 1) if (words != words[0]).any() else words + np.uint32(0x00C00000)


Change = Callable[[Words, Places], None]

CHANGES: Final[dict[str, Change | None]] = {
    "none": None,
    "zeros": _zeros,
    "never written": _never_written,
    "one bit": _one_bit,
    "not a number": _one_nan,
    "shifted": _shifted,
}
"""What is done to the words of a copy, by name. `none` is the control: the runner must succeed."""


def falsify(symbols: Sequence[str], change: Change | None) -> None:
    """Let every copy of a symbol to the host in this process pass through the change."""
    runtime: Any = importlib.import_module("fabrica_bench.compat.runtime").SdkRuntime
    original = runtime.memcpy_d2h

    def memcpy_d2h(self: Any, dest: npt.NDArray[Any], src: int, *region: int, **options: Any) -> Any:
        task = original(self, dest, src, *region, **options)
        names = {self.get_id(name) for name in symbols if name in self._exports}
        if change is not None and src in names:
            words = dest.reshape(-1).view(np.uint32)
            pes = region[2] * region[3]
            in_rows = "COL" not in str(options.get("order"))
            change(words, np.arange(pes) * (len(words) // pes if in_rows else 1))
        return task

    runtime.memcpy_d2h = memcpy_d2h


def main() -> int:
    """Run the orders; the exit status says only whether that worked."""
    orders = json.load(sys.stdin)
    importlib.import_module("fabrica_bench.compat.runtime")
    for change, folder in zip(orders["changes"], orders["folders"], strict=True):
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(_run(orders, change, Path(folder)))
            finally:
                os._exit(100)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()
    return 0


def _run(orders: Mapping[str, Any], change: str, folder: Path) -> int:
    os.chdir(folder)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    if orders["support"]:
        sys.path.append(str(folder))
    falsify(orders["symbols"], CHANGES[change])
    try:
        return int(cs_python.main(orders["arguments"]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
