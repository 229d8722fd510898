"""A candidate is built in a fresh clone, with the frozen files restored and neither reference beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.double_it import candidate, double_it, expert

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import editable_files, frozen_texts, reference_files
from fabrica_bench.scoring.staging import Stage, task_digest
from fabrica_bench.scoring.validity import _same_file
from fabrica_bench.scoring.workshop import _tree_digest


def test_neither_reference_kernel_lies_beside_the_candidate(tmp_path: Path) -> None:
    with Stage(candidate(), frozen_texts(double_it(), "W1"), parent=tmp_path) as stage:
        names = sorted(path.name for path in stage.bundle.iterdir())
        assert names == ["commands_wse2.sh", "commands_wse3.sh", "layout.csl", "pe.csl", "run.py", "window.csl"]
        assert (stage.bundle / "pe.csl").read_text(encoding="utf-8") != expert()
    assert not list(tmp_path.iterdir())


def test_a_frozen_file_wins_over_a_candidates_file_of_its_name() -> None:
    with Stage({"run.py": "cheat", "pe.csl": ""}, {"run.py": "honest"}) as stage:
        assert (stage.bundle / "run.py").read_text(encoding="utf-8") == "honest"


def test_changed_files_are_found() -> None:
    with Stage({"pe.csl": "a"}, {"run.py": "b"}) as stage:
        assert stage.altered() == []
        (stage.bundle / "run.py").unlink()
        (stage.bundle / "run.py").symlink_to("pe.csl")
        assert stage.altered() == ["run.py"]


def test_a_disk_that_fails_changed_no_file_and_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can't be read because the machine fails is nobody's change: it would be taken for a breach of contract."""
    (tmp_path / "inputs").write_bytes(b"1")
    with Stage({"pe.csl": "a"}, {}) as stage:
        monkeypatch.setattr(Path, "read_bytes", fail_with(errno.EIO))
        for look in (
            stage.altered,
            lambda: _tree_digest(stage.root),
            lambda: _same_file(tmp_path / "inputs", tmp_path / "inputs"),
        ):
            with pytest.raises(FabricaError) as caught:
                look()
            assert caught.value.code == ExitCode.ENVIRONMENT
        monkeypatch.setattr(Path, "read_bytes", fail_with(errno.EACCES))
        assert stage.altered() == ["pe.csl"]
        assert not _same_file(tmp_path / "inputs", tmp_path / "inputs")


def fail_with(number: int) -> Callable[[Path], bytes]:
    def read_bytes(path: Path) -> bytes:
        raise OSError(number, os.strerror(number), str(path))

    return read_bytes


def test_temporary_paths_are_taken_out_of_messages() -> None:
    with Stage({}, {}) as stage:
        assert stage.scrub(f"{stage.bundle}/pe.csl:1:1 in {stage.root}/run-0") == "pe.csl:1:1 in <stage>/run-0"


def test_the_layout_is_editable_in_co_design_only() -> None:
    task = double_it()
    assert editable_files(task, "W1") == ("pe.csl",)
    assert editable_files(task, "W1-C") == ("pe.csl", "layout.csl")
    assert set(reference_files(task, "W1-C")) == {"pe.csl", "layout.csl"}
    assert "layout.csl" not in frozen_texts(task, "W1-C")


def test_the_task_digest_sees_every_file_that_decides_results(tmp_path: Path) -> None:
    import shutil

    from fabrica_bench.tasks import load_task

    shutil.copytree(double_it().root, tmp_path / "double-it")
    before = task_digest(load_task("Double-It", root=tmp_path))
    assert before == task_digest(double_it())
    with (tmp_path / "double-it" / "csl" / "run.py").open("a", encoding="utf-8") as stream:
        stream.write("# changed\n")
    assert task_digest(load_task("Double-It", root=tmp_path)) != before


def test_a_bundle_file_that_is_not_text_names_itself(tmp_path: Path) -> None:
    import shutil

    from fabrica_bench.tasks import load_task

    shutil.copytree(double_it().root, tmp_path / "double-it")
    (tmp_path / "double-it" / "csl" / "window.csl").write_bytes(b"\xff")
    with pytest.raises(FabricaError, match=r"window\.csl.*not UTF-8"):
        frozen_texts(load_task("Double-It", root=tmp_path), "W1")


def test_an_interrupt_while_it_is_filled_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt), Stage({"pe.csl": ""}, {}, parent=tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
