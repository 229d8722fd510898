"""Whole programs under their own host scripts: both executors, everything that the scripts can observe.

A slice of `python -m differential.programs`, which `nox -s differential` runs over all tasks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from differential import ends
from differential.programs import Outcome, install_tools, run_script, task_programs

#: one PE, a halo exchange, a reduction over the fabric, data tasks and switches
SLICE = ("relu-1pe-pe wse3", "laplacian2d-halo-pe wse3", "parreduce-sum-plain wse2", "histogram-pe wse3")


@pytest.mark.parametrize("name", SLICE)
def test_executors_agree_on_a_task(name: str, tmp_path: Path) -> None:
    scripts = dict(task_programs(tmp_path))
    outcome = run_script(name, scripts[name], install_tools(tmp_path / "bin"))
    assert outcome.word == "equal", outcome.line()


def test_a_difference_is_told() -> None:
    host = {"differences": ["machine 0: cycle: 3 natively, 4"], "executors": ["native"]}
    outcome = Outcome("some program", 0, 1.0, [{**host, "native_s": 0.1, "reference_s": 0.2}])
    assert outcome.word == "DIFFERENT"
    assert "cycle: 3 natively, 4" in outcome.line()


def test_a_script_that_runs_no_host_has_failed() -> None:
    assert Outcome("some program", 0, 1.0).word == "failed"


def test_ends_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ends.json"
    monkeypatch.setattr(sys, "argv", ["ends", "--filter", "arrays", "--json", str(file)])
    assert ends.main() == 0
    monkeypatch.setattr(sys, "argv", ["ends", "--filter", "arrays", "--compare", str(file)])
    assert ends.main() == 0
    recorded = json.loads(file.read_text(encoding="utf-8"))
    name = next(iter(recorded))
    file.write_text(json.dumps({**recorded, name: "another"}), encoding="utf-8")
    assert ends.main() == 1
    assert f"DIFFERENT {name}" in capsys.readouterr().out
