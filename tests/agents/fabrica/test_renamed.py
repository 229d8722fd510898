"""The agent knows no task: under other names, with other texts, it makes the same programs from the same code.

A copy of a task gets another name and description, its CUDA source other names of kernels, device functions and
launcher and no comments, its CSL files no comments. What the copy keeps is the interface: parameters, exported symbols,
inputs and outputs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from fabrica_agent.agent import FabricaAgent

from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import AgentGaveUp, Budget, VisibleRun
from fabrica_bench.tasks import Task, load_task
from fabrica_bench.tasks.selection import list_tasks

TASKS = list_tasks()
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
OWN_NAME = re.compile(r"\b(?:__global__|__device__)[^;{}()=]*?\b(\w+)\s*\(")


class Tools:
    """Takes every program as valid and equally fast, so that everything that could be tried is."""

    def __init__(self) -> None:
        self.tried: list[dict[str, str]] = []

    def run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        self.tried.append(dict(files))
        return VisibleRun(ok=True, outcome="valid", cycles=1000)

    def profile(self, files: Mapping[str, str]) -> str:
        """A line costs as many cycles as it has characters, wherever it stands."""
        lines = COMMENT.sub("", files["pe.csl"]).splitlines()
        return "\n".join(f"  pe.csl:{number}: {len(_code(line))}" for number, line in enumerate(lines, 1))

    def log(self, event: str, **data: Any) -> None:
        return


def renamed(task: Task, folder: Path) -> Task:
    """A copy of a task from which nothing tells which one it is."""
    copy = folder / "task-zz"
    shutil.copytree(task.root, copy)
    spec = yaml.safe_load((copy / "spec.yaml").read_text())
    launcher = spec["cuda"]["launcher"]
    spec |= {"name": "Task-ZZ", "description": "A kernel."}
    spec["cuda"]["launcher"] = "go_zz"
    (copy / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
    (copy / "task.md").write_text("# Task-ZZ\n\nTranslate the CUDA kernel.\n")
    for path in (copy / "cuda").glob("*.cu"):
        text = COMMENT.sub("", path.read_text())
        names = [n for n in dict.fromkeys(OWN_NAME.findall(text)) if n != launcher]
        for k, name in enumerate(names):
            text = re.sub(rf"\b{name}\b", f"zz{k}", text)
        path.write_text(re.sub(rf"\b{launcher}\b", "go_zz", text))
    for path in (copy / "csl").glob("*.csl"):
        path.write_text(COMMENT.sub("", path.read_text()))
    return load_task(str(copy) + "/")


def outcome(task: Task, workflow: Any) -> tuple[list[dict[str, str]], str]:
    """Every program that the agent tried, without comments, and how it ended."""
    view = task_view(task, arch="wse3", size="small", workflow=workflow, toolchain="embedded")
    tools = Tools()
    try:
        FabricaAgent().translate(view, tools, Budget(evaluations=40, wall_s=3600, tokens=0))  # type: ignore[arg-type]
        end = "translated"
    except AgentGaveUp:
        end = "gave up"
    return [{n: _code(t) for n, t in files.items()} for files in tools.tried], end


def _code(text: str) -> str:
    return re.sub(r"\s+", " ", COMMENT.sub("", text))


@pytest.mark.parametrize(
    ("name", "workflow"),
    [("SAXPY-1PE", "W1"), ("ParBroadcast-Scale", "W1"), ("SpMV-CSR", "W2")],
)
def test_the_same_programs_come_of_a_task_under_another_name(name: str, workflow: str, tmp_path: Path) -> None:
    task = load_task(name)
    original = outcome(task, workflow)
    assert original[1] == "translated"
    assert outcome(renamed(task, tmp_path), workflow) == original


def test_the_copy_has_no_name_of_the_original(tmp_path: Path) -> None:
    copy = renamed(load_task("ParDot-Product"), tmp_path)
    view = task_view(copy, arch="wse3", size="small", workflow="W1", toolchain="embedded")
    words = " ".join((view.name, view.cuda, view.task_md, view.files["layout.csl"])).lower()
    assert "dot" not in words
    assert "inner product" not in words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workflow", "name"),
    [("W1", task.name) for task in TASKS] + [("W2", task.name) for task in TASKS if "w2" in task.spec.sets],
)
def test_no_task_is_known_by_its_name(name: str, workflow: str, tmp_path: Path) -> None:
    task = load_task(name)
    assert outcome(renamed(task, tmp_path), workflow) == outcome(task, workflow)
