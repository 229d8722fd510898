"""Where a program runs (`get_platform`, ...), and the enumerations of the host API."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fabrica_bench.compat.sessions import HostError


class MemcpyDataType(enum.Enum):
    """Size of a device element; the host always has one element per 32-bit word."""

    MEMCPY_16BIT = 0
    MEMCPY_32BIT = 1


class MemcpyOrder(enum.Enum):
    """Order of a host array over (row, column, element); see `transfers`."""

    ROW_MAJOR = 0
    COL_MAJOR = 1


class SdkTarget(enum.Enum):
    """Architecture of a platform."""

    WSE2 = "wse2"
    WSE3 = "wse3"


@dataclass(frozen=True)
class SimfabConfig:
    """Settings of the vendor's simulator. Accepted; the embedded simulator has one thread and no wavelet trace file.

    `dump_core` writes the memories of all PEs to `core_path` (default `out.core`) at `stop`.
    """

    num_threads: int = 16
    suppress_trace: bool = False
    dump_core: bool = False
    core_path: str | None = None


@dataclass(frozen=True)
class Platform:
    """A simulated fabric of one architecture."""

    target: SdkTarget
    config: SimfabConfig

    def is_simulation(self) -> bool:
        """Always true here."""
        return True

    def is_system(self) -> bool:
        """Always false here."""
        return False


@dataclass(frozen=True)
class SdkCompileArtifacts:
    """A directory that `cslc` wrote."""

    path: str | Path


def get_platform(
    cmaddr: str | None = None, config: SimfabConfig | None = None, target: SdkTarget = SdkTarget.WSE3
) -> Platform:
    """The platform at `cmaddr`; without an address a simulated one."""
    require_simulation(cmaddr)
    return get_simulator(config, target)


def get_simulator(config: SimfabConfig | None = None, target: SdkTarget = SdkTarget.WSE3) -> Platform:
    """A simulated fabric."""
    return Platform(target, config if config is not None else SimfabConfig())


def get_system(cmaddr: str) -> NoReturn:
    """Never succeeds: this toolchain drives no CS system.

    Raises:
        HostError: always.
    """
    raise _no_system(cmaddr)


def require_simulation(cmaddr: str | None) -> None:
    """Refuse the address of a CS system.

    Raises:
        HostError: `cmaddr` is neither None nor empty.
    """
    if cmaddr:
        raise _no_system(cmaddr)


def _no_system(cmaddr: str) -> HostError:
    return HostError(
        f"can't connect to the CS system at {cmaddr!r}: this toolchain only simulates",
        remedy="leave --cmaddr out, or run the script with the vendor's cs_python",
    )
