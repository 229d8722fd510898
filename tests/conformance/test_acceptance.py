"""Each program of tests/conformance/accept compiles, runs, and leaves in memory what its first lines say; on both
executors in the same cycles, with the same memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.csl_acceptance import Acceptance, differences, end_of, programs, run

CASES = [(program, arch) for program in programs() for arch in program.arches]


@pytest.mark.parametrize(("program", "arch"), CASES, ids=[f"{program.path.stem}-{arch}" for program, arch in CASES])
def test_the_program_computes_what_it_says(program: Acceptance, arch: str, tmp_path: Path) -> None:
    native, reference = run(program.path, arch, program.flags, tmp_path)
    assert differences(reference, program.expectations) == {}
    assert differences(native, program.expectations) == {}
    assert end_of(native) == end_of(reference)
