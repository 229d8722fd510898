"""The package as a library: light to import, documented, and shown well in a notebook."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.double_it import all_cases, candidate, double_it, scripted_scorer

import fabrica_bench
from fabrica_bench import FabricaError, HeldOutKey, accept, fast_p, list_tasks, load_task, score
from fabrica_bench.cli.main import main
from fabrica_bench.scoring.verdict import Blame, HeldOutInputs, NotScored, Valid
from fabrica_bench.toolchains.doubles import ScriptedToolchain

ROOT = Path(__file__).parents[1]
REVEALED = HeldOutInputs(suite="1", task="ReLU-1PE", key="0" * 16, commitments=("0" * 64,))
HEAVY = ("numpy", "pydantic", "llvmlite", "yaml", "fabrica_bench.scoring", "fabrica_bench.csl")


def test_importing_the_functions_loads_nothing_heavy() -> None:
    code = "import sys; from fabrica_bench import score, load_task, accept; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not set(done.stdout.split()) & set(HEAVY)


def test_importing_takes_less_than_300_ms() -> None:
    # CPU time of the import alone, the best of three: other load and the interpreter's start don't count.
    code = (
        "import time; begin = time.process_time(); from fabrica_bench import score, load_task, accept; "
        "print(time.process_time() - begin)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 0.3


def test_the_example_of_the_documentation_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    example, audit = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(example.splitlines()) <= 10
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(example, "example", "exec"), names)
    printed = capsys.readouterr().out.split()
    assert printed[0] == printed[4] == "valid"
    assert printed[-1] == "True"
    monkeypatch.chdir(tmp_path)
    exec(compile(audit.replace('"examples', f'"{ROOT}/examples'), "audit", "exec"), names)
    assert capsys.readouterr().out == "()\n"
    assert main(["audit", "verdict.json", "--key", "my.key"]) == 0
    assert "5 commitments compared, 0 problems" in capsys.readouterr().out


def test_help_lists_every_public_name() -> None:
    """In a fresh interpreter, where none of them is loaded yet."""
    code = "import fabrica_bench; help(fabrica_bench)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    listed = done.stdout.partition("CLASSES")[2]
    missing = [name for name in fabrica_bench.__all__ if name != "__version__" and name not in listed]
    assert missing == []
    assert set(fabrica_bench.__all__) <= set(dir(fabrica_bench))


def test_a_notebook_shows_what_a_task_asks_and_a_list_of_tasks_is_readable() -> None:
    task = load_task("ReLU-1PE")
    shown = task._repr_html_()
    assert "<b>ReLU-1PE</b> (level 1): Elementwise maximum" in shown
    assert "<td>small</td><td>n = 512</td>" in shown
    assert len(repr(list_tasks())) < 49 * 200


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arch": "wse9"}, "unknown target of ReLU-1PE 'wse9'"),
        ({"size": "huge"}, "unknown size of ReLU-1PE 'huge'"),
        ({"workflow": "W9"}, "doesn't offer workflow W9"),
        ({"toolchain": "none"}, "unknown toolchain 'none'"),
    ],
)
def test_what_the_caller_gets_wrong_is_no_candidates_fault(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(FabricaError, match=message):
        score("ReLU-1PE", {"pe.csl": ""}, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_task(3), "the task must be a name or the path of a folder, not of type int"),  # type: ignore[arg-type]
        (lambda: load_task(Path("nowhere")), "nowhere: no spec.yaml here"),
        (lambda: score(None, {}), "the task must be a name"),  # type: ignore[arg-type]
        (lambda: score("ReLU-1PE", 3), "the candidate must be a folder or a mapping"),  # type: ignore[arg-type]
        (lambda: score("ReLU-1PE", {"pe.csl": b""}), "file 'pe.csl' must be a name and a text, not of type bytes"),  # type: ignore[dict-item]
        (lambda: score("ReLU-1PE", {}, key="my.key"), r"the key must be a HeldOutKey.*from_file\(path\)"),  # type: ignore[arg-type]
        (lambda: accept(1, 2), "the new one must be a verdict"),  # type: ignore[arg-type]
        (lambda: list_tasks(None), r"the filters must be a sequence of conditions such as .* \(all tasks: \(\)\)"),  # type: ignore[arg-type]
        (lambda: list_tasks(b"level=1"), "the filters must be a sequence of conditions"),  # type: ignore[arg-type]
        (lambda: list_tasks([None]), "element 0 of the filters must be a text such as 'level=1'"),  # type: ignore[list-item]
        (lambda: list_tasks(root=3), "the tasks folder must be the path of a folder, or None, not of type int"),  # type: ignore[arg-type]
        (lambda: load_task("ReLU-1PE", root=3), "the tasks folder must be the path of a folder"),  # type: ignore[arg-type]
        (lambda: load_task("ReLU-1PE").size(3), r"unknown size of ReLU-1PE 3 \(known: medium, small\)"),  # type: ignore[arg-type]
        (lambda: HeldOutKey("x" * 32), "the secret of a held-out key must be 32 bytes, not of type str"),  # type: ignore[arg-type]
        (lambda: HeldOutKey.from_file(None), "the key's file must be a path, not of type NoneType"),  # type: ignore[arg-type]
        (lambda: HeldOutKey.fresh().write(None), "the key's file must be a path"),  # type: ignore[arg-type]
        (lambda: HeldOutKey.fresh().seed(1, "ReLU-1PE", 0), "the suite version must be a text"),  # type: ignore[arg-type]
        (lambda: HeldOutKey.fresh().seed("1", "ReLU-1PE", "0"), "the index must be a whole number"),  # type: ignore[arg-type]
        (lambda: REVEALED.problems("my.key"), "the key must be a HeldOutKey"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(FabricaError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message", "remedy"),
    [
        (lambda: list_tasks("level=1"), "a sequence of conditions, not the text 'level=1'", "write ['level=1']"),
        (lambda: list_tasks(["level"]), "filter 'level' is not of the form key=value", "write e.g. set=core"),
        (lambda: list_tasks(root="nowhere"), "there is no such tasks folder", "name the folder whose subfolders are"),
        (lambda: list_tasks(root=""), "the tasks folder is an empty text", "or None for those in use"),
        (lambda: load_task("ReLU-1PE", root=""), "the tasks folder is an empty text", "or None for those in use"),
        (lambda: score("ReLU-1PE", ""), "the candidate is an empty text, not a path", '"." for the current one'),
        (lambda: HeldOutKey.from_file(""), "the key's file is an empty text", "name the file"),
        (lambda: HeldOutKey.fresh().write(""), "the key's file is an empty text", "name the file"),
        (lambda: HeldOutKey.fresh().write("no/folder"), "no such file or directory", "check the path"),
    ],
)
def test_a_wrong_value_is_told_in_the_librarys_words(
    call: Callable[[], object], message: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty text is no path: the system would take it for the current folder. Options of commands aren't named."""
    (tmp_path / "pe.csl").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FabricaError, match=re.escape(message)) as caught:
        call()
    assert remedy in (caught.value.remedy or "")
    assert " --" not in f" {caught.value}"


def test_filters_may_be_a_mapping_and_a_path_a_text(tmp_path: Path) -> None:
    assert [task.name for task in list_tasks({"name": "relu-1pe", "level": "1"})] == ["ReLU-1PE"]
    assert [task.name for task in list_tasks(iter(["name=relu-1pe"]), str(ROOT / "tasks"))] == ["ReLU-1PE"]
    key = HeldOutKey.fresh()
    key.write(str(tmp_path / "my.key"))
    assert HeldOutKey.from_file(str(tmp_path / "my.key")) == key


def test_a_task_is_found_by_the_path_of_its_folder() -> None:
    assert load_task(ROOT / "tasks" / "relu-1pe").name == "ReLU-1PE"


def test_the_functions_are_documented_and_typed() -> None:
    for function in (accept, fast_p, list_tasks, load_task, score):
        assert function.__doc__
        assert "Args:" in function.__doc__
        assert "Raises:" in function.__doc__
        signature = inspect.signature(function)
        assert all(f"{name}: " in function.__doc__ or f"{name}, " in function.__doc__ for name in signature.parameters)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(item.annotation is not inspect.Parameter.empty for item in signature.parameters.values())
    assert set(fabrica_bench.__all__) >= {"accept", "fast_p", "list_tasks", "load_task", "score", "Task"}


def test_a_candidate_is_scored_and_accepted(tmp_path: Path) -> None:
    task = load_task("Double-It", root=double_it().root.parent)
    (tmp_path / "pe.csl").write_text(candidate(cycles=500)["pe.csl"], encoding="utf-8")
    fast = score(task, tmp_path, toolchain=ScriptedToolchain())
    slow = score(task, candidate(cycles=900), toolchain=ScriptedToolchain())
    assert isinstance(fast, Valid)
    assert accept(fast, slow)
    assert not accept(slow, fast)
    assert fast_p([fast, slow], 1.5) == 0.5
    assert [item.name for item in list_tasks(root=double_it().root.parent)] == ["Double-It"]


def test_a_notebook_shows_outcome_and_evidence_and_no_markup_of_the_candidate() -> None:
    scorer, _ = scripted_scorer()
    valid = scorer.judge(candidate(cycles=500), all_cases())
    assert "valid: 500 cycles, reference 1,000, 2.000 times" in valid._repr_html_()
    invalid = scorer.judge({"pe.csl": "", "<b>.csl": ""}, all_cases())
    shown = invalid._repr_html_()
    assert "&lt;b&gt;.csl" in shown
    assert "<td>Contract</td><td>fails</td>" in shown
    assert "pre-wrap" in shown  # a report of several lines keeps them
    assert "not scored (provider): down" in NotScored(blame=Blame.PROVIDER, reason="down")._repr_html_()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fabrica_bench.nothing  # noqa: B018
