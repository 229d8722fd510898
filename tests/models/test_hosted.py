"""Providers over HTTP, against a real local server that speaks the two wire formats."""

from __future__ import annotations

import time

import pytest
from models.model_server import GOOD, model_server

from fabrica_bench.errors import FabricaError
from fabrica_bench.models.hosted import Hosted, RateLimit, _cost
from fabrica_bench.models.provider import ProviderError
from fabrica_bench.models.selection import open_model, public_name
from fabrica_bench.plugins import ModelError, ModelRequest

pytest.importorskip("pydantic_ai", reason="the extra `llm` isn't installed")
pytest.importorskip("openai")
pytest.importorskip("anthropic")

SCHEMA = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
REQUEST = ModelRequest(stage="implementer", system="be brief", user="write f", answer_schema=SCHEMA)
KEY = "sk-secret-4711"
KINDS = ("anthropic", "openai", "compatible")


def provider(kind: str, url: str, **options) -> Hosted:
    base = url if kind == "anthropic" else f"{url}/v1"
    options.setdefault("sleep", lambda seconds: None)
    return Hosted(kind, "claude-sonnet-4-5" if kind == "anthropic" else "gpt-4o", key=KEY, base_url=base, **options)


def soon() -> float:
    return time.monotonic() + 600


@pytest.mark.parametrize("kind", KINDS)
def test_a_streamed_tool_answer_arrives_with_its_tokens_and_cost(kind):
    with model_server("good") as server:
        reply = provider(kind, server.url).complete(REQUEST, soon())
    assert reply.answer == GOOD
    assert (reply.input_tokens, reply.output_tokens) == (120, 30)
    if kind != "compatible":
        assert reply.cost_usd is not None
        assert 0 < reply.cost_usd < 0.01
    sent = server.requests[0]
    assert sent["stream"] is True
    assert "write f" in str(sent["messages"])


def test_the_key_goes_where_the_provider_wants_it():
    with model_server("good") as server:
        provider("anthropic", server.url).complete(REQUEST, soon())
        provider("openai", server.url).complete(REQUEST, soon())
    # The client's versions differ in the header.
    assert KEY in (
        server.headers[0].get("x-api-key"),
        server.headers[0].get("authorization", "").removeprefix("Bearer "),
    )
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize("behaviour", ["text", "fenced"])
def test_an_answer_in_text_is_read(kind, behaviour):
    with model_server(behaviour) as server:
        assert provider(kind, server.url).complete(REQUEST, soon()).answer == GOOD


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize("behaviour", ["429", "500", "truncated", "malformed", "cut", "wrong"])
def test_a_passing_fault_is_tried_again_and_says_when(kind, behaviour):
    notices: list[str] = []
    waits: list[float] = []
    with model_server(behaviour, "good") as server:
        hosted = provider(kind, server.url, sleep=waits.append)
        assert hosted.complete(REQUEST, soon(), notices.append).answer == GOOD
    assert len(server.requests) == 2
    assert len(notices) == 1
    assert "attempt 2 of" in notices[0]
    assert "next at" in notices[0]
    assert "UTC" in notices[0]
    assert waits == ([7.0] if behaviour == "429" else [2.0])


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_slow_answer_is_given_up_and_asked_again(kind):
    with model_server("slow", "good") as server:
        begin = time.monotonic()
        reply = provider(kind, server.url, call_limit_s=0.7).complete(REQUEST, soon())
    assert reply.answer == GOOD
    assert time.monotonic() - begin < 3


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_refused_key_is_not_tried_again_and_not_told(kind):
    with model_server("401") as server, pytest.raises(ModelError, match="401") as caught:
        provider(kind, server.url).complete(REQUEST, soon())
    assert len(server.requests) == 1
    assert KEY not in str(caught.value)
    assert "[key]" in str(caught.value)


def test_a_fault_that_stays_ends_after_all_attempts_with_growing_waits():
    waits: list[float] = []
    with model_server("500") as server, pytest.raises(ModelError, match="500"):
        provider("openai", server.url, sleep=waits.append).complete(REQUEST, soon())
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0]
    assert len(server.requests) == 6


def test_no_attempt_begins_after_the_deadline():
    with model_server("429") as server, pytest.raises(ModelError, match="after the deadline"):
        provider("openai", server.url).complete(REQUEST, time.monotonic() + 5)
    assert len(server.requests) == 1


@pytest.mark.parametrize("behaviour", ["400", "401", "429", "500", "malformed", "truncated"])
def test_a_provider_that_answers_nobody_is_to_blame(behaviour):
    with model_server(behaviour) as server, pytest.raises(ProviderError):
        provider("openai", server.url).complete(REQUEST, soon())


@pytest.mark.parametrize("behaviour", ["wrong", "cut"])
def test_an_answer_that_a_request_may_have_made_useless_is_not_the_providers_fault(behaviour):
    with model_server(behaviour) as server, pytest.raises(ModelError) as caught:
        provider("openai", server.url).complete(REQUEST, soon())
    assert not isinstance(caught.value, ProviderError)


def test_a_request_that_is_refused_by_a_provider_that_answers_others_is_at_fault_itself():
    """Else who has no candidate would only have to ask what nobody can answer."""
    with model_server("400", "good") as server, pytest.raises(ModelError, match="400") as caught:
        provider("openai", server.url).complete(REQUEST, soon())
    assert not isinstance(caught.value, ProviderError)
    assert "member `ok`" in str(server.requests[1])
    assert REQUEST.user not in str(server.requests[1])


def test_who_asks_when_the_time_is_nearly_over_is_to_blame_for_no_answer():
    with model_server("slow") as server, pytest.raises(ModelError, match="no answer within") as caught:
        provider("openai", server.url, call_limit_s=60.0).complete(REQUEST, time.monotonic() + 1)
    assert not isinstance(caught.value, ProviderError)
    with model_server("slow") as server, pytest.raises(ProviderError, match="no answer within"):
        provider("openai", server.url, call_limit_s=0.5).complete(REQUEST, soon())


def test_a_server_that_is_not_there_is_named():
    hosted = Hosted("compatible", "m", key=None, base_url="http://127.0.0.1:9/v1", sleep=lambda seconds: None)
    with pytest.raises(ProviderError, match="compatible:m"):
        hosted.complete(REQUEST, soon())


def test_the_rate_limit_spaces_calls():
    now = 100.0
    limit = RateLimit(30, now=lambda: now)
    assert limit.wait_s() == 0
    limit.started()
    assert limit.wait_s() == 2.0
    now = 101.5
    assert limit.wait_s() == 0.5


def test_google_needs_its_library_and_key_only():
    pytest.importorskip("google.genai")
    assert Hosted("google", "gemini-2.5-pro", key="k").name == "google:gemini-2.5-pro"


@pytest.mark.parametrize("word", ["gpt", "openai:", "compatible:model", "lowering:x", "exchange:", "nobody:model"])
def test_words_that_name_no_model_are_refused(word):
    with pytest.raises(FabricaError, match="not understood"):
        public_name(word)


def test_public_names_hold_neither_folders_nor_addresses():
    assert public_name("lowering") is None
    assert public_name("exchange:/home/me/secret") == "exchange"
    assert public_name("compatible:qwen@http://10.0.0.1/v1") == "compatible:qwen"


def test_a_missing_key_names_its_variable():
    with pytest.raises(FabricaError, match="no key for anthropic") as caught:
        open_model("anthropic:claude-x", {})
    assert "ANTHROPIC_API_KEY" in str(caught.value)


class Priced:
    """A response whose price list answers with an error."""

    model_name = "gpt-4o"

    def __init__(self, problem: Exception) -> None:
        self.problem = problem

    def cost(self):
        raise self.problem


def test_an_unknown_price_is_no_cost_and_a_fault_of_the_program_is_not_hidden():
    assert _cost(Priced(LookupError("no such model"))) is None
    assert _cost(Priced(ValueError("usage left out"))) is None
    with pytest.raises(AttributeError):
        _cost(Priced(AttributeError("a bug")))
