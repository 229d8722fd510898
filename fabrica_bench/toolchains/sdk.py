"""The vendor's SDK: its `cslc` and `cs_python` found on PATH, run as processes.

The project's own two executables bear the same names, so each one found is asked for its version; ours answer
`fabrica-bench ...` and are passed over, unless the caller explicitly wants them (tests do, to run this back end without
the vendor's software). A record made that way says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fabrica_bench.toolchains.commands import CommandToolchain, tool_version
from fabrica_bench.toolchains.processes import Limits
from fabrica_bench.toolchains.protocol import ToolchainUnavailable

OWN_PREFIX: Final = "fabrica-bench"

SDK_LIMITS: Final = Limits(cpu_s=3600, address_space=None, file_size=8 << 30, processes=1024, open_files=4096)
"""Generous: the vendor's simulator is a multi-process native program in a container."""

KEPT_VARIABLES: Final = ("PATH", "LD_LIBRARY_PATH", "CSLC_PATH", "SINGULARITY_TMPDIR", "APPTAINER_TMPDIR")
"""The few variables that the vendor's wrapper scripts and their container need."""


def find_sdk(*, search_path: str | None = None, allow_own: bool = False) -> CommandToolchain:
    """The vendor's toolchain on PATH.

    Args:
        search_path: Folders to search instead of the caller's PATH.
        allow_own: Accept the project's own executables too.

    Raises:
        ToolchainUnavailable: No usable pair was found; the message lists what was found and passed over.
    """
    path = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | {"PATH": path}
    passed_over: list[str] = []
    for cslc in _executables("cslc", path):
        version = tool_version([str(cslc)], environment)
        own = _is_own(cslc, version)
        if own and not allow_own:
            passed_over.append(str(cslc))
            continue
        cs_python = _partner(cslc, path, environment, own)
        if cs_python is None:
            passed_over.append(f"{cslc} (no cs_python beside it)")
            continue
        return _toolchain(cslc, cs_python, version, own, environment)
    found = f"; passed over: {', '.join(passed_over)}" if passed_over else ""
    raise ToolchainUnavailable(
        f"the vendor's cslc and cs_python are not on PATH{found}",
        "install the Cerebras SDK and put its folder on PATH, or use --toolchain embedded",
    )


def _toolchain(
    cslc: Path, cs_python: Path, version: str, own: bool, environment: Mapping[str, str]
) -> CommandToolchain:
    description = {
        "toolchain": "sdk",
        "version": version or "unknown",
        "cslc": str(cslc),
        "cs_python": str(cs_python),
        "vendor": "no: the project's own executables" if own else "yes",
    }
    return CommandToolchain("sdk", (str(cslc),), (str(cs_python),), environment, description, SDK_LIMITS)


def _is_own(path: Path, version: str) -> bool:
    """Whether an executable is the project's; ours that can't start gives no version, and is told by its text."""
    if version:
        return version.startswith(OWN_PREFIX)
    try:
        with path.open("rb") as stream:
            return b"fabrica_bench" in stream.read(4096)
    except OSError:
        return False


def is_executable(path: Path) -> bool:
    """A file that this user may run; a folder of PATH that can't be looked into holds none."""
    try:
        return path.is_file() and os.access(path, os.X_OK)
    except OSError:
        return False


def _executables(name: str, path: str) -> Iterator[Path]:
    seen: set[Path] = set()
    for folder in path.split(os.pathsep):
        candidate = Path(folder or ".").absolute() / name
        if candidate not in seen and is_executable(candidate):
            seen.add(candidate)
            yield candidate


def _partner(cslc: Path, path: str, environment: Mapping[str, str], own: bool) -> Path | None:
    """The `cs_python` that belongs to a `cslc`: beside it, or else the first on PATH that is as much ours as it is."""
    beside = cslc.parent / "cs_python"
    if is_executable(beside):
        return beside
    for candidate in _executables("cs_python", path):
        if _is_own(candidate, tool_version([str(candidate)], environment)) == own:
            return candidate
    return None
