"""A confined child reads what it may and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fabrica_bench.toolchains.landlock import Confinement, describe_confinement, landlock_abi, python_paths
from fabrica_bench.toolchains.processes import Limits, ProcessResult, run_process, scrubbed_environment

needs_landlock = pytest.mark.skipif(not landlock_abi(), reason="the kernel has no Landlock")


def confined(code: str, workdir: Path, *, hidden: Path, network: bool = False) -> ProcessResult:
    paths = python_paths(hidden=[hidden])
    with Confinement(read=paths.read, listed=paths.listed, write=[workdir], network=network) as confinement:
        return run_process(
            [sys.executable, "-c", code],
            workdir=workdir,
            environment=scrubbed_environment(workdir),
            limits=Limits(),
            deadline_s=20,
            confine=confinement.apply,
        )


@needs_landlock
def test_python_starts_and_works_in_its_folder(tmp_path: Path) -> None:
    code = "import numpy, json, os; open('a', 'w').write('x'); print(os.listdir('.'), numpy.ones(2).sum())"
    assert confined(code, tmp_path, hidden=tmp_path / "none").stdout == "['a'] 2.0\n"


@needs_landlock
def test_files_elsewhere_can_be_neither_read_nor_written(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", tmp_path / "secret"
    work.mkdir()
    secret.write_text("held-out", encoding="utf-8")
    for code in (
        f"open({str(secret)!r}).read()",
        f"open({str(secret)!r}, 'w')",
        f"open({str(tmp_path / 'new')!r}, 'w')",
    ):
        result = confined(code, work, hidden=tmp_path / "none")
        assert "PermissionError" in result.stderr or "Read-only file system" in result.stderr


@needs_landlock
def test_the_environment_of_the_parent_cannot_be_read(tmp_path: Path) -> None:
    result = confined("import os; open(f'/proc/{os.getppid()}/environ').read()", tmp_path, hidden=tmp_path / "none")
    assert "PermissionError" in result.stderr


@needs_landlock
@pytest.mark.skipif(landlock_abi() < 4, reason="this kernel can't restrict TCP")
def test_tcp_is_denied_unless_allowed(tmp_path: Path) -> None:
    code = "import socket; socket.create_server(('127.0.0.1', 0)); print('served')"
    assert "PermissionError" in confined(code, tmp_path, hidden=tmp_path / "none").stderr
    assert confined(code, tmp_path, hidden=tmp_path / "none", network=True).stdout == "served\n"


def test_a_hidden_folder_is_on_no_path_that_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "checkout"
    for folder in ("package/inner", "tasks/relu", ".git", "runs"):
        (checkout / folder).mkdir(parents=True)
    (checkout / "package" / "__init__.py").touch()
    (checkout / "tool.py").touch()
    monkeypatch.syspath_prepend(str(checkout))
    inside = {path for path in python_paths(hidden=[checkout / "tasks"]).read if checkout in (path, *path.parents)}
    assert inside == {checkout / "package", checkout / "tool.py"}


def test_a_hidden_folder_inside_an_installed_package_is_cut_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site" / "bench"
    (installed / "_tasks").mkdir(parents=True)
    (installed / "lib").mkdir()
    (installed / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    inside = {path for path in python_paths(hidden=[installed / "_tasks"]).read if installed in (path, *path.parents)}
    assert inside == {installed / "__init__.py", installed / "lib"}


def test_the_description_says_what_is_in_force() -> None:
    text = describe_confinement(network=True)
    assert ("Landlock ABI" in text) == bool(landlock_abi())
