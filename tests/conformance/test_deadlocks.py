"""docs/deadlocks.md shows three programs that deadlock, and what the simulator says of them; both are held here.

After an intended change run `PYTHONPATH=.:tests python tests/conformance/test_deadlocks.py` and review the difference.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from helpers.failing_programs import CONFORMANCE, expected, programs, record, report

KIND = "deadlocks"
PROGRAMS = programs(KIND)
PAGE = CONFORMANCE.parents[1] / "docs" / "deadlocks.md"

INTRODUCTION = """\
# Deadlocks, explained

A program deadlocks when nothing on the fabric can advance and the host still waits. The vendor's simulator then runs on
for ever. `cs_python` notices at once (an event-driven simulator knows that no event is left), ends the run with exit
code 3, and says

- which host command does not end, and which PEs never called `unblock_cmd_stream`;
- circular waits, if there are any: who waits for whom;
- what each PE waits for: task, source line, how many wavelets of which color on which queue. PEs in the same state are
  one entry: `PE(0..3,2)` are the columns 0 to 3 of row 2;
- which PEs could send what is missing, and whether they did;
- colors that nobody receives, and where wavelets are stuck.

The four programs below are in `tests/conformance/deadlocks`. Their reports are for WSE-3; a test compares this page
with what the simulator says.
"""

CASES = {
    "missing_receiver": ("A missing receiver", "The sender is stuck because its neighbor stops receiving."),
    "missing_unblock": ("A missing unblock of the command stream", "Every PE is idle, yet the launch does not end."),
    "merged_activation": (
        "Two activations, one run",
        "A task that counts its activations misses one that comes while it is active already.",
    ),
    "circular_wait": ("Circular waits", "Four PEs in a ring: each receives before it sends."),
}


def page() -> str:
    """The page as the programs and their recorded reports make it."""
    parts = [INTRODUCTION]
    for name, (title, sentence) in CASES.items():
        folder = CONFORMANCE / KIND / name
        program = (folder / "pe.csl").read_text(encoding="utf-8").split("\n", 1)[1].strip()
        text = expected(folder, "wse3").read_text(encoding="utf-8").strip()
        parts.append(f"## {title}\n\n{sentence}\n\n```csl\n{program}\n```\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


@pytest.mark.parametrize(("folder", "arch"), PROGRAMS, ids=[f"{folder.name}-{arch}" for folder, arch in PROGRAMS])
def test_the_report_is_as_recorded(folder: Path, arch: str, tmp_path: Path) -> None:
    text = expected(folder, arch).read_text(encoding="utf-8")
    assert text.startswith("fabrica-sim: deadlock: nothing can advance after cycle N\n")
    assert report(folder, arch, tmp_path / "work") == text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing_receiver", "color 3 has no receiver on PE(1,0)"),
        ("missing_unblock", "never called unblock_cmd_stream: PE(1..3,0..2)"),
        ("merged_activation", "local task done (id 12) was activated while it was active already, on PE(0,0)"),
        ("circular_wait", "circular wait:"),
    ],
)
def test_the_report_names_the_cause(name: str, words: str) -> None:
    assert words in expected(CONFORMANCE / KIND / name, "wse3").read_text(encoding="utf-8")


def test_the_page_shows_the_recorded_reports() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


if __name__ == "__main__":
    record(KIND, Path(tempfile.mkdtemp()))
    PAGE.write_text(page(), encoding="utf-8")
