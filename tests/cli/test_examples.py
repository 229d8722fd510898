"""The CSL program that newcomers begin with: formatted, without warnings, and run by the commands of the README."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from fabrica_bench.errors import ExitCode

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(tmp_path, monkeypatch):
    folder = tmp_path / "two-pes"
    shutil.copytree(ROOT / "examples" / "two-pes", folder)
    monkeypatch.chdir(folder)
    return folder


def test_the_example_program_runs_by_its_own_script(cli, program):
    outcome = cli("csl", "run", ".")
    assert outcome.code == ExitCode.OK, outcome
    assert "pass_on" in outcome.out


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_the_commands_of_the_readme_run_it(cli, program, arch):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"```bash\n(cslc .*?)```", readme, re.DOTALL)
    (program / "readme.sh").write_text("set -e\n" + commands.replace("wse3", arch), encoding="utf-8")
    outcome = cli("csl", "run", "readme.sh")
    assert outcome.code == ExitCode.OK, outcome


def test_it_is_formatted_and_has_no_warnings(cli, program):
    assert cli("csl", "fmt", "--check", ".").code == ExitCode.OK
    outcome = cli("csl", "check", "layout.csl", "--arch=wse3", "--params=n:16", "--memcpy", "--json")
    assert outcome.code == ExitCode.OK, outcome
    assert '"severity"' not in outcome.out
