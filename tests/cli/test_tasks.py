"""`fabrica-bench tasks`: the group for those who write tasks."""

from __future__ import annotations

import shutil

import pytest
from helpers.cli_run import assert_one_clear_error

from fabrica_bench.errors import ExitCode
from fabrica_bench.tasks import tasks_root


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A tasks folder of the user's own with one task."""
    shutil.copytree(tasks_root() / "relu-1pe", tmp_path / "tasks" / "relu-1pe")
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(tmp_path / "tasks"))
    return tmp_path / "tasks" / "relu-1pe"


def test_list_and_show_are_those_of_the_top_level(cli):
    assert cli("tasks", "list", "--filter", "level=1").out == cli("list", "--filter", "level=1").out
    assert cli("tasks", "show", "relu-1pe", "--json").json() == cli("show", "relu-1pe", "--json").json()


def test_lint_says_what_is_wrong_where_and_what_to_do(cli, mine):
    assert cli("tasks", "lint").out == "1 task, 0 problems\n"
    (mine / "task.md").unlink()
    (mine.parent / "half-done").mkdir()
    outcome = cli("tasks", "lint")
    assert outcome.code == ExitCode.FAILURE
    assert "ReLU-1PE: is missing" in outcome.out
    assert "half-done: has no spec.yaml" in outcome.out
    assert f"   at: {mine / 'task.md'}" in outcome.out
    document = cli("tasks", "lint", "--filter", "name=ReLU-1PE", "--json").json()
    assert (document["ok"], document["tasks"], len(document["problems"])) == (False, 1, 1)


def test_lint_of_no_task_is_no_success(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(tmp_path))
    assert cli("tasks", "lint").code == ExitCode.FAILURE


def test_validate_scores_both_references(cli, mine):
    outcome = cli("tasks", "validate", "--arch", "wse3", "--json")
    assert outcome.code == ExitCode.OK, outcome
    rows = outcome.json()["rows"]
    assert [(row["reference"], row["verdict"]) for row in rows] == [("expert", "valid"), ("plain", "valid")]
    assert 0 < rows[0]["cycles"] < rows[1]["cycles"]


def test_validate_finds_a_reference_that_is_wrong(cli, mine):
    plain = mine / "csl" / "plain.csl"
    plain.write_text(plain.read_text(encoding="utf-8").replace("> 0.0", "> 1.0"), encoding="utf-8")
    outcome = cli("tasks", "validate", "--arch", "wse2", "--json")
    assert outcome.code == ExitCode.FAILURE
    assert [row["verdict"] for row in outcome.json()["rows"]] == ["valid", "fails Correct"]
    assert outcome.json()["rows"][1]["cycles"] is None


def test_measure_shows_cycles_and_names_unknown_values(cli, mine):
    outcome = cli("tasks", "measure", "--arch", "wse3", "--size", "small", "--variant", "expert", "--quick")
    assert outcome.code == ExitCode.OK
    assert "1 of 1 agree with their oracles" in outcome.out
    assert_one_clear_error(cli("tasks", "measure", "--size", "huge"), ExitCode.USAGE, "huge", "small")
    assert_one_clear_error(cli("tasks", "measure", "--variant", "best"), ExitCode.USAGE, "best", "expert")


def test_check_cuda_without_nvcc_says_so(cli, mine, monkeypatch):
    monkeypatch.setattr("fabrica_bench.tasks.cuda_check.find_nvcc", lambda: None)
    assert_one_clear_error(cli("tasks", "check-cuda", "--compile-only"), ExitCode.ENVIRONMENT, "nvcc")


def test_every_command_of_the_group_has_examples(cli):
    for command in ("list", "show", "lint", "validate", "check-cuda", "measure"):
        assert "Examples:" in cli("tasks", command, "--help").out


def test_similarity_shows_the_most_alike_pairs_and_fails_on_a_copy(cli, tmp_path):
    words = ("tasks", "similarity", "--against", str(tmp_path), "--filter", "name=Residual")
    assert_one_clear_error(cli(*words), ExitCode.BAD_INPUT, "holds no CSL program", str(tmp_path))
    source = (tasks_root() / "prefix-sum-1pe" / "csl" / "pe.csl").read_text(encoding="utf-8")
    (tmp_path / "other.csl").write_text(source, encoding="utf-8")
    outcome = cli(*words)
    assert outcome.code == ExitCode.OK, outcome
    assert outcome.out.endswith("of 1 task compared with 1 file: no copies\n")

    source = (tasks_root() / "residual" / "csl" / "pe.csl").read_text(encoding="utf-8")
    (tmp_path / "copy.csl").write_text(source.replace("largest", "most"), encoding="utf-8")
    outcome = cli(*words, "--json", "--top", "1")
    assert outcome.code == ExitCode.FAILURE
    assert (outcome.json()["ok"], outcome.json()["copies"], len(outcome.json()["pairs"])) == (False, 1, 1)
    pair = outcome.json()["pairs"][0]
    assert (pair["task"], pair["ours"], pair["theirs"], pair["copy"]) == ("Residual", "pe.csl", "copy.csl", True)
    assert cli(*words).out.endswith("compared with 2 files: 1 copies\n")
