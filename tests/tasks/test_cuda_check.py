"""The GPU check as far as it goes without a GPU: generated harness, messages, report."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest

from fabrica_bench.tasks import cuda_check, list_tasks, load_task
from fabrica_bench.tasks.cuda_check import Device, TaskReport, cases, find_nvcc, main, markdown
from fabrica_bench.tasks.cuda_harness import Argument, arguments, harness_source

needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine")


def test_arguments_follow_the_spec() -> None:
    assert arguments(load_task("SAXPY-1PE")) == [
        Argument("alpha", "value", "f32"),
        Argument("x", "input", "f32"),
        Argument("y", "inout", "f32"),
        Argument("n", "size", "i32"),
    ]
    assert arguments(load_task("Laplacian2D-Halo"))[-1] == Argument("iters", "value", "u16")
    assert arguments(load_task("ReLU-1PE"))[1] == Argument("out", "output", "f32")


def test_the_launcher_is_declared_in_the_source() -> None:
    for task in list_tasks():
        source = task.cuda_path.read_text(encoding="utf-8")
        assert source.count('extern "C"') == 1
        assert f'extern "C" cudaError_t {task.spec.cuda.launcher}(' in source


def test_the_harness_passes_values_and_pointers() -> None:
    source = harness_source(load_task("SAXPY-1PE"))
    assert "int harness_run(float alpha, void* host_x, void* host_y, int n, const size_t* bytes" in source
    assert "TRY(saxpy(alpha, static_cast<float*>(device_x), static_cast<float*>(device_y), n));" in source


def test_cases_cover_sizes_distributions_and_three_seeds() -> None:
    task = load_task("ReLU-1PE")
    assert len(set(cases(task))) == len(list(cases(task))) == 2 * 5 * 3


def test_without_nvcc_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cuda_check, "find_nvcc", lambda: None)
    assert main([]) == 4
    assert "there is no nvcc" in capsys.readouterr().err


def test_a_wrong_filter_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cuda_check, "find_nvcc", lambda: "nvcc")  # not called before the filter is read
    assert main(["--filter", "nme=x"]) == 2
    assert capsys.readouterr().err == (
        "error: unknown filter key 'nme' (did you mean name? known: family, level, name, origin, set, split)\n"
    )


@needs_nvcc
@pytest.mark.parametrize("filters", [["name=Laplacian2D-Halo"], pytest.param(["set=full"], marks=pytest.mark.slow)])
def test_sources_compile_without_warnings(capsys: pytest.CaptureFixture[str], filters: list[str]) -> None:
    assert main(["--compile-only", "--filter", *filters]) == 0
    assert "FAIL" not in capsys.readouterr().out


@needs_nvcc
def test_a_source_that_does_not_compile_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "relu-1pe"
    shutil.copytree(load_task("ReLU-1PE").root, folder)
    kernel = folder / "cuda" / "kernel.cu"
    kernel.write_text(kernel.read_text(encoding="utf-8").replace("fmaxf(x[i], 0.0f)", "fmaxf(x[i])"), encoding="utf-8")
    assert main(["--compile-only", "--tasks", str(tmp_path)]) == 1
    assert "FAIL" in capsys.readouterr().out


def test_the_page_counts_and_names_failures() -> None:
    reports = [
        TaskReport("ReLU-1PE", ["small"], runs=30, ok=True),
        TaskReport("SAXPY-1PE", ["small"], runs=30, problems=["small/normal/seed 0: y missing"]),
    ]
    found = Device("Test GPU", "9.0", "1.2", "13.0")
    page = markdown(reports, found, datetime.date(2026, 1, 2), "release 13.0")
    assert "1 of 2 CUDA sources agree" in page
    assert "| ReLU-1PE | small | 30 |" in page
    assert "- SAXPY-1PE: small/normal/seed 0: y missing" in page
    assert "2026-01-02" in page
    assert "Test GPU" in page
