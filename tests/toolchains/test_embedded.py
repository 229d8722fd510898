"""The real compiler and simulator behind the toolchain protocol, confined; and the `sdk` back end pointed at them."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.double_it import all_cases, double_it, plain
from helpers.environments import make_environment

from fabrica_bench.compat import batch
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.inputs import InputCase
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.scoring.verdict import Invalid, Valid, outcome_text
from fabrica_bench.tasks import tasks_root
from fabrica_bench.toolchains import RunRequest, Toolchain, get_toolchain
from fabrica_bench.toolchains.embedded import MOST_AT_ONCE, embedded_toolchain, spread
from fabrica_bench.toolchains.landlock import landlock_abi
from fabrica_bench.toolchains.sdk import find_sdk

CASES = all_cases()[:1]


def judge(kernel: str, cases: tuple[InputCase, ...] = CASES, toolchain: Toolchain | None = None) -> Valid | Invalid:
    conditions = Conditions(double_it(), toolchain or get_toolchain("embedded"))
    return Scorer(conditions).judge({"pe.csl": kernel}, cases)


@pytest.mark.parametrize("arch", ["wse2", "wse3"])
def test_a_program_is_built_run_and_timed(arch: str) -> None:
    scorer = Scorer(Conditions(double_it(), get_toolchain("embedded"), arch))  # type: ignore[arg-type]
    verdict = scorer.judge({"pe.csl": plain()}, all_cases())
    assert isinstance(verdict, Valid), outcome_text(verdict)
    assert verdict.cycles > verdict.reference_cycles
    assert len(set(verdict.samples)) == 1


FAULTY: dict[str, tuple[Callable[[str], str], str, str]] = {
    "does not compile": (lambda t: t.replace("2.0 * x[i]", "2.0 * z[i]"), "Build", "pe.csl:"),
    "outside memory": (
        lambda t: t.replace("y[i] = 2.0 * x[i];", "y_ptr[i + 30000] = 1.0;"),
        "Run",
        "fault",
    ),
    "never returns": (
        lambda t: t.replace("  window.end();\n  sys_mod.unblock_cmd_stream();\n", ""),
        "Run",
        "visible 0",
    ),
    "changes its input": (
        lambda t: t.replace("y[i] = 2.0 * x[i];", "y[i] = 2.0 * x[i]; x[i] = 0.0;"),
        "Correct",
        "input x",
    ),
    "last element missing": (lambda t: t.replace("i < n", "i < n - 1"), "Correct", "elements never written: 1 of "),
}


@pytest.mark.parametrize(("edit", "predicate", "text"), FAULTY.values(), ids=FAULTY.keys())
def test_a_faulty_program_is_blamed_precisely(edit: Callable[[str], str], predicate: str, text: str) -> None:
    verdict = judge(edit(plain()))
    assert isinstance(verdict, Invalid)
    assert (verdict.predicate, text in verdict.reason) == (predicate, True), verdict.reason


def test_an_endless_loop_ends_at_the_cycle_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fabrica_bench.scoring.validity.MAX_CYCLES", 50_000)
    verdict = judge(plain().replace("i < n", "true"))
    assert isinstance(verdict, Invalid)
    assert "visible 0 (normal): budget" in verdict.reason or "fault" in verdict.reason


@pytest.mark.skipif(not landlock_abi(), reason="the kernel has no Landlock")
def test_a_program_cannot_import_a_file_of_the_tasks_folder() -> None:
    stolen = tasks_root() / "relu-1pe" / "csl" / "window.csl"
    verdict = judge(
        plain() + f'const other = @import_module("{stolen}", .{{ .unblock = sys_mod.unblock_cmd_stream }});\n'
    )
    assert isinstance(verdict, Invalid)
    assert verdict.predicate == "Build"


def test_runs_of_a_batch_do_not_see_each_other(tmp_path: Path) -> None:
    toolchain = get_toolchain("embedded")
    runner = tmp_path / "run.py"
    runner.write_text(
        "import os, sys, numpy\n"
        "numpy.left_behind = getattr(numpy, 'left_behind', 0) + 1\n"
        "chance = numpy.random.random()\n"
        "group, session = os.getpgid(0) == os.getpid(), os.getsid(0)\n"
        "numpy.savez('outputs.npz', seen=numpy.left_behind, group=group, session=session, chance=chance)\n"
        "print('hello', sys.argv[1:])\n",
        encoding="utf-8",
    )
    (tmp_path / "out").mkdir()
    requests = [RunRequest(runner, tmp_path / f"run-{number}") for number in range(3)]
    results = toolchain.run_all(tmp_path / "out", requests)
    chances = set()
    for result in results:
        assert result.ok
        assert result.outputs is not None
        assert "hello" in result.log
        with np.load(result.outputs) as outputs:
            assert (int(outputs["seen"]), bool(outputs["group"])) == (1, True)
            assert int(outputs["session"]) != os.getsid(0)
            chances.add(float(outputs["chance"]))
    assert len(chances) == 3


def test_a_runner_finds_the_files_it_imports_and_they_stand_in_for_no_other_module(tmp_path: Path) -> None:
    runner = tmp_path / "run.py"
    runner.write_text("import common, json, numpy\nnumpy.savez('outputs.npz', v=common.v, j=json.dumps(1))\n", "utf-8")
    (tmp_path / "common.py").write_text("v = 5\n", encoding="utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    support = (tmp_path / "common.py", tmp_path / "json.py")
    toolchain = get_toolchain("embedded")
    assert toolchain.run(tmp_path / "out", RunRequest(runner, tmp_path / "run-with", support=support)).ok
    alone = toolchain.run(tmp_path / "out", RunRequest(runner, tmp_path / "run-alone"))
    assert alone.fault is not None
    assert "No module named 'common'" in alone.log


@pytest.mark.parametrize("descriptors", [True, False], ids=["a new kernel", "an old kernel"])
@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_the_end_of_a_run_is_noticed_with_and_without_descriptors_of_processes(
    at_once: int, descriptors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(pid: int) -> int:
        raise OSError(errno.ENOSYS, "not implemented")

    if not descriptors:
        monkeypatch.setattr(os, "pidfd_open", missing, raising=False)
    seconds = [30, 0, 0.3, 30, 0]  # what each does, and how long it has; a negative status is a signal's
    work = [lambda: 0, lambda: time.sleep(60), lambda: time.sleep(60), lambda: 7, lambda: 0]

    def run(order: Mapping[str, Any]) -> int:
        return work[order["number"]]() or 0

    monkeypatch.setattr(batch, "_work", run)
    orders = [{"number": number, "deadline_s": limit, "workdir": "."} for number, limit in enumerate(seconds)]
    answers = list(batch._answers(orders, at_once))
    assert [answer["returncode"] for answer in answers[:4]] == [0, -signal.SIGKILL, -signal.SIGKILL, 7]
    assert [answer["timed_out"] for answer in answers[:4]] == [False, True, True, False]
    assert len(answers) == len(orders)


@pytest.mark.skipif(not landlock_abi(), reason="the kernel has no Landlock")
def test_a_run_reaches_neither_the_compiled_program_nor_the_inputs_of_others(tmp_path: Path) -> None:
    runner = tmp_path / "bundle" / "run.py"
    (tmp_path / "bundle" / "out").mkdir(parents=True)
    (tmp_path / "bundle" / "out" / "program").write_text("compiled", encoding="utf-8")
    (tmp_path / "inputs-held-out-0.npz").write_text("secret", encoding="utf-8")
    runner.write_text(
        "import numpy\n"
        "denied = []\n"
        "for name, mode in (('out/program', 'a'), ('out/more', 'w'), ('../../inputs-held-out-0.npz', 'r')):\n"
        "    try:\n"
        "        open(name, mode).close()\n"
        "    except OSError:\n"
        "        denied.append(name)\n"
        "numpy.savez('outputs.npz', denied=denied, read=open('out/program').read())\n",
        encoding="utf-8",
    )
    result = get_toolchain("embedded").run(tmp_path / "bundle" / "out", RunRequest(runner, tmp_path / "runs" / "1"))
    assert result.outputs is not None, result.log
    with np.load(result.outputs) as outputs:
        assert str(outputs["read"]) == "compiled"
        assert outputs["denied"].tolist() == ["out/program", "out/more", "../../inputs-held-out-0.npz"]


@pytest.mark.parametrize("at_once", [1, 2])
def test_one_hanging_run_of_a_batch_does_not_take_the_others_with_it(at_once: int, tmp_path: Path) -> None:
    runner = tmp_path / "run.py"
    runner.write_text(
        "import os\nwhile os.getcwd().endswith('1'): pass\nopen('outputs.npz', 'w').close()\n",
        encoding="utf-8",
    )
    (tmp_path / "out").mkdir()
    requests = [RunRequest(runner, tmp_path / f"run-{number}", deadline_s=4) for number in range(3)]
    toolchain = dataclasses.replace(embedded_toolchain(), at_once=at_once)
    results = toolchain.run_all(tmp_path / "out", requests)
    assert [result.fault.kind if result.fault else "ok" for result in results] == ["ok", "timeout", "ok"]


@pytest.mark.parametrize(
    ("cores", "beside", "at_once"), [(1, 1, 1), (2, 1, 2), (2, 2, 1), (2, 5, 1), (16, 4, 4), (64, 1, MOST_AT_ONCE)]
)
def test_a_back_end_runs_as_many_at_once_as_it_has_cores(
    cores: int, beside: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fabrica_bench.toolchains.embedded.available_cores", lambda: cores)
    found = spread(embedded_toolchain(), beside)
    assert found == dataclasses.replace(embedded_toolchain(), at_once=at_once)
    assert found.describe() == embedded_toolchain().describe()


def test_the_verdict_does_not_depend_on_how_many_run_at_once() -> None:
    one, three = (judge(plain(), all_cases(), dataclasses.replace(embedded_toolchain(), at_once=n)) for n in (1, 3))
    assert one == three


def test_the_sdk_back_end_drives_two_executables_of_another_environment(tmp_path: Path) -> None:
    toolchain = find_sdk(search_path=str(make_environment(tmp_path / "env")), allow_own=True)
    assert toolchain.describe()["vendor"].startswith("no")
    verdict = judge(plain(), toolchain=toolchain)
    assert isinstance(verdict, Valid), outcome_text(verdict)
    assert verdict.samples == judge(plain()).samples  # type: ignore[union-attr]
