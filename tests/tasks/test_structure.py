"""Both references of a task have the published structure: what it is made of is looked for in their sources."""

from __future__ import annotations

import re

import pytest

from fabrica_bench.tasks import Task, load_task

DATA_TASK = r"@bind_data_task\("
CONTROL = r"\.control = true"
SWITCHES = r"\.switches\b|\.pos1\b"
COLLECTIVES = r"<collectives_2d/pe>"
TALLY = r"<kernels/tally/pe>"
HALF = r"\bf16\b"
FABRIC_OUT = r"fabout_dsd"
FABRIC_IN = r"fabin_dsd|@get_data_task_id"
LOCAL_TASK = r"@bind_local_task\("

KERNEL: dict[str, tuple[str, ...]] = {
    "GEMV": (FABRIC_OUT, FABRIC_IN),
    "GEMM": (FABRIC_OUT, FABRIC_IN, CONTROL),
    "GEMM-Collectives-2D": (COLLECTIVES,),
    "GEMV-Checkerboard": (HALF, DATA_TASK, FABRIC_OUT, FABRIC_IN),
    "GEMV-Collectives-2D": (COLLECTIVES,),
    "Cholesky": (FABRIC_OUT, FABRIC_IN, CONTROL),
    "Wide-Multiplication": (DATA_TASK, FABRIC_OUT),
    "Game-of-Life": (FABRIC_OUT, FABRIC_IN),
    "Laplacian2D-Halo": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "Laplacian2D-Reduce": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "LorenzoPredictor-Tile": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "Residual": (FABRIC_OUT, FABRIC_IN),
    "Jacobi-2D-5pt": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "Histogram": (TALLY, FABRIC_OUT, FABRIC_IN),
    "Histogram-Inline": (FABRIC_OUT, FABRIC_IN),
    "7pt-Stencil": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "BiCGSTAB": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "CG": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "Power-Method": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "Preconditioned-CG": (FABRIC_OUT, FABRIC_IN, LOCAL_TASK),
    "Mandelbrot": (FABRIC_OUT, FABRIC_IN),
    "FFT-1D-2D": (FABRIC_OUT, FABRIC_IN),
    "ParReduce-Sum": (FABRIC_OUT, FABRIC_IN),
    "ParBroadcast-Scale": (FABRIC_OUT, FABRIC_IN),
    "ParDot-Product": (FABRIC_OUT, FABRIC_IN),
    "RowParallel-Softmax": (FABRIC_OUT, FABRIC_IN),
}
"""What pe.csl and plain.csl must both have: every task whose PEs exchange data is here."""

LAYOUT: dict[str, tuple[str, ...]] = {
    "GEMM": (SWITCHES,),
    "Cholesky": (SWITCHES,),
    "GEMM-Collectives-2D": (r"<collectives_2d/params>",),
    "GEMV-Collectives-2D": (r"<collectives_2d/params>",),
    "Histogram": (r"<kernels/tally/layout>",),
}

KRYLOV = ("BiCGSTAB", "CG", "Power-Method", "Preconditioned-CG")


def _source(task: Task, name: str | None) -> str:
    assert name is not None
    return re.sub(r"//[^\n]*", "", (task.bundle_dir / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", KERNEL)
@pytest.mark.parametrize("variant", ["compute", "plain"])
def test_a_kernel_has_the_published_structure(name: str, variant: str) -> None:
    task = load_task(name)
    text = _source(task, getattr(task.spec.bundle, variant))
    assert [pattern for pattern in KERNEL[name] if not re.search(pattern, text)] == []


@pytest.mark.parametrize("name", LAYOUT)
def test_a_layout_has_the_published_structure(name: str) -> None:
    task = load_task(name)
    text = _source(task, task.spec.bundle.layout)
    assert [pattern for pattern in LAYOUT[name] if not re.search(pattern, text)] == []


def test_the_sums_of_the_checkerboard_take_two_colors_by_turns() -> None:
    task = load_task("GEMV-Checkerboard")
    text = _source(task, task.spec.bundle.layout)
    assert "checkerboard[square]" in text
    assert "checkerboard[1 - square]" in text
    assert {tensor.dtype for tensor in (*task.spec.inputs, *task.spec.outputs)} == {"f16"}


@pytest.mark.parametrize("name", KRYLOV)
def test_a_solver_iterates_on_the_device(name: str) -> None:
    """One launch does all iterations, whose number is an argument."""
    task = load_task(name)
    assert task.spec.frozen.launches == ("window_open", task.spec.entry.name)
    assert "max_ite" in [argument.value for argument in task.spec.entry.args]


def test_a_softmax_runs_on_four_pes_besides_the_published_two() -> None:
    task = load_task("RowParallel-Softmax")
    assert {task.mesh(task.size(name))[0] for name in ("small", "four")} == {2, 4}


def test_a_transform_has_one_and_two_dimensions_and_both_directions() -> None:
    task = load_task("FFT-1D-2D")
    assert {task.size(name)["DIM"] for name in task.spec.size_names} == {1, 2}
    directions = {
        int(task.inputs(7, task.size("small"), distribution)["inverse"][0]) for distribution in task.distributions
    }
    assert directions == {0, 1}
