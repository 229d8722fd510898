"""Every bad input gives one message that names the thing and the remedy, a code that isn't 0, and no traceback."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from helpers.cli_run import assert_one_clear_error
from helpers.privileges import unprivileged

from fabrica_bench.errors import ExitCode
from fabrica_bench.tasks import load_task, tasks_root

TASK = "ReLU-1PE"


@pytest.fixture
def candidate(tmp_path) -> Path:
    """A folder with a well-formed candidate: the reference."""
    folder = tmp_path / "candidate"
    folder.mkdir()
    shutil.copy(load_task(TASK).bundle_dir / "pe.csl", folder / "pe.csl")
    return folder


def test_an_unknown_task_names_the_near_one(cli):
    for words in (["show", "RelU-1P"], ["score", "--task", "RelU-1P", "--candidate", "."]):
        assert_one_clear_error(cli(*words), ExitCode.USAGE, "RelU-1P", "ReLU-1PE")


def test_an_unknown_agent_names_the_near_one(cli):
    assert_one_clear_error(cli("run", "--agent", "fabrika"), ExitCode.USAGE, "fabrika", "fabrica")


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (["--filter", "level"], ["level"]),
        (["--filter", "lvl=1"], ["lvl", "level"]),
        (["--filter", "set=cor"], ["cor", "core"]),
        (["--filter", "name=Nothing"], ["Nothing"]),
        (["--arch", "wse9"], ["wse9", "wse3"]),
        (["--toolchain", "embeded"], ["embeded", "embedded"]),
        (["--workflow", "W9"], ["W9", "W1"]),
        (["--size", "smal"], ["smal", "small"]),
        (["--max-cost", "nan"], ["--max-cost", "nan"]),
        (["--max-cost", "inf"], ["--max-cost", "inf"]),
        (["--max-cost", "-1"], ["--max-cost", "-1"]),
        (["--rpm", "inf"], ["--rpm", "inf"]),
        (["--seed", str(1 << 63)], ["--seed", "9223372036854775808"]),
        (["--budget", "wall"], ["wall", "evaluations=40"]),
        (["--agent", "fabrica", "--option", "moed=C"], ["moed", "mode"]),
        (["--budget", "wall_s=inf"], ["--budget", "wall_s", "inf"]),
        (["--budget", "cost_usd=nan"], ["--budget", "cost_usd", "nan"]),
    ],
)
def test_an_unknown_value_names_the_known_ones(cli, tmp_path, words, mentions):
    outcome = cli("run", "--agent", "null", "--out", tmp_path / "run", *words)
    assert_one_clear_error(outcome, ExitCode.USAGE, *mentions)


def test_score_wants_exactly_one_of_candidate_and_agent(cli, candidate):
    assert_one_clear_error(cli("score", "--task", TASK), ExitCode.USAGE, "--candidate")
    outcome = cli("score", "--task", TASK, "--candidate", candidate, "--agent", "null")
    assert_one_clear_error(outcome, ExitCode.USAGE, "--agent")


def test_a_candidate_folder_that_does_not_exist(cli, tmp_path):
    outcome = cli("score", "--task", TASK, "--candidate", tmp_path / "nowhere")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, str(tmp_path / "nowhere"))


def test_a_candidate_that_is_a_file(cli, candidate):
    outcome = cli("score", "--task", TASK, "--candidate", candidate / "pe.csl")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "pe.csl")


def test_a_missing_file(cli, candidate):
    (candidate / "pe.csl").unlink()
    assert_one_clear_error(cli("score", "--task", TASK, "--candidate", candidate), ExitCode.BAD_INPUT, "pe.csl")


def test_an_extra_file(cli, candidate):
    (candidate / "notes.txt").write_text("x", encoding="utf-8")
    assert_one_clear_error(cli("score", "--task", TASK, "--candidate", candidate), ExitCode.BAD_INPUT, "notes.txt")


@pytest.mark.parametrize("data", [b"\x00\x01\x02", b"fn main() void { // \xff\xfe\n}", "naïve".encode("latin-1")])
def test_a_binary_file_or_one_that_is_not_utf8(cli, candidate, data):
    (candidate / "pe.csl").write_bytes(data)
    outcome = cli("score", "--task", TASK, "--candidate", candidate)
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "pe.csl", "UTF-8")


def test_a_link_out_of_the_folder(cli, candidate):
    (candidate / "pe.csl").unlink()
    (candidate / "pe.csl").symlink_to("/etc/passwd")
    assert_one_clear_error(cli("score", "--task", TASK, "--candidate", candidate), ExitCode.BAD_INPUT, "pe.csl", "link")


def test_a_named_pipe_does_not_make_it_wait(cli, candidate):
    (candidate / "pe.csl").unlink()
    os.mkfifo(candidate / "pe.csl")
    assert_one_clear_error(cli("score", "--task", TASK, "--candidate", candidate), ExitCode.BAD_INPUT, "pe.csl")


@pytest.mark.parametrize("name", ["a\nb.csl", "..\\x.csl", "pe.csl "])
def test_a_file_name_that_escapes_or_deceives(cli, candidate, name):
    (candidate / name).write_text("x", encoding="utf-8")
    assert_one_clear_error(cli("score", "--task", TASK, "--candidate", candidate), ExitCode.BAD_INPUT)


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("name: [unclosed", "spec.yaml"),
        ("just text", "spec.yaml"),
        ("schema_version: 1\nname: ReLU-1PE\n", "task_version"),
        ("", "spec.yaml"),
        ("a: &a [*a]", "spec.yaml"),
        ("!!python/object/apply:os.system ['true']", "spec.yaml"),
    ],
)
def test_a_malformed_spec_names_its_file(cli, tmp_path, monkeypatch, text, mention):
    root = tmp_path / "tasks"
    shutil.copytree(tasks_root() / "relu-1pe", root / "relu-1pe")
    (root / "relu-1pe" / "spec.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(root))
    assert_one_clear_error(cli("list"), ExitCode.BAD_INPUT, "spec.yaml", mention)


def test_a_spec_that_is_not_utf8_names_its_file(cli, tmp_path, monkeypatch):
    root = tmp_path / "tasks"
    shutil.copytree(tasks_root() / "relu-1pe", root / "relu-1pe")
    (root / "relu-1pe" / "spec.yaml").write_bytes(b"name: \xff\xfe")
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(root))
    assert_one_clear_error(cli("show", "ReLU-1PE"), ExitCode.BAD_INPUT, "spec.yaml")


@pytest.mark.parametrize("command", ["report", "verify"])
def test_a_folder_that_is_no_run(cli, tmp_path, command):
    assert_one_clear_error(cli(command, tmp_path), ExitCode.BAD_INPUT, str(tmp_path), "manifest.json")
    assert_one_clear_error(cli(command, tmp_path / "none"), ExitCode.BAD_INPUT, str(tmp_path / "none"))


def test_a_damaged_record_names_its_line(cli, sample_run):
    path = sample_run / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    assert_one_clear_error(cli("report", sample_run), ExitCode.BAD_INPUT, "records.jsonl:3")


def test_an_output_folder_that_is_a_file(cli, tmp_path):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    outcome = cli("run", "--agent", "null", "--filter", f"name={TASK}", "--out", tmp_path / "taken" / "run")
    assert outcome.code != 0
    assert_one_clear_error(outcome, outcome.code, "taken")


def test_a_full_disk_while_the_report_is_written_keeps_the_run(cli, sample_run, monkeypatch):
    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    before = (sample_run / "records.jsonl").read_bytes()
    monkeypatch.setattr(Path, "write_bytes", full)
    assert_one_clear_error(cli("report", sample_run), ExitCode.ENVIRONMENT, "no space left", "report.html")
    assert (sample_run / "records.jsonl").read_bytes() == before


def test_a_key_file_that_is_missing(cli, candidate, tmp_path):
    outcome = cli("score", "--task", TASK, "--candidate", candidate, "--key", tmp_path / "none.key")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "none.key")


def test_a_run_folder_that_is_a_file_or_cannot_be_made(cli, tmp_path):
    (tmp_path / "taken").write_text("x", encoding="utf-8")
    outcome = cli("run", "--agent", "null", "--out", tmp_path / "taken")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "taken", "not a folder", "--out")
    outcome = cli("run", "--agent", "null", "--out", tmp_path / "taken" / "run")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "taken", "not a folder", "--out")
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "x"


def test_a_run_folder_without_permission_names_the_option(cli, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    outcome = unprivileged(lambda: cli("run", "--agent", "null", "--out", tmp_path / "locked" / "run"))
    assert_one_clear_error(outcome, ExitCode.ENVIRONMENT, "locked", "--out")


def test_an_option_without_its_value_names_the_commands_help(cli):
    assert_one_clear_error(cli("list", "--filter"), ExitCode.USAGE, "--filter", "`fabrica-bench list --help`")
    assert_one_clear_error(cli("csl", "costs", "--arch"), ExitCode.USAGE, "`fabrica-bench csl costs --help`")


def test_a_report_into_a_pipe_leaves_the_pipe(cli, sample_run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cli("report", sample_run, "--format", "csv", "--out", pipe).code == ExitCode.OK
        assert os.read(reader, 20).startswith(b"task,level")
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_report_through_a_link_leaves_the_link(cli, sample_run, tmp_path):
    (tmp_path / "link.md").symlink_to(tmp_path / "real.md")
    assert cli("report", sample_run, "--format", "md", "--out", tmp_path / "link.md").code == ExitCode.OK
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text(encoding="utf-8").startswith("## ")


def test_a_report_below_a_file_is_one_clear_error(cli, sample_run, tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    outcome = cli("report", sample_run, "--out", tmp_path / "file" / "page.html")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "page.html")


@pytest.mark.parametrize(
    ("name", "mention"),
    [("oracle.py", "oracle.py"), ("csl/run.py", "run.py"), ("csl/pe.csl", "pe.csl")],
)
def test_a_task_with_a_missing_file_names_it(cli, tmp_path, monkeypatch, name, mention):
    root = tmp_path / "tasks"
    shutil.copytree(tasks_root() / "relu-1pe", root / "relu-1pe")
    (root / "relu-1pe" / name).unlink()
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(root))
    outcome = cli("run", "--agent", "null", "--out", tmp_path / "run")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, mention, "missing" if name != "oracle.py" else "oracle.py")


def test_a_key_that_is_none_says_how_to_make_one(cli, tmp_path):
    (tmp_path / "my.key").write_text("short", encoding="utf-8")
    outcome = cli("run", "--agent", "null", "--key", tmp_path / "my.key", "--out", tmp_path / "run")
    assert_one_clear_error(outcome, ExitCode.BAD_INPUT, "my.key", "secrets.token_hex(32)")
