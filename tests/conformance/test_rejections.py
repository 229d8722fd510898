"""Each program of tests/conformance/reject is refused, once, where and with the message that its first line says.

docs/csl-rejections.md lists them. After a change on purpose, run `python tests/conformance/test_rejections.py` with the
package and tests/ on the path, and review the difference.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
from helpers.csl_rejections import Rejection, errors_of, place_of, rejections

PAGE = Path(__file__).resolve().parents[2] / "docs" / "csl-rejections.md"
PROGRAMS = list(rejections())

INTRODUCTION = """\
# What the compiler rejects

One program for each rule that a CSL program can break: `tests/conformance/reject/<topic>/<program>.csl`. A test
compiles each and demands exactly one error, at the place and with the message that the program's first line gives. This
page is written by that test (`tests/conformance/test_rejections.py`), and checked by it.

Messages are stable: tools that mend programs act on them. Every error also comes as JSON with `--diagnostics=json`.
Where the messages of WSE-2 and WSE-3 differ, the one of WSE-2 is shown.
"""


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_program_is_refused_where_and_as_it_says(program: Rejection, tmp_path: Path) -> None:
    for arch in program.arches:
        errors = errors_of(program, arch, tmp_path)
        assert [place_of(error) for error in errors] == [(program.path.name, program.line, program.column)], arch
        assert program.message in errors[0].message, arch


def test_the_page_lists_what_the_compiler_says(tmp_path: Path) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(tmp_path)


def page(folder: Path) -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    for topic, programs in groupby(PROGRAMS, key=lambda program: program.path.parent.name):
        parts.append(f"\n## {topic}\n\n| program | for | message |\n|---|---|---|\n")
        for program in programs:
            message = errors_of(program, program.arches[0], folder)[0].message
            shown = message.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
            parts.append(f"| `{program.path.stem}` | {', '.join(program.arches)} | {shown} |\n")
    return "".join(parts)


def update() -> None:
    """Write the page as the compiler is now."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        PAGE.write_text(page(Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    update()
