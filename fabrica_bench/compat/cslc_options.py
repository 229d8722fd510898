"""The command line of `cslc`: every documented flag, both spellings (`--flag=value`, `--flag value`), in any order.

Source of the flag set: Cerebras SDK documentation 1.4, "csl compiler options".
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

from fabrica_bench.errors import ExitCode, FabricaError, near_matches

MAX_CHANNELS: Final = 16
MAX_FABRIC: Final = 4096
"""No wafer is larger in either direction; a larger number is a slip that would cost gigabytes."""

SECTION_FLAG: Final = "--link-section-start-address-bytes"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECTION_NAME = re.compile(r"[A-Za-z0-9_.$]+")

EPILOG: Final = """\
examples:
  cslc layout.csl --fabric-dims=8,3 --fabric-offsets=4,1 --params=M:4,N:6 --memcpy --channels=1 -o out
  cslc --arch=wse3 layout.csl --fabric-dims=11,5 --fabric-offsets=4,1 -o out --memcpy --channels 1
"""


@dataclass(frozen=True)
class CslcOptions:
    """A checked `cslc` command line. Sizes are (width, height) in PEs."""

    file: Path
    output: Path
    arch: Literal["wse2", "wse3"]
    fabric_dims: tuple[int, int] | None
    fabric_offsets: tuple[int, int]
    params: dict[str, int]
    colors: dict[str, int]
    memcpy: bool
    channels: int
    import_paths: tuple[Path, ...]
    width_west_buf: int
    width_east_buf: int
    fp16_format: Literal["f16", "bf16", "cb16"]
    output_json: Path | None
    out_routes: bool
    max_inlined_iterations: int | None
    comptime_func_depth_limit: int | None
    max_comptime_steps: int | None
    max_comptime_memory: int | None
    confine_imports: bool
    warnings_as_errors: bool
    verbose: bool
    diagnostics: Literal["text", "json"]
    section_addresses: dict[str, int]


def usage_error(message: str, *, option: str, remedy: str) -> FabricaError:
    """An error of the command line itself."""
    return FabricaError(message, place=option, remedy=remedy, code=ExitCode.USAGE)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FabricaError(message, place="cslc", remedy="see `cslc --help`", code=ExitCode.USAGE)


def parse_options(argv: Sequence[str]) -> CslcOptions:
    """Parse and check a command line.

    Raises:
        FabricaError: with code USAGE, naming the option and the remedy.
        SystemExit: after `--help`.
    """
    parser = build_parser()
    values, unknown = parser.parse_known_args(list(argv))
    if unknown:
        raise _unknown_argument(parser, unknown[0], values.file)
    if values.file is None:
        raise usage_error("no CSL file given", option="cslc", remedy="name the file with the layout block")
    if values.output == "":
        raise usage_error("the output directory is empty", option="-o", remedy="write -o out")
    return CslcOptions(
        file=Path(values.file),
        output=Path(values.output),
        arch=values.arch,
        fabric_dims=_pair(values.fabric_dims, "--fabric-dims", "W,H", 1) if values.fabric_dims is not None else None,
        fabric_offsets=_pair(values.fabric_offsets, "--fabric-offsets", "X,Y", 0),
        params=_bindings(values.params, "--params", "M:4,N:6"),
        colors=_bindings(values.colors, "--colors", "x_in:1,out:3", limit=23),
        memcpy=values.memcpy,
        channels=_integer(values.channels, "--channels", 1, MAX_CHANNELS),
        import_paths=_import_paths(values.import_path),
        width_west_buf=_integer(values.width_west_buf, "--width-west-buf", 0, MAX_FABRIC),
        width_east_buf=_integer(values.width_east_buf, "--width-east-buf", 0, MAX_FABRIC),
        fp16_format=values.fp16_format,
        output_json=Path(values.output_json) if values.output_json else None,
        out_routes=values.out_routes,
        max_inlined_iterations=_optional(values.max_inlined_iterations, "--max-inlined-iterations"),
        comptime_func_depth_limit=_optional(values.comptime_func_depth_limit, "--comptime-func-depth-limit"),
        max_comptime_steps=_optional(values.max_comptime_steps, "--max-comptime-steps"),
        max_comptime_memory=_optional(values.max_comptime_memory, "--max-comptime-memory"),
        confine_imports=values.confine_imports,
        warnings_as_errors=values.warnings_as_errors,
        verbose=values.verbose,
        diagnostics=values.diagnostics,
        section_addresses=_bindings(
            values.link_section_start_address_bytes, SECTION_FLAG, ".table:24576", name=_SECTION_NAME
        ),
    )


def build_parser() -> argparse.ArgumentParser:
    """The parser; values are checked later, so that every message names the option and the remedy."""
    parser = _Parser(
        prog="cslc",
        description="Compile a CSL program for the embedded fabric simulator of Fabrica-Bench.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="CSL file with the layout block")
    add("-o", dest="output", default="out", metavar="DIR", help="output directory (default: out)")
    add("--arch", choices=("wse2", "wse3"), default="wse2", help="target architecture (default: wse2)")
    add("--fabric-dims", metavar="W,H", help="size of the fabric in PEs")
    add("--fabric-offsets", default="0,0", metavar="X,Y", help="north-west corner of the program on the fabric")
    add(
        "--params",
        action="append",
        default=[],
        metavar="N:V,...",
        help="params of the layout file; repeatable",
    )
    add("--colors", action="append", default=[], metavar="N:V,...", help="values of color declarations; repeatable")
    add("--memcpy", action="store_true", help="add the host I/O layer")
    add("--channels", default="1", metavar="N", help=f"host I/O channels, 1 to {MAX_CHANNELS} (default: 1)")
    add("--import-path", action="append", default=[], metavar="DIR", help="search path for <...> imports; repeatable")
    add("--width-west-buf", default="0", metavar="K", help="columns of I/O buffers west of the program")
    add("--width-east-buf", default="0", metavar="K", help="columns of I/O buffers east of the program")
    add("--fp16-format", choices=("f16", "bf16", "cb16"), default="f16", help="16-bit float format (default: f16)")
    add("--output-json", nargs="?", const="", metavar="P", help="also write the resolved params to P")
    add("--out-routes", action="store_true", help="print the routes of every PE and color")
    add("--max-inlined-iterations", metavar="N", help="limit of unrolled loop iterations")
    add("--comptime-func-depth-limit", metavar="N", help="limit of nested compile-time calls")
    add("--max-comptime-steps", metavar="N", help="limit of work done at compile time (not a flag of the vendor's)")
    add("--max-comptime-memory", metavar="MIB", help="limit of memory for compiling (not a flag of the vendor's)")
    add(
        "--confine-imports",
        action="store_true",
        help="refuse files outside the layout file's folder and the search paths (not a flag of the vendor's)",
    )
    add("--max-parallelism", metavar="N", help="accepted for compatibility; has no effect")
    add(SECTION_FLAG, action="append", default=[], metavar=".S:A,...", help="byte addresses of sections; repeatable")
    add("-g0", dest="no_debug", action="store_true", help="accepted for compatibility; has no effect")
    add("--warnings-as-errors", action="store_true", help="fail on warnings")
    add("--diagnostics", choices=("text", "json"), default="text", help="form of messages; json is one object per line")
    add("--verbose", action="store_true", help="print what was compiled and how long it took")
    add("--version", action="store_true", help="print the version")
    return parser


def _unknown_argument(parser: argparse.ArgumentParser, argument: str, file: str | None) -> FabricaError:
    if not argument.startswith("-"):
        return usage_error(
            f"a second CSL file {argument!r} after {file!r}",
            option="cslc",
            remedy="name only the file with the layout block",
        )
    flag = argument.split("=", 1)[0]
    known = [option for action in parser._actions for option in action.option_strings]
    near = near_matches(flag, known)
    remedy = f"did you mean {' or '.join(near)}?" if near else "see `cslc --help`"
    return usage_error(f"unknown option {flag!r}", option="cslc", remedy=remedy)


def _integer(text: str, option: str, low: int, high: int) -> int:
    value = _parse_unsigned(text)
    if value is None or not low <= value <= high:
        raise usage_error(
            f"{text!r} is not a number from {low} to {high}", option=option, remedy=f"write e.g. {option}={low}"
        )
    return value


def _optional(text: str | None, option: str) -> int | None:
    return None if text is None else _integer(text, option, 1, 1 << 31)


def _parse_unsigned(text: str) -> int | None:
    cleaned = text.strip()
    try:
        if cleaned.lower().startswith("0x"):
            return int(cleaned[2:], 16)
        return int(cleaned) if cleaned.isascii() and cleaned.isdigit() else None
    except ValueError:
        return None


def _pair(text: str, option: str, form: str, low: int) -> tuple[int, int]:
    values = [_parse_unsigned(part) for part in text.split(",")]
    if len(values) != 2 or any(value is None or not low <= value <= MAX_FABRIC for value in values):
        example = "8,3" if option == "--fabric-dims" else "4,1"
        raise usage_error(
            f"{text!r} is not of the form {form} with numbers from {low} to {MAX_FABRIC}",
            option=option,
            remedy=f"write e.g. {option}={example}",
        )
    first, second = values
    assert first is not None
    assert second is not None
    return first, second


def _bindings(
    texts: Sequence[str], option: str, example: str, *, limit: int | None = None, name: re.Pattern[str] = _NAME
) -> dict[str, int]:
    result: dict[str, int] = {}
    for text in texts:
        for item in text.split(","):
            if not item.strip():
                continue
            key, value = _binding(item, option, example, name)
            if limit is not None and value > limit:
                raise usage_error(f"color {key} is {value}", option=option, remedy=f"colors are 0 to {limit}")
            if result.setdefault(key, value) != value:
                raise usage_error(
                    f"{key} is given twice, as {result[key]} and as {value}", option=option, remedy="give it once"
                )
    return result


def _binding(item: str, option: str, example: str, pattern: re.Pattern[str]) -> tuple[str, int]:
    name, colon, number = (part.strip() for part in item.partition(":"))
    value = _parse_unsigned(number)
    if not colon or not pattern.fullmatch(name) or value is None:
        reason = "the value must be an unsigned integer" if colon and pattern.fullmatch(name) else "expected NAME:VALUE"
        raise usage_error(f"{item.strip()!r}: {reason}", option=option, remedy=f"write e.g. {option}={example}")
    return name, value


def _import_paths(given: Sequence[str]) -> tuple[Path, ...]:
    """The directories of `--import-path`, then those of the environment variable CSL_IMPORT_PATH."""
    for text in given:
        if not Path(text).is_dir():
            raise usage_error(f"no such directory: {text!r}", option="--import-path", remedy="check the path")
    environment = os.environ.get("CSL_IMPORT_PATH", "").split(os.pathsep)
    return tuple(Path(text) for text in [*given, *environment] if text)
