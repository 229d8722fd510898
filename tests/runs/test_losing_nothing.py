"""Processes are killed at random places; in the end every job has one verdict, and no evaluation was computed twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run, finished_jobs
from fabrica_bench.runs.records import JobStarted, Measured, SessionStarted, VerdictRecord
from fabrica_bench.runs.store import RunStore

Config = Callable[..., RunConfig]

CODE = """
import pathlib, sys
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
execute_run(RunConfig.model_validate_json(pathlib.Path(sys.argv[1]).read_text()))
"""


def run_under_fire(config: RunConfig, folder: Path, *, seed: int, kills: int, pause: tuple[float, float]) -> None:
    """Run a configuration in another process and kill, by turns, that process or one of its jobs."""
    path = folder / "config.json"
    path.write_text(config.model_dump_json(), encoding="utf-8")
    dice = random.Random(seed)
    wanted = len(config.order())
    while True:
        child = subprocess.Popen(
            [sys.executable, "-c", CODE, str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            while kills > 0 and child.poll() is None:
                time.sleep(dice.uniform(*pause))
                jobs = _children(child.pid)
                victim = child.pid if not jobs or dice.random() < 0.4 else dice.choice(jobs)
                _kill(victim)
                kills -= 1
                if victim == child.pid:
                    break
            _, stderr = child.communicate(timeout=3600)
        finally:
            _kill(child.pid)
        if child.returncode == 0 and len(finished_jobs(RunStore.open(config.out).records())) == wanted:
            return
        # A run whose agent is killed before it could say what it is does not begin; the same call begins it again.
        unborn = b"its process ended with signal 9" in stderr and b"describe_agent" in stderr
        assert child.returncode in (0, -signal.SIGKILL) or unborn, stderr.decode(errors="replace")[-2000:]


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int((entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]) == parent:
                    found.append(int(entry.name))
            except OSError:
                continue
    return sorted(found)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def check_nothing_lost_nothing_twice(config: RunConfig) -> None:
    store = RunStore.open(config.out)
    records = store.records()
    good = [r for r in records if isinstance(r, VerdictRecord) and r.verdict.kind != "not_scored"]
    counts = Counter((r.task, r.attempt) for r in good)
    assert counts == Counter(config.order())  # each job once: none lost, none twice
    keys = Counter(r.key for r in records if isinstance(r, Measured))
    assert set(keys.values()) == {1}
    # A job that was finished in one session is not begun in a later one.
    done: set[tuple[str, int]] = set()
    sessions: list[set[tuple[str, int]]] = []
    for record in records:
        if isinstance(record, SessionStarted):
            sessions.append(set(done))
        elif isinstance(record, VerdictRecord) and record.verdict.kind != "not_scored":
            done.add((record.task, record.attempt))
        elif isinstance(record, JobStarted):
            assert (record.task, record.attempt) not in sessions[-1]
    assert len(store.index().execute("select * from records where record = 'verdict'").fetchall()) >= len(good)


def test_a_few_jobs_under_fire(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(repeat=6, jobs=2)
    run_under_fire(settings, tmp_path, seed=1, kills=4, pause=(0.4, 2.5))
    check_nothing_lost_nothing_twice(settings)


@pytest.mark.slow
def test_two_hundred_jobs_under_fire(config: Config, tmp_path: Path) -> None:
    settings = config(repeat=200, jobs=4)
    run_under_fire(settings, tmp_path, seed=2, kills=60, pause=(0.5, 4.0))
    check_nothing_lost_nothing_twice(settings)


def test_a_torn_line_under_a_run_is_owed_again_and_nothing_else(config: Config) -> None:
    settings = config(repeat=3, jobs=1)
    execute_run(settings)
    path = settings.out / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if json.loads(line)["record"] == "verdict")
    path.write_bytes(b"".join(lines[:last]) + lines[last][: len(lines[last]) // 2])
    summary = execute_run(settings)
    assert summary.valid == 3
    check_nothing_lost_nothing_twice(settings)
