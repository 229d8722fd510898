"""Both references of every task on the embedded toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabrica_bench.scoring.references import Cell, cells, validate_cell
from fabrica_bench.tasks import Task, list_tasks, load_task
from fabrica_bench.tasks.measure import Tools, measure
from fabrica_bench.tasks.recording import VARIANTS
from fabrica_bench.tasks.spec import ARCHS, Arch

TASKS = list_tasks()
BY_NAME = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)


def _require_recorded(cell: Cell) -> dict[str, int | None]:
    """Judge both references; they must be valid, with the cycles that the spec records, if it does. Returns cycles."""
    task = load_task(cell.root)
    result = validate_cell(cell, recording=True)
    assert {row.reference: row.reason for row in result.rows} == {"expert": None, "plain": None}
    found = {row.reference: row.cycles for row in result.rows}
    recorded = task.spec.reference_cycles.cycles.get(cell.arch, {}).get(cell.size)
    if recorded is not None:
        first = {row.reference: row.samples[0] for row in result.rows}
        assert {"expert": recorded.expert, "plain": recorded.plain} == found, (
            f"cycles have changed: run `fabrica-bench tasks validate --all --record --filter name={task.name}` and "
            "`fabrica-bench tasks cycles --out docs/reference-cycles.md`"
        )
        assert recorded.plain_as_published in (None, first["plain"])
    return dict(found)


@BY_NAME
def test_references_are_valid_with_the_recorded_cycles_at_the_small_size_on_wse3(task: Task) -> None:
    assert "small" in task.spec.reference_cycles.cycles["wse3"]
    cycles = _require_recorded(Cell(str(task.root), "wse3", "small"))
    assert task.lower_bound(task.size("small"), "wse3") < (cycles["expert"] or 0) < (cycles["plain"] or 0)


@BY_NAME
def test_the_expert_is_right_at_the_medium_size_on_wse2(task: Task) -> None:
    found = measure(task, "wse2", "medium", "expert", Tools(), every=False)
    assert found.problem == ""
    assert found.cycles is not None
    assert found.cycles > task.lower_bound(task.size("medium"), "wse2")


ODD_SIZES: list[tuple[str, dict[str, int]]] = [
    ("Laplacian2D-Halo", {"width": 1, "height": 1, "Mt": 3, "Nt": 5}),
    ("Laplacian2D-Halo", {"width": 5, "height": 1, "Mt": 1, "Nt": 1}),
    ("Laplacian2D-Halo", {"width": 3, "height": 4, "Mt": 7, "Nt": 2}),
    ("Laplacian2D-Halo", {"width": 1, "height": 3, "Mt": 9, "Nt": 16}),
    ("ParReduce-Sum", {"width": 1, "n_per_pe": 7}),
    ("ParReduce-Sum", {"width": 2, "n_per_pe": 41}),
    ("ParReduce-Sum", {"width": 7, "n_per_pe": 44}),
    ("ParReduce-Sum", {"width": 11, "n_per_pe": 1}),
    ("ParReduce-Sum", {"width": 16, "n_per_pe": 100}),
    ("Prefix-Sum-1PE", {"n": 51}),
    ("Prefix-Sum-1PE", {"n": 1000}),
    ("Single-Tile-Matvec", {"width": 1, "height": 2, "tile_size": 7}),
    ("Single-Tile-Matvec", {"width": 1, "height": 1, "tile_size": 4}),
    ("ReLU-1PE", {"n": 1}),
    ("SAXPY-1PE", {"n": 3}),
    ("Sum-Reduction-1PE", {"n": 1}),
    ("Max-Reduction-1PE", {"n": 43}),
    ("Dot-Product-1PE", {"n": 44}),
    ("L2-Norm-1PE", {"n": 2}),
    ("RMSNorm-1PE", {"n": 91}),
    ("MSE-Loss-1PE", {"n": 3}),
    ("Softmax-1PE", {"n": 5}),
    ("Histogram-1PE", {"n": 100, "n_buckets": 7, "bucket_size": 10}),
    ("GEMM-1PE", {"M": 3, "K": 1, "N": 5}),
    ("Stencil7pt-1PE", {"Nx": 1, "Ny": 3, "Nz": 2}),
    ("Stencil7pt-1PE", {"Nx": 5, "Ny": 1, "Nz": 1}),
    ("Tensor-Transpose-021", {"width": 1, "height": 1, "ax1": 1, "ax2": 3, "ax3": 2}),
    ("Histogram-Inline", {"Py": 1, "n_per_pe": 9}),
    ("Histogram-Inline", {"Py": 3, "n_per_pe": 50, "n_buckets": 5, "bucket_size": 3}),
    ("ParBroadcast-Scale", {"width": 1, "n_per_pe": 3}),
    ("ParDot-Product", {"width": 5, "n_per_pe": 42}),
    ("7pt-Stencil", {"width": 2, "m": 2, "height": 7, "n": 7, "k": 2, "MAX_ZDIM": 2, "BLOCK_SIZE": 1}),
    ("7pt-Stencil", {"width": 6, "m": 6, "height": 2, "n": 2, "k": 33, "MAX_ZDIM": 33, "BLOCK_SIZE": 33}),
    ("CG", {"width": 2, "m": 2, "height": 2, "n": 2, "k": 7, "MAX_ZDIM": 7, "BLOCK_SIZE": 3, "max_ite": 4}),
    ("BiCGSTAB", {"width": 2, "m": 2, "height": 6, "n": 6, "k": 4, "MAX_ZDIM": 4, "BLOCK_SIZE": 4}),
    ("Power-Method", {"width": 7, "m": 7, "height": 2, "n": 2, "k": 3, "MAX_ZDIM": 3, "BLOCK_SIZE": 1, "max_ite": 1}),
    ("RowParallel-Softmax", {"width": 1, "n_per_pe": 7}),
    ("RowParallel-Softmax", {"width": 3, "n_per_pe": 2}),
    ("Jacobi-2D-5pt", {"width": 1, "height": 1, "Mt": 3, "Nt": 5}),
    ("Jacobi-2D-5pt", {"width": 5, "height": 1, "Mt": 2, "Nt": 1}),
    ("Jacobi-2D-5pt", {"width": 2, "height": 3, "Mt": 1, "Nt": 1}),
    ("Jacobi-2D-5pt", {"width": 3, "height": 4, "Mt": 7, "Nt": 2}),
    ("Laplacian2D-Reduce", {"width": 1, "height": 1, "Mt": 3, "Nt": 5}),
    ("Laplacian2D-Reduce", {"width": 4, "height": 1, "Mt": 1, "Nt": 1}),
    ("Laplacian2D-Reduce", {"width": 2, "height": 5, "Mt": 9, "Nt": 6}),
    ("LorenzoPredictor-Tile", {"width": 1, "height": 1, "Mt": 3, "Nt": 5}),
    ("LorenzoPredictor-Tile", {"width": 3, "height": 1, "Mt": 1, "Nt": 4}),
    ("LorenzoPredictor-Tile", {"width": 2, "height": 4, "Mt": 9, "Nt": 1}),
    ("Residual", {"width": 1, "height": 1, "LOCAL_OUT_SZ": 5, "LOCAL_IN_SZ": 3}),
    ("Residual", {"width": 4, "height": 1, "LOCAL_OUT_SZ": 1, "LOCAL_IN_SZ": 1}),
    ("Residual", {"width": 1, "height": 3, "LOCAL_OUT_SZ": 8, "LOCAL_IN_SZ": 16}),
    ("PDFT-Pi-Pipeline", {"width": 1, "height": 1, "ngrid": 3, "ncas": 2}),
    ("PDFT-Pi-Pipeline", {"width": 1, "height": 2, "ngrid": 1, "ncas": 5}),
    ("Game-of-Life", {"x_dim": 3, "y_dim": 3, "iters": 6}),
    ("Game-of-Life", {"x_dim": 4, "y_dim": 7, "iters": 9}),
    ("Histogram", {"HIST_WIDTH": 1, "HIST_HEIGHT": 1, "INPUT_SIZE": 9}),
    ("Histogram", {"HIST_WIDTH": 2, "HIST_HEIGHT": 1, "INPUT_SIZE": 20}),
    ("Histogram", {"HIST_WIDTH": 1, "HIST_HEIGHT": 3, "INPUT_SIZE": 1}),
    ("Histogram", {"HIST_WIDTH": 3, "HIST_HEIGHT": 2, "INPUT_SIZE": 40, "NUM_BUCKETS": 5, "BUCKET_SIZE": 3}),
    ("GEMV", {"kernel_rows": 1, "kernel_cols": 1, "matrix_rows": 5, "matrix_cols": 3}),
    ("GEMV", {"kernel_rows": 2, "kernel_cols": 1, "matrix_rows": 2, "matrix_cols": 7}),
    ("GEMV", {"kernel_rows": 1, "kernel_cols": 5, "matrix_rows": 9, "matrix_cols": 5}),
    ("GEMV-Collectives-2D", {"kernel_rows": 1, "kernel_cols": 3, "matrix_rows": 5, "matrix_cols": 6}),
    ("GEMV-Collectives-2D", {"kernel_rows": 3, "kernel_cols": 1, "matrix_rows": 6, "matrix_cols": 1}),
    ("GEMM", {"P": 1, "Mt": 3, "Kt": 5, "Nt": 2}),
    ("GEMM", {"P": 5, "Mt": 4, "Kt": 3, "Nt": 2}),
    ("GEMM-Collectives-2D", {"P": 1, "Mt": 3, "Kt": 5, "Nt": 2}),
    ("GEMM-Collectives-2D", {"P": 3, "Mt": 1, "Kt": 4, "Nt": 3}),
    ("GEMV-Checkerboard", {"kernel_rows": 1, "kernel_cols": 1, "matrix_rows": 5, "matrix_cols": 3}),
    ("GEMV-Checkerboard", {"kernel_rows": 3, "kernel_cols": 2, "matrix_rows": 3, "matrix_cols": 10}),
    ("Cholesky", {"P": 1, "Nt": 1}),
    ("Cholesky", {"P": 4, "Nt": 1}),
    ("Cholesky", {"P": 2, "Nt": 7}),
    ("Wide-Multiplication", {"num_bits": 32}),
    ("Wide-Multiplication", {"num_bits": 96}),
]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "params"), ODD_SIZES, ids=lambda value: value if isinstance(value, str) else None)
def test_references_are_right_at_sizes_that_no_spec_has(name: str, params: dict[str, int], arch: Arch) -> None:
    task = load_task(name)
    small = task.spec.sizes[0]
    odd = small.model_copy(update={"name": "odd", "params": {**small.params, **params}})
    task = Task(task.spec.model_copy(update={"sizes": (odd,)}), task.root)
    for variant in VARIANTS:
        assert measure(task, arch, "odd", variant, Tools()).problem == "", variant


@pytest.mark.slow
@pytest.mark.parametrize("cell", cells(TASKS), ids=lambda cell: f"{Path(cell.root).name}-{cell.arch}-{cell.size}")
def test_references_are_valid_with_the_recorded_cycles_everywhere(cell: Cell) -> None:
    _require_recorded(cell)
