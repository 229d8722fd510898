"""The project's own compiler and simulator, as child processes of this Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import fabrica_bench
from fabrica_bench.toolchains.commands import CommandToolchain
from fabrica_bench.toolchains.processes import Limits

EMBEDDED_LIMITS: Final = Limits(cpu_s=300, address_space=8 << 30, file_size=512 << 20, processes=64, open_files=256)


def embedded_toolchain() -> CommandToolchain:
    """The embedded back end; it is always available."""
    # -P keeps the bundle's folder, which holds candidate files, off the children's import path.
    python = (sys.executable, "-P", "-m")
    root = str(Path(fabrica_bench.__file__).resolve().parent.parent)
    return CommandToolchain(
        name="embedded",
        cslc=(*python, "fabrica_bench.compat.cslc"),
        cs_python=(*python, "fabrica_bench.compat.cs_python"),
        environment={"PYTHONPATH": root},
        description={
            "toolchain": "embedded",
            "version": package_version(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "vendor": "no",
        },
        limits=EMBEDDED_LIMITS,
    )


def package_version() -> str:
    """Version of this package, `0+unknown` in a source tree that was never installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("fabrica-bench")
    except PackageNotFoundError:
        return "0+unknown"
