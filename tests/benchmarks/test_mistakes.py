"""What the benchmark scripts say when an option or argument makes no sense: one line, exit code 2, no traceback."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FILTERED = sorted(path.name for path in BENCHMARKS.glob("*.py") if '"--filter"' in path.read_text(encoding="utf-8"))


def _run(script: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of `python benchmarks/SCRIPT WORDS`."""
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / script), *words])
    monkeypatch.syspath_prepend(str(BENCHMARKS))  # as Python does with a script's folder
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_the_scripts_that_choose_tasks_are_found() -> None:
    assert {"agent.py", "leakage.py", "scoring_overhead.py", "scoring_speed.py"} <= set(FILTERED)


@pytest.mark.parametrize("script", FILTERED)
@pytest.mark.parametrize(
    ("filters", "message", "remedy"),
    [
        (["level=4", "set=w2"], "no task meets level=4 and set=w2", "level=4 chooses RowParallel-Softmax"),
        (["levle=1"], "unknown filter key 'levle'", "known: family, level, name, origin, set, split"),
        (["name=RelU-1PX"], "unknown task 'RelU-1PX'", "did you mean ReLU-1PE"),
        (["level=7"], "unknown level in filter '7'", "known: 1, 2, 3, 4"),
        (["core"], "filter 'core' is not of the form key=value", "keys: set, level, split, origin, family, name"),
    ],
)
def test_a_filter_that_chooses_nothing_is_told_in_one_line(
    script: str,
    filters: list[str],
    message: str,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run(script, "--filter", *filters, monkeypatch=monkeypatch) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: {message}")
    assert remedy in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["executors.py", "gemm"], "error: unknown case 'gemm' (did you mean gemm-1pe? known: allreduce-100x100, "),
        (["flame.py", "picture.svg", "--task", "RelU-1PX"], "error: unknown task 'RelU-1PX' (did you mean ReLU-1PE"),
        (["scaling.py", "--widths", "10,0"], "argument --widths: '10,0' is no list of positive numbers"),
        (["scaling.py", "--threads", "two"], "argument --threads: 'two' is no list of positive numbers"),
        (["scoring_overhead.py", "--repeats", "0"], "--repeats must be at least 1"),
        (["scoring_speed.py", "--repeats", "-1"], "--repeats must be at least 0"),
    ],
)
def test_so_are_the_other_arguments(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*words, monkeypatch=monkeypatch) == 2
    assert message in capsys.readouterr().err


def test_a_line_that_is_no_row_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    for line in ("{}", "[1]", "torn {"):
        rows.write_text(f"{line}\n", encoding="utf-8")
        assert _run("agent.py", "--rows", str(rows), monkeypatch=monkeypatch) == 3
        assert capsys.readouterr().err.startswith(f"error: {rows}:1: not a row of this benchmark")
