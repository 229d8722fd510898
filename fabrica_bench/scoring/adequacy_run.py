"""Measuring the adequacy of many tasks: several at a time, and kept on disk so that it can be continued."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from fabrica_bench.errors import from_os_error
from fabrica_bench.json_text import parse_json
from fabrica_bench.scoring.program_adequacy import ProgramAdequacy, Tier, measure_programs, state_key
from fabrica_bench.tasks import Task, load_task
from fabrica_bench.tasks.spec import Arch


def measure_tasks(
    tasks: Sequence[Task],
    tier: Tier,
    *,
    size: str,
    arch: Arch,
    jobs: int,
    state: Path | None,
    report: Callable[[ProgramAdequacy, int], None],
) -> list[ProgramAdequacy]:
    """Measure every task, in processes of their own; what `state` has already is not measured again.

    Args:
        tasks: Tasks, each with the size.
        tier: Which mutants.
        size, arch: What is built and run.
        jobs: Processes at a time.
        state: File that results are added to, a line of JSON each; None keeps nothing.
        report: Called with each result, and how many are still missing.

    Returns:
        Results in the order of the tasks.

    Raises:
        FabricaError: See `measure_programs`, or the file can't be read or written.
    """
    keys = {task.name: state_key(task, size, arch, tier) for task in tasks}
    kept = _read(state)
    found = {name: kept[key] for name, key in keys.items() if key in kept}
    missing = [task for task in tasks if task.name not in found]
    left = len(missing)
    # Spawned: each measures in forks of itself, which needs a process without threads.
    with ProcessPoolExecutor(max(1, min(jobs, left)), multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(_measure, str(task.root), size, arch, tier): task for task in missing}
        try:
            for future in as_completed(running):
                name = running[future].name
                found[name] = future.result()
                left -= 1
                _add(state, keys[name], found[name])
                report(found[name], left)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[task.name] for task in tasks]


def _measure(root: str, size: str, arch: Arch, tier: Tier) -> ProgramAdequacy:
    return measure_programs(load_task(root), size, arch, tier=tier)


def _read(state: Path | None) -> dict[str, ProgramAdequacy]:
    """What was kept, by key; a line that was cut off is left out."""
    if state is None or not state.exists():
        return {}
    found: dict[str, ProgramAdequacy] = {}
    try:
        lines = state.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise from_os_error(error) from error
    for line in lines:
        try:
            data = parse_json(line)
            found[str(data["key"])] = ProgramAdequacy.from_json(data)
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _add(state: Path | None, key: str, result: ProgramAdequacy) -> None:
    if state is None:
        return
    try:
        with state.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"key": key, **result.to_json()}) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise from_os_error(error) from error
