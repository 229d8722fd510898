"""Who set the limit that a child ran into decides whom its failure is blamed on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.double_it import double_it, plain

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.bundle import frozen_texts
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.staging import Stage
from fabrica_bench.toolchains import RunRequest
from fabrica_bench.toolchains.embedded import EMBEDDED_LIMITS, embedded_toolchain
from fabrica_bench.toolchains.processes import Limits, ProcessResult, python_environment, run_process
from fabrica_bench.toolchains.protocol import BuildResult, RunResult

GREEDY = """
fn copies(comptime k: u16, a: [1048576]u8) u16 {
  var b = a;
  b[k] = 1;
  return copies(k + 1, b) + @as(u16, b[0]);
}
const total = copies(0, @zeros([1048576]u8));
comptime { @assert(total == 0); }
"""


def build_with(code: str, limits: Limits = EMBEDDED_LIMITS) -> BuildResult:
    """Build a program with this Python code as the compiler."""
    toolchain = replace(embedded_toolchain(), cslc=(sys.executable, "-c", code), limits=limits)
    conditions = Conditions(double_it(), toolchain)
    with Stage({"pe.csl": plain()}, frozen_texts(double_it(), "W1")) as stage:
        return toolchain.build(stage.bundle, conditions.build_options())


def run_with(
    code: str,
    folder: Path,
    limits: Limits = EMBEDDED_LIMITS,
    *,
    deadline_s: float = 120.0,
    entry: str | None = None,
) -> RunResult:
    """Run this Python code as the runner."""
    (folder / "run.py").write_text(code, encoding="utf-8")
    (folder / "out").mkdir()
    toolchain = replace(embedded_toolchain(), limits=limits)
    request = RunRequest(folder / "run.py", folder / "run", deadline_s=deadline_s, entry=entry)
    return toolchain.run(folder / "out", request)


def asked(code: str, tmp_path: Path, limits: Limits) -> ProcessResult:
    prelude = "import resource\nfrom fabrica_bench.csl.exhaustion import hit_own_limit\n"
    return run_process(
        [sys.executable, "-c", prelude + code],
        workdir=tmp_path,
        environment=python_environment(),
        limits=limits,
        deadline_s=60,
    )


@pytest.mark.parametrize(
    ("limit", "wanted", "own"),
    [
        (600 << 20, 1 << 30, True),  # more than the limit, which any machine can give
        (None, 1 << 46, False),  # no limit, and more than a machine has
        (1 << 46, 1 << 45, False),  # the limit allows it, the machine doesn't
    ],
    ids=["the limit", "the machine without a limit", "the machine below the limit"],
)
def test_memory_is_blamed_on_whom_it_ran_out_for(limit: int | None, wanted: int, own: bool, tmp_path: Path) -> None:
    code = f"try: bytearray({wanted})\nexcept MemoryError as problem: print(hit_own_limit(problem))"
    result = asked(code, tmp_path, Limits(address_space=limit))
    if not result.stdout and not own:
        pytest.skip("this machine promises any amount of memory")
    assert result.stdout == f"{own}\n", result.stderr


def test_a_file_beyond_the_limit_and_too_many_files_are_the_programs_fault(tmp_path: Path) -> None:
    code = """
try:
    with open("big", "wb") as stream: stream.write(bytes(2 << 20))
except OSError as problem: print(hit_own_limit(problem))
try:
    streams = [open("big") for number in range(100)]
except OSError as problem: print(hit_own_limit(problem))
print(hit_own_limit(OSError(28, "no space left on the device")))
"""
    result = asked(code, tmp_path, Limits(file_size=1 << 20, open_files=50))
    assert result.stdout == "True\nTrue\nFalse\n", result.stderr


def test_a_program_whose_compilation_takes_more_memory_than_it_may_is_its_own_fault() -> None:
    limits = replace(EMBEDDED_LIMITS, address_space=700 << 20)
    toolchain = replace(embedded_toolchain(), limits=limits)
    conditions = Conditions(double_it(), toolchain)
    with Stage({"pe.csl": plain() + GREEDY}, frozen_texts(double_it(), "W1")) as stage:
        result = toolchain.build(stage.bundle, conditions.build_options())
    assert not result.ok
    assert "more memory than this process may use" in result.log, result.log


def test_a_compiler_that_runs_into_its_limits_blames_the_program_and_one_that_is_killed_the_machine() -> None:
    memory = "import sys; from fabrica_bench.compat import cslc\ncslc.compile_command = lambda o: bytearray({})\n"
    end = "sys.exit(cslc.main(['layout.csl', '-o', 'out']))"
    limited = replace(EMBEDDED_LIMITS, address_space=1 << 30)
    result = build_with(memory.format(4 << 30) + end, limited)
    assert (result.ok, "may use no more memory" in result.log) == (False, True), result.log
    assert not build_with("while True: pass", replace(EMBEDDED_LIMITS, cpu_s=1)).ok
    with pytest.raises(FabricaError, match="cslc was killed by the system") as caught:
        build_with("import os; os.kill(os.getpid(), 9)")
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_a_run_that_runs_into_its_limits_is_its_own_fault_and_one_that_is_killed_the_machines(tmp_path: Path) -> None:
    for name in ("memory", "time", "killed", "machine"):
        (tmp_path / name).mkdir()
    greedy = run_with("bytearray(16 << 30)", tmp_path / "memory", replace(EMBEDDED_LIMITS, address_space=8 << 30))
    assert greedy.fault is not None
    assert "more memory than it may use" in greedy.fault.message
    endless = run_with("while True: pass", tmp_path / "time", replace(EMBEDDED_LIMITS, cpu_s=3))
    assert endless.fault is not None
    with pytest.raises(FabricaError, match="a run was killed by the system") as caught:
        run_with("import os; os.kill(os.getpid(), 9)", tmp_path / "killed")
    assert caught.value.code == ExitCode.ENVIRONMENT
    with pytest.raises(FabricaError, match="a run found the machine without memory") as caught:
        run_with("bytearray(1 << 60)", tmp_path / "machine", replace(EMBEDDED_LIMITS, address_space=None))
    assert caught.value.code == ExitCode.ENVIRONMENT


DENIED = {
    "quota": "import errno; raise OSError(errno.EDQUOT, 'Disk quota exceeded', 'outputs.npz')",
    "inside": "from fabrica_bench.compat import statistics\n"
    "import errno, types\n"
    "def full(path, data): raise OSError(errno.ENOSPC, 'No space left on device', str(path))\n"
    "statistics.write_json = full\n"
    "statistics.statistics = lambda machine: {}\n"
    "statistics.write_statistics(None)",
    "output": "import sys\n"
    "class Full:\n"
    "    def write(self, text): return len(text)\n"
    "    def flush(self): raise OSError(28, 'No space left on device')\n"
    "sys.stdout = Full()",
}


@pytest.mark.parametrize("place", list(DENIED))
def test_a_run_that_the_machine_denies_a_file_says_nothing_about_its_program(place: str, tmp_path: Path) -> None:
    """Also where space is there again, or is denied by a quota, when the run is judged."""
    with pytest.raises(FabricaError, match="a run found the machine without memory or space") as caught:
        run_with(DENIED[place], tmp_path)
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_a_run_that_writes_more_than_it_may_is_its_own_fault(tmp_path: Path) -> None:
    limits = replace(EMBEDDED_LIMITS, file_size=1 << 20)
    result = run_with("open('big', 'wb').write(bytes(2 << 20))", tmp_path, limits)
    assert result.fault is not None
    assert "File too large" in result.fault.message


def test_an_error_that_the_simulator_does_not_know_is_the_harness_s_and_tells_no_values(tmp_path: Path) -> None:
    code = """
from fabrica_bench.wse import numeric
numeric.from_bits(None, "f32 of held-out input 17.25")
"""
    with pytest.raises(FabricaError, match=r"the simulator crashed: [A-Za-z]*Error") as caught:
        run_with(code, tmp_path)
    assert caught.value.code == ExitCode.HARNESS
    assert "17.25" not in str(caught.value)


def test_an_error_of_the_runner_itself_is_none_of_the_simulators(tmp_path: Path) -> None:
    result = run_with("{}['missing']", tmp_path)
    assert result.fault is not None
    assert "KeyError" in result.fault.message


def test_a_child_that_got_no_processor_until_its_deadline_is_the_machines_failure(tmp_path: Path) -> None:
    """Nothing of ours waits: one that was stopped, or starved by other work, is no endless program."""
    with pytest.raises(FabricaError, match=r"a run got 0.* s of processor time") as caught:
        run_with("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", tmp_path, deadline_s=2.0)
    assert caught.value.code == ExitCode.ENVIRONMENT


def test_a_run_without_the_simulators_record_is_not_judged(tmp_path: Path) -> None:
    """Fail closed: its stamps would be all that there is."""
    with pytest.raises(FabricaError, match="the simulator left no record of the launch of 'compute'") as caught:
        run_with("open('outputs.npz', 'w').close()", tmp_path, entry="compute")
    assert caught.value.code == ExitCode.HARNESS


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"])
def test_a_crash_of_our_native_code_is_no_fault_of_the_program(name: str, tmp_path: Path) -> None:
    code = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    with pytest.raises(FabricaError, match=f"the simulator crashed: signal {name}") as caught:
        run_with(code, tmp_path)
    assert caught.value.code == ExitCode.HARNESS
    with pytest.raises(FabricaError, match=f"cslc crashed: signal {name}") as caught:
        build_with(code)
    assert caught.value.code == ExitCode.HARNESS


def test_an_abort_stays_the_programs(tmp_path: Path) -> None:
    """Allocators abort where memory ends, which a program can bring about."""
    result = run_with("import os; os.abort()", tmp_path)
    assert result.fault is not None
    assert "SIGABRT" in result.fault.message
