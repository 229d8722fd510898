"""`--link-section-start-address-bytes` places the variables of a section."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from helpers.csl_programs import PE_HEAD, compile_files, uniform_layout

from fabrica_bench.compat import cslc
from fabrica_bench.compat.artifacts import read_artifact

FLAG = "--link-section-start-address-bytes"
PE = (
    PE_HEAD
    + """
var table linksection(".table") = @zeros([64]u32);
var small: i8 linksection(".table") = 3;
var other linksection(".other") = @zeros([16]u16);
export var plain = @zeros([2000]u16);
var table_ptr: [*]u32 = &table;
fn main() void {
  table[1] = @as(u32, small) + @as(u32, other[0]);
  sys_mod.unblock_cmd_stream();
}
comptime {
  @export_symbol(table_ptr, "table");
  @export_symbol(main);
}
"""
)
FILES = {"layout.csl": uniform_layout(1, 1, {"table": "[*]u32"}), "pe.csl": PE}


def placed(folder: Path, *flags: str) -> dict[str, tuple[int, int]]:
    """(start, end) of each variable."""
    program = read_artifact(compile_files(folder, FILES, "wse2", (1, 1), *flags))
    return {
        name: (variable.address, variable.address + variable.size)
        for name, variable in program.images[0].globals.items()
    }


def test_sections_lie_where_they_were_put_and_other_data_around_them(tmp_path: Path) -> None:
    without = placed(tmp_path)
    middle = without["plain"][0] + 1000  # inside of where `plain` would be
    found = placed(tmp_path, f"{FLAG}=.table:{middle & ~3},.other:40001")
    assert min(found["table"][0], found["small"][0]) == middle & ~3
    assert found["other"] == (40002, 40034), "moved up to its alignment"
    spans = sorted(found.values())
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_a_section_without_variables_changes_nothing(tmp_path: Path) -> None:
    assert placed(tmp_path, FLAG, ".absent:40000") == placed(tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (".table:10", "section '.table' at 10 overlaps the code"),
        (".table:40000,.other:40100", "section '.other' at 40100 overlaps section '.table'"),
        (".table:49100", "bytes of PE memory, but a PE has 49152"),
        (".table", "expected NAME:VALUE"),
        (".table:here", "must be an unsigned integer"),
        (".table:1,.table:2", ".table is given twice"),
    ],
)
def test_addresses_that_can_not_be_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], value: str, message: str
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    flags = ["--fabric-dims=8,3", "--fabric-offsets=4,1", "--memcpy", f"{FLAG}={value}", "-o", str(tmp_path / "out")]
    assert cslc.main([str(tmp_path / "layout.csl"), *flags]) != 0
    assert message in capfd.readouterr().err
