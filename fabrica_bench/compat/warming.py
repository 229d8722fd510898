"""What every build and every run would do again, done once: for a process that forks for each of them.

Beside imports these are tables and answers that don't depend on a program. A small program of our own passes through
compiler, codec and simulator, so that whatever those load on first use is loaded.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final

from fabrica_bench.compat.cs_python import HOST_DIRECTORY
from fabrica_bench.wse.selection import executor_name, open_machine, warm_native

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
    """Also compile and load the sample program.

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
    open_machine(program, executor=executor_name())
