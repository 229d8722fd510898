"""`inspect eval` runs the benchmark with Inspect's models: right, wrong, repaired and unusable answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.double_it import FIXTURE_TASKS, expert, plain

pytest.importorskip("inspect_ai")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Evaluate the fixture task with a model that gives these answers; returns the sample and the metrics."""
    from inspect_ai import eval as inspect_eval
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from fabrica_bench.interop.inspect_task import fabrica

    monkeypatch.setenv("FABRICA_BENCH_TASKS", str(FIXTURE_TASKS))
    monkeypatch.setenv("FABRICA_BENCH_TEST_DOUBLES", "1")

    def evaluate(*answers: str, attempts: int = 1):
        outputs = [ModelOutput.from_content("mockllm/model", answer) for answer in answers]
        for output in outputs:
            # Without it the mock model would fetch a tokenizer to count its words.
            output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        (log,) = inspect_eval(
            fabrica(filter="name=Double-It", attempts=attempts, toolchain="scripted"),
            model=get_model("mockllm/model", custom_outputs=outputs),
            log_dir=str(tmp_path / "logs"),
            display="none",
        )
        assert log.status == "success", log.error
        (sample,) = log.samples
        return sample, {score.name: score.metrics["mean"].value for score in log.results.scores}

    return evaluate


def fenced(text: str) -> str:
    return f"Here it is:\n\n```csl pe.csl\n{text}```\n"


def test_answers_are_scored_by_our_scorer_and_repaired_after_a_complaint(run):
    wrong = "//! outputs=zeros\n" + plain()
    sample, metrics = run(fenced(plain()))
    assert metrics == {"valid": 1, "fast_1": 0}
    (score,) = sample.scores.values()
    assert score.metadata["speedup"] == 1.0
    assert len(score.metadata["verdict"]["samples"]) == 8
    _, metrics = run(fenced(wrong))
    assert metrics["valid"] == 0
    sample, metrics = run(fenced(wrong), fenced("//! cycles=500\n" + plain()), attempts=3)
    assert metrics == {"valid": 1, "fast_1": 1}
    assert "fails Correct" in sample.messages[2].text
    sample, metrics = run("I can't", attempts=1)
    assert metrics["valid"] == 0
    assert "pe.csl is missing" in next(iter(sample.scores.values())).explanation


def test_the_model_never_sees_the_reference(run):
    sample, _ = run(fenced(plain()))
    text = sample.input if isinstance(sample.input, str) else str(sample.input)
    assert "kernel.cu" in text
    assert "pe.csl" in text
    assert expert() not in text
    assert plain() not in text


def test_files_are_taken_from_named_fences_alone():
    from fabrica_bench.interop.inspect_task import files_of

    answer = "```\nno name\n```\n```csl pe.csl\nold\n```\n```pe.csl\nnew\n```\n```python\nx\n```\n"
    assert files_of(answer) == {"pe.csl": "new\n"}
