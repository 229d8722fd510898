"""Programs of tests/conformance that must end with a report: build, launch `main` once, and give the report's text."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from fabrica_bench.compat import cslc
from fabrica_bench.compat.sessions import SimulatorStopped
from helpers.csl_programs import Host, uniform_layout

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance"
FABRIC = (16, 10)
CYCLES = "200000"


def programs(kind: str) -> list[tuple[Path, str]]:
    """(folder, architecture) of every program in tests/conformance/`kind`. The first line of a `pe.csl` names its
    architectures: `// arch: wse2 wse3`."""
    found = []
    for folder in sorted((CONFORMANCE / kind).iterdir()):
        if folder.is_dir():
            first = (folder / "pe.csl").read_text(encoding="utf-8").split("\n", 1)[0]
            found += [(folder, arch) for arch in first.removeprefix("// arch:").split()]
    return found


def expected(folder: Path, arch: str) -> Path:
    """File with the report: one for both architectures unless there is one for this one."""
    own = folder / f"expected_{arch}.txt"
    return own if own.is_file() else folder / "expected.txt"


def build(folder: Path, arch: str, scratch: Path) -> Path:
    """Compile a copy of the program in `scratch`; a program without a layout gets one with a single PE."""
    shutil.copytree(folder, scratch, dirs_exist_ok=True)
    if not (scratch / "layout.csl").is_file():
        (scratch / "layout.csl").write_text(uniform_layout(1, 1, {}), encoding="utf-8")
    before = Path.cwd()
    os.chdir(scratch)  # so that messages name files without their folder
    try:
        dims = f"--fabric-dims={FABRIC[0]},{FABRIC[1]}"
        status = cslc.main(["layout.csl", f"--arch={arch}", dims, "--fabric-offsets=4,1", "--memcpy", "-o", "out"])
    finally:
        os.chdir(before)
    assert status == 0, f"cslc failed with status {status}"
    return scratch / "out"


def report(folder: Path, arch: str, scratch: Path) -> str:
    """The simulator's report of the run. Numbers of cycles are replaced by N: the cost tables may be refined."""
    artifact = build(folder, arch, scratch)
    before = os.environ.get("FABRICA_SIM_MAX_CYCLES")
    os.environ["FABRICA_SIM_MAX_CYCLES"] = CYCLES
    try:
        host = Host(artifact, (1, 1))
        host.launch()
        host.stop()
    except SimulatorStopped as stopped:
        return without_cycles(str(stopped)) + "\n"
    finally:
        if before is None:
            del os.environ["FABRICA_SIM_MAX_CYCLES"]
        else:
            os.environ["FABRICA_SIM_MAX_CYCLES"] = before
    return "the run succeeded\n"


def without_cycles(text: str) -> str:
    """`at cycle 331` and `after cycle 331` become `at cycle N` and `after cycle N`."""
    return re.sub(r"\b(at|after) cycle \d+", r"\1 cycle N", text)


def record(kind: str, scratch: Path) -> None:
    """Write the reports as they are now; one file where the architectures agree."""
    for folder in {folder for folder, _ in programs(kind)}:
        texts = {
            arch: report(folder, arch, scratch / f"{folder.name}-{arch}") for f, arch in programs(kind) if f == folder
        }
        for old in folder.glob("expected*.txt"):
            old.unlink()
        if len(set(texts.values())) == 1:
            (folder / "expected.txt").write_text(next(iter(texts.values())), encoding="utf-8")
            continue
        for arch, text in texts.items():
            (folder / f"expected_{arch}.txt").write_text(text, encoding="utf-8")
