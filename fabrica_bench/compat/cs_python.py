"""`cs_python`: run a host script with this Python and the simulator's `cerebras.sdk` package.

Only here does `compat/host` enter the import path, so the package never shadows the vendor's own.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from fabrica_bench.compat.host_code import compiled
from fabrica_bench.csl.exhaustion import hit_own_limit
from fabrica_bench.errors import DENIED_BY_MACHINE, ExitCode, FabricaError
from fabrica_bench.version import __version__

HOST_DIRECTORY = Path(__file__).resolve().parent / "host"
PACKAGE = Path(__file__).resolve().parent.parent
SIMULATION_FAILED = 3
"""Exit code after a fault, deadlock or spent budget of the simulator."""

USAGE = """\
usage: cs_python SCRIPT [ARGUMENTS...]

Run a host script of a CSL program on the embedded fabric simulator.

environment:
  FABRICA_SIM_MAX_CYCLES   budget of simulated cycles
  FABRICA_SIM_MAX_SECONDS  budget of wall-clock seconds
  FABRICA_SIM_EXECUTOR     native or reference: who executes the program, with the same results
  FABRICA_SIM_TRACE        directory for traces (Perfetto, wse-viz); see docs/csl-tools.md

examples:
  cs_python run.py --name out
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns the script's exit code; see `USAGE`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        stream = sys.stdout if arguments else sys.stderr
        stream.write(USAGE)
        return ExitCode.OK if arguments else ExitCode.USAGE
    if arguments[0] == "--version":
        sys.stdout.write(f"fabrica-bench cs_python {__version__}\n")
        return ExitCode.OK
    script = Path(arguments[0])
    if not script.is_file():
        sys.stderr.write(f"cs_python: error: no such script: {script}\n  hint: check the path\n")
        return ExitCode.BAD_INPUT
    return run_script(script, arguments)


def run_script(script: Path, arguments: Sequence[str]) -> int:
    """Run `script` as `__main__` with `sys.argv = arguments` and return its exit code."""
    _prepare_interpreter(script, arguments)
    try:
        code = compiled(script.read_bytes(), str(script))
    except (SyntaxError, ValueError) as problem:
        sys.stderr.writelines(traceback.format_exception_only(problem))
        return ExitCode.FAILURE
    module = _main_module(script)
    try:
        exec(code, module)
    except SystemExit as request:
        status = _exit_status(request)
    except BaseException as problem:
        return _report(problem, script)
    else:
        status = ExitCode.OK
    return status or _unstopped_runtimes()


def _prepare_interpreter(script: Path, arguments: Sequence[str]) -> None:
    """The import path of a script under `python`, with the host package before everything else."""
    if not getattr(sys.flags, "safe_path", False):
        here = str(script.resolve().parent)
        if sys.path and sys.path[0] in ("", os.getcwd(), str(Path(sys.argv[0]).parent)):
            sys.path.pop(0)
        sys.path.insert(0, here)
    sys.path.insert(0, str(HOST_DIRECTORY))
    sys.argv = list(arguments)


def _main_module(script: Path) -> dict[str, object]:
    from types import ModuleType

    module = ModuleType("__main__")
    module.__file__ = str(script)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module.__dict__


def _exit_status(request: SystemExit) -> int:
    if request.code is None:
        return ExitCode.OK
    if isinstance(request.code, int):
        return request.code
    sys.stderr.write(f"{request.code}\n")
    return ExitCode.FAILURE


def _report(problem: BaseException, script: Path) -> int:
    """Say what ended the script, after what it was handling when that came: a `finally` or `with` that calls `stop`
    must not hide why it was reached. Returns the exit code."""
    sys.stdout.flush()
    for earlier in _handled_by_script(problem, script):
        text, _ = _account(earlier, script)
        sys.stderr.write(f"{text}while the script handled that:\n")
    text, status = _account(problem, script)
    sys.stderr.write(text)
    return status


def _handled_by_script(problem: BaseException, script: Path) -> list[BaseException]:
    """Exceptions that the script was handling, first one first. Empty if Python's own traceback will tell them."""
    from fabrica_bench.compat.sessions import SimulatorStopped

    found: list[BaseException] = []
    seen = {id(problem)}
    earlier = problem.__context__ if isinstance(problem, FabricaError | SimulatorStopped) else None
    while earlier is not None and id(earlier) not in seen:
        seen.add(id(earlier))
        # What this package raised and caught itself never reached a frame of the script.
        if any(frame.filename == str(script) for frame in traceback.extract_tb(earlier.__traceback__)):
            found.append(earlier)
        earlier = earlier.__context__
    return found[::-1]


def _account(problem: BaseException, script: Path) -> tuple[str, int]:
    """The simulator's report, one line for a misused host API, else a Python traceback; and the exit code."""
    from fabrica_bench.compat.sessions import SimulatorStopped

    place = _place(problem.__traceback__, script)
    if isinstance(problem, KeyboardInterrupt):
        return "cs_python: interrupted\n", ExitCode.INTERRUPTED
    if isinstance(problem, MemoryError) or (isinstance(problem, OSError) and problem.errno == errno.ENOMEM):
        own = hit_own_limit(problem)
        text = "the run takes more memory than it may use" if own else "the machine is out of memory"
        detail = f": {problem}" if str(problem) else ""
        return f"{place}error: {text}{detail}\n", ExitCode.FAILURE if own else ExitCode.ENVIRONMENT
    if isinstance(problem, SimulatorStopped):
        return f"{place}the simulated run ended early\n{problem}\n", SIMULATION_FAILED
    if isinstance(problem, FabricaError):
        about = f"{problem.place}: " if problem.place else ""
        hint = f"  hint: {problem.remedy}\n" if problem.remedy else ""
        return f"{place}error: {about}{problem.message}\n{hint}", _status(problem)
    inner = _without_own_frames(problem.__traceback__)
    return "".join(traceback.format_exception(type(problem), problem, inner)), _status(problem)


def _status(problem: BaseException) -> ExitCode:
    """Who is to blame: the machine that denies what the process may have, this package for an error that it doesn't
    know, else the script with its program. Who calls it goes by that alone."""
    cause = problem.__cause__ if isinstance(problem, FabricaError) else problem
    if isinstance(cause, OSError):
        return ExitCode.ENVIRONMENT if cause.errno in DENIED_BY_MACHINE else ExitCode.FAILURE
    frames = traceback.extract_tb(problem.__traceback__)
    above = Path(frames[-1].filename).parents if frames else ()
    # The package that host scripts import says by errors of its own what it lacks.
    known = isinstance(problem, FabricaError) or HOST_DIRECTORY in above
    return ExitCode.HARNESS if PACKAGE in above and not known else ExitCode.FAILURE


def _place(trace: TracebackType | None, script: Path) -> str:
    """`run.py:12: ` for the innermost frame of the script (or of a module beside it)."""
    home = str(script.resolve().parent)
    found = ""
    for frame in traceback.extract_tb(trace):
        if frame.filename == str(script) or os.path.abspath(frame.filename).startswith(home + os.sep):
            found = f"{frame.filename}:{frame.lineno}: "
    return found


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _unstopped_runtimes() -> int:
    from fabrica_bench.compat import sessions

    names = sessions.running()
    for name in names:
        sys.stderr.write(
            f"cs_python: error: the script ended while the program of {name} was still running\n"
            "  hint: call SdkRuntime.stop() before the end of the script\n"
        )
    return ExitCode.FAILURE if names else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
