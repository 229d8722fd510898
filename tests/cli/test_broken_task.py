"""One folder with a broken spec takes nothing from the others: it is named, the work goes on, the exit code tells."""

from __future__ import annotations

import json
import shutil

import pytest
from helpers.cli_run import assert_one_clear_error
from helpers.double_it import FIXTURE_TASKS

from fabrica_bench.errors import ExitCode


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two copies of the fixture task, one with a spec that isn't one."""
    monkeypatch.setenv("FABRICA_BENCH_TEST_DOUBLES", "1")
    monkeypatch.setenv("FABRICA_BENCH_TASKS", "")  # --tasks sets it; the test must not leave it behind
    shutil.copytree(FIXTURE_TASKS, tmp_path / "tasks")
    shutil.copytree(FIXTURE_TASKS / "double-it", tmp_path / "tasks" / "broken-it")
    (tmp_path / "tasks" / "broken-it" / "spec.yaml").write_text("name: [\n", encoding="utf-8")
    return tmp_path / "tasks"


def test_list_shows_the_others(cli, folder):
    outcome = cli("list", "--tasks", folder, "--json")
    assert outcome.code == ExitCode.BAD_INPUT
    assert [item["name"] for item in json.loads(outcome.out)] == ["Double-It"]
    assert "broken-it/spec.yaml" in outcome.err


def test_run_scores_the_others_and_verify_finds_the_same_tasks(cli, folder, tmp_path, monkeypatch):
    words = ("--agent", "reference", "--toolchain", "scripted", "--out", tmp_path / "run", "--json")
    outcome = cli("run", "--tasks", folder, *words)
    assert outcome.code == ExitCode.BAD_INPUT
    body = json.loads(outcome.out)
    assert (body["valid"], body["total"], body["broken_tasks"]) == (1, 1, 1)
    assert "broken-it/spec.yaml" in outcome.err
    monkeypatch.setenv("FABRICA_BENCH_TASKS", "")
    assert cli("verify", tmp_path / "run").code == 0
    assert cli("verify", tmp_path / "run", "--tasks", folder, "--sample", 1).code == 0


def test_where_no_task_can_be_read_the_broken_one_is_the_answer(cli, folder, tmp_path):
    shutil.rmtree(folder / "double-it")
    outcome = cli("run", "--agent", "null", "--tasks", folder, "--out", tmp_path / "run")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "broken-it/spec.yaml")
    assert "there is no task" not in outcome.err
