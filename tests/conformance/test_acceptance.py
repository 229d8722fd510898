"""Each program of tests/conformance/accept compiles, runs, and leaves in memory what its first lines say."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_acceptance import Acceptance, differences, programs, run

CASES = [(program, arch) for program in programs() for arch in program.arches]


@pytest.mark.parametrize(("program", "arch"), CASES, ids=[f"{program.path.stem}-{arch}" for program, arch in CASES])
def test_the_program_computes_what_it_says(program: Acceptance, arch: str, tmp_path: Path) -> None:
    machine = run(program.path, arch, program.flags, tmp_path)
    assert differences(machine, program.expectations) == {}
