"""The built wheel, installed into a fresh environment, works outside the checkout: it has the tasks, the agents, the
report templates and the command-line tools, and scores a task from start to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIP_TIMEOUT_S = 300
RUN_TIMEOUT_S = 180


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by the backend that this environment has."""
    out = tmp_path_factory.mktemp("wheel")
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)], out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scripts folder of a fresh environment that has the wheel and what it declares to need."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, with_pip=True, symlinks=True)
    _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)], folder, PIP_TIMEOUT_S)
    return folder / "bin"


def test_the_wheel_has_what_a_run_needs_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "fabrica_bench",
        "fabrica_agent",
        "baseline_agents",
    }
    specs = sorted(str(path.relative_to(ROOT / "tasks")) for path in (ROOT / "tasks").glob("*/spec.yaml"))
    assert specs
    for spec in specs:
        assert f"fabrica_bench/_tasks/{spec}" in names
    assert "fabrica_bench/_reports/report.html.j2" in names
    assert "fabrica_bench/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_everything_tracked_in_the_packages_is_in_the_wheel(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in (ROOT / "fabrica_bench", ROOT / "agents" / "fabrica_agent", ROOT / "agents" / "baseline_agents"):
        for path in package.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(package.parent)) in names


def test_the_installed_wheel_scores_a_task_outside_the_checkout(installed, tmp_path):
    done = _run([str(installed / "fabrica-bench"), *_words("reference"), "--json"], tmp_path, RUN_TIMEOUT_S)
    result = json.loads(done.stdout)
    assert (result["valid"], result["total"]) == (1, 1), done.stdout + done.stderr
    assert result["rows"][0]["task"] == "ReLU-1PE"
    assert Path(result["report"]).is_relative_to(tmp_path) or (tmp_path / result["report"]).is_file()


def test_the_installed_commands_are_the_new_environments(installed, tmp_path):
    shown = _run([str(installed / "fabrica-bench"), "show", "ReLU-1PE", "--json"], tmp_path)
    assert str(installed.parent) in json.loads(shown.stdout)["root"]
    for tool in ("cslc", "cs_python"):
        assert _run([str(installed / tool), "--version"], tmp_path).stdout.startswith("fabrica-bench")
    agents = json.loads(_run([str(installed / "fabrica-bench"), "agents", "--json"], tmp_path).stdout)
    assert {"fabrica", "null", "reference"} <= {agent["name"] for agent in agents}


def _words(agent: str) -> list[str]:
    return ["run", "--agent", agent, "--filter", "name=ReLU-1PE", "--out", "result"]


def _run(command: list[str], folder: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run outside the checkout with nothing of it in the environment; a failure shows the output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FABRICA", "PYTEST"))}
    environment = {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done
