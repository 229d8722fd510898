"""Golden messages of the parser: repair loops act on them, so they change only on purpose.

`parser_errors.txt` holds programs and the exact text that `cslc` prints for each. After an intended change run
`python tests/csl/test_parser_errors.py` and review the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source

GOLDEN = Path(__file__).with_name("parser_errors.txt")


def read_cases() -> dict[str, tuple[str, str]]:
    """Title -> (program, messages)."""
    cases: dict[str, tuple[str, str]] = {}
    for section in GOLDEN.read_text(encoding="utf-8").split("==== ")[1:]:
        title, _, rest = section.partition("\n")
        program, _, messages = rest.partition("---- messages\n")
        assert title not in cases
        cases[title] = (program, messages)
    return cases


def messages_for(program: str) -> str:
    try:
        parse_file(virtual_source("pe.csl", program))
    except CslError as error:
        return f"{error}\n"
    return ""


CASES = read_cases()


@pytest.mark.parametrize("title", CASES)
def test_messages_are_as_recorded(title: str) -> None:
    program, expected = CASES[title]
    assert expected, "a case without messages tests nothing"
    assert messages_for(program) == expected


def update() -> None:
    """Record the messages as they are now."""
    sections = [
        f"==== {title}\n{program}---- messages\n{messages_for(program)}" for title, (program, _) in CASES.items()
    ]
    GOLDEN.write_text("".join(sections), encoding="utf-8")


if __name__ == "__main__":
    update()
