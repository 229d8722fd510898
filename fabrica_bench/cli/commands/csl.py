"""`fabrica-bench csl check`, `fmt` and `costs`, and the group of all CSL tools."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fabrica_bench.cli import console
from fabrica_bench.cli.app import Application, JsonOption, app, checked_choice, empty_path, examples
from fabrica_bench.cli.console import Column
from fabrica_bench.errors import ExitCode, FabricaError, from_os_error

if TYPE_CHECKING:
    from fabrica_bench.csl.diagnostics import CslError, Diagnostic
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.costs import CostEntry

csl_app = Application(
    help="Tools for CSL programs on the embedded compiler and simulator; they need no task and no agent.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(csl_app, name="csl")

ARCHITECTURES: Final = ("wse2", "wse3")

COMPILER_FLAGS: Final = {"ignore_unknown_options": True}
"""Context settings of a command that hands words that it doesn't know to the compiler's own option parser."""

ProgramWords = Annotated[
    list[str],
    typer.Argument(
        metavar="PROGRAM [CSLC FLAGS]...",
        help="The file with the layout block and flags of cslc, or a folder that cslc wrote.",
        show_default=False,
    ),
]


# ------------------------------------------------------------------------------------------------------- check


@csl_app.command(
    context_settings=COMPILER_FLAGS,
    epilog=examples(
        "fabrica-bench csl check layout.csl --arch=wse3 --params=M:4,N:6 --memcpy",
        "fabrica-bench csl check layout.csl --arch=wse2 --json",
        "fabrica-bench csl check --syntax pe.csl",
    ),
)
def check(
    words: Annotated[
        list[str],
        typer.Argument(metavar="FILE [CSLC FLAGS]...", help="The file with the layout block, and flags of cslc."),
    ],
    syntax: Annotated[
        bool, typer.Option("--syntax", help="Check the syntax of this one file only; it needs no layout block.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compile a program without writing anything, and show what is wrong with it.

    Diagnostics go to standard output. Exits with 0 when the program compiles, 1 when it has errors.
    """
    if words[0] == "":
        raise empty_path("FILE")
    diagnostics, facts = _check_syntax(words) if syntax else _check_program(words)
    errors = sum(item.severity == "error" for item in diagnostics)
    warnings = sum(item.severity == "warning" for item in diagnostics)
    if json or "--diagnostics=json" in words:
        from fabrica_bench.csl.diagnostics import to_json

        found = [to_json(item) for item in diagnostics]
        console.write_json({"ok": not errors, "errors": errors, "warnings": warnings, **facts, "diagnostics": found})
    else:
        write_diagnostics(diagnostics)
        console.write(_check_summary(facts, errors, warnings))
    raise typer.Exit(ExitCode.FAILURE if errors else ExitCode.OK)


def _check_syntax(words: Sequence[str]) -> tuple[list[Diagnostic], dict[str, Any]]:
    from fabrica_bench.csl.diagnostics import CslError
    from fabrica_bench.csl.parser import parse_file
    from fabrica_bench.csl.source import load_source

    if len(words) != 1 or words[0].startswith("-"):
        raise FabricaError(
            f"--syntax takes one file, not {' '.join(words)!r}", remedy="leave the flags out", code=ExitCode.USAGE
        )
    _require_file(words[0])
    try:
        parse_file(load_source(words[0]))
    except CslError as error:
        return error.diagnostics, {"file": words[0]}
    return [], {"file": words[0]}


def _check_program(words: Sequence[str]) -> tuple[list[Diagnostic], dict[str, Any]]:
    from dataclasses import replace

    from fabrica_bench.compat.cslc import check_placement, compile_options
    from fabrica_bench.compat.cslc_options import parse_options
    from fabrica_bench.csl.diagnostics import CslError, Severity
    from fabrica_bench.csl.driver import compile_program

    options = parse_options(words)
    _require_file(str(options.file))
    facts: dict[str, Any] = {"file": str(options.file), "arch": options.arch}
    try:
        output = compile_program(compile_options(options))
    except CslError as error:
        return error.diagnostics, facts
    program = output.program
    facts |= {"width": program.width, "height": program.height, "pe_programs": len(program.images)}
    diagnostics = output.warnings
    if options.warnings_as_errors:
        diagnostics = [
            replace(item, severity=Severity.ERROR) if item.severity is Severity.WARNING else item
            for item in diagnostics
        ]
    elif options.fabric_dims is not None:
        check_placement(program, options)
    return diagnostics, facts


def _check_summary(facts: dict[str, Any], errors: int, warnings: int) -> str:
    counts = [
        f"{count} {noun}{'s' if count != 1 else ''}" for count, noun in ((errors, "error"), (warnings, "warning"))
    ]
    if errors:
        return f"{facts['file']}: {counts[0]}" + (f", {counts[1]}" if warnings else "")
    text = f"{facts['file']}: ok"
    if "width" in facts:
        text += f" ({facts['width']} by {facts['height']} PEs on {facts['arch']}, {facts['pe_programs']} PE programs)"
    return text + (f", {counts[1]}" if warnings else "")


# --------------------------------------------------------------------------------------------------------- fmt


@csl_app.command(
    epilog=examples(
        "fabrica-bench csl fmt layout.csl pe.csl",
        "fabrica-bench csl fmt --check my_program",
        "cat pe.csl | fabrica-bench csl fmt -",
    )
)
def fmt(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", help="CSL files, or folders with such; - formats standard input."),
    ],
    only_check: Annotated[
        bool, typer.Option("--check", help="Change nothing; name the files that formatting would change.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Format CSL files in place: indentation, spaces and blank lines; tokens and comments stay.

    Exits with 1 when a file has syntax errors, or with --check when one would change.
    """
    if files == ["-"]:
        raise typer.Exit(_format_input(only_check))
    results = [_format_file(path, only_check) for path in _csl_files(files)]
    if json:
        console.write_json([{"file": file, "result": result} for file, result, _ in results])
    for file, result, error in results:
        if error is not None:
            write_diagnostics(error.diagnostics, to_stderr=True)
        elif result == "changed" and not json:
            console.write(f"{'would format' if only_check else 'formatted'} {file}")
    changed = sum(result == "changed" for _, result, _ in results)
    failed = sum(error is not None for _, _, error in results)
    console.note(_format_summary(len(results), changed, failed, only_check))
    raise typer.Exit(ExitCode.FAILURE if failed or (only_check and changed) else ExitCode.OK)


def _format_summary(count: int, changed: int, failed: int, only_check: bool) -> str:
    verb = "would change" if only_check else "changed"
    text = f"{count} file{'s' if count != 1 else ''}, {changed} {verb}"
    return text + (f", {failed} with syntax errors" if failed else "")


def _csl_files(names: Sequence[str]) -> list[str]:
    """The named files, and the CSL files below the named folders, each once."""
    found: dict[str, None] = {}
    for name in names:
        if name == "":
            raise empty_path("FILES")
        path = Path(name)
        if path.is_dir():
            inside = sorted(str(file) for file in path.rglob("*.csl") if file.is_file())
            if not inside:
                raise FabricaError("no .csl file in this folder", place=name, remedy="name the files")
            found |= dict.fromkeys(inside)
        else:
            _require_file(name)
            found[name] = None
    return list(found)


def _format_file(name: str, only_check: bool) -> tuple[str, str, CslError | None]:
    from fabrica_bench.csl.diagnostics import CslError
    from fabrica_bench.csl.fmt import format_source
    from fabrica_bench.csl.source import load_source

    try:
        before = load_source(name).text
        after = format_source(before, name)
    except CslError as error:
        return name, "error", error
    if after == before:
        return name, "unchanged", None
    if not only_check:
        _replace_text(Path(name).resolve(), after)
    return name, "changed", None


def _replace_text(path: Path, text: str) -> None:
    """Write a file so that it is never half written, with the mode that it had."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise from_os_error(error) from error


def _format_input(only_check: bool) -> ExitCode:
    from fabrica_bench.csl.diagnostics import CslError
    from fabrica_bench.csl.fmt import format_source

    try:
        text = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FabricaError("standard input is not UTF-8 text", remedy="save the text as UTF-8") from None
    try:
        formatted = format_source(text, "<stdin>")
    except CslError as error:
        write_diagnostics(error.diagnostics, to_stderr=True)
        return ExitCode.FAILURE
    if only_check:
        return ExitCode.FAILURE if formatted != text else ExitCode.OK
    sys.stdout.write(formatted)
    return ExitCode.OK


# ------------------------------------------------------------------------------------------------------- costs


@csl_app.command(
    epilog=examples(
        "fabrica-bench csl costs",
        "fabrica-bench csl costs --arch wse2 fabric",
        "fabrica-bench csl costs --confidence estimate --json",
    )
)
def costs(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Only entries whose name or source contains this.")
    ] = None,
    arch: Annotated[str, typer.Option("--arch", metavar="ARCH", help="wse2 or wse3.")] = "wse3",
    confidence: Annotated[
        str | None, typer.Option("--confidence", metavar="C", help="Only entries of this confidence.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the cost table that the simulator counts cycles with: value, unit, confidence and source of each number.

    Confidence: A raw trace, or the vendor's statement; B one careful study, or two indirect ones that agree; C
    inference; D second-hand or conflicting; estimate: nobody measured it.
    """
    from fabrica_bench.wse.costs import load_costs

    table = load_costs(checked_choice("--arch", arch, ARCHITECTURES))
    if confidence is not None:
        confidence = checked_choice("--confidence", confidence, ("A", "B", "C", "D", "estimate"))
    chosen = [
        entry
        for entry in table
        if (text is None or text.casefold() in f"{entry.name}\n{entry.source}".casefold())
        and (confidence is None or entry.confidence == confidence)
    ]
    if not chosen:
        raise FabricaError(
            f"no entry of the {table.arch} cost table matches", remedy="leave the filters out", code=ExitCode.USAGE
        )
    if json:
        console.write_json([_cost_record(entry) for entry in chosen])
        return
    columns = [
        Column("name"),
        Column("value", True),
        Column("unit"),
        Column("confidence"),
        Column("source", prose=True),
    ]
    console.write_table(
        columns, [[entry.name, _value_text(entry), entry.unit, entry.confidence, entry.source] for entry in chosen]
    )


def _cost_record(entry: CostEntry) -> dict[str, Any]:
    value = list(entry.value) if isinstance(entry.value, tuple) else entry.value
    return {
        "name": entry.name,
        "value": value,
        "unit": entry.unit,
        "confidence": entry.confidence,
        "source": entry.source,
    }


def _value_text(entry: CostEntry) -> str:
    return ",".join(map(str, entry.value)) if isinstance(entry.value, tuple) else f"{entry.value:g}"


# ------------------------------------------------------------------------------------------------------ shared


def load_program(words: Sequence[str]) -> Program:
    """The program that a command names: compiled from its layout file, or read from a folder that cslc wrote.

    Raises:
        FabricaError: Neither, or the program has errors, which then are on standard error.
    """
    from fabrica_bench.compat.artifacts import read_artifact
    from fabrica_bench.compat.cslc import compile_options
    from fabrica_bench.compat.cslc_options import parse_options
    from fabrica_bench.csl.diagnostics import CslError
    from fabrica_bench.csl.driver import compile_program

    if words[0] == "":
        raise empty_path("PROGRAM")
    if len(words) == 1 and Path(words[0]).is_dir():
        return read_artifact(Path(words[0]))
    options = parse_options(words)
    _require_file(str(options.file))
    try:
        return compile_program(replace(compile_options(options), check_routes=False)).program
    except CslError as error:
        write_diagnostics(error.diagnostics, to_stderr=True)
        raise typer.Exit(ExitCode.FAILURE) from None


def _require_file(name: str) -> None:
    path = Path(name)
    if path.is_dir():
        raise FabricaError("this is a folder", place=name, remedy="name the file with the layout block")
    if not path.exists():
        raise FabricaError("no such file", place=name, remedy="check the path")


def write_diagnostics(diagnostics: Sequence[Diagnostic], *, to_stderr: bool = False) -> None:
    """Print diagnostics as text, in color on a terminal."""
    from fabrica_bench.csl.diagnostics import render

    stream = sys.stderr if to_stderr else sys.stdout
    color = console.is_live(stream) and "NO_COLOR" not in os.environ
    for item in diagnostics:
        (console.note if to_stderr else console.write)(render(item, color=color))


def parse_numbers(option: str, text: str, example: str, limit: int) -> Iterator[int]:
    """Numbers and ranges separated by commas, e.g. `1,4-7`.

    Raises:
        FabricaError: It isn't that, or a number is above `limit`.
    """
    from fabrica_bench.compat.tracing import parse_range

    for part in text.split(","):
        numbers = parse_range(part)
        if numbers is None or numbers[1] > limit:
            raise FabricaError(
                f"{part.strip()!r} is no number up to {limit}",
                place=option,
                remedy=f"write e.g. {option} {example}",
                code=ExitCode.USAGE,
            )
        yield from range(numbers[0], numbers[1] + 1)
