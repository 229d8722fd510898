"""Model providers: selection, replay of a recording, exchange through files."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from fabrica_agent.models.exchange import Exchange
from fabrica_agent.models.protocol import ModelError, ModelReply, ModelRequest
from fabrica_agent.models.replay import Recorder, Replay
from fabrica_agent.models.selection import RECORD_VARIABLE, VARIABLE, model_name, provider

REQUEST = ModelRequest(stage="implementer", system="s", user="u", answer_schema={"type": "object"})


class Fixed:
    name = "fixed"

    def complete(self, request: ModelRequest) -> ModelReply:
        return ModelReply(answer={"pe.csl": f"// {request.user}"}, tokens=3)


def test_without_a_setting_there_is_no_model() -> None:
    assert provider({}) is None
    assert model_name({}) == "deterministic"


@pytest.mark.parametrize("setting", ["gpt", "replay:", "lowering:x", "exchange"])
def test_unknown_settings_are_refused(setting: str) -> None:
    with pytest.raises(ModelError, match="replay:FILE"):
        provider({VARIABLE: setting})


def test_a_recording_plays_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    first = Recorder(Fixed(), path).complete(REQUEST)
    chosen = provider({VARIABLE: f"replay:{path}"})
    assert chosen is not None
    assert chosen.complete(REQUEST) == first
    with pytest.raises(ModelError, match="no \\(further\\) reply"):
        chosen.complete(REQUEST)


def test_recording_keeps_the_name_of_who_answers(tmp_path: Path) -> None:
    chosen = provider({VARIABLE: f"exchange:{tmp_path / 'x'}", RECORD_VARIABLE: str(tmp_path / "r.jsonl")})
    assert chosen is not None
    assert chosen.name == "exchange"


@pytest.mark.parametrize("text", ["not json\n", '{"key": 1}\n', "[]\n"])
def test_a_broken_recording_names_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text("\n" + text, encoding="utf-8")
    with pytest.raises(ModelError, match=r"broken\.jsonl:2"):
        Replay(path)


def test_an_answer_file_is_the_answer(tmp_path: Path) -> None:
    def answer() -> None:
        question = tmp_path / "0001.request.json"
        while not question.exists():
            time.sleep(0.01)
        asked = json.loads(question.read_text(encoding="utf-8"))
        draft = tmp_path / "draft"
        draft.write_text(json.dumps({"answer": {"stage": asked["stage"]}}), encoding="utf-8")
        draft.rename(tmp_path / "0001.answer.json")

    helper = threading.Thread(target=answer)
    helper.start()
    reply = Exchange(tmp_path, timeout_s=20).complete(REQUEST)
    helper.join()
    assert reply.answer == {"stage": "implementer"}


def test_waiting_ends(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"0001\.answer\.json"):
        Exchange(tmp_path, timeout_s=0.3).complete(REQUEST)
