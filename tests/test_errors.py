"""The error type and the names that it suggests."""

from __future__ import annotations

import errno
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError, answer, from_os_error, near_matches


def test_the_text_has_place_message_and_remedy():
    error = FabricaError("is empty", place="a.csl", remedy="write something")
    assert str(error) == "a.csl: is empty (write something)"


def test_an_error_survives_a_process_boundary():
    error = pickle.loads(pickle.dumps(FabricaError("m", place="p", remedy="r", code=ExitCode.HARNESS)))
    assert (error.message, error.place, error.remedy, error.code) == ("m", "p", "r", ExitCode.HARNESS)


def test_an_unknown_name_survives_a_process_boundary():
    error = pickle.loads(pickle.dumps(UnknownNameError("task", "relu", ["ReLU-1PE"])))
    assert isinstance(error, UnknownNameError)
    assert "ReLU-1PE" in str(error)


def test_near_names_are_suggested_whatever_their_case():
    assert near_matches("relu-1pe", ["SAXPY-1PE", "ReLU-1PE"])[0] == "ReLU-1PE"
    assert near_matches("sum", ["Prefix-Sum-1PE", "GEMV"]) == ["Prefix-Sum-1PE"]


def test_few_names_are_all_listed_beside_the_near_one():
    assert UnknownNameError("agent", "nul", ["null", "reference"]).remedy == "did you mean null? known: null, reference"
    assert UnknownNameError("agent", "nul", ["null"]).remedy == "did you mean null?"
    many = ["null", *(f"agent-{number}" for number in range(20))]
    assert UnknownNameError("agent", "nul", many).remedy == "did you mean null?"


def test_a_script_tells_a_users_mistake_in_one_line_and_lets_a_bug_escape(capsys: pytest.CaptureFixture[str]):
    def mistaken() -> int:
        raise FabricaError("no such thing", remedy="name another", code=ExitCode.USAGE)

    def unreadable() -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "rows.jsonl")

    def broken() -> int:
        raise KeyError("name")

    assert answer(lambda: 7) == 7
    assert answer(mistaken) == ExitCode.USAGE
    assert answer(unreadable) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == (
        "error: no such thing (name another)\nerror: rows.jsonl: no such file or directory (check the path)\n"
    )
    with pytest.raises(KeyError):
        answer(broken)


def test_without_a_near_name_the_known_ones_are_listed():
    assert UnknownNameError("agent", "zzz", ["null", "reference"]).remedy == "known: null, reference"


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (errno.ENOSPC, ExitCode.ENVIRONMENT, "no space left"),
        (errno.EACCES, ExitCode.ENVIRONMENT, "permission"),
        (errno.ENOENT, ExitCode.BAD_INPUT, "no such file"),
        (errno.EIO, ExitCode.ENVIRONMENT, "input/output error"),
    ],
)
def test_operating_system_errors_name_the_file_and_the_remedy(number, code, word):
    error = from_os_error(OSError(number, os.strerror(number), "/x/y"))
    assert error.code is code
    assert error.place == "/x/y"
    assert word in error.message.lower()
    assert error.remedy


@given(st.text(), st.lists(st.text(), max_size=20))
def test_suggestions_are_always_known_names(name, known):
    assert set(near_matches(name, known)) <= set(known)
