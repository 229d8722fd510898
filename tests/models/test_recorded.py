"""Exchange through files, and replay of what a run recorded."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from fabrica_bench.models.exchange import Exchange
from fabrica_bench.models.provider import check_answer, parse_answer
from fabrica_bench.models.replay import Replay
from fabrica_bench.plugins import ModelError, ModelRequest

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
REQUEST = ModelRequest(stage="implementer", system="s", user="u", answer_schema=SCHEMA)


def soon(seconds: float = 10) -> float:
    return time.monotonic() + seconds


def recording(*replies: tuple[ModelRequest, dict], model: str = "exchange") -> str:
    lines = []
    for request, answer in replies:
        data = {"model": model, "key": request.key(), "stage": request.stage, "reply": {"answer": answer}}
        lines.append({"record": "agent_event", "time": "t", "event": "model_call", "data": data})
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_the_same_request_gets_its_answers_in_order(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    other = REQUEST.model_copy(update={"user": "v"})
    path.write_text(recording((REQUEST, {"n": 1}), (other, {"n": 9}), (REQUEST, {"n": 2})), encoding="utf-8")
    replay = Replay(tmp_path)
    assert replay.name == "exchange (replayed)"
    assert [replay.complete(REQUEST, soon()).answer["n"] for _ in range(2)] == [1, 2]
    with pytest.raises(ModelError, match="no \\(further\\) answer"):
        replay.complete(REQUEST, soon())


def test_an_ordered_replay_takes_the_next_answer_of_the_stage_when_the_prompt_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(recording((REQUEST, {"n": 1}), (REQUEST, {"n": 2})), encoding="utf-8")
    changed = REQUEST.model_copy(update={"user": "changed"})
    in_order = Replay(path, in_order=True)
    assert in_order.name == "exchange (replayed in order)"
    assert [in_order.complete(changed, soon()).answer["n"] for _ in range(2)] == [1, 2]
    with pytest.raises(ModelError, match="differ"):
        Replay(path).complete(changed, soon())


@pytest.mark.parametrize("text", ["not json\n", '{"record": "agent_event", "event": "model_call"}\n', "[]\n"])
def test_a_broken_recording_names_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text("\n" + text, encoding="utf-8")
    with pytest.raises(ModelError, match=r"broken\.jsonl:2"):
        Replay(path)


def test_a_run_without_model_calls_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text('{"record": "job_started"}\n', encoding="utf-8")
    with pytest.raises(ModelError, match="no model call"):
        Replay(path)


def answer_in(folder: Path, text: str, number: int = 1) -> threading.Thread:
    def work() -> None:
        question = folder / f"{number:04d}.request.json"
        while not question.exists():
            time.sleep(0.02)
        assert json.loads(question.read_text(encoding="utf-8"))["stage"] == "implementer"
        (folder / f"{number:04d}.answer.json").write_text(text, encoding="utf-8")

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_person_can_be_the_model(tmp_path: Path) -> None:
    notices: list[str] = []
    thread = answer_in(tmp_path / "x", '{"answer": {"n": 3}}')
    reply = Exchange(tmp_path / "x").complete(REQUEST, soon(), notices.append)
    thread.join()
    assert reply.answer == {"n": 3}
    assert "0001.answer.json" in notices[0]


@pytest.mark.parametrize(
    ("text", "message"), [("{", "member `answer`"), ('{"answer": {}}', "lacks"), ('{"answer": {"n": "3"}}', "integer")]
)
def test_an_answer_that_does_not_fit_is_named(tmp_path: Path, text: str, message: str) -> None:
    thread = answer_in(tmp_path, text)
    with pytest.raises(ModelError, match=message):
        Exchange(tmp_path).complete(REQUEST, soon(1.0))
    thread.join()


def test_an_answer_may_be_mended_or_written_in_pieces(tmp_path: Path) -> None:
    notices: list[str] = []

    def told(text: str) -> None:
        notices.append(text)
        if "waiting for it to be mended" in text:
            (tmp_path / "0001.answer.json").write_text('{"answer": {"n": 3}}', encoding="utf-8")

    thread = answer_in(tmp_path, '{"answer": {"n"')
    assert Exchange(tmp_path).complete(REQUEST, soon(), told).answer == {"n": 3}
    thread.join()
    assert "member `answer`" in notices[1]


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no answer in time"):
        Exchange(tmp_path).complete(REQUEST, soon(0.1))


def test_the_object_is_found_among_words() -> None:
    assert parse_answer('Sure {not json} here: ```json\n{"n": 4}\n``` bye {', SCHEMA) == {"n": 4}
    with pytest.raises(ModelError, match="no JSON object"):
        parse_answer("nothing", SCHEMA)
    with pytest.raises(ModelError, match="lacks the member 'n'"):
        parse_answer('{"m": 4}', SCHEMA)


def test_a_truth_value_is_no_number() -> None:
    assert check_answer({"n": True}, SCHEMA) == "the answer.n must be of type integer, not bool"
