"""What this machine offers to Fabrica-Bench, and what to do about each gap.

Each check looks, and runs nothing that could hang for long: a tool that is asked for its version gets ten seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from fabrica_bench.errors import FabricaError

VERSION_TIMEOUT_S: Final = 10.0


class State(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    ABSENT = "absent"
    """Optional and not here: some feature is unavailable."""
    BROKEN = "broken"
    """Required and not working: the main job can't run."""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's answer.

    Attributes:
        name: What was looked at.
        state: See `State`.
        detail: What was found: version, path.
        remedy: What to do about a gap; None when there is none.
    """

    name: str
    state: State
    detail: str
    remedy: str | None = None


def run_checks() -> list[Check]:
    """Every check, in the order in which a user meets the parts."""
    checks: list[Callable[[], Check]] = [
        check_python,
        check_embedded,
        check_tasks,
        check_agents,
        check_libclang,
        check_fts5,
        check_confinement,
        check_sdk,
        check_appliance,
        check_nvcc,
        check_model_keys,
        check_run_folder,
        check_keys_folder,
    ]
    return [check() for check in checks]


def check_python() -> Check:
    """The interpreter that runs this."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check("python", State.OK, f"{version} at {sys.executable}")


def check_embedded() -> Check:
    """Ask the embedded compiler for its version, in another process as a run does."""
    answer = _ask([sys.executable, "-m", "fabrica_bench.compat.cslc", "--version"])
    if not answer:
        return Check(
            "embedded toolchain",
            State.BROKEN,
            "`python -m fabrica_bench.compat.cslc --version` gives no answer",
            "reinstall: pip install --force-reinstall fabrica-bench",
        )
    return Check("embedded toolchain", State.OK, answer)


def check_tasks() -> Check:
    """The task suite that this installation finds."""
    from fabrica_bench.errors import FabricaError
    from fabrica_bench.tasks import list_tasks, tasks_root

    try:
        count = len(list_tasks())
    except FabricaError as error:
        return Check("tasks", State.BROKEN, str(error), error.remedy)
    if not count:
        return Check("tasks", State.BROKEN, f"none under {tasks_root()}", "reinstall the package")
    return Check("tasks", State.OK, f"{count} under {tasks_root()}")


def check_agents() -> Check:
    """The agents that installed plug-ins provide."""
    from fabrica_bench.errors import FabricaError
    from fabrica_bench.plugins import discover_agents

    try:
        agents = discover_agents()
    except FabricaError as error:
        return Check("agents", State.BROKEN, error.message, error.remedy)
    named = ", ".join(f"{agent.name} ({agent.model})" for agent in agents.values())
    return Check("agents", State.OK, named)


def check_libclang() -> Check:
    """The CUDA front end's library."""
    try:
        from clang import cindex

        cindex.Index.create()
    except Exception as error:
        # A missing wheel, a wrong library version and a missing system library all end here, and differ only in words.
        return Check(
            "libclang",
            State.BROKEN,
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}",
            "pip install --force-reinstall libclang",
        )
    return Check("libclang", State.OK, "loads")


def check_fts5() -> Check:
    """SQLite's full-text index, which retrieval uses."""
    import sqlite3

    with sqlite3.connect(":memory:") as connection:
        try:
            connection.execute("create virtual table probe using fts5(body)")
        except sqlite3.OperationalError as error:
            return Check(
                "sqlite fts5",
                State.ABSENT,
                f"SQLite {sqlite3.sqlite_version}: {error}",
                "use a Python whose SQLite is built with FTS5, e.g. the one of python.org or of your distribution; "
                "without it agents retrieve nothing",
            )
        finally:
            connection.rollback()
    connection.close()
    return Check("sqlite fts5", State.OK, f"SQLite {sqlite3.sqlite_version}")


def check_confinement() -> Check:
    """Whether the kernel can keep agents and candidates away from files that they have no business with."""
    from fabrica_bench.toolchains.landlock import describe_confinement, landlock_abi
    from fabrica_bench.toolchains.seccomp import describe_calls

    if landlock_abi():
        return Check("confinement", State.OK, f"{describe_confinement(network=False)}; {describe_calls()}")
    return Check(
        "confinement",
        State.ABSENT,
        "the kernel has no Landlock",
        "run on Linux 5.13 or later with Landlock enabled; without it, run untrusted agents in a virtual machine only",
    )


def check_sdk() -> Check:
    """The vendor's compiler and host Python on PATH; our own executables of the same names don't count."""
    return _back_end("sdk", "vendor SDK")


def check_appliance() -> Check:
    """The client package of the vendor's appliance."""
    return _back_end("appliance", "appliance client")


def _back_end(name: str, title: str) -> Check:
    from fabrica_bench.errors import FabricaError
    from fabrica_bench.toolchains import get_toolchain

    try:
        facts = get_toolchain(name).describe()
    except FabricaError as error:
        return Check(title, State.ABSENT, error.message, f"optional: {error.remedy}")
    return Check(title, State.OK, ", ".join(f"{key} {value}" for key, value in facts.items() if key != "toolchain"))


def check_nvcc() -> Check:
    """The CUDA compiler, which only checks the CUDA sources themselves."""
    path = shutil.which("nvcc")
    if path is None:
        return Check(
            "nvcc",
            State.ABSENT,
            "not on PATH",
            "optional: install the CUDA toolkit to check the CUDA sources on a GPU; translating and scoring need none",
        )
    answer = _ask([path, "--version"]) or "gives no version"
    release = [line for line in answer.splitlines() if "release" in line]
    return Check("nvcc", State.OK, f"{release[0].strip() if release else answer.splitlines()[0]} at {path}")


def check_model_keys() -> Check:
    """Which providers' keys are set; never their values."""
    from fabrica_bench.models.selection import HOSTED

    providers = {name: provider for provider, names in reversed(HOSTED.items()) for name in names}
    found = [f"{name} ({provider})" for name, provider in providers.items() if os.environ.get(name)]
    if found:
        return Check("model keys", State.OK, ", ".join(sorted(found)))
    return Check(
        "model keys",
        State.ABSENT,
        f"none of {', '.join(sorted(providers))} is set",
        "optional: export one and `pip install 'fabrica-bench[llm]'`; "
        "without a key the fabrica agent uses its built-in deterministic lowering",
    )


def check_run_folder() -> Check:
    """Whether runs can be written where they would be, and how much room there is."""
    folder = Path.cwd() / "runs" if Path("runs").exists() else Path.cwd()
    free_mib = shutil.disk_usage(folder).free // 2**20
    if not os.access(folder, os.W_OK):
        return Check("run folder", State.BROKEN, f"{folder} is not writable", "choose another one with --out DIR")
    if free_mib < 200:
        return Check(
            "run folder", State.BROKEN, f"{free_mib} MiB free at {folder}", "free some space, or use --out DIR"
        )
    return Check("run folder", State.OK, f"{Path.cwd() / 'runs'}, {free_mib:,} MiB free")


def check_keys_folder() -> Check:
    """Whether the held-out keys of runs can be kept: no run starts without."""
    from fabrica_bench.runs.keys import KEYS_VARIABLE, keys_folder

    remedy = f"set {KEYS_VARIABLE} to a folder that only you can write, or use --key FILE"
    try:
        folder = keys_folder()
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except FabricaError as error:
        return Check("held-out keys", State.BROKEN, error.message, remedy)
    except OSError as error:
        return Check("held-out keys", State.BROKEN, f"{folder}: {error.strerror}", remedy)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Check("held-out keys", State.BROKEN, f"{folder} can't be written", remedy)
    return Check("held-out keys", State.OK, f"kept in {folder}")


def _ask(command: list[str]) -> str | None:
    """Standard output of a quick command, or None when it fails or hangs."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
