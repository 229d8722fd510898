"""The frame of the command line: help, usage errors, internal errors, interruption, full disks."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from fabrica_bench.cli.app import spread_filters
from fabrica_bench.errors import ExitCode
from fabrica_bench.report import load_report
from fabrica_bench.report.tables import render_csv
from fabrica_bench.version import __version__

COMMANDS = ["list", "show", "agents", "run", "score", "report", "verify", "doctor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_examples(cli, command):
    outcome = cli(command, "--help")
    assert outcome.code == ExitCode.OK
    assert "Examples:" in outcome.out
    assert f"fabrica-bench {command}" in outcome.out


def test_help_lists_every_command(cli):
    outcome = cli("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in outcome.out


def test_the_version_is_the_packages(cli):
    outcome = cli("--version")
    assert outcome.code == ExitCode.OK
    assert outcome.out.strip() == f"fabrica-bench {__version__}"


def test_no_argument_shows_the_help(cli):
    outcome = cli()
    assert outcome.code == ExitCode.USAGE
    assert "Usage: fabrica-bench" in outcome.out + outcome.err


def test_unknown_command_names_the_near_one(cli):
    outcome = cli("lsit")
    assert outcome.code == ExitCode.USAGE
    assert "lsit" in outcome.err
    assert "list" in outcome.err


def test_unknown_option_names_the_near_one_and_the_help(cli):
    outcome = cli("run", "--agnet", "null")
    assert outcome.code == ExitCode.USAGE
    assert "--agnet" in outcome.err
    assert "--agent" in outcome.err
    assert "fabrica-bench run --help" in outcome.err


def test_a_missing_option_value_is_a_usage_error(cli):
    assert cli("run", "--agent").code == ExitCode.USAGE


def test_a_number_that_is_none_is_a_usage_error(cli):
    outcome = cli("run", "--agent", "null", "--jobs", "many")
    assert outcome.code == ExitCode.USAGE
    assert "--jobs" in outcome.err


def test_ctrl_c_ends_with_130_and_says_that_work_is_kept(cli, monkeypatch):
    monkeypatch.setattr("fabrica_bench.plugins.load_plugins", _raiser(KeyboardInterrupt()))
    outcome = cli("agents")
    assert outcome.code == ExitCode.INTERRUPTED
    assert "kept" in outcome.err


def test_a_full_disk_is_named_as_one(cli, monkeypatch):
    monkeypatch.setattr("fabrica_bench.plugins.load_plugins", _raiser(OSError(errno.ENOSPC, "No space", "/some/file")))
    outcome = cli("agents")
    assert outcome.code == ExitCode.ENVIRONMENT
    assert "no space left" in outcome.err
    assert "/some/file" in outcome.err


def test_a_bug_is_reported_with_a_file_that_has_the_traceback(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("fabrica_bench.plugins.load_plugins", _raiser(ZeroDivisionError("what")))
    outcome = cli("agents")
    assert outcome.code == ExitCode.HARNESS
    assert "internal error: ZeroDivisionError: what" in outcome.err
    (log,) = tmp_path.glob("fabrica-bench-*.log")
    assert str(log) in outcome.err
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_filter_words_may_follow_one_option():
    words = ["--filter", "set=core", "level=1", "--jobs", "2", "x=y"]
    assert spread_filters(words) == ["--filter", "set=core", "--filter", "level=1", "--jobs", "2", "x=y"]


def test_filter_words_may_follow_the_equals_form():
    assert spread_filters(["--filter=set=core", "level=1"]) == ["--filter=set=core", "--filter", "level=1"]


def test_a_reader_that_goes_away_is_no_crash():
    done = subprocess.run(
        f"{sys.executable} -m fabrica_bench list --json | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        encoding="utf-8",
        cwd=Path(__file__).parents[2],
        timeout=60,
    )
    assert "Traceback" not in done.stderr


def test_the_package_and_the_help_import_nothing_heavy():
    """A user who asks for help waits for no numeric library, no compiler and no renderer."""
    program = (
        "import sys\n"
        "import fabrica_bench\n"
        "from fabrica_bench.cli.main import main\n"
        "main(['run', '--help'])\n"
        "heavy = {'numpy', 'jinja2', 'yaml', 'clang', 'sqlite3', 'fabrica_bench.csl', 'fabrica_bench.wse'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert "HEAVY []" in done.stdout


def test_output_survives_a_locale_that_can_show_ascii_only():
    done = subprocess.run(
        [sys.executable, "-m", "fabrica_bench", "list"],
        capture_output=True,
        encoding="ascii",
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONUTF8": "0",
            "LC_ALL": "C",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONPATH": _path(),
        },
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def _path() -> str:
    root = Path(__file__).parents[2]
    return f"{root}:{root / 'agents'}"


def _raiser(error: BaseException):
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


def test_a_report_into_a_pipe_is_the_report_and_nothing_else(sample_run):
    words = [
        sys.executable,
        "-m",
        "fabrica_bench",
        "report",
        str(sample_run),
        "--format",
        "csv",
        "--out",
        "/dev/stdout",
    ]
    piped = subprocess.run(words, capture_output=True, text=True, check=True)
    assert piped.stdout == render_csv(load_report(sample_run))
