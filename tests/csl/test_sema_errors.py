"""Golden messages of the analyser for programs with several mistakes: all in one go, sorted, none because of another.

`sema_errors.txt` holds programs and the exact text that `cslc` prints for each. After an intended change run
`python tests/csl/test_sema_errors.py` with the package and tests/ on the path, and review the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.driver import CompileOptions, compile_program

GOLDEN = Path(__file__).with_name("sema_errors.txt")
LAYOUT = 'layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl"); }\n'


def read_cases() -> dict[str, tuple[str, str]]:
    """Title -> (program, messages)."""
    cases: dict[str, tuple[str, str]] = {}
    for section in GOLDEN.read_text(encoding="utf-8").split("==== ")[1:]:
        title, _, rest = section.partition("\n")
        program, _, messages = rest.partition("---- messages\n")
        assert title not in cases
        cases[title] = (program, messages)
    return cases


def messages_for(program: str, folder: Path) -> str:
    (folder / "layout.csl").write_text(LAYOUT, encoding="utf-8")
    (folder / "pe.csl").write_text(program, encoding="utf-8")
    before = Path.cwd()
    os.chdir(folder)  # so that messages name files without their folder
    try:
        compile_program(CompileOptions(Path("layout.csl")))
    except CslError as error:
        return f"{error}\n"
    finally:
        os.chdir(before)
    return ""


CASES = read_cases()


@pytest.mark.parametrize("title", CASES)
def test_messages_are_as_recorded(title: str, tmp_path: Path) -> None:
    program, expected = CASES[title]
    assert expected, "a case without messages tests nothing"
    assert messages_for(program, tmp_path) == expected


def update() -> None:
    """Record the messages as they are now."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        sections = [
            f"==== {title}\n{program}---- messages\n{messages_for(program, Path(folder))}"
            for title, (program, _) in CASES.items()
        ]
    GOLDEN.write_text("".join(sections), encoding="utf-8")


if __name__ == "__main__":
    update()
