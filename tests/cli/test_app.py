"""What all commands share: no option or argument takes an empty text for a path, or for what was left out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
from helpers.cli_run import assert_one_clear_error
from typer.models import ArgumentInfo

from fabrica_bench.cli.app import app
from fabrica_bench.errors import ExitCode


def commands(group: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the application: the words that name it, and its function."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*path, command.name or command.callback.__name__.replace("_", "-")), command.callback
    for part in group.registered_groups:
        assert part.typer_instance is not None
        yield from commands(part.typer_instance, (*path, str(part.name or part.typer_instance.info.name)))


def words_for(function: Any, name: str, value: str) -> list[str]:
    """The words that give `value` to one parameter, and something to every other that is required."""
    words: list[str] = []
    defaults = {other: parameter.default for other, parameter in inspect.signature(function).parameters.items()}
    for other, annotation in get_type_hints(function, include_extras=True).items():
        if other != name and defaults.get(other) is not inspect.Parameter.empty:
            continue
        given = value if other == name else "x"
        info = annotation.__metadata__[0]
        texts = [text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str)]
        words += [given] if isinstance(info, ArgumentInfo) else [next(t for t in texts if t.startswith("--")), given]
    return words


def refusing_parameters() -> Iterator[Any]:
    """Every parameter of every command that is a path, or paths, or a text that may be left out."""
    for path, function in commands(app):
        for name, annotation in get_type_hints(function, include_extras=True).items():
            kind = (get_args(annotation) or (annotation,))[0]
            if kind is Path or Path in get_args(kind) or kind == str | None:
                yield pytest.param([*path, *words_for(function, name, "")], id=f"{'-'.join(path)}-{name}")


PARAMETERS = list(refusing_parameters())


def test_the_parameters_of_commands_are_found():
    expected = {"run-out", "run-model", "score-candidate", "audit-run", "kb-lessons-runs", "tasks-measure-cslc"}
    assert expected <= {str(param.id) for param in PARAMETERS}


@pytest.mark.parametrize(
    "words",
    [*PARAMETERS, ["csl", "fmt", ""], ["csl", "check", ""], ["csl", "memmap", ""], ["csl", "routes", ""]],
)
def test_an_empty_text_is_refused(cli, tmp_path, monkeypatch, words):
    """An unset variable of a shell gives one, and it would stand for the current folder, or for the default."""
    monkeypatch.chdir(tmp_path)
    assert_one_clear_error(cli(*words), ExitCode.USAGE, "empty text")
    assert not list(tmp_path.iterdir())
