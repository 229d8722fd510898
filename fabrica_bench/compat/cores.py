"""Core files: the variables of all PEs in one file, so that `debug_util` can read them in another process.

Format: gzip-compressed JSON `{"fabrica_core": 1, "artefact": DIR, "pes": [[{variable: base64 bytes}, ...], ...]}`, rows
of PEs. The vendor's own core files have another format and can't be read here.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabrica_bench.compat.sessions import HostError
from fabrica_bench.errors import FabricaError
from fabrica_bench.json_text import parse_json

if TYPE_CHECKING:
    from fabrica_bench.csl.ir import Program
    from fabrica_bench.wse.machine import Machine

FORMAT = 1


def write_core(path: Path, program: Program, machine: Machine) -> None:
    """Write the variables of all PEs as they are now."""
    rows = []
    for y in range(program.height):
        row = []
        for x in range(program.width):
            names = program.images[program.tiles[y][x]].globals
            row.append({name: base64.b64encode(machine.read_symbol(x, y, name)).decode() for name in names})
        rows.append(row)
    document = {"fabrica_core": FORMAT, "pes": rows}
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as stream:
        json.dump(document, stream)


def read_core(path: Path) -> list[list[dict[str, bytes]]]:
    """Variables of all PEs by [row][column].

    Raises:
        FabricaError: The file isn't one of `write_core`.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            document: Any = parse_json(stream.read())
        if document["fabrica_core"] != FORMAT:
            raise HostError("unknown core file version", place=str(path), remedy="write it again with dump_core")
        return [[{name: base64.b64decode(text) for name, text in pe.items()} for pe in row] for row in document["pes"]]
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise FabricaError(
            f"not a core file of this simulator: {error}", place=str(path), remedy="write it with SdkRuntime.dump_core"
        ) from error
