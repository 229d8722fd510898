#!/usr/bin/env python3
"""Run the command scripts of an official CSL example checkout with this project's `cslc` and `cs_python`.

Every `commands_wse2.sh` and `commands_wse3.sh` runs unmodified in its own scratch copy. A script passes if it exits
with 0: the examples' own `run.py` checks decide. The table has seconds, the peak resident memory of the largest process
(MiB), and simulated cycles.

    python tools/conformance ~/csl-examples
    python tools/conformance ~/csl-examples --filter gemv-0 --jobs 4 --markdown table.md --json table.json
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT_PATTERN = "commands_wse[23].sh"
REASON_LENGTH = 160


@dataclass(frozen=True)
class Result:
    """Outcome of one script. `cycles` are those of its last simulated run, if there was one; `megabytes` is the peak
    resident memory of its largest process."""

    example: str
    arch: str
    passed: bool
    seconds: float
    megabytes: int
    cycles: int | None
    reason: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool. Returns 0 if all scripts pass, 1 if some fail, 2 for a wrong command line."""
    options = parse_arguments(argv)
    scripts = find_scripts(options.checkout, options.filter)
    if not scripts:
        sys.stderr.write(
            f"conformance: error: no {SCRIPT_PATTERN} in {options.checkout} matches; check path and --filter\n"
        )
        return 2
    results = run_all(scripts, options)
    table = markdown_table(results)
    if options.markdown is not None:
        options.markdown.write_text(table, encoding="utf-8")
    if options.json is not None:
        document = {
            "passed": sum(r.passed for r in results),
            "total": len(results),
            "results": [asdict(r) for r in results],
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(table)
    return 0 if all(result.passed for result in results) else 1


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The checked command line."""
    parser = argparse.ArgumentParser(
        prog="conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="checkout of the official CSL examples")
    parser.add_argument("--filter", default="", help="only scripts whose path contains this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="scripts at a time (default: all cores)")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds per script (default: 600)")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--keep", type=Path, help="keep the scratch copies in this directory")
    options = parser.parse_args(argv)
    if not options.checkout.is_dir():
        parser.error(f"no such directory: {options.checkout}")
    if options.jobs < 1 or options.timeout <= 0:
        parser.error("--jobs and --timeout must be positive")
    return options


def find_scripts(checkout: Path, text: str) -> list[Path]:
    """Command scripts whose path in the checkout contains `text`, sorted."""
    found = (path for path in checkout.rglob(SCRIPT_PATTERN) if ".git" not in path.parts)
    return sorted(path for path in found if text in str(path.relative_to(checkout)))


def run_all(scripts: Sequence[Path], options: argparse.Namespace) -> list[Result]:
    """Run the scripts, `--jobs` at a time; progress goes to standard error."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
        scratch = options.keep if options.keep is not None else Path(temporary)
        tools = install_tools(Path(temporary) / "bin")
        with ThreadPoolExecutor(options.jobs) as pool:
            jobs = [
                pool.submit(run_script, path, options.checkout, scratch, tools, options.timeout) for path in scripts
            ]
            results = []
            for job in jobs:
                result = job.result()
                results.append(result)
                mark = "pass" if result.passed else f"FAIL {result.reason}"
                sys.stderr.write(f"[{len(results)}/{len(jobs)}] {result.example} {result.arch}: {mark}\n")
    return results


def install_tools(directory: Path) -> Path:
    """A directory with `cslc` and `cs_python` of this checkout, to be put first on PATH."""
    directory.mkdir(parents=True)
    for name in ("cslc", "cs_python"):
        program = directory / name
        program.write_text(
            f"#!{sys.executable}\nimport sys\nfrom fabrica_bench.compat.{name} import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
    return directory


def run_script(script: Path, checkout: Path, scratch: Path, tools: Path, timeout: float) -> Result:
    """Run one script in a fresh copy of its example."""
    example = script.parent.relative_to(checkout)
    arch = script.stem.removeprefix("commands_")
    copy = copy_example(checkout, example, scratch / f"{example.name}-{arch}")
    environment = dict(os.environ)
    environment["PATH"] = f"{tools}{os.pathsep}{environment.get('PATH', '')}"
    environment["PYTHONPATH"] = str(ROOT)
    begin = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
    ):
        process = subprocess.Popen(
            ["bash", script.name],
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        status, megabytes = wait(process, timeout)
        output.seek(0)
        errors.seek(0)
        reason = "" if status == 0 else failure_reason(output.read(), errors.read(), status)
    if status is None:
        reason = f"timeout after {timeout:g} s"
    seconds = round(time.monotonic() - begin, 2)
    return Result(str(example), arch, not reason, seconds, megabytes, simulated_cycles(copy), reason)


def wait(process: subprocess.Popen[bytes], timeout: float) -> tuple[int | None, int]:
    """Exit status of a process, None if it and its children were killed at the end of `timeout` seconds; and the peak
    resident MiB of the largest of them."""
    expired = threading.Event()

    def kill() -> None:
        expired.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(timeout, kill)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)  # covers the children that the script waited for
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return None if expired.is_set() else process.returncode, usage.ru_maxrss // 1024


def copy_example(checkout: Path, example: Path, scratch: Path) -> Path:
    """Copy an example, and beside it the siblings that are libraries (folders without command scripts)."""
    home = scratch / example.parent
    for folder in (checkout / example.parent).iterdir():
        is_library = folder.is_dir() and not any(folder.rglob(SCRIPT_PATTERN)) and folder.name != ".git"
        if folder.name == example.name or is_library:
            shutil.copytree(folder, home / folder.name, symlinks=True)
    return home / example.name


def failure_reason(output: str, errors: str, status: int | None) -> str:
    """The line that says best why a script failed."""
    lines = [line.strip() for line in (output + "\n" + errors).splitlines() if line.strip()]
    for pattern in (r"fabrica-sim: ", r"\berror: ", r"^(\w+\.)*\w*(Error|Exception)\b", r"Mismatched elements|FAIL"):
        for line in lines:
            if re.search(pattern, line):
                return line[:REASON_LENGTH]
    return (lines[-1] if lines else f"exit status {status}")[:REASON_LENGTH]


def simulated_cycles(directory: Path) -> int | None:
    """Cycles in the `sim_stats.json` that the last run left; None without one."""
    try:
        return int(json.loads((directory / "sim_stats.json").read_text(encoding="utf-8"))["cycles"])
    except (OSError, ValueError, KeyError):
        return None


def markdown_table(results: Sequence[Result]) -> str:
    """The results as a Markdown table with a summary line."""
    lines = [f"{sum(r.passed for r in results)} of {len(results)} scripts pass.", ""]
    lines += ["| example | arch | result | seconds | MiB | cycles | reason |", "|---|---|---|---|---|---|---|"]
    for result in results:
        cycles = "" if result.cycles is None else f"{result.cycles}"
        reason = result.reason.replace("|", "\\|")
        mark = "pass" if result.passed else "fail"
        measures = f"{result.seconds:.1f} | {result.megabytes} | {cycles}"
        lines.append(f"| {result.example} | {result.arch} | {mark} | {measures} | {reason} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
