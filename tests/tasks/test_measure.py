"""Measuring the references with any tools: what is said when one fails."""

from __future__ import annotations

import sys

import pytest

from fabrica_bench.tasks import Task, load_task
from fabrica_bench.tasks.measure import Tools, main, measure


@pytest.fixture
def task() -> Task:
    return load_task("ReLU-1PE")


def test_a_failing_tool_is_reported_by_its_message(task: Task) -> None:
    script = "import sys; sys.exit('pe.csl:1:1: error: no such thing')"
    tools = Tools((sys.executable, "-c", script), (sys.executable, "-c", script))
    found = measure(task, "wse3", "small", "expert", tools)
    assert found.problem == "build: pe.csl:1:1: error: no such thing"
    assert found.cycles is None


def test_a_runner_that_writes_wrong_outputs_is_caught(task: Task) -> None:
    script = "import numpy as np; np.savez('outputs.npz', out=np.zeros(512, np.float32), cycles=np.int64(5))"
    tools = Tools((sys.executable, "-c", ""), (sys.executable, "-c", script))
    found = measure(task, "wse3", "small", "expert", tools)
    assert found.problem.startswith("normal: out at [")


def test_cycles_are_the_median_over_the_distributions(task: Task) -> None:
    """Lower median of 50, 20, 40, 30: a runner that counts how often it was asked, and gives the right outputs."""
    runner = (
        "import numpy as np, pathlib; log = pathlib.Path('asked'); log.open('a').write('x');"
        "x = np.load('inputs.npz')['x']; cycles = [50, 20, 40, 30][len(log.read_text()) - 1];"
        "np.savez('outputs.npz', out=np.maximum(x, 0), cycles=np.int64(cycles))"
    )
    tools = Tools((sys.executable, "-c", ""), (sys.executable, "-c", runner))
    spec = task.spec.model_copy(update={"distributions": dict(list(task.spec.distributions.items())[:4])})
    found = measure(Task(spec, task.root), "wse3", "small", "expert", tools)
    assert (found.problem, found.cycles, found.runs) == ("", 30, 4)


def test_another_toolchain_needs_both_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cslc", "cslc"]) == 2
    assert "--cslc and --cs-python together" in capsys.readouterr().err
