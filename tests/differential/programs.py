"""Run whole programs under their own host scripts on both executors, and compare all that the scripts can observe.

    python -m differential.programs [FOLDER] [--filter TEXT] [--size NAME] [--json FILE]     (with tests/ on the path)

Without FOLDER: both reference programs of every task (`pe.csl`, and `plain.csl` in its place), on every architecture
that the task has. With the checkout of a collection of programs: each of its `commands_wse2.sh` and `commands_wse3.sh`.
The command scripts run unmodified, with a `cs_python` that gives every host script to `recorded_run` twice.

Prints one line per command script: `equal`, `DIFFERENT` with what differs, or `failed`; and which executor brought the
native run to its end. Exits with 1 unless all are equal.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORDER = Path(__file__).with_name("recorded_run.py")
SCRIPTS = "commands_wse[23].sh"
#: what the stand-in for `cs_python` tells: a line of JSON per host script
REPORT_VARIABLE = "FABRICA_DIFFERENTIAL_REPORT"

_STAND_IN = """#!{python}
import sys
sys.path[:0] = {path!r}
from differential.programs import run_twice
sys.exit(run_twice(sys.argv[1:]))
"""
_COMPILER = """#!{python}
import sys
from fabrica_bench.compat.cslc import main
sys.exit(main())
"""


@dataclass
class Outcome:
    """What became of one command script. `hosts`: a record for each host script that it ran."""

    name: str
    status: int
    seconds: float
    hosts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def word(self) -> str:
        if any(host["differences"] for host in self.hosts):
            return "DIFFERENT"
        return "equal" if self.hosts and self.status == 0 else "failed"

    def line(self) -> str:
        """For people."""
        executors = sorted({executor for host in self.hosts for executor in host["executors"]})
        seconds = [sum(host[name] for host in self.hosts) for name in ("native_s", "reference_s")]
        text = f"{self.word:9} {self.name:50} native {seconds[0]:8.3f} s  reference {seconds[1]:8.3f} s"
        text += f"  ended by {', '.join(executors)}" if executors else ""
        for host in self.hosts:
            text += "".join(f"\n    {difference}" for difference in host["differences"])
        return text


def run_twice(arguments: list[str]) -> int:
    """Give a host script to both executors and note how their records differ; the exit status of the native run."""
    records: dict[str, list[dict[str, Any]]] = {}
    status: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for executor in ("native", "reference"):
            record = Path(folder, f"{executor}.json")
            command = [sys.executable, str(RECORDER), executor, str(record), *arguments]
            status[executor] = subprocess.run(command, check=False).returncode
            records[executor] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else []
    native, reference = records["native"], records["reference"]
    found = []
    if status["native"] != status["reference"]:
        found.append(f"exit status {status['native']} natively, {status['reference']} on the reference")
    if len(native) != len(reference):
        found.append(f"{len(native)} machines natively, {len(reference)} on the reference")
    for number, (one, other) in enumerate(zip(native, reference, strict=False)):
        for part, value in one["seen"].items():
            if value != other["seen"][part]:
                found.append(f"machine {number}: {part}: {str(value)[:200]} natively, {str(other['seen'][part])[:200]}")
    answer = {
        "arguments": arguments,
        "differences": found,
        "executors": [machine["executor"] for machine in native],
        "native_s": sum(machine["seconds"] for machine in native),
        "reference_s": sum(machine["seconds"] for machine in reference),
    }
    with open(os.environ[REPORT_VARIABLE], "a", encoding="utf-8") as report:
        report.write(json.dumps(answer) + "\n")
    return status["native"]


def task_programs(scratch: Path) -> Iterator[tuple[str, Path]]:
    """(name, command script) for both reference programs of each task, each in a copy of its bundle."""
    for bundle in sorted((ROOT / "tasks").glob("*/csl")):
        for variant in ("pe", "plain"):
            if variant == "plain" and not (bundle / "plain.csl").exists():
                continue
            name = f"{bundle.parent.name}-{variant}"
            copy = scratch / name
            shutil.copytree(bundle, copy)
            if variant == "plain":
                shutil.copyfile(bundle / "plain.csl", copy / "pe.csl")
            for script in sorted(copy.glob(SCRIPTS)):
                yield f"{name} {script.stem.removeprefix('commands_')}", script


def checkout_programs(checkout: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """(name, command script) for each command script of a checkout, in one copy of it."""
    copy = scratch / "checkout"
    shutil.copytree(checkout, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    for script in sorted(copy.rglob(SCRIPTS)):
        yield f"{script.parent.relative_to(copy)} {script.stem.removeprefix('commands_')}", script


def install_tools(folder: Path) -> Path:
    """A folder with `cslc` and the stand-in for `cs_python`, to be put first on PATH."""
    folder.mkdir()
    stand_in = _STAND_IN.format(python=sys.executable, path=[str(ROOT), str(ROOT / "tests")])
    for name, text in (("cs_python", stand_in), ("cslc", _COMPILER.format(python=sys.executable))):
        program = folder / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    return folder


def run_script(name: str, script: Path, tools: Path, size: str | None = None) -> Outcome:
    """Run one command script."""
    report = script.parent / "differential.jsonl"
    report.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        REPORT_VARIABLE: str(report),
    }
    begin = time.monotonic()
    command = ["bash", script.name, *([size] if size else [])]
    done = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, check=False)
    hosts = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()] if report.exists() else []
    return Outcome(name, done.returncode, time.monotonic() - begin, hosts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="checkout with command scripts; default: the tasks")
    parser.add_argument("--filter", default="", help="only names with this text")
    parser.add_argument("--size", help="size of the tasks")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="differential-") as temporary:
        scratch = Path(temporary)
        tools = install_tools(scratch / "bin")
        programs = checkout_programs(options.folder, scratch) if options.folder else task_programs(scratch)
        for name, script in programs:
            if options.filter in name:
                outcomes.append(run_script(name, script, tools, options.size))
                print(outcomes[-1].line(), flush=True)
    if not outcomes:
        parser.error("no command script matches")
    words = [outcome.word for outcome in outcomes]
    print(f"{words.count('equal')} equal, {words.count('DIFFERENT')} different, {words.count('failed')} failed")
    if options.json:
        document = [{"word": outcome.word, **vars(outcome)} for outcome in outcomes]
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if words.count("equal") == len(words) else 1


if __name__ == "__main__":
    sys.exit(main())
