"""Runs with model calls, written through the real store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.double_it import FIXTURE_TASKS
from helpers.sample_run import make_manifest

from fabrica_bench.plugins import ModelRequest
from fabrica_bench.runs.records import AgentEvent, Evaluation, JobStarted
from fabrica_bench.runs.store import RunStore

Step = tuple[str, str, str]
"""(stage, program, outcome): outcome `pass`, `fail`, `build`, or `none` for a program that is not evaluated."""


@pytest.fixture(autouse=True)
def fixture_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(FIXTURE_TASKS))
    monkeypatch.setenv("FABRICA_AGENT_KB_FOLDER", str(tmp_path / "kb"))


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run folder of these steps."""

    def make(steps: list[Step], task: str = "Double-It", name: str = "run", attempt: int = 1) -> Path:
        folder = tmp_path / name
        if (folder / "manifest.json").exists():
            store = RunStore.resume(folder)
        else:
            store = RunStore.create(folder, make_manifest((task,)))
        with store:
            store.append(JobStarted(task=task, attempt=attempt))
            for number, (stage, text, outcome) in enumerate(steps, 1):
                store.append(AgentEvent(task=task, attempt=attempt, event="model_call", data=call(stage, text, number)))
                if stage != "architect" and outcome != "none":
                    store.append(evaluation(task, attempt, number, text, outcome))
        return folder

    return make


def call(stage: str, text: str, number: int) -> dict[str, Any]:
    request = ModelRequest(stage=stage, system="sys", user=f"prompt {number}", answer_schema={})
    answer = {"steps": []} if stage == "architect" else {"files": {"pe.csl": text}}
    return {
        "model": "exchange",
        "stage": stage,
        "key": request.key(),
        "request": request.model_dump(mode="json"),
        "reply": {"answer": answer, "input_tokens": 0, "output_tokens": 0, "cost_usd": None},
    }


def evaluation(task: str, attempt: int, index: int, text: str, outcome: str) -> Evaluation:
    return Evaluation(
        task=task,
        attempt=attempt,
        index=index,
        action="compile" if outcome in ("build", "compiled") else "run_visible",
        ok=outcome in ("pass", "compiled"),
        outcome={
            "pass": "valid",
            "fail": "Correct: y[3] is 0.0",
            "build": "does not compile",
            "compiled": "compiled",
        }[outcome],
        cycles=100 if outcome == "pass" else None,
        diagnostics=("pe.csl:3:9: error: use of undeclared identifier 'q7'",) if outcome == "build" else (),
        files={"pe.csl": hashlib.sha256(text.encode()).hexdigest()},
        seconds=0.1,
    )
