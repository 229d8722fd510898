"""Back ends by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError
from fabrica_bench.toolchains.appliance import ApplianceToolchain, appliance_error
from fabrica_bench.toolchains.embedded import embedded_toolchain
from fabrica_bench.toolchains.protocol import Toolchain, ToolchainUnavailable
from fabrica_bench.toolchains.sdk import find_sdk

ENABLING_VARIABLE: Final = "FABRICA_BENCH_TEST_DOUBLES"
"""Offers the test double `scripted` by name; see `fabrica_bench.toolchains.doubles`."""

TOOLCHAIN_NAMES: Final = ("embedded", "sdk", "appliance")


def _appliance() -> Toolchain:
    # Refused at the start of a run rather than at its first build.
    raise appliance_error()


def _double() -> Toolchain:
    from fabrica_bench.toolchains.doubles import ScriptedToolchain

    return ScriptedToolchain()


_FACTORIES: Final[dict[str, Callable[[], Toolchain]]] = {
    "embedded": embedded_toolchain,
    "sdk": find_sdk,
    "appliance": _appliance,
}


def get_toolchain(name: str) -> Toolchain:
    """The back end called `name`, ready to use.

    Raises:
        FabricaError: There is no such back end, or it can't work on this machine; the remedy says what to do.
    """
    factory = _double if name == "scripted" and os.environ.get(ENABLING_VARIABLE) else _FACTORIES.get(name)
    if factory is None:
        raise UnknownNameError("toolchain", name, TOOLCHAIN_NAMES, listing="fabrica-bench doctor")
    try:
        return factory()
    except ToolchainUnavailable as error:
        raise FabricaError(error.message, remedy=error.remedy, code=ExitCode.ENVIRONMENT) from error


def availability() -> dict[str, tuple[bool, str]]:
    """For each back end whether it works here, and its description or what to do about it."""
    answers: dict[str, tuple[bool, str]] = {}
    for name, factory in _FACTORIES.items():
        try:
            toolchain = factory()
        except ToolchainUnavailable as error:
            answers[name] = (False, f"{error.message}; {error.remedy}")
        else:
            facts = toolchain.describe()
            answers[name] = (True, ", ".join(f"{key} {value}" for key, value in facts.items() if key != "toolchain"))
    return answers


__all__ = ["TOOLCHAIN_NAMES", "ApplianceToolchain", "availability", "get_toolchain"]
