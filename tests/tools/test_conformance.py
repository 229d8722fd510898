"""The conformance tool: what counts as a pass, and what its table says about a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def example(checkout: Path, name: str, script: str, arch: str = "wse2") -> Path:
    folder = checkout / "tutorials" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"commands_{arch}.sh").write_text(f"#!/usr/bin/env bash\nset -e\n{script}\n", encoding="utf-8")
    return folder


def run(checkout: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "conformance"), str(checkout), "--jobs", "1", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def results(checkout: Path, *options: str) -> list[dict[str, object]]:
    table = checkout / "table.json"
    run(checkout, "--json", str(table), *options)
    found: list[dict[str, object]] = json.loads(table.read_text(encoding="utf-8"))["results"]
    return found


def test_exit_status_decides_and_every_script_runs(tmp_path: Path) -> None:
    example(tmp_path, "one", "true")
    example(tmp_path, "one", "exit 3", arch="wse3")
    first, second = results(tmp_path)
    assert (first["passed"], first["arch"]) == (True, "wse2")
    assert (second["passed"], second["reason"]) == (False, "exit status 3")


def test_the_command_fails_if_any_script_fails(tmp_path: Path) -> None:
    example(tmp_path, "good", "true")
    assert run(tmp_path).returncode == 0
    example(tmp_path, "bad", "false")
    failed = run(tmp_path)
    assert failed.returncode == 1
    assert "1 of 2 scripts pass." in failed.stdout


def test_our_tools_come_first_on_the_path(tmp_path: Path) -> None:
    example(tmp_path, "tools", "cslc --version | grep -q fabrica-bench\ncs_python --version | grep -q fabrica-bench")
    assert [item["passed"] for item in results(tmp_path)] == [True]


def test_the_checkout_is_not_written_to_and_libraries_beside_are_copied(tmp_path: Path) -> None:
    folder = example(tmp_path, "writes", "test -f ../common/lib.csl\ntouch made_here")
    common = tmp_path / "tutorials" / "common"
    common.mkdir()
    (common / "lib.csl").write_text("", encoding="utf-8")
    assert [item["passed"] for item in results(tmp_path)] == [True]
    assert not (folder / "made_here").exists()


def test_cycles_come_from_the_last_run(tmp_path: Path) -> None:
    example(tmp_path, "cycles", "echo '{\"cycles\": 1234}' > sim_stats.json")
    assert results(tmp_path)[0]["cycles"] == 1234


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'a.csl:1:2: error: no such thing' >&2; exit 1", "a.csl:1:2: error: no such thing"),
        ("printf 'noise\\nfabrica-sim: deadlock: stuck\\n more' >&2; exit 3", "fabrica-sim: deadlock: stuck"),
        ("echo 'AssertionError: wrong' >&2; exit 1", "AssertionError: wrong"),
    ],
)
def test_the_reason_is_the_telling_line(tmp_path: Path, script: str, reason: str) -> None:
    example(tmp_path, "fails", script)
    assert results(tmp_path)[0]["reason"] == reason


def test_a_script_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    example(tmp_path, "hangs", "sleep 100 & wait")
    assert results(tmp_path, "--timeout", "1")[0]["reason"] == "timeout after 1 s"


def test_filter_selects_by_path_and_nothing_left_is_an_error(tmp_path: Path) -> None:
    example(tmp_path, "one", "true")
    example(tmp_path, "two", "true")
    assert [item["example"] for item in results(tmp_path, "--filter", "two")] == ["tutorials/two"]
    assert run(tmp_path, "--filter", "three").returncode == 2
