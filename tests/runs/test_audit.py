"""A revealed key proves, or disproves, that a run's held-out inputs were those it committed itself to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.double_it import candidate, double_it

from fabrica_bench.errors import FabricaError
from fabrica_bench.runs.audit import audit_run, audit_verdict
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.scoring.api import score
from fabrica_bench.scoring.verdict import verdict_bytes
from fabrica_bench.tasks.seeds import HeldOutKey, commitment
from fabrica_bench.toolchains.doubles import ScriptedToolchain

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
    assert '"kernel": "' in text
    manifest.write_text(text.replace('"kernel": "', f'"kernel": "{KEY.reveal()}'), encoding="utf-8")
    assert audit_run(run, KEY).problems == ("manifest.json holds the key",)


def without_commitments(value: object) -> None:
    """Take the commitments out of a JSON value, wherever they are."""
    for item in list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ():
        without_commitments(item)
    if isinstance(value, dict) and "commitments" in value:
        value["commitments"] = type(value["commitments"])()


def test_commitments_that_were_left_out_are_missed(run: Path) -> None:
    """What isn't there can't disagree with anything."""
    records, manifest = run / "records.jsonl", run / "manifest.json"
    lines = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    without_commitments(lines)
    whole = records.read_text(encoding="utf-8")
    records.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert audit_run(run, KEY).problems == ("Double-It #1 was scored on other held-out inputs than committed to",)

    records.write_text(whole, encoding="utf-8")
    head = json.loads(manifest.read_text(encoding="utf-8"))
    without_commitments(head)
    manifest.write_text(json.dumps(head), encoding="utf-8")
    assert "Double-It: 0 instead of 5 held-out inputs are committed to" in audit_run(run, KEY).problems


def test_fewer_held_out_inputs_than_a_verdict_rests_on_are_no_proof(tmp_path: Path) -> None:
    verdict = score(double_it(), candidate(cycles=500), toolchain=ScriptedToolchain(), key=KEY)
    data = json.loads(verdict_bytes(verdict))
    del data["held_out"]["commitments"][1:]
    path = tmp_path / "verdict.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert audit_verdict(path, KEY).problems == ("Double-It: 1 instead of 5 held-out inputs are committed to",)


def test_a_single_verdict_is_audited_like_a_run(tmp_path: Path) -> None:
    verdict = score(double_it(), candidate(cycles=500), toolchain=ScriptedToolchain(), key=KEY)
    path = tmp_path / "verdict.json"
    path.write_bytes(verdict_bytes(verdict))
    assert audit_verdict(path, KEY).ok
    assert audit_verdict(path, KEY).checked == 5
    assert "was used, this is" in audit_verdict(path, HeldOutKey(bytes(32))).problems[0]
    other = json.loads(path.read_text(encoding="utf-8"))
    other["held_out"]["commitments"][3] = commitment(7)
    path.write_text(json.dumps({"verdict": other}), encoding="utf-8")
    assert audit_verdict(path, KEY).problems == (
        "Double-It: the commitment of held-out input 3 is not that of the key's seed",
    )
    del other["held_out"]
    path.write_text(json.dumps(other), encoding="utf-8")
    with pytest.raises(FabricaError, match="no commitments"):
        audit_verdict(path, KEY)
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(FabricaError, match="holds no verdict"):
        audit_verdict(path, KEY)
