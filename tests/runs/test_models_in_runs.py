"""Agents that use a model, in real processes: the harness asks for them, screens, counts and records."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.answering import answers
from helpers.double_it import expert, plain
from models.model_server import model_server

from fabrica_bench.errors import FabricaError
from fabrica_bench.models.provider import ProviderError
from fabrica_bench.plugins import Budget, CompileOutcome, ModelError, ModelReply, ModelRequest, VisibleRun
from fabrica_bench.runs.agent_process import _Desk
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.runs.model_gate import ModelGate
from fabrica_bench.runs.records import AgentEvent
from fabrica_bench.runs.store import RunStore
from fabrica_bench.scoring.verdict import Blame, NotScored
from fabrica_bench.tasks import load_task

Config = Callable[..., RunConfig]
TOKENS = Budget(evaluations=5, wall_s=30, tokens=1000)


def model_calls(out: Path) -> list[dict[str, Any]]:
    records = RunStore.open(out).records()
    return [r.data for r in records if isinstance(r, AgentEvent) and r.event == "model_call"]


def test_single_shot_asks_once_is_recorded_and_replays_exactly(config: Config, tmp_path: Path) -> None:
    first = config("single-shot", model=f"exchange:{tmp_path / 'x'}", budget=TOKENS)
    thread = answers(tmp_path / "x", plain())
    (row,) = execute_run(first).rows
    thread.join()
    assert (row.valid, row.model, row.evaluations) == (True, "exchange", 0)
    (call,) = model_calls(first.out)
    assert (call["model"], call["stage"]) == ("exchange", "single-shot")
    assert call["reply"]["answer"]["pe.csl"] == plain()
    assert "Double-It" in call["request"]["user"]
    again = config("single-shot", model=f"replay:{first.out}", out=tmp_path / "again", budget=TOKENS)
    (replayed,) = execute_run(again).rows
    assert (replayed.valid, replayed.model) == (True, "exchange (replayed)")
    assert model_calls(again.out)[0]["key"] == call["key"]


def test_without_a_model_the_baseline_says_so(config: Config) -> None:
    (row,) = execute_run(config("single-shot")).rows
    assert "choose one with --model" in (row.reason or "")


def test_a_provider_that_fails_is_to_blame_and_its_key_is_nowhere(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openai")
    monkeypatch.setenv("FABRICA_MODEL_API_KEY", "sk-secret-4711")
    with model_server("401") as server:
        chosen = config("single-shot", model=f"compatible:tiny@{server.url}/v1", budget=TOKENS)
        (row,) = execute_run(chosen).rows
        assert server.headers[0]["authorization"] == "Bearer sk-secret-4711"
    assert isinstance(row.verdict, NotScored)
    assert row.verdict.blame is Blame.PROVIDER
    assert model_calls(chosen.out)[0]["reply"] is None
    written = [path.read_bytes() for path in chosen.out.rglob("*") if path.is_file()]
    assert written
    assert not any(b"sk-secret-4711" in content for content in written)


def test_no_key_is_in_the_agents_environment(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICA_AGENT_TOY", "snoop")
    monkeypatch.setenv("FABRICA_AGENT_SNOOP", str(tmp_path))
    monkeypatch.setenv("FABRICA_AGENT_KEYS", str(tmp_path))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "FABRICA_MODEL_API_KEY"):
        monkeypatch.setenv(name, "sk-secret-4711")
    chosen = config()
    execute_run(chosen)
    (event,) = [r for r in RunStore.open(chosen.out).records() if isinstance(r, AgentEvent) and r.event == "snooped"]
    assert not [name for name in event.data["environment"] if name.endswith("_API_KEY")]


def test_a_model_that_cannot_be_used_is_found_before_anything_starts(config: Config) -> None:
    with pytest.raises(FabricaError, match="no key for anthropic"):
        execute_run(config("single-shot", model="anthropic:claude-x"))


# --------------------------------------------------------------------------------------------------- the gate


class Fixed:
    """Answers everything, for 400 tokens and 20 cents."""

    name = "fixed"

    def __init__(self, cost: float | None = 0.2) -> None:
        self.cost = cost

    def complete(self, request: ModelRequest, deadline: float, notice: object = None) -> ModelReply:
        return ModelReply(answer={"text": plain()}, input_tokens=300, output_tokens=100, cost_usd=self.cost)


def ask(user: str = "hello") -> dict[str, Any]:
    return ModelRequest(stage="s", system="", user=user, answer_schema={"type": "object"}).model_dump()


def gate(events: list[str], provider: Any = None, **limits: Any) -> ModelGate:
    budget = Budget(**{"evaluations": 5, "wall_s": 30, "tokens": 1000, **limits})
    return ModelGate(
        provider or Fixed(),
        load_task("Double-It"),
        "W1",
        budget,
        log=lambda event, data: events.append(event),
        notice=lambda text: None,
    )


def test_the_token_budget_is_kept() -> None:
    events: list[str] = []
    door = gate(events)
    for _ in range(3):
        door.complete(ask(), 0)
    with pytest.raises(ModelError, match="1000 model tokens is used up"):
        door.complete(ask(), 0)
    assert events == ["model_call"] * 3


def test_the_cost_budget_is_kept() -> None:
    door = gate([], cost_usd=0.3)
    for _ in range(2):
        door.complete(ask(), 0)
    with pytest.raises(ModelError, match="is used up"):
        door.complete(ask(), 0)


def test_a_cost_budget_needs_a_known_price() -> None:
    with pytest.raises(ModelError, match="price of fixed isn't known"):
        gate([], Fixed(cost=None), cost_usd=1.0).complete(ask(), 0)


def test_a_prompt_with_the_reference_is_not_sent() -> None:
    events: list[str] = []
    door = gate(events)
    with pytest.raises(ModelError, match="it was not sent"):
        door.complete(ask(f"look at this:\n{expert()}"), 0)
    assert events == ["leak"]
    assert door.tokens == 0


class Failing:
    """Fails in one way."""

    name = "failing"

    def __init__(self, error: ModelError) -> None:
        self.error = error

    def complete(self, request: ModelRequest, deadline: float, notice: object = None) -> ModelReply:
        raise self.error


def test_only_a_failure_of_the_provider_itself_excuses_who_has_no_candidate() -> None:
    for error, failure in ((ProviderError("down"), "down"), (ModelError("no answer fits"), None)):
        door = gate([], Failing(error))
        with pytest.raises(ModelError):
            door.complete(ask(), 0)
        assert door.failure == failure


def test_an_agent_cannot_blame_the_harness_s_provider(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says of a provider of its own can't be checked; of the one that the harness asks nobody knows better."""
    monkeypatch.setenv("FABRICA_AGENT_TOY", "provider")
    (row,) = execute_run(config(model=f"exchange:{tmp_path / 'exchange'}", budget=TOKENS)).rows
    assert isinstance(row.verdict, NotScored)
    assert row.verdict.blame is Blame.AGENT
    assert row.verdict.reason == "the agent gave up: HTTP 404: no such model"


def test_a_malformed_request_is_the_agents_own_fault() -> None:
    with pytest.raises(ModelError, match="malformed"):
        gate([]).complete({"stage": 1}, 0)


# --------------------------------------------------------------------------------------------------- attempts


def desk(outcomes: Callable[[dict[str, str]], bool], **limits: Any) -> _Desk:
    def call(method: str, files: dict[str, str]) -> CompileOutcome | VisibleRun:
        if method == "compile":
            return CompileOutcome(ok=True)
        ok = outcomes(files)
        return VisibleRun(ok=ok, outcome="valid" if ok else "Correct: no", cycles=10 if ok else None)

    budget = Budget(**{"evaluations": 50, "wall_s": 30, "tokens": 0, **limits})
    return _Desk(budget, 0, call, None, list, lambda files: "profile")


def run_visible(place: _Desk, text: str) -> dict[str, Any]:
    return place.serve({"method": "run_visible", "files": {"pe.csl": text}})


def test_translation_attempts_are_different_programs() -> None:
    place = desk(lambda files: False, attempts=2)
    for text in ("a", "a", "b"):
        place.serve({"method": "compile", "files": {"pe.csl": text}})
        assert run_visible(place, text)["outcome"] == "Correct: no"
    assert "2 translation attempts is used up" in run_visible(place, "c")["outcome"]
    assert run_visible(place, "b")["outcome"] == "Correct: no"


def test_optimization_attempts_count_from_the_first_valid_program_on() -> None:
    place = desk(lambda files: True, attempts=1, optimizations=2)
    assert [run_visible(place, text)["ok"] for text in ("a", "b", "c", "d")] == [True, True, True, False]
    assert run_visible(place, "a")["ok"]
    assert "optimization attempts" in place.serve({"method": "profile", "files": {"pe.csl": "e"}})["text"]


def test_an_agent_without_a_model_gets_an_error_not_an_answer() -> None:
    place = desk(lambda files: True)
    assert "no model is configured" in place.serve({"method": "complete", "request": ask()})["error"]
    assert place.model is None
    assert os.environ.get("FABRICA_AGENT_MODEL") is None
