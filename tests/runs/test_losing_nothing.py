"""Processes are killed at random places; in the end every job has one verdict, and no evaluation was computed twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.under_fire import account, run_under_fire

from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.runs.store import RunStore

Config = Callable[..., RunConfig]


def check_nothing_lost_nothing_twice(config: RunConfig) -> None:
    found = account(config)
    assert (found.verdicts, found.lost, found.twice) == (found.jobs, 0, 0)
    index = RunStore.open(config.out).index()
    assert len(index.execute("select * from records where record = 'verdict'").fetchall()) >= found.verdicts


def test_a_few_jobs_under_fire(config: Config, tmp_path: Path) -> None:
    settings = config(repeat=6, jobs=2)
    fire = run_under_fire(settings, tmp_path, seed=1, kills=4, pause=(0.4, 2.5))
    assert fire.kills >= 1
    check_nothing_lost_nothing_twice(settings)


@pytest.mark.slow
def test_two_hundred_jobs_under_two_hundred_kills(config: Config, tmp_path: Path) -> None:
    settings = config(repeat=200, jobs=4)
    fire = run_under_fire(settings, tmp_path, seed=2, kills=200, pause=(0.3, 2.0))
    assert fire.kills == 200
    assert fire.commands > 1
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


def test_the_account_finds_what_is_lost_and_what_was_done_twice(config: Config) -> None:
    settings = config(repeat=2, jobs=1)
    execute_run(settings)
    path = settings.out / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    verdicts = [i for i, line in enumerate(lines) if json.loads(line)["record"] == "verdict"]
    path.write_bytes(b"".join(line for i, line in enumerate(lines) if i != verdicts[0]))
    assert (account(settings).lost, account(settings).twice) == (1, 0)
    path.write_bytes(b"".join([*lines, lines[verdicts[0]]]))
    assert (account(settings).lost, account(settings).twice) == (0, 1)
