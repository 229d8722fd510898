"""The vendor's appliance client: compiles and runs on a remote wafer or its simulator.

Not usable yet: this class says what is missing on this machine instead of pretending.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from fabrica_bench.toolchains.protocol import (
    BuildOptions,
    BuildResult,
    RunRequest,
    RunResult,
    ToolchainUnavailable,
)


class ApplianceToolchain:
    """Placeholder with the protocol's shape; every operation raises `ToolchainUnavailable`."""

    name = "appliance"

    def describe(self) -> dict[str, str]:
        """Whether the client package is installed."""
        return {"toolchain": "appliance", "client": "installed" if client_installed() else "missing", "vendor": "yes"}

    def isolation(self) -> dict[str, str]:
        """Nothing runs on this machine."""
        return {"execution": "remote"}

    def build(self, bundle: Path, options: BuildOptions) -> BuildResult:
        """Always raises."""
        raise appliance_error()

    def run(self, artifact: Path, request: RunRequest) -> RunResult:
        """Always raises."""
        raise appliance_error()

    def run_all(self, artifact: Path, requests: Sequence[RunRequest]) -> list[RunResult]:
        """Always raises."""
        raise appliance_error()


def client_installed() -> bool:
    """Is the vendor's client package importable?"""
    try:
        return find_spec("cerebras.sdk.client") is not None
    except ModuleNotFoundError:
        return False


def appliance_error() -> ToolchainUnavailable:
    """What is missing: the client package, or this project's support for it."""
    if not client_installed():
        return ToolchainUnavailable(
            "the appliance back end needs the vendor's client package cerebras_sdk, which is not installed",
            "install cerebras_sdk with access to an appliance, or use --toolchain embedded",
        )
    return ToolchainUnavailable(
        "the appliance back end is not supported by this version, although the vendor's client is installed",
        "use --toolchain embedded or --toolchain sdk",
    )
