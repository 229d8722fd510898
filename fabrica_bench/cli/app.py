"""The typer application, and the option types that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from fabrica_bench import errors
from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError

if TYPE_CHECKING:
    from fabrica_bench.plugins import Workflow

PROGRAM: Final = "fabrica-bench"

WORKFLOWS: Final[tuple[Workflow, ...]] = ("W1", "W1-C", "W2")

Command = TypeVar("Command", bound=Callable[..., Any])
Value = TypeVar("Value")


class Application(typer.Typer):
    """A typer application in which an empty text is no path, and no value of what may be left out.

    `--out "$FOLDER"` with an unset variable gives one. `Path("")` is the current folder, so that what was meant for
    another place would be read from there or written to it; an empty `--model` would be the default's.
    """

    def command(self, *arguments: Any, **more: Any) -> Callable[[Command], Command]:
        """As `typer.Typer.command`; paths, lists of paths and texts that are None by default refuse an empty text."""
        register = super().command(*arguments, **more)

        def with_parsers(function: Command) -> Command:
            # Annotations are texts, and each evaluation makes new objects: typer is to see the ones that are changed.
            function.__annotations__ = get_type_hints(function, include_extras=True)
            for name, annotation in function.__annotations__.items():
                kind, *notes = get_args(annotation) or (annotation,)
                for note in notes:
                    if kind is Path or Path in get_args(kind):
                        note.parser = _given(Path, note, name, empty_path)
                    elif kind == str | None:
                        note.parser = _given(str, note, name, empty_text)
            return register(function)

        return with_parsers


def _given(
    kind: Callable[[str], Value], parameter: Any, name: str, error: Callable[[str], FabricaError]
) -> Callable[[str], Value]:
    """What makes the value of an option or argument of the text that was given.

    Args:
        kind: Makes the value.
        parameter: What `typer.Option` or `typer.Argument` returned.
        name: The parameter of the function.
        error: Makes the error for an empty text, of what the text was given for.
    """
    # What is given to `typer.Option` first counts as its default to typer, until it reads the annotation.
    words = [parameter.default, *(parameter.param_decls or ())]
    options = [word for word in words if isinstance(word, str) and word.startswith("--")]
    shown = options[0] if options else (parameter.metavar or name.upper()).rstrip(".")

    def value(text: str) -> Value:
        if text == "":
            raise error(shown)
        return kind(text)

    return value


def empty_path(what: str) -> FabricaError:
    """The error for an empty text as a path, given for this option or argument."""
    return errors.empty_path(what, "name a path; `.` is the current folder")


def empty_text(what: str) -> FabricaError:
    """The error for an empty text as the value of an option or argument that may be left out."""
    return FabricaError(f"{what} is an empty text", remedy="give a value, or leave it out", code=ExitCode.USAGE)


app = Application(
    name=PROGRAM,
    help="Translate CUDA kernels to CSL with an agent, and score the result on an open toolchain.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: square brackets in the text are brackets, and --help imports no renderer.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]

FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FIELD=VALUE ...",
        help="Only tasks with this value of set, level, name, family, split or origin; several may follow.",
    ),
]

ToolchainOption = Annotated[
    str, typer.Option("--toolchain", metavar="NAME", help="embedded, sdk (the vendor's tools on PATH) or appliance.")
]
ArchOption = Annotated[str, typer.Option("--arch", metavar="ARCH", help="Compile target: wse2 or wse3.")]
SizeOption = Annotated[str, typer.Option("--size", metavar="NAME", help="Named size of the tasks; see `show TASK`.")]
WorkflowOption = Annotated[
    str,
    typer.Option("--workflow", metavar="NAME", help="What may change: W1 compute file, W1-C layout too, W2 optimise."),
]
KeyOption = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Held-out key; without one a fresh key is made for the run."),
]

TasksOption = Annotated[
    Path | None,
    typer.Option("--tasks", metavar="DIR", help="Folder of tasks to use instead of the shipped ones."),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Place the jobs on a Dask cluster: tcp://HOST:PORT, a scheduler file, or local:N.",
    ),
]
ProgressOption = Annotated[
    str,
    typer.Option(
        "--progress", metavar="MODE", help="auto, live, plain (a line per event), jsonl (events to standard error)."
    ),
]
EventsOption = Annotated[
    Path | None,
    typer.Option("--events", metavar="FILE", help="Append every event to this file, one JSON object a line."),
]

JobsOption = Annotated[
    int | None, typer.Option("--jobs", metavar="N", min=1, help="Tasks at a time. [default: one per core]")
]


def use_tasks(folder: Path | None) -> None:
    """Use the tasks in this folder, here and in every process that is started; None leaves what is in use.

    Raises:
        FabricaError: There is no such folder.
    """
    if folder is not None:
        from fabrica_bench.tasks import TASKS_VARIABLE, tasks_root

        os.environ[TASKS_VARIABLE] = str(tasks_root(folder))


def require_place(file: Path | None) -> None:
    """Make sure that a file can be written at the end of long work; None is no file.

    Raises:
        FabricaError: It can't be.
    """
    if file is None:
        return
    if file.is_dir():
        raise FabricaError("is a folder", place=str(file), remedy="name a file")
    if not file.parent.is_dir():
        raise FabricaError("no such folder", place=str(file.parent), remedy="make it first, or name another file")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise FabricaError(
            "no permission to write here", place=str(file), remedy="name another file", code=ExitCode.ENVIRONMENT
        )


def _show_version(wanted: bool) -> None:
    if wanted:
        from fabrica_bench.version import __version__

        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Translate CUDA kernels to CSL with an agent, and score the result on an open toolchain."""


class FilterCommand(TyperCommand):
    """A command whose `--filter` takes several words: `--filter set=core level=1`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before every further `field=value` word, which is the form that the parser knows."""
        return super().parse_args(ctx, spread_filters(args))


def spread_filters(words: list[str]) -> list[str]:
    """Turn `--filter a=1 b=2` into `--filter a=1 --filter b=2`; other words stay as they are."""
    spread: list[str] = []
    in_filter = False
    for word in words:
        if word == "--filter" or word.startswith("--filter="):
            in_filter = True
        elif in_filter and "=" in word and not word.startswith("-"):
            if spread[-1] != "--filter":
                spread.append("--filter")
        else:
            in_filter = False
        spread.append(word)
    return spread


Choice = TypeVar("Choice", bound=str)


def checked_choice(option: str, value: str, choices: tuple[Choice, ...]) -> Choice:
    """The choice that `value` names; letter case is ignored.

    Raises:
        UnknownNameError: It is none of them.
    """
    for choice in choices:
        if choice.casefold() == value.casefold():
            return choice
    raise UnknownNameError(f"value of {option}", value, choices)


def examples(*lines: str) -> str:
    """The examples that close a command's help, one a line, kept as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
