"""An agent is shown the task and nothing that gives the answer away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.double_it import double_it, expert, plain

from fabrica_bench.errors import FabricaError
from fabrica_bench.firewall.screening import LeakError
from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import TaskView, Workflow
from fabrica_bench.tasks import Task, load_task


def view(task: Task | None = None, workflow: Workflow = "W1") -> TaskView:
    return task_view(task or double_it(), arch="wse2", size="small", workflow=workflow, toolchain="embedded")


def test_the_view_holds_the_visible_files_and_the_sizes() -> None:
    shown = view()
    assert sorted(shown.files) == ["commands_wse2.sh", "commands_wse3.sh", "layout.csl", "run.py", "window.csl"]
    assert shown.editable == ("pe.csl",)
    assert shown.size == {"n": 16}
    assert "double_it" in shown.cuda


def test_neither_kernel_nor_oracle_nor_spec_is_in_it() -> None:
    text = view().model_dump_json()
    for secret in ("tensor_access", "lower_bound", "derivation", "published", "float64", "2.0 * x[i]"):
        assert secret not in text
    assert expert() not in text


def test_w2_starts_from_the_plain_kernel_under_the_compute_files_name() -> None:
    shown = view(workflow="W2")
    assert shown.files["pe.csl"] == plain()
    assert "plain.csl" not in shown.files


def test_co_design_shows_the_layout_that_may_be_replaced() -> None:
    shown = view(workflow="W1-C")
    assert shown.editable == ("pe.csl", "layout.csl")
    assert "layout.csl" in shown.files


@pytest.mark.parametrize("name", ["task.md", "cuda/kernel.cu", "csl/run.py"])
def test_a_reference_that_slipped_into_a_visible_file_stops_the_run(name: str, tmp_path: Path) -> None:
    shutil.copytree(double_it().root, tmp_path / "double-it")
    with (tmp_path / "double-it" / name).open("a", encoding="utf-8") as stream:
        stream.write(expert())
    with pytest.raises(LeakError, match=r"holds the canary of Double-It.s pe\.csl"):
        view(load_task("Double-It", root=tmp_path))


def test_an_unknown_workflow_is_refused(tmp_path: Path) -> None:
    shutil.copytree(double_it().root, tmp_path / "double-it")
    spec = tmp_path / "double-it" / "spec.yaml"
    text = spec.read_text(encoding="utf-8")
    assert "bundle: {host: null}" in text
    changed = text.replace("bundle: {host: null}", 'bundle: {host: null, editable: {W1: ["pe.csl"]}}')
    spec.write_text(changed, encoding="utf-8")
    with pytest.raises(FabricaError, match="doesn't offer workflow W2"):
        view(load_task("Double-It", root=tmp_path), "W2")
