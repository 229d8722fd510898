"""The template of an agent, as a distribution of its own: built, installed apart from Fabrica-Bench, listed, run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.double_it import FIXTURE_TASKS, plain

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "examples" / "agent-template"
TIMEOUT_S = 180


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the template's wheel was installed, without its dependency."""
    folder = tmp_path_factory.mktemp("template")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(TEMPLATE),
    ]
    subprocess.run(build, check=True, capture_output=True, timeout=TIMEOUT_S)
    (wheel,) = (folder / "dist").glob("hello_agent-*.whl")
    target = folder / "site"
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True, timeout=TIMEOUT_S)
    return target


def fabrica(installed: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (installed, ROOT, ROOT / "agents"))),
        "FABRICA_BENCH_TASKS": str(FIXTURE_TASKS),
        "FABRICA_BENCH_TEST_DOUBLES": "1",
        "FABRICA_BENCH_KEYS": str(tmp_path / "keys"),
    }
    command = [sys.executable, "-m", "fabrica_bench", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=tmp_path)


def test_it_is_listed(installed: Path, tmp_path: Path) -> None:
    done = fabrica(installed, tmp_path, "agents", "--json")
    assert done.returncode == 0, done.stderr
    found = {agent["name"] for agent in json.loads(done.stdout)}
    assert {"hello", "fabrica", "single-shot", "reference", "null"} <= found


def test_it_translates_with_whoever_answers(installed: Path, tmp_path: Path) -> None:
    answers = tmp_path / "x"
    answers.mkdir()
    for number, text in ((1, "//! build=error\n" + plain()), (2, plain())):
        answer = {"answer": {"pe.csl": text}}
        (answers / f"{number:04d}.answer.json").write_text(json.dumps(answer), encoding="utf-8")
    words = ["run", "--agent", "hello", "--toolchain", "scripted", "--model", "exchange:x", "--out", "run", "--json"]
    done = fabrica(installed, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["valid"], result["model"]) == (1, "exchange")
    second = json.loads((answers / "0002.request.json").read_text(encoding="utf-8"))
    assert "The compiler says:" in second["user"]


def test_it_is_as_short_as_the_tutorial_says() -> None:
    lines = (TEMPLATE / "hello_agent" / "__init__.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 30
