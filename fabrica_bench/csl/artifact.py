"""Compiled programs on disk: `ir.Program` as `bin/program.json.gz` in the output folder.

Artefacts are untrusted input (a candidate's build may have written them), so the format is plain JSON, checked against
the classes of `fabrica_bench.csl.ir` when read. The bytes depend only on the program.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any, Final, cast

from fabrica_bench.csl import ir
from fabrica_bench.csl.record_codec import CodecError, RecordCodec
from fabrica_bench.errors import FabricaError

#: Where a program lies in an output folder.
PROGRAM_FILE: Final = Path("bin") / "program.json.gz"
FORMAT: Final = "fabrica-csl-program"
#: Grows when the meaning of a document changes without its classes changing (those are in the document).
VERSION: Final = 1
#: Largest document that is read, uncompressed. A program for 100 x 100 PEs with distinct code stays far below.
MAX_JSON_BYTES: Final = 512 * 1024 * 1024
_COMPRESSION_LEVEL: Final = 5  # level 9 takes three times as long for 4 % less

_REMEDY: Final = "compile the program again with this version of cslc"


class ArtifactError(FabricaError):
    """A compiled program can't be read or written."""


def save_program(program: ir.Program, folder: str | os.PathLike[str]) -> Path:
    """Write a program into an output folder and return the file's path. An existing one is replaced as a whole.

    Raises:
        ArtifactError: A value doesn't fit its declared type (a bug of the compiler); the message names it.
        OSError: The folder can't be written.
    """
    path = Path(folder) / PROGRAM_FILE
    try:
        data = encode_program(program)
    except CodecError as problem:
        raise ArtifactError(f"the program has no file form: {problem}", place=str(path)) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
    return path


def load_program(folder: str | os.PathLike[str]) -> ir.Program:
    """Read the program of an output folder.

    Raises:
        ArtifactError: There is none, or it is damaged, or from another version.
    """
    path = Path(folder) / PROGRAM_FILE
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_JSON_BYTES)
    except FileNotFoundError:
        raise ArtifactError(
            "no compiled program here", place=str(path), remedy="compile with `cslc ... -o FOLDER` first"
        ) from None
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise ArtifactError(f"the compiled program can't be read: {reason}", place=str(path)) from None
    if _kept and _kept[0] == data:
        return _kept[1]
    try:
        return decode_program(data)
    except CodecError as problem:
        raise ArtifactError(f"not a valid compiled program: {problem}", place=str(path), remedy=_REMEDY) from None


_kept: tuple[bytes, ir.Program] | tuple[()] = ()


def keep_program(folder: str | os.PathLike[str]) -> ir.Program:
    """`load_program`, and keep the program for the forks of this process: each runs it from its own copy of the file.

    Raises:
        ArtifactError: As `load_program`.
    """
    global _kept
    program = load_program(folder)
    _kept = (Path(folder, PROGRAM_FILE).read_bytes(), program)
    return program


def encode_program(program: ir.Program) -> bytes:
    """The content of a program file.

    Raises:
        CodecError: A value doesn't fit its declared type.
    """
    codec = _codec()
    body = codec.encode(ir.Program, program)
    check_shape(program)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "classes": codec.schema(),
        "pools": codec.pools(),
        "program": body,
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return gzip.compress(text.encode("ascii"), _COMPRESSION_LEVEL, mtime=0)


def decode_program(data: bytes) -> ir.Program:
    """The program of a file's content.

    Raises:
        CodecError: The data is damaged, or from another version.
    """
    document = _parse_document(_decompress(data))
    codec = _codec()
    codec.check_schema(document["classes"])
    codec.load_pools(document["pools"])
    program = cast(ir.Program, codec.decode(ir.Program, document["program"]))
    check_shape(program)
    return program


def check_shape(program: ir.Program) -> None:
    """Check that the per-PE tables have the program's size and name existing images.

    Raises:
        CodecError: They don't.
    """
    for name, rows in (("tiles", program.tiles), ("colors", program.colors)):
        sizes = {len(row) for row in cast(list[list[Any]], rows)}
        if len(rows) != program.height or sizes - {program.width}:
            raise CodecError(f"expected {program.height} rows of {program.width} PEs", f".{name}")
    for y, row in enumerate(program.tiles):
        for x, image in enumerate(row):
            if not 0 <= image < len(program.images):
                raise CodecError(f"there is no image {image}", f".tiles[{y}][{x}]")


def _codec() -> RecordCodec:
    # vars(), because __subclasses__() also lists the classes that dataclass(slots=True) replaced
    records = [
        value
        for value in vars(ir).values()
        if isinstance(value, type)
        and value.__module__.startswith(f"{ir.__name__}.")
        and (hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"))
    ]
    return RecordCodec(records, pooled=(ir.ScalarType, ir.ColorConfig))


def _decompress(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)  # 31: gzip format
    try:
        text = decompressor.decompress(data, MAX_JSON_BYTES)
    except zlib.error as problem:
        raise CodecError(f"the compressed data is damaged: {problem}") from None
    if decompressor.unconsumed_tail:
        raise CodecError(f"the document is larger than {MAX_JSON_BYTES >> 20} MiB")
    if not decompressor.eof or decompressor.unused_data:
        raise CodecError("the compressed data is cut off or followed by other data")
    return text


def _parse_document(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise CodecError("the document is nested too deeply") from None
    except ValueError as problem:
        raise CodecError(f"the document is not JSON: {problem}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise CodecError("the document is not a compiled CSL program")
    if document.get("version") != VERSION:
        raise CodecError(f"the document has version {document.get('version')!r}, this program reads {VERSION}")
    keys = {"format", "version", "classes", "pools", "program"}
    if set(document) != keys:
        raise CodecError(f"the document has the keys {sorted(document)}, expected {sorted(keys)}")
    return document
