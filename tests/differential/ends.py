"""Where programs end, as digests that can be compared between machines: other processors, other systems.

    python -m differential.ends --json ends.json            on one machine (with tests/ on the path)
    python -m differential.ends --compare ends.json         on another one

Runs every conformance program and a grid of the benchmarks on the native executor. Prints how many ends are as in the
file; exits with 1 if one is not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from helpers.csl_acceptance import Acceptance, compiled, end_of, programs

from fabrica_bench.csl.driver import CompileOptions, compile_program
from fabrica_bench.wse.commands import CopyIn, Launch
from fabrica_bench.wse.machine import Machine
from fabrica_bench.wse.selection import open_machine

ALL_REDUCE = Path(__file__).resolve().parents[2] / "benchmarks" / "programs" / "allreduce" / "layout.csl"


def ends(text: str = "") -> Iterator[tuple[str, str]]:
    """(name, digest) of programs whose names hold `text`: of the last cycle, what was printed, and all memories."""
    for accepted in programs():
        for arch in accepted.arches:
            name = f"{accepted.path.stem} {arch}"
            if text in name:
                yield name, _digest(_conformance(accepted, arch))
    if text in "all-reduce wse2":
        yield "all-reduce wse2", _digest(_all_reduce(6, 20))


def _conformance(accepted: Acceptance, arch: str) -> Machine:
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(accepted.path, arch, accepted.flags, Path(folder))
    machine = open_machine(program, executor="native")
    machine.drain()
    return machine


def _all_reduce(width: int, words: int) -> Machine:
    options = CompileOptions(
        file=ALL_REDUCE,
        fabric_dims=(width + 7, width + 2),
        fabric_offsets=(4, 1),
        params={"width": width, "height": width, "n": words},
        memcpy=True,
    )
    machine = open_machine(compile_program(options).program, executor="native")
    data = np.random.default_rng(1).random((width, width, words), dtype=np.float32).view(np.uint32)
    machine.wait(machine.submit(CopyIn("input", 0, 0, width, width, words, data)))
    machine.wait(machine.submit(Launch("compute")))
    machine.drain()
    return machine


def _digest(machine: Machine) -> str:
    return hashlib.sha256(json.dumps(end_of(machine)).encode()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only programs whose names hold this text")
    parser.add_argument("--json", type=Path, help="write the digests to this file")
    parser.add_argument("--compare", type=Path, help="compare with the digests in this file")
    options = parser.parse_args()
    wanted = json.loads(options.compare.read_text(encoding="utf-8")) if options.compare else {}
    found: dict[str, str] = {}
    different = []
    for name, digest in ends(options.filter):
        found[name] = digest
        if wanted and wanted.get(name) != digest:
            different.append(name)
            print(f"DIFFERENT {name}" if name in wanted else f"not in the file: {name}", flush=True)
    print(f"{platform.machine()}: {len(found)} programs", end="")
    print(f", {len(found) - len(different)} end as in {options.compare}" if wanted else "")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
