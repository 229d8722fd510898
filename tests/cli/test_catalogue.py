"""`list`, `show`, `agents` and `report`: what people and scripts read."""

from __future__ import annotations

import json
import shutil

import pytest

from fabrica_bench.cli.commands.catalogue import first_sentence
from fabrica_bench.cli.console import Column, plain_table
from fabrica_bench.errors import ExitCode
from fabrica_bench.tasks import tasks_root

FIRST_SIX = {"ReLU-1PE", "SAXPY-1PE", "Prefix-Sum-1PE", "Single-Tile-Matvec", "Laplacian2D-Halo", "ParReduce-Sum"}


def test_list_names_every_task(cli):
    outcome = cli("list")
    assert outcome.code == 0
    assert all(name in outcome.out for name in FIRST_SIX)


def test_list_for_scripts_has_the_fields_that_filters_use(cli):
    tasks = cli("list", "--json").json()
    assert {task["name"] for task in tasks} >= FIRST_SIX
    for task in tasks:
        assert "full" in task["sets"]
        assert task["level"] in {1, 2, 3, 4}


def test_the_full_set_is_the_default(cli):
    assert cli("list", "--json").json() == cli("list", "--filter", "set=full", "--json").json()


def test_filters_narrow_and_commas_widen(cli):
    def names(*filters: str) -> set[str]:
        return {task["name"] for task in cli("list", "--json", "--filter", *filters).json()}

    assert names("name=ReLU-1PE,SAXPY-1PE") == {"ReLU-1PE", "SAXPY-1PE"}
    ones, twos = names("level=1"), names("level=2")
    assert ones
    assert twos
    assert not ones & twos
    assert names("level=1", "name=ReLU-1PE") == {"ReLU-1PE"}


def test_show_tells_inputs_outputs_sizes_and_files(cli):
    outcome = cli("show", "relu-1pe")
    assert outcome.code == 0
    for word in (
        "ReLU-1PE",
        "inputs:",
        "x f32",
        "outputs:",
        "sizes:",
        "small:",
        "relu-1pe",
        "a candidate for W1 holds: pe.csl",
    ):
        assert word in outcome.out


def test_show_for_scripts_is_the_whole_spec(cli):
    shown = cli("show", "ReLU-1PE", "--json").json()
    assert shown["spec"]["name"] == "ReLU-1PE"
    assert shown["spec"]["outputs"][0]["tolerance"]


def test_agents_says_which_are_controls(cli):
    agents = {agent["name"]: agent for agent in cli("agents", "--json").json()}
    assert agents["reference"]["control"]
    assert agents["null"]["control"]
    assert not agents["fabrica"]["control"]
    assert "control" in cli("agents").out


def test_report_writes_the_page_into_the_run_and_names_it(cli, sample_run):
    outcome = cli("report", sample_run)
    assert outcome.code == 0
    assert outcome.out.strip() == str(sample_run / "report.html")
    assert (sample_run / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_report_writes_where_it_is_told(cli, sample_run, tmp_path):
    target = tmp_path / "table.md"
    assert cli("report", sample_run, "--format", "md", "--out", target).code == 0
    assert "| Fast | 1 | valid |" in target.read_text(encoding="utf-8")


def test_report_for_scripts_prints_one_object(cli, sample_run):
    assert cli("report", sample_run, "--json").json()["total"] == 5
    assert not (sample_run / "report.html").exists()


def test_a_table_without_a_terminal_is_aligned_text():
    table = plain_table([Column("a"), Column("n", numeric=True)], [["x", "1"], ["two\nlines", "22"]])
    assert table.splitlines() == ["a           n", "---------  --", "x           1", "two lines  22"]


def test_json_output_is_ascii_so_that_no_locale_breaks_it(cli):
    out = cli("list", "--json").out
    assert out.isascii()
    json.loads(out)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Prefix sum: out[i] = x[0] + ... + x[i].", "Prefix sum: out[i] = x[0] + ... + x[i]"),
        ("First one. Second one.", "First one"),
        ("Ends in three dots ...", "Ends in three dots ..."),
        ("word " * 40, ("word " * 40)[:75].strip() + " ..."),
    ],
)
def test_the_list_shows_whole_sentences_and_cuts_at_words(text, sentence):
    assert first_sentence(text) == sentence


def test_a_tasks_folder_without_tasks_is_named(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(tmp_path))
    assert f"none in {tmp_path}" in cli("list").out


def test_a_task_named_by_its_folder_is_scored_with_an_agent(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(tasks_root()))  # restores what the command sets
    folder = tmp_path / "mine" / "relu-1pe"
    shutil.copytree(tasks_root() / "relu-1pe", folder)
    monkeypatch.chdir(tmp_path)
    outcome = cli("score", "--task", "mine/relu-1pe", "--agent", "null", "--json")
    assert outcome.code == ExitCode.FAILURE
    assert outcome.json()["verdict"]["predicate"] == "Correct"
