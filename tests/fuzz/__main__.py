"""Fuzz for some minutes: `PYTHONPATH=.:tests python -m fuzz --minutes 5`.

Inputs that break a promise are written to the folder `--findings`, one folder each, with the message; `--seed` and
`--target` repeat one. The exit code is 1 if there were any.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback
from pathlib import Path

from fuzz.targets import TARGETS, Finding


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz the compiler and the simulator.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=None, help="only this seed")
    parser.add_argument("--start", type=int, default=int(time.time()), help="first seed (default: the time)")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only these targets; repeatable")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="folder for what is found")
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    seeds = itertools.count(given.start) if given.seed is None else [given.seed]
    end = time.monotonic() + 60 * given.minutes
    counts = dict.fromkeys(names, 0)
    found: dict[str, int] = {}
    for seed in seeds:
        for name in names:
            if time.monotonic() > end:
                break
            counts[name] += 1
            try:
                TARGETS[name](seed)
            except Finding as finding:
                kind = f"{name}: {_kind(finding)}"
                found[kind] = found.get(kind, 0) + 1
                if found[kind] == 1:
                    print(f"{name} seed {seed}: {finding}", flush=True)
                    _save(given.findings / f"{name}-{seed}", finding)
        if time.monotonic() > end:
            break
    print(f"{given.minutes:g} minutes:", ", ".join(f"{name} {count}" for name, count in counts.items()))
    for kind, count in found.items():
        print(f"  {count} x {kind}")
    return 1 if found else 0


def _kind(finding: Finding) -> str:
    cause = finding.__cause__
    if cause is None:
        return str(finding)[:80]
    last = traceback.extract_tb(cause.__traceback__)[-1]
    return f"{type(cause).__name__} at {Path(last.filename).name}:{last.lineno}"


def _save(folder: Path, finding: Finding) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in finding.files.items():
        (folder / name).write_text(text, encoding="utf-8", errors="replace")
    (folder / "message.txt").write_text(
        f"{finding}\n" + "".join(traceback.format_exception(finding)), encoding="utf-8", errors="replace"
    )


if __name__ == "__main__":
    sys.exit(main())
