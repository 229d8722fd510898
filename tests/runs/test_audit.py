"""A revealed key proves, or disproves, that a run's held-out inputs were those it committed itself to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fabrica_bench.runs.audit import audit_run
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.tasks.seeds import HeldOutKey, commitment

KEY = HeldOutKey(bytes(range(32)))


@pytest.fixture
def run(config: Callable[..., RunConfig], tmp_path: Path) -> Path:
    KEY.write(tmp_path / "my.key")
    return execute_run(config(key_file=tmp_path / "my.key")).run_dir


def test_the_runs_own_key_verifies_it(run: Path) -> None:
    found = audit_run(run, KEY)
    assert found.problems == ()
    assert found.checked == 10  # five in the manifest, five in the verdict
    assert found.ok


def test_another_key_and_changed_commitments_are_found(run: Path) -> None:
    other = HeldOutKey(bytes(32))
    problems = audit_run(run, other).problems
    assert "the run used key" in problems[0]
    assert len([text for text in problems if "is not that of the key's seed" in text]) == 5
    records = run / "records.jsonl"
    text = records.read_text(encoding="utf-8")
    good, bad = commitment(KEY.seed("1", "x", 0)), commitment(7)
    assert good != bad
    first = text[text.index('"commitments":["') + len('"commitments":["') :][:64]
    records.write_text(text.replace(first, bad), encoding="utf-8")
    assert "was scored on other held-out inputs" in audit_run(run, KEY).problems[0]


def test_a_key_or_seed_in_the_records_is_found(run: Path) -> None:
    records = run / "records.jsonl"
    line = records.read_text(encoding="utf-8").splitlines()[0].replace("}", "")
    assert line
    manifest = run / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"run_id": "', f'"run_id": "{KEY.reveal()}'), encoding="utf-8")
    assert audit_run(run, KEY).problems == ("manifest.json holds the key",)
