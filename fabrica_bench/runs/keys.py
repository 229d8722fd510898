"""Where the held-out keys of runs are kept: in the user's state folder, never in the run folder or the repository.

A key is needed again to continue an interrupted run and to verify a finished one. Publishing it makes a run auditable;
until then nothing but its fingerprint and the commitments of the seeds are in the records.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fabrica_bench.errors import FabricaError, from_os_error, home_folder
from fabrica_bench.tasks.seeds import HeldOutKey

KEYS_VARIABLE: Final = "FABRICA_BENCH_KEYS"


def keys_folder() -> Path:
    """$FABRICA_BENCH_KEYS, else fabrica-bench/keys in $XDG_STATE_HOME or ~/.local/state.

    Raises:
        FabricaError: None is set, and the user has no home folder.
    """
    chosen = os.environ.get(KEYS_VARIABLE)
    if chosen:
        return Path(chosen)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else home_folder(KEYS_VARIABLE) / ".local" / "state") / "fabrica-bench" / "keys"


def fresh_key() -> HeldOutKey:
    """A new key, kept for later.

    Raises:
        FabricaError: It can't be stored; a run that nobody could continue or verify is not started.
    """
    key = HeldOutKey.fresh()
    keep(key)
    return key


def keep(key: HeldOutKey) -> None:
    """Store a key under its fingerprint, readable by its owner only.

    Raises:
        FabricaError: The folder can't be written.
    """
    folder = keys_folder()
    path = folder / key.fingerprint
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            key.write(path)
    except OSError as error:
        problem = from_os_error(error)
        raise FabricaError(
            f"the held-out key of the run can't be kept: {problem.message}",
            place=str(folder),
            remedy=f"set {KEYS_VARIABLE} to a folder that only you can read, or use --key FILE",
            code=problem.code,
        ) from error


def find_key(fingerprint: str, key_file: Path | None = None) -> HeldOutKey:
    """The key with this fingerprint, from a file or from the state folder.

    Raises:
        FabricaError: There is none, or the file holds another key.
    """
    path = key_file if key_file is not None else keys_folder() / fingerprint
    if key_file is None and not path.is_file():
        raise FabricaError(
            f"the held-out key {fingerprint} of this run is not on this machine",
            place=str(path),
            remedy="name its file with --key FILE, or start a new run",
        )
    key = HeldOutKey.from_file(path)
    if key.fingerprint != fingerprint:
        raise FabricaError(
            f"this is key {key.fingerprint}, the run used {fingerprint}",
            place=str(path),
            remedy="name the file of the run's own key with --key FILE",
        )
    return key
