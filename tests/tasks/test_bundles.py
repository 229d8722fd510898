"""The bundles: complete, with one common timing window, and with commands that build what the spec says."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import load_source
from fabrica_bench.integrity.frozen import check_program, window_use
from fabrica_bench.tasks import Task, list_tasks, load_task
from fabrica_bench.tasks.spec import Arch
from fabrica_bench.tasks.sync import MODEL_TASK, common_files, differing, unlike_their_models

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)


def test_the_window_and_the_common_host_part_are_the_same_everywhere() -> None:
    model = load_task(MODEL_TASK)
    assert common_files(model) == ("window.csl", "host.py")
    assert all(set(common_files(model)) <= set(task.spec.bundle.files) for task in TASKS)
    assert list(differing(TASKS, model)) == []
    assert list(unlike_their_models(TASKS, model)) == []


@BY_NAME
def test_a_pair_is_complete_and_holds_nothing_else(task: Task) -> None:
    bundle = {f"csl/{name}" for name in task.spec.bundle.files}
    files = [path for path in task.root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    found = {str(path.relative_to(task.root)) for path in files}
    assert found == {"spec.yaml", "task.md", "oracle.py", "cuda/kernel.cu"} | bundle


@BY_NAME
def test_commands_build_every_size_as_the_spec_says(task: Task, tmp_path: Path) -> None:
    """The scripts run with a `cslc` and a `cs_python` that only write down their arguments."""
    for tool in ("cslc", "cs_python"):
        path = tmp_path / tool
        path.write_text(f'#!/bin/sh\necho {tool} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for arch in task.spec.bundle.archs:
        script = task.bundle_dir / task.spec.bundle.commands[arch]
        assert os.access(script, os.X_OK)
        for size_name in ("", *task.spec.size_names):
            done = _call([str(script), *([size_name] if size_name else [])], environment)
            build, run = done.stdout.splitlines()
            flags = task.compile_flags(task.size(size_name or "small"), arch)
            assert shlex.split(build) == ["cslc", "layout.csl", *flags, "-o", "out"]
            assert shlex.split(run) == ["cs_python", "run.py", "--name", "out"]
        refused = _call([str(script), "huge"], environment)
        assert refused.returncode == 2
        assert "unknown size 'huge'" in refused.stderr


def _call(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=20)


@BY_NAME
def test_runners_use_only_numpy_and_the_vendor_host_api(task: Task) -> None:
    imported = set()
    for name in task.spec.bundle.runner_files:
        tree = ast.parse((task.bundle_dir / name).read_text(encoding="utf-8"))
        imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"argparse", "json", "sys", "host", "numpy", "cerebras.sdk.runtime.sdkruntimepybind"}


@BY_NAME
def test_runners_launch_in_the_frozen_order(task: Task) -> None:
    """The order stands in run.py itself, where a reader and an agent look for it."""
    text = (task.bundle_dir / task.spec.bundle.runner).read_text(encoding="utf-8")
    assert tuple(re.findall(r'launch\("(\w+)"', text)) == task.spec.frozen.launches


@BY_NAME
@pytest.mark.parametrize("variant", ["compute", "plain"])
def test_both_references_keep_the_frozen_interface(task: Task, variant: str) -> None:
    bundle = task.spec.bundle
    reference = parse_file(load_source(task.bundle_dir / bundle.compute))
    program = parse_file(load_source(task.bundle_dir / (bundle.compute if variant == "compute" else str(bundle.plain))))
    use = window_use(reference, bundle.window, task.spec.frozen.launches)
    assert use is not None
    assert check_program(program, reference, use) == []


@BY_NAME
def test_frozen_names_are_those_of_the_sources(task: Task) -> None:
    bundle = task.spec.bundle
    layout = (task.bundle_dir / bundle.layout).read_text(encoding="utf-8")
    program = (task.bundle_dir / bundle.compute).read_text(encoding="utf-8")
    assert sorted(re.findall(r'@export_name\("(\w+)"', layout)) == sorted(task.spec.frozen.symbols)
    assert sorted(re.findall(r"^param (\w+)", program, re.MULTILINE)) == sorted(task.spec.frozen.params)
    assert sorted(re.findall(r"^param (\w+)", layout, re.MULTILINE)) == sorted(task.size("small"))


@BY_NAME
def test_the_task_text_names_what_is_frozen(task: Task) -> None:
    text = task.text_path.read_text(encoding="utf-8")
    for name in (*task.spec.frozen.params, task.spec.entry.name, "window.start();", "window.end();"):
        assert name in text, name


@BY_NAME
def test_lower_bounds_lie_below_the_published_cycles(task: Task) -> None:
    archs: tuple[Arch, ...] = task.spec.bundle.archs
    for size in task.spec.sizes:
        for arch in archs:
            bound = task.lower_bound(dict(size.params), arch)
            assert bound >= 1
            assert size.published_cycles is None or bound < size.published_cycles


@BY_NAME
def test_every_task_has_a_size_beyond_the_published_one(task: Task) -> None:
    assert {"small", "medium"} <= set(task.spec.size_names)
