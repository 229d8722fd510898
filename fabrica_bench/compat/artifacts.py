"""The directory that `cslc` writes and `cs_python` reads.

`out.json`               `{"params": {name: value as text}, "colors": {name: value as text}}`; host scripts read it
`bin/out_rpc.json`       exported symbols in the vendor's schema (`rpc_symbols`)
`bin/layout.json`        streams and initial data of programs made with the layout API
`bin/program.json.gz`    the compiled program of the embedded simulator
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fabrica_bench.errors import FabricaError

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import ExportName, Program

PARAMS_FILE: Final = "out.json"
RPC_FILE: Final = "bin/out_rpc.json"
LAYOUT_FILE: Final = "bin/layout.json"
PROGRAM_FILE: Final = "bin/program.json.gz"
RECOMPILE: Final = "compile the program again with Fabrica-Bench's cslc"


def write_artifact(program: Program, directory: Path, colors: dict[str, int]) -> None:
    """Write every file of the artefact; each replaces its predecessor in one step.

    Args:
        program: The compiled program.
        directory: Made if missing.
        colors: Values of `--colors`, repeated in `out.json`.

    Raises:
        OSError: The directory can't be written.
    """
    from fabrica_bench.csl.artifact import save_program

    (directory / "bin").mkdir(parents=True, exist_ok=True)
    (directory / LAYOUT_FILE).unlink(missing_ok=True)  # of an earlier program in the same directory
    save_program(program, directory)
    write_json(directory / RPC_FILE, {"rpc_symbols": rpc_symbols(program)})
    write_json(
        directory / PARAMS_FILE,
        {"params": dict(program.params), "colors": {name: str(value) for name, value in colors.items()}},
    )


def write_json(path: Path, value: Any) -> None:
    """Write JSON under a temporary name, then rename, so that no reader sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def rpc_symbols(program: Program) -> list[dict[str, Any]]:
    """The exported names and the streaming colors in the schema of `out_rpc.json`."""
    symbols = [_rpc_symbol(export, program) for export in program.exports]
    free = max((export.id for export in program.exports), default=-1) + 1
    for number, (color, way) in enumerate(sorted(program.stream_colors.items())):
        name = f"MEMCPY{way.upper()}_{color}"
        symbols.append(
            {"id": free + number, "name": name, "sym_name": name, "type": "color", "kind": "Stream", "color": color}
        )
    return symbols


def _rpc_symbol(export: ExportName, program: Program) -> dict[str, Any]:
    target = next((image.exports[export.name].target for image in program.images if export.name in image.exports), None)
    symbol: dict[str, Any] = {"id": export.id, "name": export.name, "sym_name": target or export.name}
    if export.kind == "fn":
        symbol |= {"type": "void", "kind": "Func"}
        if export.params:
            symbol["inputs"] = [{"name": f"arg{i}", "type": kind} for i, kind in enumerate(export.params)]
        return symbol
    return symbol | {"type": export.type_name, "kind": "Var", "immutable": int(not export.mutable)}


def read_artifact(directory: Path) -> Program:
    """Load the compiled program of an artefact.

    Raises:
        FabricaError: The directory is not an artefact, or its program file is damaged.
    """
    from fabrica_bench.csl.artifact import load_program

    if not directory.is_dir():
        raise FabricaError(
            "no such artefact directory", place=str(directory), remedy="pass the directory that cslc wrote with -o"
        )
    if not (directory / PROGRAM_FILE).is_file() and any(directory.glob("bin/*.elf")):
        raise FabricaError("another toolchain built this artefact", place=str(directory), remedy=RECOMPILE)
    return load_program(directory)
