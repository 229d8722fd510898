"""The tool that sets up an emulated arm64 Python: what it says where something is missing; how it lays out wheels."""

from __future__ import annotations

import os
import platform
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "arm64"


@pytest.mark.skipif(platform.machine() == "aarch64", reason="the tool refuses to emulate the machine that it runs on")
def test_a_missing_emulator_is_named_with_its_package(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), str(tmp_path / "arm")],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == "arm64: error: qemu-aarch64-static is not on PATH; install Debian's qemu-user-static\n"
    assert not (tmp_path / "arm").exists()


def test_wheels_are_laid_out_as_an_installation_would(tmp_path: Path) -> None:
    wheel = tmp_path / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing-1.data/platlib/thing/__init__.py", "")
        archive.writestr("other.py", "")
    site = tmp_path / "site"
    site.mkdir()
    runpy.run_path(str(TOOL / "__main__.py"))["unpack"](wheel, site)
    found = sorted(str(path.relative_to(site)) for path in site.rglob("*") if path.is_file())
    assert found == ["other.py", "thing/__init__.py"]


def test_the_project_s_dependencies_are_asked_for_as_wheels_of_arm64() -> None:
    options = runpy.run_path(str(TOOL / "__main__.py"))["wheel_options"]()
    assert {"manylinux2014_aarch64", "--only-binary=:all:"} < set(options)
    assert any(option.startswith("llvmlite") for option in options)
    assert not any("x86_64" in option for option in options)
