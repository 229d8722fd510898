"""The five predicates, each failing alone, and verdicts that hold cycles only when valid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.double_it import KEY, all_cases, candidate, double_it, expert, scripted_scorer
from pydantic import ValidationError

from fabrica_bench.errors import FabricaError
from fabrica_bench.scoring import workshop
from fabrica_bench.scoring.api import score
from fabrica_bench.scoring.conditions import HarnessFault
from fabrica_bench.scoring.validity import content_key, fault_text
from fabrica_bench.scoring.verdict import (
    Invalid,
    NotScored,
    Predicate,
    Valid,
    outcome_text,
    parse_verdict,
    verdict_bytes,
)
from fabrica_bench.tasks.seeds import HeldOutKey
from fabrica_bench.toolchains.doubles import ScriptedToolchain
from fabrica_bench.toolchains.protocol import RunFault


def judge(**orders: str | int) -> Valid | Invalid:
    scorer, _ = scripted_scorer()
    return scorer.judge(candidate(**orders), all_cases())


def test_a_right_candidate_is_valid_with_its_measured_speed_up() -> None:
    verdict = judge(cycles=500)
    assert isinstance(verdict, Valid)
    assert (verdict.cycles, verdict.reference_cycles, verdict.speedup) == (500, 1000, 2.0)
    assert len(verdict.samples) == len(verdict.reference_samples) == 8
    assert [result.predicate for result in verdict.evidence] == list(Predicate)
    assert all(result.holds and result.evidence for result in verdict.evidence)


@pytest.mark.parametrize(
    ("orders", "predicate", "reason"),
    [
        ({"build": "error"}, "Build", "pe.csl:1:1: error: refused as ordered"),
        ({"run": "crash"}, "Run", "visible 0 (normal): crash"),
        ({"run": "deadlock"}, "Run", "deadlock: no PE can advance"),
        ({"run": "timeout"}, "Run", "timeout: wall limit"),
        ({"run": "silent"}, "Run", "wrote no outputs.npz"),
        ({"inputs": "changed"}, "Contract", "the input file was changed"),
        ({"cycles": 3}, "Timing", "3 cycles, below the lower bound of 4"),
        ({"cycles": 0}, "Timing", "below the lower bound"),
        ({"reported": 7}, "Timing", "the runner reports 7 cycles, its stamps say 1000"),
        ({"launch": 9000}, "Timing", "the simulator saw a launch of 9000"),
        ({"launch": 900}, "Timing", "the simulator saw a launch of only 900"),
        ({"outputs": "zeros"}, "Correct", "output 'y'"),
        ({"outputs": "nan"}, "Correct", "values that are not finite: 1 of "),
        ({"outputs": "poison"}, "Correct", "elements never written: 1 of "),
        ({"outputs": "transposed"}, "Correct", "is float32 [8, 2], not float32 [16]"),
        ({"outputs": "double"}, "Correct", "is float64 [16], not float32 [16]"),
    ],
)
def test_each_fault_breaks_its_own_predicate(orders: dict[str, str | int], predicate: str, reason: str) -> None:
    verdict = judge(**orders)
    assert isinstance(verdict, Invalid)
    assert verdict.predicate == predicate
    assert reason in verdict.reason
    assert not hasattr(verdict, "cycles")


def test_the_held_out_inputs_are_not_run_when_a_visible_one_fails() -> None:
    scorer, toolchain = scripted_scorer()
    scorer.judge(candidate(outputs="zeros"), all_cases())
    assert (toolchain.builds, toolchain.runs) == (1, 3)


def test_an_invalid_candidate_does_not_cost_a_reference_measurement_and_a_valid_one_costs_it_once() -> None:
    scorer, toolchain = scripted_scorer()
    scorer.judge(candidate(), all_cases())
    scorer.judge(candidate(cycles=900), all_cases())
    assert (toolchain.builds, toolchain.runs) == (3, 24)


def test_the_reference_scores_itself_from_one_measurement() -> None:
    scorer, toolchain = scripted_scorer()
    verdict = scorer.judge(scorer.reference_files(), all_cases(), trusted=True)
    assert isinstance(verdict, Valid)
    assert verdict.speedup == 1.0
    assert (toolchain.builds, toolchain.runs) == (1, 8)


def test_a_candidate_that_touches_the_window_is_not_even_run() -> None:
    scorer, toolchain = scripted_scorer()
    files = {"pe.csl": candidate()["pe.csl"].replace("  window.start();\n", "")}
    verdict = scorer.judge(files, all_cases())
    assert isinstance(verdict, Invalid)
    assert verdict.predicate is Predicate.TIMING
    assert "must begin with `window.start();`" in verdict.reason
    assert toolchain.runs == 0


def test_files_that_cannot_be_accepted_break_the_contract() -> None:
    scorer, _ = scripted_scorer()
    verdict = scorer.judge({"pe.csl": "", "run.py": "print('SUCCESS')"}, all_cases())
    assert isinstance(verdict, Invalid)
    assert verdict.predicate is Predicate.CONTRACT
    assert "unexpected file 'run.py'" in verdict.reason


def test_a_verdict_does_not_depend_on_where_the_candidate_lies(tmp_path: Path) -> None:
    verdicts = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pe.csl").write_text("a\0", encoding="utf-8")
        verdicts.add(verdict_bytes(scripted_scorer()[0].judge(tmp_path / name, all_cases())))
    assert len(verdicts) == 1


def test_judging_without_inputs_is_refused_rather_than_valid() -> None:
    scorer, _ = scripted_scorer()
    with pytest.raises(HarnessFault, match="no inputs"):
        scorer.judge(candidate(), ())


def test_a_broken_reference_scores_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, _ = scripted_scorer()
    broken = {"pe.csl": "//! outputs=zeros\n" + expert()}
    monkeypatch.setattr(scorer, "reference_files", lambda: broken)
    verdict = scorer.score(candidate(), all_cases())
    assert isinstance(verdict, NotScored)
    assert verdict.blame == "harness"
    assert "the reference of Double-It is not valid here" in verdict.reason


def test_a_full_disk_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workshop, "MIN_FREE_BYTES", 1 << 60)
    scorer, _ = scripted_scorer()
    verdict = scorer.score(candidate(run="crash"), all_cases())
    assert isinstance(verdict, NotScored)
    assert verdict.blame == "machine"
    assert "no space left" in verdict.reason


def test_the_content_key_changes_with_everything_that_decides() -> None:
    scorer, _ = scripted_scorer()
    cases = all_cases()
    keys = {
        content_key(scorer.conditions, candidate(), cases, "t"),
        content_key(scorer.conditions, candidate(cycles=1), cases, "t"),
        content_key(scorer.conditions, candidate(), cases[:-1], "t"),
        content_key(scorer.conditions, candidate(), cases, "u"),
    }
    assert len(keys) == 4
    assert content_key(scorer.conditions, candidate(), cases, "t") in keys


# ----------------------------------------------------------------------------------------- verdicts as types


def test_verdicts_survive_the_trip_through_json() -> None:
    for verdict in (judge(), judge(outputs="zeros"), NotScored(blame="machine", reason="no space")):  # type: ignore[arg-type]
        assert parse_verdict(verdict_bytes(verdict)) == verdict


def test_no_seed_of_a_held_out_input_is_in_a_verdict() -> None:
    for verdict in (judge(), judge(outputs="zeros")):
        text = verdict_bytes(verdict).decode()
        assert not any(str(case.seed) in text for case in all_cases())


@pytest.mark.parametrize("kind", ["invalid", "not_scored"])
def test_only_a_valid_verdict_can_hold_cycles(kind: str) -> None:
    fields = {"invalid": {"predicate": "Run", "reason": "r"}, "not_scored": {"blame": "machine", "reason": "r"}}[kind]
    with pytest.raises(ValidationError):
        parse_verdict(json.dumps({"kind": kind, **fields, "cycles": 10}))


@pytest.mark.parametrize("field", ["cycles", "reference_cycles", "speedup"])
@pytest.mark.parametrize("value", [0, -1, None, float("inf")])
def test_a_valid_verdict_needs_positive_finite_numbers(field: str, value: object) -> None:
    data = json.loads(verdict_bytes(judge()))
    with pytest.raises(ValidationError):
        Valid.model_validate({**data, field: value})


def test_outcomes_are_one_line() -> None:
    assert outcome_text(judge()) == "valid"
    assert outcome_text(judge(run="crash")).startswith("fails Run: visible 0")
    assert outcome_text(NotScored(blame="agent", reason="gave up")) == "not scored (agent): gave up"  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ the api


def test_the_api_scores_a_folder_with_a_fresh_or_given_key(tmp_path: Path) -> None:
    (tmp_path / "pe.csl").write_text(candidate()["pe.csl"], encoding="utf-8")
    for key in (None, KEY, HeldOutKey.fresh()):
        assert score(double_it(), tmp_path, toolchain=ScriptedToolchain(), key=key).kind == "valid"


def test_the_api_names_what_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match="no such folder"):
        score(double_it(), tmp_path / "none", toolchain=ScriptedToolchain())
    with pytest.raises(FabricaError, match="unknown size"):
        score(double_it(), candidate(), toolchain=ScriptedToolchain(), size="huge")
    with pytest.raises(FabricaError, match="unknown toolchain"):
        score(double_it(), candidate(), toolchain="none")


def test_a_predicate_that_was_looked_at_holds_or_fails_whatever_the_others_do() -> None:
    holds = {result.predicate: result.holds for result in judge(outputs="zeros").evidence}
    assert holds == {"Build": True, "Run": True, "Contract": True, "Timing": True, "Correct": False}
    crashed = {result.predicate: result.holds for result in judge(run="crash").evidence}
    assert crashed == {"Build": True, "Run": False, "Contract": True, "Timing": None, "Correct": None}


def test_evidence_keeps_no_value_of_a_held_out_input() -> None:
    """An assertion that fails shows its operands, so that a program could write its input into a record."""
    report = (
        "PE(0,0) pe.csl:9:3 in main at cycle 7: assertion failed: x[i] < (y + 1) (x[i]=3.25, y + 1=2)\n  9 | @assert"
    )
    visible, hidden = (next(case for case in all_cases() if case.kind == kind) for kind in ("visible", "held-out"))
    assert fault_text(visible, RunFault("fault", report)) == f"fault: {report}"
    kept = fault_text(hidden, RunFault("fault", report))
    assert kept == "fault: PE(0,0) pe.csl:9:3 in main at cycle 7: assertion failed: x[i] <"
