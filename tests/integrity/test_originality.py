"""The screen of our bundles against other programs: copies show in any dress, independent programs don't."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabrica_bench.errors import FabricaError
from fabrica_bench.integrity.leakage import THRESHOLD
from fabrica_bench.integrity.originality import python_fingerprints, read_collection, resemblances
from fabrica_bench.tasks import load_task


def _collection(folder: Path, **texts: str) -> Path:
    """A folder with a program of one file per text."""
    for name, text in texts.items():
        path = folder / name / "program.csl"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    return folder


def _kernel(task_name: str) -> str:
    return (load_task(task_name).bundle_dir / "pe.csl").read_text(encoding="utf-8")


def _dressed(text: str) -> str:
    """Other names, no comments, other layout of lines."""
    lines = [line.split("//")[0].rstrip() for line in text.splitlines()]
    bare = "\n".join(line for line in lines if line)
    for name in ("framed", "residual_dsd", "north_west", "last_row", "west_arrived", "finish"):
        bare = bare.replace(name, f"other_{name}x")
    return bare.replace("{ .", "{\n  .")


@pytest.mark.parametrize("cut", [0, 1], ids=["padded", "cut short"])
def test_a_copy_in_another_dress_shows_padded_or_cut_short(tmp_path: Path, cut: int) -> None:
    copy = _dressed(_kernel("LorenzoPredictor-Tile"))
    copy = copy[: copy.index("comptime {")] if cut else copy + _kernel("GELU-1PE").replace("param ", "const extra_")
    _collection(tmp_path, copy=copy, other=_kernel("Prefix-Sum-1PE"))
    best = resemblances([load_task("LorenzoPredictor-Tile")], read_collection(tmp_path))[0]
    assert (best.ours, best.theirs) == ("pe.csl", "copy/program.csl")
    assert best.score > 0.95
    assert best.is_copy


def test_independent_programs_stay_far_below_the_threshold(tmp_path: Path) -> None:
    """Two people wrote nothing of the same here: a stencil, a scan and a histogram."""
    _collection(tmp_path, **{name: _kernel(name) for name in ("Prefix-Sum-1PE", "Histogram-1PE", "ParReduce-Sum")})
    found = resemblances([load_task("Jacobi-2D-5pt")], read_collection(tmp_path))
    assert found
    assert all(pair.score < THRESHOLD / 2 for pair in found)


def test_what_several_programs_share_is_an_idiom(tmp_path: Path) -> None:
    text = _kernel("Jacobi-2D-5pt")
    one, three = _collection(tmp_path / "one", a=text), _collection(tmp_path / "three", a=text, b=text, c=text)
    task = load_task("Jacobi-2D-5pt")
    assert resemblances([task], read_collection(one))[0].is_copy
    assert not any(pair.is_copy for pair in resemblances([task], read_collection(three)))


def test_python_is_compared_without_its_names_and_numbers() -> None:
    script = """
def area(width, height):
    if width < 0 or height < 0:
        raise ValueError("negative")
    return width * height
"""
    other = script.replace("area", "f").replace("width", "a").replace("height", "b").replace("0", "17")
    assert python_fingerprints(script)
    assert python_fingerprints(script) == python_fingerprints("# a comment\n" + other)
    assert python_fingerprints(script) != python_fingerprints(script.replace("*", "+"))
    assert python_fingerprints("def (:\n") == frozenset()


def test_a_folder_without_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match="holds no CSL program"):
        read_collection(tmp_path)
    with pytest.raises(FabricaError, match="there is no such folder"):
        read_collection(tmp_path / "missing")
