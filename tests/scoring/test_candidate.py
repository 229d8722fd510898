"""A candidate is a few small text files; everything else is refused with one message that names file and remedy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fabrica_bench.errors import FabricaError
from fabrica_bench.scoring.candidate import (
    MAX_FILE_BYTES,
    CandidateError,
    candidate_digest,
    check_name,
    read_candidate,
)

WANTED = ("pe.csl",)


def put(folder: Path, name: str = "pe.csl", data: bytes = b"fn f() void {}\n") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return folder


def test_a_folder_with_the_wanted_file_is_read(tmp_path: Path) -> None:
    assert read_candidate(put(tmp_path / "c"), WANTED) == {"pe.csl": "fn f() void {}\n"}


def _link(folder: Path) -> None:
    (folder.parent / "other").write_text("x", encoding="utf-8")
    (folder / "pe.csl").symlink_to(folder.parent / "other")


def _hard_link(folder: Path) -> None:
    (folder.parent / "other").write_text("x", encoding="utf-8")
    os.link(folder.parent / "other", folder / "pe.csl")


BAD_FOLDERS: list[tuple[str, Callable[[Path], object], str]] = [
    ("missing", lambda f: None, "pe.csl is missing"),
    ("extra", lambda f: (put(f), put(f, "notes.txt")), "unexpected file 'notes.txt'"),
    ("extra below", lambda f: (put(f), put(f, "deep/pe.csl")), "unexpected file 'deep/pe.csl'"),
    ("binary", lambda f: put(f, data=b"a\0b"), "is a binary file (NUL byte at offset 1)"),
    ("latin-1", lambda f: put(f, data=b"// \xe9"), "not UTF-8: byte 0xe9 at offset 3"),
    ("big", lambda f: put(f, data=b"x" * (MAX_FILE_BYTES + 1)), f"is {MAX_FILE_BYTES + 1} bytes"),
    ("link", _link, "is a symbolic link"),
    ("hard link", _hard_link, "is a hard link"),
    ("pipe", lambda f: os.mkfifo(f / "pe.csl"), "is not a regular file"),
    ("folder link", lambda f: (put(f), (f / "sub").symlink_to("/etc")), "is a symbolic link"),
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in BAD_FOLDERS], ids=[row[0] for row in BAD_FOLDERS])
def test_a_bad_folder_is_refused_by_name(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    make(folder)
    with pytest.raises(CandidateError) as caught:
        read_candidate(folder, WANTED)
    assert message in caught.value.message
    assert caught.value.remedy
    assert str(folder) in str(caught.value.place)


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "a/../../x", "a\\b", "./pe.csl", "a//b", "", " pe.csl", "pe\n.csl", "pe\u202e.csl", ".."],
)
def test_a_name_that_escapes_or_is_odd_is_refused(name: str) -> None:
    with pytest.raises(CandidateError):
        read_candidate({"pe.csl": "", name: ""}, WANTED)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * (MAX_FILE_BYTES + 1)], ids=["nul", "surrogate", "big"])
def test_bad_text_in_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(CandidateError):
        read_candidate({"pe.csl": text}, WANTED)


def test_a_folder_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match="no such folder") as caught:
        read_candidate(tmp_path / "none", WANTED)
    assert not isinstance(caught.value, CandidateError)


@example(".")
@given(st.text(max_size=40))
def test_an_accepted_name_stays_below_its_folder(name: str) -> None:
    try:
        accepted = check_name(name)
    except CandidateError:
        return
    root = Path("/candidate")
    assert root in Path(os.path.normpath(root / accepted)).parents


@given(st.dictionaries(st.text("ab/", min_size=1, max_size=4), st.text("ab\n", max_size=6), max_size=3))
def test_the_digest_depends_on_content_and_not_on_order(files: dict[str, str]) -> None:
    digest = candidate_digest(files)
    assert digest == candidate_digest(dict(reversed(list(files.items()))))
    assert digest != candidate_digest({**files, "another": "x"})


def test_the_digest_keeps_names_and_contents_apart() -> None:
    assert candidate_digest({"ab": "c"}) != candidate_digest({"a": "bc"})
