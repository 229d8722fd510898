"""cs_python: the script's world, its exit status, and what a reader sees when it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, text: str, *arguments: str, safe: bool = False) -> subprocess.CompletedProcess[str]:
    (folder / "run.py").write_text(text, encoding="utf-8")
    flags = ["-P"] if safe else []
    return subprocess.run(
        [sys.executable, *flags, "-m", "fabrica_bench.compat.cs_python", "run.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_arguments_and_main_reach_the_script(tmp_path: Path) -> None:
    result = run(tmp_path, "import sys\nif __name__ == '__main__':\n  print(sys.argv)\n", "--name", "out")
    assert result.returncode == 0
    assert result.stdout == "['run.py', '--name', 'out']\n"


def test_the_host_package_is_importable_inside_and_only_inside(tmp_path: Path) -> None:
    inside = run(tmp_path, "import cerebras.sdk.sdk_utils as u\nprint(u.__file__)\n")
    assert "compat/host/cerebras" in inside.stdout.replace(os.sep, "/")
    outside = subprocess.run(
        [sys.executable, "-c", "import cerebras"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "No module named 'cerebras'" in outside.stderr


@pytest.mark.parametrize(
    ("module", "remedy"),
    [("elf.cs_elf_runner", "SdkRuntime"), ("sdk.client", "cslc"), ("appliance.pb.sdk.sdk_common_pb2", "MemcpyOrder")],
)
def test_vendor_packages_that_are_not_imitated_say_what_to_use(module: str, remedy: str, tmp_path: Path) -> None:
    result = run(tmp_path, f"import cerebras.{module}\n")
    assert result.returncode == 1
    assert "ImportError: cerebras." in result.stderr
    assert remedy in result.stderr
    caught = f"try:\n  import cerebras.{module}\nexcept ImportError:\n  print('without')\n"
    assert run(tmp_path, caught).stdout == "without\n"


def test_modules_beside_the_script_are_found_unless_python_was_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "helper_beside.py").write_text("value = 5\n", encoding="utf-8")
    text = "import helper_beside\nprint(helper_beside.value)\n"
    assert run(tmp_path, text).stdout == "5\n"
    assert "No module named 'helper_beside'" in run(tmp_path, text, safe=True).stderr


@pytest.mark.parametrize(
    ("text", "status"),
    [("", 0), ("import sys; sys.exit(7)", 7), ("import sys; sys.exit('bad')", 1), ("assert False", 1), ("1/0", 1)],
)
def test_the_exit_status_is_the_scripts(tmp_path: Path, text: str, status: int) -> None:
    assert run(tmp_path, text).returncode == status


def test_a_failed_script_shows_its_own_traceback_and_no_frame_of_ours(tmp_path: Path) -> None:
    result = run(tmp_path, "def f():\n  raise ValueError('wrong answer')\nf()\n")
    assert "ValueError: wrong answer" in result.stderr
    assert '"run.py", line 2' in result.stderr
    assert "cs_python.py" not in result.stderr


def test_a_misused_host_api_is_one_line_with_the_place_in_the_script(tmp_path: Path) -> None:
    text = "from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime\nSdkRuntime('missing')\n"
    result = run(tmp_path, text)
    assert result.returncode == 1
    assert result.stderr.startswith("run.py:2: error: missing: no such artefact directory")
    assert "hint:" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_of_a_system_is_refused(tmp_path: Path) -> None:
    text = "from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime\nSdkRuntime('x', cmaddr='1.2.3.4:9000')\n"
    result = run(tmp_path, text)
    assert "only simulates" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("use", ["SdkLayout(None)", "Color('c', 24)", "get_edge_routing(1, [])", "SdkLayout('f.json')"])
def test_a_misused_layout_api_is_one_clear_error(tmp_path: Path, use: str) -> None:
    text = f"from cerebras.sdk.runtime.sdkruntimepybind import *\nprint({use})\n"
    result = run(tmp_path, text)
    assert result.returncode == 1
    assert "run.py:2: error: " in result.stderr
    assert "hint: " in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_script_and_no_script_are_usage_errors(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fabrica_bench.compat.cs_python"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    missing = subprocess.run([*command, "no.py"], env=environment, capture_output=True, text=True, check=False)
    assert missing.returncode == 3
    assert "no such script" in missing.stderr
    nothing = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert nothing.returncode == 2
    assert "usage:" in nothing.stderr


def test_both_commands_name_the_project_in_their_version(tmp_path: Path) -> None:
    for tool in ("cslc", "cs_python"):
        result = subprocess.run(
            [sys.executable, "-m", f"fabrica_bench.compat.{tool}", "--version"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.startswith(f"fabrica-bench {tool} ")
