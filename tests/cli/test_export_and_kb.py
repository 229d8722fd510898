"""`export`, `proxy` and `kb`, in process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.sample_run import write_sample_run

from fabrica_bench.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICA_AGENT_KB_FOLDER", str(tmp_path / "kb"))


def test_a_run_without_models_gives_no_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sample_run(tmp_path / "run")
    out = tmp_path / "data.jsonl"
    assert main(["export", "sft", str(tmp_path / "run"), "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert "0 records of 0 turns" in captured.out
    assert "no calls of a model" in captured.err
    assert out.read_text(encoding="utf-8") == ""


def test_runs_without_repeated_failures_say_what_a_lesson_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample_run(tmp_path / "run")
    assert main(["kb", "lessons", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    assert "0 lessons of 1 run" in captured.out
    assert "at least 2 attempts" in captured.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export", "dpo", "RUN", "--out", "x.jsonl"], "value of KIND"),
        (["export", "sft", "RUN", "--out", "x.csv"], ".jsonl or .parquet"),
        (["export", "sft", "nowhere", "--out", "x.jsonl"], "nowhere"),
        (["export", "sft", "RUN", "--out", "x.jsonl", "--label", "7"], "-1, 0, 1"),
        (["proxy", "broken.jsonl"], "broken.jsonl:2"),
        (["kb", "add", "nowhere"], "no such file"),
    ],
)
def test_bad_input_is_named(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_sample_run(tmp_path / "RUN")
    (tmp_path / "broken.jsonl").write_text('{"files": {}, "editable": []}\n{"files": 1}\n', encoding="utf-8")
    assert main(words) != 0
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_proxy_prints_every_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"files": {"pe.csl": "var x = @zeros([2]f32);\n"}, "editable": ["pe.csl"]}
    (tmp_path / "p.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert main(["proxy", str(tmp_path / "p.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"predictions": 1, "usable": 1.0, "contract": 1.0, "chrf": None, "vocabulary": 1.0}


def test_kb_adds_and_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "n.md").write_text("# One\n\nA note that is long enough to be kept as a note.\n", encoding="utf-8")
    assert main(["kb", "add", str(tmp_path / "n.md")]) == 0
    assert main(["kb", "list"]) == 0
    out = capsys.readouterr().out
    assert "1 notes of 1 file" in out
    assert "1  n.md" in out
