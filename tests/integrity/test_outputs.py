"""Outputs files are read with suspicion, and compared with the oracle: shape, type, finiteness, tolerance."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers.double_it import double_it

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.integrity import outputs as outputs_module
from fabrica_bench.integrity.outputs import POISON_WORDS, RunOutputs, check_outputs, count_poison, read_outputs
from fabrica_bench.tasks import Arrays

STAMPS = np.zeros((1, 1, 6), np.uint16)


def case() -> tuple[Arrays, Arrays, dict[str, int]]:
    task = double_it()
    size = task.size("small")
    inputs = task.inputs(1, size, "normal")
    return inputs, {"y": 2 * inputs["x"]}, size


def messages(outputs: Arrays) -> list[str]:
    inputs, _, size = case()
    return [finding.message for finding in check_outputs(double_it(), outputs, inputs, size)[0]]


def test_the_right_answer_passes_with_its_error() -> None:
    inputs, right, size = case()
    found, checks = check_outputs(double_it(), right, inputs, size)
    assert found == []
    assert [(check.name, check.max_error) for check in checks] == [("y", 0.0)]


def test_one_wrong_last_bit_fails_an_exact_task() -> None:
    _, right, _ = case()
    right["y"][3] = np.nextafter(right["y"][3], np.float32(np.inf))
    assert "at [3]" in messages(right)[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_fails(value: float) -> None:
    _, right, _ = case()
    right["y"][-1] = value
    assert "values that are not finite: 1 of " in messages(right)[0]


def test_unwritten_elements_are_counted() -> None:
    _, right, _ = case()
    right["y"].view(np.uint32)[:5] = POISON_WORDS[32]
    assert "elements never written: 5 of " in messages(right)[0]
    assert count_poison(np.full(3, POISON_WORDS[16], np.uint16)) == 3
    assert count_poison(None) == 0


def save(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def test_a_good_file_is_read_and_extra_arrays_are_ignored(tmp_path: Path) -> None:
    path = save(tmp_path / "o.npz", y=np.ones(3, np.float32), cycles=np.int64(7), stamps=STAMPS, extra=np.ones(1))
    found = read_outputs(path, double_it())
    assert isinstance(found, RunOutputs)
    assert found.cycles == 7
    assert list(found.arrays) == ["y"]


def test_arrays_that_the_runner_left_out_are_the_tasks_fault(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match="wrote no y, stamps") as caught:
        read_outputs(save(tmp_path / "o.npz", cycles=np.int64(7)), double_it())
    assert caught.value.code == ExitCode.HARNESS
    assert str(caught.value.place).endswith("run.py")


def test_cycles_must_be_one_integer(tmp_path: Path) -> None:
    path = save(tmp_path / "o.npz", y=np.ones(3), cycles=np.ones(2), stamps=STAMPS)
    assert "not one integer" in str(read_outputs(path, double_it()))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    path = tmp_path / "o.npz"
    np.savez(path, y=np.array([Trap()], dtype=object), cycles=np.int64(1), stamps=STAMPS)
    assert "can't be read" in str(read_outputs(path, double_it()))
    path.write_bytes(pickle.dumps(Trap()))
    assert "can't be read" in str(read_outputs(path, double_it()))
    assert not (tmp_path / "sprung").exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_module, "MAX_OUTPUT_BYTES", 1000)
    path = tmp_path / "o.npz"
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(10_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", buffer.getvalue())
    assert "more than 1000" in str(read_outputs(path, double_it()))


def test_outputs_that_the_machine_can_not_read_are_no_candidates_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> zipfile.ZipFile:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr(outputs_module.zipfile, "ZipFile", fail)
    with pytest.raises(FabricaError, match="input/output error") as caught:
        read_outputs(tmp_path / "outputs.npz", double_it())
    assert caught.value.code == ExitCode.ENVIRONMENT
