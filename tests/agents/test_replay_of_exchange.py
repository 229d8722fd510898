"""A full run in which the model was a person answering through files, played back from its records.

The recording holds one failed translation, its repair, and three optimization edits of which two were kept. The answers
are compiled and simulated afresh; prompts may have changed since, so they are replayed in order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fabrica_bench.plugins import Budget
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.runs.records import AgentEvent
from fabrica_bench.runs.store import RunStore

RECORDING = Path(__file__).parent / "recordings" / "rowparallel-softmax"
OPTIONS = {"candidates": "1", "repairs": "5", "steps": "3", "rewrites": "0", "patience": "2", "cards": "5"}


def test_the_recording_names_its_model_plainly() -> None:
    events = [json.loads(line) for line in (RECORDING / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    calls = [e["data"] for e in events if e["record"] == "agent_event" and e["event"] == "model_call"]
    assert {call["model"] for call in calls} == {"exchange"}
    stages = [call["stage"] for call in calls]
    assert stages[:6] == ["analyst", "communication", "architect", "implementer", "reviewer", "implementer"]
    assert set(stages[6:]) == {"optimizer"}
    assert [e["model"] for e in events if e["record"] == "verdict"] == ["exchange"]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.setenv("FABRICA_BENCH_KEYS", str(tmp_path / "keys"))
    monkeypatch.setenv("FABRICA_AGENT_KB_FOLDER", str(tmp_path / "none"))
    return RunConfig(
        agent="fabrica",
        tasks=("RowParallel-Softmax",),
        out=tmp_path / "run",
        model=f"replay-in-order:{RECORDING}",
        options=OPTIONS,
        budget=Budget(evaluations=30, wall_s=300, tokens=1_000_000),
    )


def events(config: RunConfig, name: str) -> list[dict[str, Any]]:
    records = RunStore.open(config.out).records()
    return [r.data for r in records if isinstance(r, AgentEvent) and r.event == name]


def test_it_fails_is_repaired_passes_and_gets_faster(config: RunConfig) -> None:
    first = config.model_copy(update={"options": {**OPTIONS, "steps": "1", "profile": "no"}})
    (row,) = execute_run(first).rows
    attempts = events(first, "attempt")
    assert [a["predicate"] for a in attempts] == ["Build", None, None]
    assert row.valid
    assert row.model == "exchange (replayed in order)"
    assert row.cycles is not None
    assert row.cycles < attempts[1]["cycles"] / 3


@pytest.mark.slow
def test_the_whole_run_and_its_own_replay(config: RunConfig, tmp_path: Path) -> None:
    (row,) = execute_run(config).rows
    assert [a["predicate"] for a in events(config, "attempt")] == ["Build", None, None, None, None]
    accepted = events(config, "accepted")
    assert accepted
    assert all(step["after"] < step["before"] for step in accepted)
    # A run is its own recording: the same prompts are answered from it, word for word.
    again = config.model_copy(update={"out": tmp_path / "again", "model": f"replay:{config.out}"})
    assert execute_run(again).rows[0].cycles == row.cycles
