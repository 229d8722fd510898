"""What every build and every run would do again, done once: for a process that forks for each of them.

Beside imports these are tables and answers that don't depend on a program. A small program of our own passes through
compiler, codec and simulator, and is run, so that whatever those load on first use is loaded.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fabrica_bench.compat.cs_python import HOST_DIRECTORY
from fabrica_bench.wse.selection import executor_name, open_machine, warm_native

if TYPE_CHECKING:
    from fabrica_bench.wse.machine import Machine

MODULES: Final = (
    "argparse",
    "encodings.ascii",
    "encodings.cp437",
    "encodings.utf_8_sig",
    "numpy.fft",  # NumPy imports some of its parts on first use
    "numpy.linalg",
    "numpy.random",
    "fabrica_bench.compat.cslc",
    "fabrica_bench.compat.runtime",
    "fabrica_bench.compat.sdk_layout",
)
HOST_MODULES: Final = ("cerebras.sdk.runtime.sdkruntimepybind",)

SAMPLE: Final = Path(__file__).with_name("sample")
_SIZE: Final = 4


def warm_modules() -> None:
    """Import what every run imports, those of the host package included."""
    for name in MODULES:
        importlib.import_module(name)
    # It is on the path only where a host script runs.
    sys.path.insert(0, str(HOST_DIRECTORY))
    try:
        for name in HOST_MODULES:
            importlib.import_module(name)
    finally:
        sys.path.remove(str(HOST_DIRECTORY))


def warm_up() -> None:
    """Also compile and run the sample program.

    Raises:
        CslError, FabricaError: The compiler or the simulator doesn't work.
    """
    warm_modules()
    warm_native()
    from fabrica_bench.csl.artifact import decode_program, encode_program
    from fabrica_bench.csl.driver import CompileOptions, compile_program

    options = CompileOptions(
        file=SAMPLE / "layout.csl",
        arch="wse3",
        fabric_dims=(8, 3),
        fabric_offsets=(4, 1),
        params={"size": _SIZE},
        memcpy=True,
        channels=1,
        confine_imports=True,
    )
    program = decode_program(encode_program(compile_program(options).program))
    _run(open_machine(program, executor=executor_name()))
    _do_what_runners_do()


def _run(machine: Machine) -> None:
    import numpy as np

    from fabrica_bench.compat.statistics import statistics
    from fabrica_bench.wse.commands import CopyIn, CopyOut, Launch

    values = np.arange(_SIZE, dtype=np.float32).view(np.uint32).reshape(1, 1, _SIZE)
    machine.submit(CopyIn("values", 0, 0, 1, 1, _SIZE, values))
    machine.submit(Launch("compute"))
    machine.wait(machine.submit(CopyOut("values", 0, 0, 1, 1, _SIZE)))
    machine.drain()
    machine.leftovers()
    json.dumps(statistics(machine), indent=2)


def _do_what_runners_do() -> None:
    """Options, and arrays in files: both compile patterns and fill tables on first use."""
    import numpy as np

    parser = argparse.ArgumentParser(description="...")
    parser.add_argument("--name", required=True, help="...")
    parser.add_argument("--inputs", type=Path, metavar="FILE", help="...")
    parser.add_argument("--no-check", action="store_true", help="...")
    parser.parse_args(["--name", "out", "--inputs=x", "--no-check"])
    file = io.BytesIO()
    np.savez(file, number=np.int64(1), values=np.zeros((1, 2), dtype=np.float32))
    file.seek(0)
    with np.load(file) as arrays:
        for name in arrays:
            arrays[name]
