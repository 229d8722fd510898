"""The environment variables that ask for traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.csl_programs import PE_HEAD, Host, compile_files, uniform_layout

from fabrica_bench.compat import tracing
from fabrica_bench.compat.sessions import HostError
from fabrica_bench.errors import FabricaError

PE = f"""{PE_HEAD}
fn main() void {{ sys_mod.unblock_cmd_stream(); }}
comptime {{ @export_symbol(main); }}
"""


@pytest.fixture
def artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return compile_files(tmp_path, {"layout.csl": uniform_layout(2, 1, {}), "pe.csl": PE}, "wse3", (2, 1))


def run(artifact: Path) -> None:
    host = Host(artifact, (2, 1))
    host.launch()
    host.runtime.stop()


def test_without_the_variable_nothing_is_written(artifact, tmp_path, monkeypatch):
    monkeypatch.delenv(tracing.DIRECTORY_VARIABLE, raising=False)
    before = {path.name for path in tmp_path.iterdir()}
    run(artifact)
    assert {path.name for path in tmp_path.iterdir()} - before <= {"sim.log", "sim_stats.json"}


def test_the_folder_is_made_and_stays_that_of_the_start(artifact, tmp_path, monkeypatch):
    monkeypatch.setenv(tracing.DIRECTORY_VARIABLE, "a/b")
    host = Host(artifact, (2, 1))
    host.launch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    host.runtime.stop()
    summary = json.loads((tmp_path / "a" / "b" / "out_wse3.trace.json").read_text(encoding="utf-8"))
    assert set(summary["files"]) == set(tracing.FORMATS)
    assert all((tmp_path / "a" / "b" / file).is_file() for file in summary["files"].values())
    assert summary["events"] > 0


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (tracing.FORMATS_VARIABLE, "vcd"),
        (tracing.CYCLES_VARIABLE, "5-1"),
        (tracing.CYCLES_VARIABLE, "x"),
        (tracing.PES_VARIABLE, "0"),
        (tracing.PES_VARIABLE, "2,0"),
        (tracing.EVENTS_VARIABLE, "0"),
        (tracing.EVENTS_VARIABLE, "-3"),
    ],
)
def test_a_value_that_makes_no_sense_names_the_variable(artifact, tmp_path, monkeypatch, variable, value):
    monkeypatch.setenv(tracing.DIRECTORY_VARIABLE, str(tmp_path / "t"))
    monkeypatch.setenv(variable, value)
    with pytest.raises(HostError, match=variable):
        Host(artifact, (2, 1))


def test_a_folder_that_cannot_be_made_is_a_clear_error(artifact, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("", encoding="utf-8")
    monkeypatch.setenv(tracing.DIRECTORY_VARIABLE, str(tmp_path / "taken" / "t"))
    with pytest.raises(FabricaError, match="taken"):
        run(artifact)


@pytest.mark.parametrize(
    ("text", "expected"), [("7", (7, 7)), (" 3-9 ", (3, 9)), ("9-3", None), ("", None), ("-1", None), ("1-2-3", None)]
)
def test_ranges(text, expected):
    assert tracing.parse_range(text) == expected
