"""Opening a run: checked before anything is made, created with its frozen manifest, or found and continued."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import editable_files
from fabrica_bench.models.selection import open_model, public_name
from fabrica_bench.runs.agent_process import agent_isolation, describe_agent
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.keys import find_key, fresh_key
from fabrica_bench.runs.manifest import Manifest, config_difference, task_difference
from fabrica_bench.runs.records import utc_now
from fabrica_bench.runs.store import MANIFEST_NAME, RunStore
from fabrica_bench.scoring.inputs import held_out_seeds
from fabrica_bench.scoring.staging import task_digest
from fabrica_bench.tasks import Task, load_task, tasks_root
from fabrica_bench.tasks.seeds import HeldOutKey, commitment
from fabrica_bench.tasks.selection import shipped_tasks_root
from fabrica_bench.toolchains import get_toolchain
from fabrica_bench.version import SUITE_VERSION, __version__

MIN_FREE_BYTES: Final = 64 << 20
"""Free space at the start, for records and for temporary files; less would end in a failure half-way."""

AGENT_PREFIX: Final = "FABRICA_AGENT_"
SECRET_WORDS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "AUTH")


def load_tasks(config: RunConfig) -> list[Task]:
    """The tasks of a configuration.

    Raises:
        UnknownNameError: One doesn't exist.
        FabricaError: One has a broken spec.
    """
    return [load_task(name, config.tasks_dir) for name in config.tasks]


def environment_versions() -> dict[str, str]:
    """Versions that a result may depend on."""
    return {
        "fabrica-bench": __version__,
        "suite": SUITE_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": f"{sys.platform} {platform.machine()}",
    }


def environment_facts() -> dict[str, str]:
    """What else was there; it decides no result. Nothing that names the machine or its user."""
    facts = {"kernel": platform.release(), "cores": str(os.cpu_count() or 1)}
    for name, value in sorted(os.environ.items()):
        if name.startswith(AGENT_PREFIX):
            secret = any(word in name for word in SECRET_WORDS)
            facts[name] = "(set)" if secret else value[:200]
    return facts


def tasks_place(config: RunConfig) -> str:
    """The tasks folder as a manifest names it: empty for the installation's own."""
    root = tasks_root(config.tasks_dir).resolve()
    try:
        return "" if root == shipped_tasks_root().resolve() else str(root)
    except FabricaError:
        return str(root)


def open_run(config: RunConfig, tasks: list[Task]) -> tuple[RunStore, HeldOutKey]:
    """The run's store, held for writing, and its key.

    Raises:
        FabricaError: The folder can't be used, or holds a run made under other conditions; the message has the
            difference.
    """
    check_config(config, tasks)
    return _open(config, tasks)



def check_config(config: RunConfig, tasks: list[Task]) -> None:
    """Refuse what can't work before anything is made.

    Raises:
        FabricaError: A task named twice, without this size or workflow, or without a reference for the target.
    """
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise FabricaError(f"task {name} is named twice", place="--filter", code=ExitCode.USAGE)
    for task in tasks:
        task.size(config.size)
        editable_files(task, config.workflow)
        if config.arch not in task.spec.bundle.archs:
            raise FabricaError(
                f"task {task.name} has no reference for {config.arch}",
                place=str(task.root / "spec.yaml"),
                remedy=f"use --arch {' or '.join(task.spec.bundle.archs)}",
                code=ExitCode.USAGE,
            )


def _open(config: RunConfig, tasks: list[Task]) -> tuple[RunStore, HeldOutKey]:
    if (config.out / MANIFEST_NAME).exists():
        store = RunStore.resume(config.out)
        try:
            require_same(store, config, tasks)
            return store, find_key(store.manifest.key_fingerprint, config.key_file)
        except BaseException:
            store.close()
            raise
    if config.out.exists() and not config.out.is_dir():
        raise FabricaError("not a folder", place=str(config.out), remedy="choose another one with --out")
    if config.out.is_dir() and any(config.out.iterdir()) and not (config.out / "lock").exists():
        raise FabricaError(
            "the folder is not empty and holds no run",
            place=str(config.out),
            remedy="choose another one with --out",
        )
    parent = _existing_parent(config.out)
    if not parent.is_dir():
        raise FabricaError(
            "the run folder can't be made: not a folder", place=str(parent), remedy="choose another place with --out DIR"
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise FabricaError(
            "the run folder can't be made: no permission to write here",
            place=str(parent),
            remedy="choose another place with --out DIR",
            code=ExitCode.ENVIRONMENT,
        )
    _require_space(parent)
    open_model(config.model, os.environ)  # a missing key or library is better found now than in every job
    agent = describe_agent(config.agent, config.options, public_name(config.model))
    toolchain = get_toolchain(config.toolchain)
    key = HeldOutKey.from_file(config.key_file) if config.key_file is not None else fresh_key()
    manifest = Manifest(
        run_id=f"{utc_now()[:19].replace(':', '').replace('-', '')}-{secrets.token_hex(3)}",
        created=utc_now(),
        config=config.frozen(),
        model=agent.model,
        control=agent.control,
        versions=environment_versions(),
        toolchain=toolchain.describe(),
        isolation={"agent": agent_isolation(), "toolchain": toolchain.isolation()},
        key_fingerprint=key.fingerprint,
        commitments={task.name: tuple(commitment(seed) for seed in held_out_seeds(task, key)) for task in tasks},
        tasks={task.name: task_digest(task) for task in tasks},
        tasks_dir=tasks_place(config),
        environment=environment_facts(),
    )
    return RunStore.create(config.out, manifest), key


def require_same(store: RunStore, config: RunConfig, tasks: list[Task]) -> None:
    """Refuse to mix results of different configurations, tasks or versions in one run.

    Raises:
        FabricaError: They differ; the message says in what.
    """
    old = store.manifest
    differences = config_difference({**_UNNAMED, **old.config}, config.frozen())
    differences += task_difference(old.tasks, {task.name: task_digest(task) for task in tasks})
    differences += config_difference(dict(old.toolchain), get_toolchain(config.toolchain).describe())
    differences += config_difference(dict(old.versions), environment_versions())
    if differences:
        raise FabricaError(
            f"the run in this folder was made under other conditions: {'; '.join(differences)}",
            place=str(store.run_dir),
            remedy="give the same options to continue it, or choose another --out",
            code=ExitCode.USAGE,
        )


_UNNAMED: Final = {"seed": 0, "shuffle": False, "options": {}, "study": "", "replay_of": None}
"""Values of fields that older manifests don't name."""


def _existing_parent(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _require_space(*folders: Path) -> None:
    for folder in [*folders, Path(tempfile.gettempdir())]:
        free = shutil.disk_usage(folder).free
        if free < MIN_FREE_BYTES:
            raise FabricaError(
                f"no space left to start: {free >> 20} MiB free, {MIN_FREE_BYTES >> 20} MiB needed",
                place=str(folder),
                remedy="free some space, choose another --out, or set TMPDIR",
                code=ExitCode.ENVIRONMENT,
            )


