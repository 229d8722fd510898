"""A toolchain made of two executables: flags, staging, faults, and whose executables they are."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from helpers.privileges import unprivileged

from fabrica_bench.errors import FabricaError
from fabrica_bench.toolchains import BuildOptions, RunRequest, ToolchainUnavailable, get_toolchain
from fabrica_bench.toolchains.commands import CommandToolchain, launch_window
from fabrica_bench.toolchains.processes import Limits
from fabrica_bench.toolchains.registry import availability
from fabrica_bench.toolchains.sdk import find_sdk, is_executable

OPTIONS = BuildOptions(arch="wse2", fabric_dims=(8, 3), params={"n": 4}, deadline_s=20)

CSLC = """
import pathlib, sys
if "--version" in sys.argv: print(VERSION); sys.exit()
text = pathlib.Path(sys.argv[1]).read_text()
if "bad" in text: sys.exit(f"{sys.argv[1]}:1:1: error: bad program")
if "mute" in text: sys.exit(9)
if "empty" not in text:
    pathlib.Path("out").mkdir()
    pathlib.Path("out/flags").write_text(" ".join(sys.argv[1:]))
"""

CS_PYTHON = """
import pathlib, runpy, sys
if "--version" in sys.argv: print(VERSION); sys.exit()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def executable(path: Path, code: str, version: str) -> None:
    path.write_text(f"#!{sys.executable}\nVERSION = {version!r}\n{code}", encoding="utf-8")
    path.chmod(0o755)


def tools(folder: Path, version: str = "Cerebras SDK 1.4.0") -> Path:
    folder.mkdir()
    executable(folder / "cslc", CSLC, version)
    executable(folder / "cs_python", CS_PYTHON, version)
    return folder


@pytest.fixture
def toolchain(tmp_path: Path) -> CommandToolchain:
    return find_sdk(search_path=str(tools(tmp_path / "bin")))


def bundle(tmp_path: Path, layout: str = "good", runner: str = "") -> Path:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "layout.csl").write_text(layout, encoding="utf-8")
    (folder / "run.py").write_text(runner, encoding="utf-8")
    return folder


def run(toolchain: CommandToolchain, tmp_path: Path, runner: str, **request: object):  # type: ignore[no-untyped-def]
    folder = bundle(tmp_path, runner=runner)
    built = toolchain.build(folder, OPTIONS)
    assert built.artifact is not None
    return toolchain.run(
        built.artifact,
        RunRequest(folder / "run.py", tmp_path / "work", deadline_s=20, **request),  # type: ignore[arg-type]
    )


def test_the_compiler_gets_the_documented_flags(toolchain: CommandToolchain, tmp_path: Path) -> None:
    result = toolchain.build(bundle(tmp_path), OPTIONS)
    assert result.ok
    assert result.artifact is not None
    assert (result.artifact / "flags").read_text(encoding="utf-8") == (
        "layout.csl --arch=wse2 --fabric-dims=8,3 --fabric-offsets=4,1 --params=n:4 --memcpy --channels=1 -o out"
    )


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("bad", "bad program"),
        ("mute", "cslc failed with exit status 9"),
        ("empty", "cslc succeeded but wrote no out/"),
    ],
)
def test_a_failed_build_always_has_an_error_diagnostic(
    toolchain: CommandToolchain, tmp_path: Path, layout: str, message: str
) -> None:
    result = toolchain.build(bundle(tmp_path, layout), OPTIONS)
    assert not result.ok
    assert result.artifact is None
    assert result.diagnostics[0].severity == "error"
    assert result.diagnostics[0].message == message


def test_a_run_sees_only_copies_under_fixed_names(toolchain: CommandToolchain, tmp_path: Path) -> None:
    (tmp_path / "data.npz").write_bytes(b"data")
    runner = "import os, sys; open('outputs.npz', 'w').write(repr((sys.argv, sorted(os.listdir()))))"
    result = run(toolchain, tmp_path, runner, inputs=tmp_path / "data.npz")
    assert result.ok
    assert result.outputs.read_text(encoding="utf-8") == repr(
        (
            ["run.py", "--name", "out", "--outputs", "outputs.npz", "--inputs", "inputs.npz", "--no-check"],
            ["inputs.npz", "out", "outputs.npz", "run.py"],
        )
    )


@pytest.mark.parametrize(
    ("runner", "kind", "text"),
    [
        ("import sys; sys.exit('fabrica-sim: deadlock: PE 0,0 waits\\n  at pe.csl:3')", "deadlock", "PE 0,0 waits"),
        ("import sys; sys.exit('fabrica-sim: fault: out of bounds')", "fault", "out of bounds"),
        ("import sys; sys.exit('fabrica-sim: budget: 10 cycles')", "budget", "10 cycles"),
        ("raise ValueError('odd shape')", "crash", "odd shape"),
        ("print('SUCCESS')", "crash", "wrote no outputs.npz"),
    ],
)
def test_a_failed_run_is_classified(
    toolchain: CommandToolchain, tmp_path: Path, runner: str, kind: str, text: str
) -> None:
    result = run(toolchain, tmp_path, runner)
    assert not result.ok
    assert result.outputs is None
    assert result.fault.kind == kind
    assert text in result.fault.message


def test_printing_success_is_not_success(toolchain: CommandToolchain, tmp_path: Path) -> None:
    result = run(toolchain, tmp_path, "import sys; open('outputs.npz', 'w'); print('SUCCESS'); sys.exit(1)")
    assert not result.ok


def test_the_wall_limit_is_named(toolchain: CommandToolchain, tmp_path: Path) -> None:
    folder = bundle(tmp_path, runner="import time; time.sleep(60)")
    artifact = toolchain.build(folder, OPTIONS).artifact
    assert artifact is not None
    result = toolchain.run(artifact, RunRequest(folder / "run.py", tmp_path / "work", deadline_s=1))
    assert result.fault is not None
    assert result.fault.kind == "timeout"
    assert "wall limit of 1 s" in result.fault.message


def test_an_output_that_is_a_link_does_not_count(toolchain: CommandToolchain, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x", encoding="utf-8")
    result = run(toolchain, tmp_path, f"import os; os.symlink({str(tmp_path / 'elsewhere')!r}, 'outputs.npz')")
    assert not result.ok


# ------------------------------------------------------------------------------------------------ finding


def test_our_own_executables_are_passed_over(tmp_path: Path) -> None:
    own = tools(tmp_path / "own", "fabrica-bench cslc 0.1.0")
    with pytest.raises(ToolchainUnavailable, match="passed over"):
        find_sdk(search_path=str(own))
    vendor = tools(tmp_path / "vendor")
    found = find_sdk(search_path=os.pathsep.join([str(own), str(vendor)]))
    assert found.describe()["cslc"] == str(vendor / "cslc")
    assert found.describe()["vendor"] == "yes"


def test_our_own_executables_are_taken_when_told_and_the_record_says_so(tmp_path: Path) -> None:
    own = tools(tmp_path / "own", "fabrica-bench cslc 0.1.0")
    facts = find_sdk(search_path=str(own), allow_own=True).describe()
    assert facts["vendor"] == "no: the project's own executables"
    assert facts["version"] == "fabrica-bench cslc 0.1.0"


def test_a_compiler_without_a_partner_is_no_toolchain(tmp_path: Path) -> None:
    folder = tools(tmp_path / "half")
    (folder / "cs_python").unlink()
    with pytest.raises(ToolchainUnavailable, match="no cs_python"):
        find_sdk(search_path=str(folder))


def test_unusable_back_ends_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(FabricaError, match="not on PATH"):
        get_toolchain("sdk")
    with pytest.raises(FabricaError, match="cerebras_sdk"):
        get_toolchain("appliance")
    with pytest.raises(FabricaError, match="unknown toolchain"):
        get_toolchain("embeded")
    states = availability()
    assert [name for name, (usable, _) in states.items() if usable] == ["embedded"]


def test_the_double_is_not_offered_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FABRICA_BENCH_TEST_DOUBLES", raising=False)
    with pytest.raises(FabricaError, match="unknown toolchain"):
        get_toolchain("scripted")


def test_the_window_of_an_entry_is_read_from_the_statistics(tmp_path: Path) -> None:
    path = tmp_path / "sim_stats.json"
    launches = [{"name": "open", "start": 1, "end": 5}, {"name": "compute", "start": 9, "end": 20}]
    path.write_text(json.dumps({"launches": launches}), encoding="utf-8")
    assert launch_window(path, "compute") == (9, 20)
    assert launch_window(path) == (9, 20)
    assert launch_window(path, "open") == (1, 5)
    assert launch_window(path, "other") is None
    path.write_text("{", encoding="utf-8")
    assert launch_window(path) is None


def test_limits_are_described_with_units() -> None:
    assert "memory 8192 MiB" in Limits().describe()


def test_our_own_executables_that_cannot_start_are_not_the_vendors(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("cslc", "cs_python"):
        script = f"#!{tmp_path}/gone/bin/python\nfrom fabrica_bench.compat.{name} import console\nconsole()\n"
        (own / name).write_text(script, encoding="utf-8")
        (own / name).chmod(0o755)
    with pytest.raises(ToolchainUnavailable, match="passed over"):
        find_sdk(search_path=str(own))


def test_a_folder_of_path_that_nobody_may_look_into_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    path = os.pathsep.join([str(tmp_path / "locked"), str(tools(tmp_path / "bin"))])
    assert unprivileged(lambda: find_sdk(search_path=path).describe()["cslc"]).endswith("bin/cslc")


def test_a_path_that_raises_is_no_executable() -> None:
    class Locked(type(Path())):  # type: ignore[misc]  # whatever kind of path this system has
        def is_file(self) -> bool:
            raise PermissionError(13, "Permission denied")

    assert not is_executable(Locked("cslc"))
