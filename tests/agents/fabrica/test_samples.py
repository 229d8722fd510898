"""Every CUDA sample, through every form of the lowering, against NumPy.

The kernel IR run by the interpreter with CUDA's meaning checks the front end; the serial forms check serialisation and
vectorisation; the simulator checks the emitted CSL. A wrong pass shows up as a disagreement at the first form after it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fabrica_agent.lowering.interpreter import Interpreter
from fabrica_agent.lowering.ir import For, Op, UnsupportedError, walk_stmts
from fabrica_agent.lowering.options import Options
from fabrica_agent.lowering.reroll import fit
from fabrica_agent.lowering.trace import Node, Tracer

from tests.agents.fabrica.bundles import copies, deviations, lowered, run_csl, translated
from tests.agents.fabrica.samples import BY_NAME, CUDA, SAMPLES, Arrays, Sample


@pytest.fixture(params=SAMPLES, ids=lambda s: s.name)
def sample(request: pytest.FixtureRequest) -> Sample:
    chosen: Sample = request.param
    return chosen


@pytest.fixture
def arrays(sample: Sample) -> Arrays:
    return sample.arrays(np.random.default_rng(7), sample.sizes)


def _arguments(sample: Sample) -> dict[str, int | float | bool]:
    return {f"{n}'": v for n, v in sample.scalars.items()}


def test_every_cuda_file_has_an_oracle() -> None:
    assert {p.stem for p in CUDA.glob("*.cu")} == set(BY_NAME)


def test_the_kernel_ir_means_what_the_cuda_says(sample: Sample, arrays: Arrays) -> None:
    after = copies(arrays)
    Interpreter(translated(sample, arrays), after, _arguments(sample)).run()
    assert max(deviations(sample, arrays, after).values()) <= 1


@pytest.mark.parametrize("options", [Options(), Options(bulk=False)], ids=lambda o: o.describe())
def test_the_serial_program_computes_the_same(sample: Sample, arrays: Arrays, options: Options) -> None:
    after = copies(arrays)
    program, _ = lowered(sample, arrays, options)
    Interpreter(program, after, _arguments(sample)).run()
    assert max(deviations(sample, arrays, after).values()) <= 1


def test_the_csl_computes_the_same(sample: Sample, arrays: Arrays, tmp_path: Path) -> None:
    _, text = lowered(sample, arrays, Options())
    after, _ = run_csl(sample, copies(arrays), text, tmp_path)
    assert max(deviations(sample, arrays, after).values()) <= 1


TRACED = (
    "sum_tree", "sum_shuffle", "dot_two_kernels", "matvec_row_warp", "gemm_tiled", "transpose_padded", "stencil_1d",
    "softmax_rows", "rmsnorm", "conv1d_constant", "complex_multiply", "hash_uint", "last_block_sum", "half_scale",
    "returns_value", "narrow_integers", "taken_names", "gemm_double_buffer",
)  # fmt: skip


@pytest.mark.parametrize("name", TRACED)
def test_loops_written_anew_from_a_trace_compute_the_same(name: str) -> None:
    sample = BY_NAME[name]
    arrays = sample.arrays(np.random.default_rng(7), sample.sizes)
    program, _ = lowered(sample, arrays, Options(traced=True))
    after = copies(arrays)
    Interpreter(program, after, _arguments(sample)).run()
    assert max(deviations(sample, arrays, after).values()) <= 1


def test_a_sum_by_shuffles_becomes_one_loop_over_the_array() -> None:
    sample = BY_NAME["sum_shuffle"]
    arrays = sample.arrays(np.random.default_rng(7), sample.sizes)
    program, _ = lowered(sample, arrays, Options(traced=True, bulk=False))
    loops = [s for s in walk_stmts(program.body) if isinstance(s, For)]
    assert len(loops) == 1
    assert set(program.buffers) == set(arrays)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bitonic_sort", "what is done depends on data"),
        ("spmv_csr", "where an element lies depends on data"),
        ("jacobi_swap", "from what it replaces"),
        ("scan_warp", "too little in common"),
        ("tridiagonal", "too long to be written out"),
    ],
)
def test_what_a_trace_does_not_show_is_refused(name: str, reason: str) -> None:
    sample = BY_NAME[name]
    with pytest.raises(UnsupportedError, match=reason):
        lowered(sample, sample.arrays(np.random.default_rng(7), sample.sizes), Options(traced=True))


@pytest.mark.parametrize(
    ("budget", "reason"),
    [("trace.MAX_OPERATIONS", "too long to be traced"), ("reroll.MAX_OPERANDS", "too long to be read as loops")],
)
def test_a_trace_ends_after_so_many_steps(budget: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in steps, not in seconds: the same program gets the same answer on any machine."""
    monkeypatch.setattr(f"fabrica_agent.lowering.{budget}", 1000)
    sample = BY_NAME["softmax_rows"]
    with pytest.raises(UnsupportedError, match=reason):
        lowered(sample, sample.arrays(np.random.default_rng(7), sample.sizes), Options(traced=True))


def test_what_threads_compute_alike_is_traced_once() -> None:
    sample = BY_NAME["softmax_rows"]
    arrays = sample.arrays(np.random.default_rng(7), sample.sizes)
    todo = [v for cells in Tracer(translated(sample, arrays)).results().values() for v in cells.values()]
    divisions: set[int] = set()
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, Node) and id(value) not in seen:
            seen.add(id(value))
            todo += value.args
            divisions |= {id(value)} if value.what is Op.DIV else set()
    assert len(divisions) == sample.sizes["rows"]


def test_points_are_nests_of_even_steps_or_nothing() -> None:
    grid = [(10 * i + j, 3 * i) for i in range(4) for j in range(5)]
    assert fit(grid) == ((0, 0), ((4, (10, 3)), (5, (1, 0))))
    assert fit([(0,), (1,), (3,)]) is None
    assert fit([(7, 7)]) == ((7, 7), ())


@pytest.mark.parametrize("name", ["gemm_tiled", "softmax_rows", "scan_double_buffer", "compact_ballot", "half_scale"])
@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_scalar_csl_on_both_architectures(name: str, arch: str, tmp_path: Path) -> None:
    sample = BY_NAME[name]
    arrays = sample.arrays(np.random.default_rng(3), sample.sizes)
    _, text = lowered(sample, arrays, Options(bulk=False))
    after, _ = run_csl(sample, copies(arrays), text, tmp_path, arch)
    assert max(deviations(sample, arrays, after).values()) <= 1


@pytest.mark.parametrize("name", ["vector_add", "sum_tree", "scan_double_buffer", "gemm_naive", "matvec_row_thread"])
def test_bulk_operations_pay(name: str, tmp_path: Path) -> None:
    sample = BY_NAME[name]
    arrays = sample.arrays(np.random.default_rng(3), sample.sizes)
    cycles = []
    for options in (Options(), Options(bulk=False)):
        _, text = lowered(sample, arrays, options)
        cycles.append(run_csl(sample, copies(arrays), text, tmp_path)[1])
    assert cycles[0] * 2 < cycles[1]
