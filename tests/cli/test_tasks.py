"""`fabrica-bench tasks`: the group for those who write tasks."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from helpers.cli_run import assert_one_clear_error

from fabrica_bench.errors import ExitCode
from fabrica_bench.integrity.task_lint import lint_task
from fabrica_bench.tasks import list_tasks, tasks_root
from fabrica_bench.tasks.skeleton import new_task


@pytest.fixture(autouse=True)
def own_folder(monkeypatch):
    """--tasks sets the variable for the whole process; here it ends with the test."""
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(tasks_root()))


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
    assert cli("tasks", "lint").out == "1 of 1 task: an output moves when any input does\n1 task, 0 problems\n"
    (mine / "task.md").unlink()
    (mine.parent / "half-done").mkdir()
    outcome = cli("tasks", "lint")
    assert outcome.code == ExitCode.FAILURE
    assert "ReLU-1PE: is missing" in outcome.out
    assert "half-done: has no spec.yaml" in outcome.out
    assert f"   at: {mine / 'task.md'}" in outcome.out
    document = cli("tasks", "lint", "--filter", "name=ReLU-1PE", "--json").json()
    assert (document["ok"], document["tasks"], len(document["problems"])) == (False, 1, 1)


def test_lint_counts_the_tasks_of_which_every_input_matters(cli, mine):
    oracle = mine / "oracle.py"
    text = oracle.read_text(encoding="utf-8")
    oracle.write_text(text.replace("np.maximum(", "1 + 0 * np.maximum("), encoding="utf-8")
    outcome = cli("tasks", "lint")
    assert outcome.code == ExitCode.FAILURE
    assert "0 of 1 task: an output moves when any input does\n" in outcome.out


def test_lint_wants_a_reason_for_cycles_far_from_the_published_ones(cli, mine):
    spec = mine / "spec.yaml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("published_cycles: 11787", "published_cycles: 5000"), encoding="utf-8")
    (problem,) = cli("tasks", "lint", "--json").json()["problems"]
    assert "published are 5000" in problem["message"]
    assert "reference_cycles.note" in problem["remedy"]
    spec.write_text(text.split("reference_cycles:")[0], encoding="utf-8")
    (problem,) = cli("tasks", "lint", "--json").json()["problems"]
    assert "none of ours are recorded" in problem["message"]


def test_lint_of_no_task_is_no_success(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(tmp_path))
    assert cli("tasks", "lint").code == ExitCode.FAILURE


@pytest.mark.parametrize(
    "words",
    [
        ["adequacy"],
        ["run", "--agent", "reference", "--out", "out"],
        ["tasks", "check-runner"],
        ["tasks", "cycles"],
        ["tasks", "lint"],
        ["tasks", "measure"],
        ["tasks", "similarity", "--against", "."],
        ["tasks", "validate"],
    ],
    ids=" ".join,
)
def test_work_on_no_task_is_refused(cli, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli(*words, "--filter", "level=4", "--filter", "set=w2")
    assert_one_clear_error(
        done, ExitCode.USAGE, "no task meets level=4 and set=w2", "level=4 chooses RowParallel-Softmax"
    )
    assert not list(tmp_path.iterdir())


def test_validate_scores_both_references(cli, mine):
    outcome = cli("tasks", "validate", "--arch", "wse3", "--json")
    assert outcome.code == ExitCode.OK, outcome
    rows = outcome.json()["rows"]
    assert [(row["reference"], row["verdict"]) for row in rows] == [("expert", "valid"), ("plain", "valid")]
    assert 0 < rows[0]["cycles"] < rows[1]["cycles"]
    assert len(rows[0]["samples"]) == len(rows[1]["samples"]) == 8


def test_validate_does_the_others_when_one_reference_is_wrong_and_continues_where_it_stopped(cli, mine):
    results = mine.parent.parent / "results.jsonl"
    plain = mine / "csl" / "plain.csl"
    right = plain.read_text(encoding="utf-8")
    plain.write_text(right.replace("> 0.0", "> 1.0"), encoding="utf-8")
    words = ("tasks", "validate", "--all", "--arch", "wse2", "--jobs", "2", "--results", results)
    outcome = cli(*words)
    assert outcome.code == ExitCode.FAILURE
    assert "wse2: 0 of 1 task valid, at 2 sizes in all" in outcome.out
    assert "2 of 4 references valid on 8 inputs each" in outcome.out
    assert "plain fails Correct" in outcome.err
    plain.write_text(right, encoding="utf-8")
    outcome = cli(*words)
    assert outcome.code == ExitCode.OK, outcome
    assert "known from" not in outcome.err
    with results.open("a", encoding="utf-8") as file:
        file.write('{"key": "cut sh')
    outcome = cli(*words, "--json")
    assert outcome.err == f"2 of 2 are known from {results}\n"
    assert {(row["size"], row["reference"]) for row in outcome.json()["rows"]} == {
        (size, reference) for size in ("small", "medium") for reference in ("expert", "plain")
    }
    assert results.read_text(encoding="utf-8").endswith("}\n")
    results.write_text("{}\n", encoding="utf-8")
    assert_one_clear_error(cli(*words), ExitCode.BAD_INPUT, f"{results}:1")


def test_validate_records_the_cycles_of_its_verdicts(cli, mine):
    spec = mine / "spec.yaml"
    before = spec.read_text(encoding="utf-8")
    head, tail = before.split("reference_cycles:")
    recorded = re.search(r"wse3:\n\s+small: (\{expert: \d+, plain: \d+, plain_as_published: \d+\})", tail)
    assert recorded is not None
    spec.write_text(head, encoding="utf-8")
    outcome = cli("tasks", "validate", "--arch", "wse3", "--size", "small", "--record")
    assert outcome.code == ExitCode.OK, outcome
    assert "cycles written into the specs of 1 task" in outcome.out
    assert f"small: {recorded[1]}" in spec.read_text(encoding="utf-8")


def test_validate_takes_the_tasks_that_have_a_size(cli, mine):
    assert_one_clear_error(cli("tasks", "validate", "--size", "large"), ExitCode.USAGE, "large", "small")


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
    for command in ("list", "show", "lint", "validate", "check-cuda", "measure", "new", "sync", "schema", "cycles"):
        assert "Examples:" in cli("tasks", command, "--help").out


def test_a_new_task_is_valid_at_once(cli, tmp_path):
    folder = tmp_path / "mine"
    made = cli("tasks", "new", "My-Sum-4", "--tasks", folder, "--like", "ParReduce-Sum")
    assert made.code == ExitCode.OK, made
    assert str(folder / "my-sum-4") in made.out
    outcome = cli("tasks", "lint", "--tasks", folder)
    assert outcome.code == ExitCode.OK, outcome
    assert cli("tasks", "validate", "--tasks", folder, "--arch", "wse3").code == ExitCode.OK
    document = cli("tasks", "show", "my-sum-4", "--tasks", folder, "--json").json()["spec"]
    assert (document["name"], document["origin"], document["sets"], document["published"]) == (
        "My-Sum-4",
        "user",
        [],
        None,
    )
    assert all(size["published_cycles"] is None for size in document["sizes"])
    assert "ParReduce-Sum" not in (folder / "my-sum-4" / "task.md").read_text(encoding="utf-8")


def test_a_new_task_overwrites_nothing_and_needs_a_name(cli, tmp_path):
    assert cli("tasks", "new", "Mine", "--tasks", tmp_path).code == ExitCode.OK
    assert_one_clear_error(cli("tasks", "new", "mine", "--tasks", tmp_path), ExitCode.BAD_INPUT, "already")
    assert_one_clear_error(cli("tasks", "new", "a b", "--tasks", tmp_path), ExitCode.USAGE, "a b", "My-Task-1PE")
    wrong = cli("tasks", "new", "Other", "--tasks", tmp_path, "--like", "relu-2pe")
    assert_one_clear_error(wrong, ExitCode.USAGE, "relu-2pe")
    assert not (tmp_path / "other").exists()
    assert_one_clear_error(cli("tasks", "new", "ReLU-1PE", "--tasks", tmp_path), ExitCode.USAGE, "shipped")


def test_a_task_of_ones_own_is_seen_by_every_command_that_takes_a_task(cli, tmp_path):
    """Each by --tasks; the environment variable is not needed."""
    assert cli("tasks", "new", "Mine", "--tasks", tmp_path).code == ExitCode.OK
    own = ("--tasks", tmp_path, "--filter", "name=Mine")
    assert cli("tasks", "new", "Mine-Too", "--tasks", tmp_path, "--like", "mine").code == ExitCode.OK
    assert "Mine" in cli("list", *own).out
    assert cli("adequacy", "--tier", "results", *own).code == ExitCode.OK
    assert "Mine" in cli("tasks", "cycles", *own).out
    candidate = tmp_path / "candidate"
    candidate.mkdir()
    (candidate / "pe.csl").write_text((tmp_path / "mine" / "csl" / "pe.csl").read_text(encoding="utf-8"))
    outcome = cli("score", "--task", "Mine", "--candidate", candidate, "--tasks", tmp_path)
    assert "Contract" in outcome.out  # judged, and found to be the reference
    assert outcome.code == ExitCode.FAILURE


def test_lint_does_not_call_inputs_checked_where_the_oracle_fails(cli, tmp_path):
    task = new_task("Mine", tmp_path, "SAXPY-1PE")
    oracle = task.root / "oracle.py"
    oracle.write_text(oracle.read_text(encoding="utf-8").replace("def expected(", "def unexpected("), encoding="utf-8")
    assert "0 of 1 task: an output moves" in cli("tasks", "lint", "--tasks", tmp_path).out


@pytest.mark.parametrize("like", [task.name for task in list_tasks()])
def test_every_task_can_be_the_start_of_a_new_one(like, tmp_path):
    made = new_task("My-Own", tmp_path, like)
    assert lint_task(made) == []
    assert made.spec.reference_cycles.cycles == {}


def test_the_published_schema_is_that_of_the_specs(cli, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "task-spec.schema.json").read_text(encoding="utf-8")
    assert page == cli("tasks", "schema").out, (
        "write it with `fabrica-bench tasks schema --out docs/task-spec.schema.json`"
    )
    assert cli("tasks", "schema", "--out", tmp_path / "s.json").out == ""
    assert (tmp_path / "s.json").read_text(encoding="utf-8") == page
    schema = json.loads(page)
    for task in list_tasks():
        assert set(schema["required"]) <= set(yaml.safe_load((task.root / "spec.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("words", [["adequacy"], ["tasks", "similarity", "--against", "."]])
def test_a_page_that_cannot_be_written_is_found_before_the_work(cli, words, tmp_path, monkeypatch):
    monkeypatch.setattr("fabrica_bench.tasks.require_tasks", lambda filters: pytest.fail("work has begun"))
    for place in (tmp_path, tmp_path / "nowhere" / "page.md"):
        assert_one_clear_error(cli(*words, "--out", place), ExitCode.BAD_INPUT, str(place.parent))


def test_similarity_may_name_a_folder_that_is_no_utf8(cli, tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    shutil.copy(tasks_root() / "prefix-sum-1pe" / "csl" / "pe.csl", folder)
    words = (
        "tasks",
        "similarity",
        "--filter",
        "name=Residual",
        "--against",
        str(folder),
        "--out",
        str(tmp_path / "p.md"),
    )
    assert cli(*words).code == ExitCode.OK
    assert "## caf?" in (tmp_path / "p.md").read_text(encoding="utf-8")


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
    assert cli(*words).out.endswith("compared with 2 files: 1 copy\n")
