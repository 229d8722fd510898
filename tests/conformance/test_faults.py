"""Golden reports of runs that must end with a fault or a spent budget: PE, source line, task and values.

After an intended change run `PYTHONPATH=.:tests python tests/conformance/test_faults.py` and review the difference.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers.failing_programs import CONFORMANCE, build, expected, programs, record, report, without_cycles

KIND = "faults"
PROGRAMS = programs(KIND)


@pytest.mark.parametrize(("folder", "arch"), PROGRAMS, ids=[f"{folder.name}-{arch}" for folder, arch in PROGRAMS])
def test_the_report_is_as_recorded(folder: Path, arch: str, tmp_path: Path) -> None:
    text = expected(folder, arch).read_text(encoding="utf-8")
    assert text.startswith(("fabrica-sim: fault: PE(", "fabrica-sim: budget: "))
    assert "pe.csl:" in text
    assert report(folder, arch, tmp_path / "work") == text


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_both_executors_show_the_operands_that_were_evaluated(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICA_SIM_EXECUTOR", executor)
    text = report(CONFORMANCE / KIND / "assertion_operands", "wse3", tmp_path / "work")
    assert "(ready=true, index=2, limit=4, scale[index]=-3.0, least=0.0, index + 2=4)" in text
    assert "spare=" not in text


@pytest.mark.parametrize("name", ["assertion", "cycle_budget"])
def test_cs_python_prints_one_block_and_no_traceback(name: str, tmp_path: Path) -> None:
    folder = CONFORMANCE / KIND / name
    artifact = build(folder, "wse3", tmp_path / "work")
    script = CONFORMANCE / KIND / "run.py"
    ended = subprocess.run(
        [sys.executable, "-m", "fabrica_bench.compat.cs_python", str(script), str(artifact)],
        cwd=tmp_path,
        env=os.environ | {"FABRICA_SIM_MAX_CYCLES": "200000", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 3
    first, rest = ended.stderr.split("\n", 1)
    assert first == f"{script}:10: the simulated run ended early"
    assert without_cycles(rest) == expected(folder, "wse3").read_text(encoding="utf-8")
    assert ended.stdout == ""


if __name__ == "__main__":
    record(KIND, Path(tempfile.mkdtemp()))
