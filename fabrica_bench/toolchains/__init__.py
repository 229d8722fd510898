"""Back ends that build and run CSL bundles: `embedded`, `sdk`, `appliance`."""

from fabrica_bench.toolchains.protocol import (
    BuildOptions,
    BuildResult,
    RunFault,
    RunRequest,
    RunResult,
    Toolchain,
    ToolchainUnavailable,
    ToolDiagnostic,
)
from fabrica_bench.toolchains.registry import TOOLCHAIN_NAMES, availability, get_toolchain

__all__ = [
    "TOOLCHAIN_NAMES",
    "BuildOptions",
    "BuildResult",
    "RunFault",
    "RunRequest",
    "RunResult",
    "ToolDiagnostic",
    "Toolchain",
    "ToolchainUnavailable",
    "availability",
    "get_toolchain",
]
