"""Entry point of the command line: runs a command and turns whatever goes wrong into one clear message."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from typing import Any, Final, cast

import typer

from fabrica_bench.cli import commands, console
from fabrica_bench.cli.app import PROGRAM, app
from fabrica_bench.errors import ExitCode, FabricaError, from_os_error

assert commands.REGISTERED  # importing the package is what adds the commands

# typer brings its own copy of click or uses the installed one, depending on its version; both have this class.
_CLICK_ERRORS: Final[tuple[type[Exception], ...]] = tuple(
    cast("type[Exception]", kind) for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

DEBUG_VARIABLE: Final = "FABRICA_DEBUG"
"""When set, an internal error's traceback goes to standard error instead of a file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Words after the program's name; those of the process by default.

    Returns:
        An `ExitCode`.
    """
    _end_like_ctrl_c()
    try:
        answer: Any = app(list(arguments) if arguments is not None else None, prog_name=PROGRAM, standalone_mode=False)
        if answer == ExitCode.INTERRUPTED:
            # Newer typer versions turn Ctrl-C into this code.
            raise KeyboardInterrupt
    except FabricaError as error:
        report_error(error)
        return error.code
    except (KeyboardInterrupt, typer.Abort):
        console.note("\ninterrupted; what is already on disk is kept")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away; Python would complain again while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILURE
    except OSError as error:
        report_error(from_os_error(error))
        return from_os_error(error).code
    except _CLICK_ERRORS as error:
        return _report_usage(error, sys.argv[1:] if arguments is None else arguments)
    except Exception as error:
        _report_bug(error)
        return ExitCode.HARNESS
    return answer if isinstance(answer, int) else ExitCode.OK


def _end_like_ctrl_c() -> None:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: with its children killed and its temporary files removed."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # what the caller ignores (nohup) stays ignored
                signal.signal(number, signal.default_int_handler)


def report_error(error: FabricaError) -> None:
    """Print the message, its place and its remedy to standard error."""
    console.note(f"error: {error.message}")
    if error.place:
        console.note(f"   at: {error.place}")
    if error.remedy:
        console.note(f"  fix: {error.remedy}")


def _command_path(arguments: Sequence[str]) -> str:
    """The command that these words begin with; an error that the parser raises early doesn't know it."""
    command: Any = typer.main.get_command(app)
    path = [PROGRAM]
    for word in arguments:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
        path.append(word)
    return " ".join(path)


def _report_usage(error: Any, arguments: Sequence[str]) -> int:
    """A wrong option or argument, as click describes it; `--help` of the command in question is the remedy."""
    message = str(error.format_message()).strip()
    if type(error).__name__ == "NoArgsIsHelpError" or not message:
        # No argument at all: the message is the help, or older versions have printed it already.
        console.note(message)
        return ExitCode.USAGE
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _command_path(arguments)
    remedy = f"see `{path} --help`"
    report_error(FabricaError(message[:1].lower() + message[1:].rstrip("."), remedy=remedy))
    return ExitCode.USAGE


def _report_bug(error: Exception) -> None:
    text = "".join(traceback.format_exception(error))
    summary = f"internal error: {type(error).__name__}: {error}"
    if os.environ.get(DEBUG_VARIABLE):
        console.note(text)
        remedy = "this is a bug in Fabrica-Bench: please report it with the text above"
    else:
        with tempfile.NamedTemporaryFile(
            "w", prefix="fabrica-bench-", suffix=".log", delete=False, encoding="utf-8"
        ) as file:
            file.write(text)
        remedy = f"this is a bug in Fabrica-Bench: please report it with {file.name}"
    report_error(FabricaError(summary, remedy=remedy))
