"""The command line of cslc: spellings, accumulation, and errors that name option and remedy."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from fabrica_bench.compat.cslc_options import parse_options
from fabrica_bench.errors import ExitCode, FabricaError


def test_both_spellings_and_any_order_give_the_same_options() -> None:
    joined = parse_options(
        [
            "--arch=wse3",
            "layout.csl",
            "--fabric-dims=8,3",
            "--fabric-offsets=4,1",
            "-o=out2",
            "--memcpy",
            "--channels=2",
        ]
    )
    text = "--memcpy --channels 2 --fabric-dims 8,3 -o out2 --fabric-offsets 4,1 --arch wse3 layout.csl"
    separate = parse_options(shlex.split(text))
    assert joined == separate
    assert joined.fabric_dims == (8, 3)
    assert joined.fabric_offsets == (4, 1)
    assert joined.output == Path("out2")
    assert joined.channels == 2


def test_defaults_are_those_of_the_documentation() -> None:
    options = parse_options(["layout.csl"])
    assert options.arch == "wse2"
    assert options.output == Path("out")
    assert options.channels == 1
    assert not options.memcpy
    assert options.fabric_dims is None


def test_repeated_params_accumulate_over_both_spellings() -> None:
    options = parse_options(["l.csl", "--params=M:4,N:6", "--params", "width:0x10", "--colors=x:1", "--colors", "y:3"])
    assert options.params == {"M": 4, "N": 6, "width": 16}
    assert options.colors == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("arguments", "place", "text"),
    [
        ([], "cslc", "no CSL file"),
        (["a.csl", "b.csl"], "cslc", "second CSL file"),
        (["a.csl", "--arch=wse9"], "cslc", "wse9"),
        (["a.csl", "--fabric-dim=8,3"], "cslc", "--fabric-dim"),
        (["a.csl", "--fabric-dims=8"], "--fabric-dims", "'8'"),
        (["a.csl", "--fabric-dims=0,3"], "--fabric-dims", "0,3"),
        (["a.csl", "--fabric-offsets=-1,3"], "--fabric-offsets", "-1"),
        (["a.csl", "--channels=0"], "--channels", "'0'"),
        (["a.csl", "--channels", "17"], "--channels", "17"),
        (["a.csl", "--params=M"], "--params", "NAME:VALUE"),
        (["a.csl", "--params=M:-4"], "--params", "unsigned"),
        (["a.csl", "--params=M:4.5"], "--params", "unsigned"),
        (["a.csl", "--params=M:4", "--params=M:5"], "--params", "twice"),
        (["a.csl", "--colors=x:24"], "--colors", "24"),
        (["a.csl", "--import-path=/no/such/folder"], "--import-path", "/no/such/folder"),
    ],
)
def test_wrong_values_name_the_option(arguments: list[str], place: str, text: str) -> None:
    with pytest.raises(FabricaError) as caught:
        parse_options(arguments)
    assert caught.value.place == place
    assert text in caught.value.message
    assert caught.value.remedy
    assert caught.value.code == ExitCode.USAGE


def test_a_misspelt_option_is_answered_with_the_right_one() -> None:
    with pytest.raises(FabricaError) as caught:
        parse_options(["a.csl", "--fabric-dim=8,3"])
    assert "--fabric-dims" in str(caught.value.remedy)


def test_import_paths_come_from_flags_then_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSL_IMPORT_PATH", "/opt/one:/opt/two")
    options = parse_options(["a.csl", f"--import-path={tmp_path}"])
    assert options.import_paths == (tmp_path, Path("/opt/one"), Path("/opt/two"))
