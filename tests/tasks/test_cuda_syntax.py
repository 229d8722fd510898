"""The CUDA sources compile as far as libclang can tell, which needs neither nvcc nor a GPU: syntax, types and calls.

docs/cuda-validation.md has what a GPU made of them.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from fabrica_agent.cuda.source import CudaSource, parse
from fabrica_agent.lowering.ir import UnsupportedError

from fabrica_bench.tasks import Task, list_tasks
from fabrica_bench.tasks.cuda_harness import Argument, arguments

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)

SCALARS = {"f32": {"float"}, "i32": {"int"}, "u32": {"unsigned int", "int"}, "u16": {"unsigned short", "int"}}
"""What a launcher may call the types of values; a smaller one may be widened."""

POINTEES = {"f32": "float", "f16": "_Float16", "u32": "unsigned int", "i32": "int", "u16": "unsigned short"}


@functools.cache
def _parsed(path: Path) -> CudaSource:
    return parse(path.read_text(encoding="utf-8"))


def _launcher_types(source: CudaSource, name: str) -> list[str]:
    (launcher,) = [function for function in source.functions if function.spelling == name]
    assert launcher.result_type.spelling == "cudaError_t"
    return [argument.type.get_canonical().spelling for argument in launcher.get_arguments()]


def _fits(argument: Argument, found: str) -> bool:
    if argument.kind in ("value", "size"):
        return found in SCALARS[argument.dtype]
    const = "const " if argument.kind == "input" else ""
    return found == f"{const}{POINTEES[argument.dtype]} *"


@BY_NAME
def test_a_source_compiles_and_its_launcher_takes_what_the_spec_says(task: Task) -> None:
    source = _parsed(task.cuda_path)
    found = _launcher_types(source, task.spec.cuda.launcher)
    wanted = arguments(task)
    assert len(found) == len(wanted)
    wrong = [(argument, text) for argument, text in zip(wanted, found, strict=True) if not _fits(argument, text)]
    assert wrong == []


@BY_NAME
def test_a_source_has_a_kernel_and_launches_it(task: Task) -> None:
    source = _parsed(task.cuda_path)
    own = [kid for kid in source.unit.cursor.walk_preorder() if str(kid.location.file) == source.name]
    kernels = {
        cursor.spelling
        for cursor in own
        if cursor.kind.name == "FUNCTION_DECL"
        and any(kid.kind.name == "CUDAGLOBAL_ATTR" for kid in cursor.get_children())
    }
    launched = {
        cursor.referenced.spelling
        for cursor in own
        if cursor.kind.name == "DECL_REF_EXPR" and cursor.referenced is not None
    } & kernels
    assert kernels
    assert launched == kernels


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fmaxf(x[i], 0.0f)", "fmaxf(x[i])", "no matching function"),
        ("fmaxf(x[i], 0.0f)", "fmaxf(y[i], 0.0f)", "undeclared identifier 'y'"),
        ("fmaxf(x[i], 0.0f)", "fmaxf(x[i, 0.0f)", "expected"),
    ],
)
def test_a_source_with_a_mistake_does_not_compile(old: str, new: str, message: str) -> None:
    (task,) = list_tasks(["name=ReLU-1PE"])
    text = task.cuda_path.read_text(encoding="utf-8")
    assert old in text
    with pytest.raises(UnsupportedError, match=message):
        parse(text.replace(old, new, 1))
