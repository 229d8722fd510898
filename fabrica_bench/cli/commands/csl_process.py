"""Running a CSL program's own scripts with our `cslc` and `cs_python` first on PATH."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

import fabrica_bench
from fabrica_bench.cli import console
from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.json_text import parse_json

STATISTICS_FILE: Final = "sim_stats.json"
ENDING_SECONDS: Final = 5.0
"""Time that a script gets to end after SIGTERM, before it is killed."""

_REPORT: Final = re.compile(r"^fabrica-sim: (?P<kind>fault|deadlock|budget): ", re.MULTILINE)

Ending = Literal["ok", "fault", "deadlock", "budget", "timeout", "failed"]


@dataclass(frozen=True)
class Plan:
    """What to run: `command` in `folder`. `label` is the script as the user knows it."""

    label: str
    folder: Path
    command: tuple[str, ...]


@dataclass(frozen=True)
class ScriptRun:
    """How it went.

    Attributes:
        ending: `ok`, the simulator's fault, deadlock or spent budget, `timeout`, or `failed` for everything else.
        exit_code: of the script; negative if a signal ended it.
        seconds: wall-clock time.
        statistics: what the last simulated run left in `sim_stats.json`, or None if there was none.
        report: the simulator's own report of a fault, a deadlock or a spent budget.
        output, errors: both streams, if they were captured.
    """

    ending: Ending
    exit_code: int
    seconds: float
    statistics: dict[str, Any] | None
    report: str | None
    output: str
    errors: str

    @property
    def ok(self) -> bool:
        return self.ending == "ok"


def make_plan(target: Path, arch: str | None, arguments: Sequence[str]) -> Plan:
    """Decide what a folder or a script means.

    A folder with `commands_<arch>.sh` (or `commands.sh`), itself or in its subfolder `csl`, runs that. A `.sh` file
    runs under bash and a `.py` file under `cs_python`; both in their own folder.

    Raises:
        FabricaError: The target is none of that.
    """
    if target.is_dir():
        script = _command_script(target, arch)
    elif target.is_file():
        script = target
    else:
        raise FabricaError("no such file or folder", place=str(target), remedy="check the path")
    runners = {".sh": "bash", ".py": "cs_python"}
    if script.suffix not in runners:
        raise FabricaError(
            f"{script.name} is neither a shell script nor a host script",
            place=str(target),
            remedy="name a commands_*.sh, a run.py, or their folder",
        )
    if arch is not None and target.is_file():
        raise FabricaError(
            "--arch chooses a script of a folder, but a script is given", place="--arch", remedy="leave --arch out",
            code=ExitCode.USAGE,
        )  # fmt: skip
    folder = script.resolve().parent
    return Plan(str(script), folder, (runners[script.suffix], script.name, *arguments))


def _command_script(folder: Path, arch: str | None) -> Path:
    names = [f"commands_{name}.sh" for name in ([arch] if arch is not None else ["wse3", "wse2"])] + ["commands.sh"]
    for place in (folder, folder / "csl"):
        for name in names:
            if (place / name).is_file():
                return place / name
    present = sorted(path.name for path in folder.glob("*.sh")) + sorted(path.name for path in folder.glob("*.py"))
    raise FabricaError(
        f"no {' or '.join(names)} in this folder",
        place=str(folder),
        remedy=f"name the script: {', '.join(present)}" if present else "name a script, or another folder",
    )


def copy_to(plan: Plan, folder: Path) -> Plan:
    """The same plan on a copy of its folder, so that the original stays as it is.

    Raises:
        FabricaError: The new folder isn't empty, or lies inside the old one.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FabricaError("the working folder exists and is not empty", place=str(folder), remedy="name a new one")
    if plan.folder in folder.resolve().parents:
        raise FabricaError(
            "the working folder lies inside the folder to copy", place=str(folder), remedy="name one elsewhere"
        )
    shutil.copytree(plan.folder, folder, dirs_exist_ok=True)
    # The original may be read-only; the copy is there to be written to.
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return Plan(plan.label, folder.resolve(), plan.command)


def run_plan(plan: Plan, environment: Mapping[str, str], timeout: float | None, *, capture: bool) -> ScriptRun:
    """Run it to its end, or to the time limit.

    Args:
        plan: See `make_plan`.
        environment: Variables added to those of this process.
        timeout: Wall-clock seconds after which the script and everything that it started is killed.
        capture: Keep both streams instead of passing them on.
    """
    before = _stamp(plan.folder)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fabrica-tools-") as tools:
        install_tools(Path(tools))
        path = os.pathsep.join((tools, os.environ.get("PATH", os.defpath)))
        try:
            process = subprocess.Popen(
                plan.command,
                cwd=plan.folder,
                env={**os.environ, **environment, "PATH": path},
                stdout=subprocess.PIPE if capture else None,
                stderr=subprocess.PIPE,
                start_new_session=True,
                executable=shutil.which(plan.command[0], path=path),
            )
        except FileNotFoundError:
            raise FabricaError(
                f"{plan.command[0]} is not on PATH", remedy=f"install {plan.command[0]}", code=ExitCode.ENVIRONMENT
            ) from None
        output, errors, timed_out = _finish(process, timeout, capture)
    seconds = time.monotonic() - begin
    ending, report = _judge(process.returncode, errors, timed_out)
    statistics = _statistics(plan.folder) if _stamp(plan.folder) != before else None
    return ScriptRun(ending, process.returncode, seconds, statistics, report, output, errors)


def install_tools(folder: Path) -> None:
    """Put `cslc` and `cs_python` of this installation in a folder for PATH."""
    root = str(Path(fabrica_bench.__file__).resolve().parent.parent)
    for name in ("cslc", "cs_python"):
        module = folder / f"{name}_main.py"
        module.write_text(
            f"import sys\nsys.path.append({root!r})\nfrom fabrica_bench.compat.{name} import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(module))} "$@"\n', encoding="utf-8"
        )
        program.chmod(0o755)


def _finish(process: subprocess.Popen[bytes], timeout: float | None, capture: bool) -> tuple[str, str, bool]:
    """Wait for the process; both streams as text, and whether it was killed."""
    kept: dict[str, bytearray] = {"output": bytearray(), "errors": bytearray()}
    readers = [_reader(process.stderr, kept["errors"], None if capture else sys.stderr)]
    if capture:
        readers.append(_reader(process.stdout, kept["output"], None))
    timed_out = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        # Also after Ctrl-C, and for what the script left running in the background.
        _end_group(process)
        for reader in readers:
            reader.join(ENDING_SECONDS)
    return kept["output"].decode("utf-8", "replace"), kept["errors"].decode("utf-8", "replace"), timed_out


def _reader(stream: IO[bytes] | None, kept: bytearray, copy: Any) -> threading.Thread:
    assert stream is not None

    def read() -> None:
        for line in stream:
            kept.extend(line)
            if copy is not None:
                copy.write(line.decode("utf-8", "replace"))
                copy.flush()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _judge(code: int, errors: str, timed_out: bool) -> tuple[Ending, str | None]:
    if timed_out:
        return "timeout", None
    if code == 0:
        return "ok", None
    found = _REPORT.search(errors)
    if found is None:
        return "failed", None
    kinds: dict[str, Ending] = {"fault": "fault", "deadlock": "deadlock", "budget": "budget"}
    return kinds[found["kind"]], errors[found.start() :].strip()


def _stamp(folder: Path) -> tuple[int, int] | None:
    try:
        status = (folder / STATISTICS_FILE).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _statistics(folder: Path) -> dict[str, Any] | None:
    try:
        value = parse_json((folder / STATISTICS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_summary(plan: Plan, run: ScriptRun) -> None:
    """Print the cycles of each launch and how the script ended."""
    if run.statistics is not None:
        launches = run.statistics.get("launches", [])
        columns = [console.Column(title, title != "launch") for title in ("launch", "start", "end", "cycles")]
        rows = [[x["name"], str(x["start"]), str(x["end"]), str(x["end"] - x["start"])] for x in launches]
        if rows:
            console.write()
            console.write_table(columns, rows)
        console.write(f"simulated cycles in all: {run.statistics.get('cycles')}")
    endings = {
        "ok": "ok",
        "fault": "the simulated program faulted",
        "deadlock": "the simulated program deadlocked",
        "budget": "the simulated program spent its budget",
        "timeout": "the time limit is over; the script was killed",
        "failed": f"the script failed with exit code {run.exit_code}",
    }
    console.write(f"{plan.label}: {endings[run.ending]} ({run.seconds:.1f} s)")


def run_record(plan: Plan, run: ScriptRun) -> dict[str, Any]:
    """The same as plain data."""
    statistics = run.statistics or {}
    return {
        "script": plan.label,
        "folder": str(plan.folder),
        "ok": run.ok,
        "ending": run.ending,
        "exit_code": run.exit_code,
        "seconds": round(run.seconds, 3),
        "cycles": statistics.get("cycles"),
        "launches": statistics.get("launches", []),
        "report": run.report,
        "stdout": run.output,
        "stderr": run.errors,
    }
