"""Programs that must be refused: tests/conformance/reject/<topic>/<rule>.csl, one broken rule each.

The first line of a program says for which architectures, at which line and column and with which message:

    // reject wse2 wse3 4:36 expected type 'i8', got: 'i16'

The message may be a part of the compiler's. A second line `// flags ...` gives further options of `cslc`. A program
with a layout block is compiled as it is; any other is the code of the only PE of a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fabrica_bench.compat.cslc import compile_options
from fabrica_bench.compat.cslc_options import parse_options
from fabrica_bench.csl.diagnostics import CslError, Diagnostic, Severity
from fabrica_bench.csl.driver import compile_program

FOLDER = Path(__file__).resolve().parents[1] / "conformance" / "reject"
#: programs that others import
PARTS = frozenset(("empty.csl", "exporter.csl"))

ONE_PE = """\
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "PATH");
}
"""
ONE_PE_WITH_MEMCPY = """\
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "PATH", .{ .memcpy_params = memcpy.get_params(0) });
}
"""

_HEADER = re.compile(r"// reject ((?:wse[23] )+)(\d+):(\d+) (\S.*)\n(?:// flags (.*)\n)?")


@dataclass(frozen=True)
class Rejection:
    """A program, and what the compiler must say of it."""

    path: Path
    arches: tuple[str, ...]
    line: int
    column: int
    message: str
    flags: tuple[str, ...]

    @property
    def name(self) -> str:
        """Topic and rule."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def has_layout(self) -> bool:
        return re.search(r"^layout\b", self.path.read_text(encoding="utf-8"), re.MULTILINE) is not None


def rejections() -> Iterator[Rejection]:
    """All programs, by topic and name."""
    for path in sorted(FOLDER.glob("*/*.csl")):
        if path.name in PARTS:
            continue
        found = _HEADER.match(path.read_text(encoding="utf-8"))
        assert found, f"{path} does not say how it must be refused"
        arches, line, column, message, flags = found.groups()
        yield Rejection(path, tuple(arches.split()), int(line), int(column), message, tuple((flags or "").split()))


def errors_of(rejection: Rejection, arch: str, folder: Path) -> list[Diagnostic]:
    """What the compiler objects to; empty if it accepts the program. `folder` takes the layout."""
    layout = rejection.path
    if not rejection.has_layout:
        layout = folder / "layout.csl"
        memcpy = "<memcpy/memcpy>" in rejection.path.read_text(encoding="utf-8")
        text = ONE_PE_WITH_MEMCPY if memcpy else ONE_PE
        layout.write_text(text.replace("PATH", str(rejection.path)), encoding="utf-8")
    options = parse_options([str(layout), f"--arch={arch}", *rejection.flags])
    try:
        compile_program(compile_options(options))
    except CslError as problem:
        return [entry for entry in problem.diagnostics if entry.severity is Severity.ERROR]
    return []


def place_of(diagnostic: Diagnostic) -> tuple[str, int, int]:
    """File name, line and column; an empty name and zeros without a place."""
    if diagnostic.span is None:
        return "", 0, 0
    return (Path(diagnostic.span.file.absolute).name, *diagnostic.span.file.position(diagnostic.span.start))
