"""The deterministic extractor reads every task of the benchmark without a gap, and agrees with its spec on the mesh."""

from __future__ import annotations

import pytest
from fabrica_agent.stages.facts import gather
from fabrica_agent.stages.routes import evaluate_layout

from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import TaskView
from fabrica_bench.tasks import list_tasks, load_task


def view_of(name: str) -> TaskView:
    task = load_task(name)
    return task_view(
        task, arch=task.spec.bundle.archs[-1], size=task.spec.sizes[0].name, workflow="W1", toolchain="embedded"
    )


def check(name: str) -> None:
    task = load_task(name)
    facts = gather(view_of(name))
    size = task.spec.sizes[0].name
    assert facts.problems == (), name
    assert facts.rectangle() == task.mesh(task.size(size)), name
    assert facts.launches()[-1] == task.spec.entry.name, name
    assert facts.window is not None, name
    assert facts.layout is not None, name
    assert {p.name for p in facts.layout.params} == set(task.spec.frozen.params), name


@pytest.mark.parametrize("name", ["SAXPY-1PE", "Laplacian2D-Halo", "GEMM-Collectives-2D", "CG"])
def test_the_facts_of_a_task_are_those_of_its_spec(name: str) -> None:
    check(name)


@pytest.mark.slow
def test_the_facts_of_every_task_are_those_of_its_spec() -> None:
    for task in list_tasks():
        check(task.name)


def test_a_layout_that_cannot_be_evaluated_says_why() -> None:
    view = view_of("SAXPY-1PE")
    broken = view.model_copy(update={"files": {**view.files, "layout.csl": "layout { @set_rectangle(q, 1); }"}})
    found = evaluate_layout(broken, "pe.csl", [], frozenset())
    assert isinstance(found, str)
    assert found.startswith("layout.csl:1:25: error")
    assert gather(broken).problems != ()
