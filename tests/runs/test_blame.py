"""Whose fault it is: a provider's failure is nobody's zero, and an agent that has seen the reference has no result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers.double_it import expert

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import PROVIDER_TRIP, execute_run, finished_jobs
from fabrica_bench.runs.records import AgentEvent, JobFailed
from fabrica_bench.runs.store import RunStore
from fabrica_bench.scoring.verdict import Invalid, NotScored

MakeConfig = Callable[..., RunConfig]


def test_a_providers_failure_is_tried_again_and_reported_apart(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICA_AGENT_TOY", "provider")
    summary = execute_run(config())
    verdict = summary.rows[0].verdict
    assert isinstance(verdict, NotScored)
    assert (verdict.blame, verdict.reason) == ("provider", "the model provider failed: HTTP 404: no such model")
    assert summary.outcomes["provider"] == 1
    assert sum(summary.outcomes.values()) == summary.total
    assert summary.judged == 0
    records = RunStore.open(summary.run_dir).records()
    assert [r.blame for r in records if isinstance(r, JobFailed)] == ["provider"]
    assert finished_jobs(records) == set()


def test_the_same_provider_failure_in_a_row_stops_the_run(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICA_AGENT_TOY", "provider")
    with pytest.raises(FabricaError, match=f"HTTP 404: no such model, {PROVIDER_TRIP} times in a row") as caught:
        execute_run(config(repeat=5, jobs=1))
    assert caught.value.code == ExitCode.ENVIRONMENT
    monkeypatch.setenv("FABRICA_AGENT_TOY", "good")
    summary = execute_run(config(repeat=5, jobs=1))
    assert summary.outcomes["valid"] == summary.total == 5


@pytest.mark.parametrize(
    ("behaviour", "place"), [("exposed", "the agent's event 'prompt'"), ("keeper", "file notes.txt of the agent")]
)
def test_an_agent_that_saw_the_reference_has_no_result(
    behaviour: str, place: str, config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICA_AGENT_TOY", behaviour)
    monkeypatch.setenv("FABRICA_AGENT_LEAK", f"A hint:\n{expert()}")
    verdict = execute_run(config()).rows[0].verdict
    assert isinstance(verdict, Invalid)
    assert verdict.predicate == "Contract"
    assert verdict.reason == f"{place}: holds the canary of Double-It's pe.csl"


def test_a_fault_of_the_harness_on_what_an_agent_tried_ends_nothing(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears of it and goes on: neither is its work lost, nor can it have its failure counted for nothing."""
    monkeypatch.setenv("FABRICA_AGENT_TOY", "bugs")
    summary = execute_run(config())
    assert (summary.valid, summary.rows[0].evaluations) == (1, 4)
    records = RunStore.open(summary.run_dir).records()
    told = [record.data["outcome"] for record in records if isinstance(record, AgentEvent) and record.event == "bug"]
    assert told == [
        "the harness failed on this program, which may be right: cslc crashed: as ordered",
        "the harness failed on this program, which may be right: the simulator crashed: as ordered",
        "the harness failed on this program, which may be right: the simulator crashed: as ordered",
        "the harness failed on this program, which may be right: cslc crashed: as ordered",
    ]


def test_a_fault_of_the_harness_on_an_answer_is_no_zero(config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICA_AGENT_TOY", "bug")
    summary = execute_run(config())
    assert summary.outcomes["harness"] == summary.total == 1
    assert summary.judged == 0
