"""Measure how time and memory grow with the grid: an all-reduce of 128 words over w by w PEs, natively.

    python benchmarks/scaling.py [--widths 10,20,40,100] [--threads 1,2] [--json FILE] [--plot FILE.svg]

Each size is compiled and run in a process of its own, once for each number of threads; cycles and results must be the
same for all of them. Prints wall and CPU seconds of the launch, seconds of compilation, wavelets that routers moved per
second, and the peak memory of the process. `--plot` needs the `plots` extra.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

PROGRAM = Path(__file__).resolve().parent / "programs" / "allreduce" / "layout.csl"
WORDS = 128


def measure(width: int) -> dict[str, Any]:
    """One size, in this process."""
    from fabrica_bench.csl.driver import CompileOptions, compile_program
    from fabrica_bench.wse.commands import CopyIn, CopyOut, Launch
    from fabrica_bench.wse.native.machine import NativeMachine

    begin = time.perf_counter()
    options = CompileOptions(
        file=PROGRAM,
        fabric_dims=(width + 7, width + 2),
        fabric_offsets=(4, 1),
        params={"width": width, "height": width, "n": WORDS},
        memcpy=True,
    )
    program = compile_program(options).program
    compiled = time.perf_counter()
    machine = NativeMachine(program)
    loaded = time.perf_counter()
    rng = np.random.default_rng(1)
    data = rng.standard_normal((width, width, WORDS)).astype(np.float32).view(np.uint32)
    machine.wait(machine.submit(CopyIn("input", 0, 0, width, width, WORDS, data)))
    wall, cpu = time.perf_counter(), time.process_time()
    machine.wait(machine.submit(Launch("compute")))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    handle = machine.submit(CopyOut("total", 0, 0, width, width, WORDS))
    machine.wait(handle)
    assert handle.result is not None
    return {
        "width": width,
        "cycles": machine.cycle,
        "executor": machine.executor_name,
        "result": hashlib.sha256(handle.result.tobytes()).hexdigest()[:16],
        "compile_s": compiled - begin,
        "load_s": loaded - compiled,
        "wall_s": wall,
        "cpu_s": cpu,
        "wavelets": machine._state.get("wavelets"),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure_apart(width: int, threads: int) -> dict[str, Any]:
    """One size in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(width)],
        env={**os.environ, "FABRICA_SIM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return {"threads": threads, **json.loads(done.stdout)}


def plot(rows: list[dict[str, Any]], file: Path) -> None:
    """Time and memory over the number of PEs, both axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scaling"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for threads in sorted({row["threads"] for row in rows}):
        chosen = [row for row in rows if row["threads"] == threads]
        label = f"{threads} thread" + "s" * (threads > 1)
        left.loglog([row["wavelets"] for row in chosen], [row["wall_s"] for row in chosen], "o-", label=label)
        right.loglog([row["width"] ** 2 for row in chosen], [row["peak_mib"] for row in chosen], "o-", label=label)
    left.set(xlabel="wavelets moved by routers", ylabel="seconds (wall)", title="time of the launch")
    right.set(xlabel="PEs", ylabel="MiB", title="peak memory of the process")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(file, metadata={"Date": None})


def counts(text: str) -> list[int]:
    """Positive numbers with commas between, as `--widths` and `--threads` take them."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of positive numbers; write e.g. 10,20")
    return [int(word) for word in words]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=counts, default="10,20,30,40,60,80,100")
    parser.add_argument("--threads", type=counts, default="1,2")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return 0
    print("|   w | threads |  cycles | compile s |  wall s |  CPU s | M wavelets/s |   MiB |")
    print("|----:|--------:|--------:|----------:|--------:|-------:|-------------:|------:|")
    rows = []
    same = True
    for width in options.widths:
        seen = set()
        for threads in options.threads:
            row = measure_apart(width, threads)
            rows.append(row)
            seen.add((row["cycles"], row["result"], row["executor"]))
            print(
                f"| {width:3} | {threads:7} | {row['cycles']:7} | {row['compile_s']:9.2f} | {row['wall_s']:7.3f} |"
                f" {row['cpu_s']:6.2f} | {row['wavelets'] / row['wall_s'] / 1e6:12.2f} | {row['peak_mib']:5.0f} |",
                flush=True,
            )
        if len(seen) > 1:
            same = False
            print(f"width {width}: the numbers of threads DISAGREE: {sorted(seen)}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot(rows, options.plot)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
