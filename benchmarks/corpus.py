"""How many of the CUDA samples the deterministic lowering translates, and whether what it makes is right.

    python benchmarks/corpus.py

Every sample under tests/agents/fabrica/cuda is translated and run on one PE of the simulator; its outputs are compared
with its NumPy oracle in double precision. A sample is passed, given up (with the place and reason), or wrong; exit code
1 if one is wrong or fewer than 60 % pass.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fabrica_agent.lowering.ir import UnsupportedError
from fabrica_agent.lowering.options import Options

from fabrica_bench.plugins import AgentGaveUp
from tests.agents.fabrica.bundles import copies, deviations, lowered, run_csl
from tests.agents.fabrica.samples import SAMPLES, Sample

SHARE = 0.6


def judge(sample: Sample, arch: str, folder: Path) -> tuple[str, str]:
    """One sample: `pass`, `given up` or `WRONG`, and cycles or the reason."""
    arrays = sample.arrays(np.random.default_rng(11), sample.sizes)
    try:
        _, text = lowered(sample, arrays, Options())
    except (UnsupportedError, AgentGaveUp) as error:
        return "given up", str(error)
    after, cycles = run_csl(sample, copies(arrays), text, folder, arch)
    worst = max(deviations(sample, arrays, after).values())
    return ("pass", f"{cycles} cycles") if worst <= 1 else ("WRONG", f"{worst:.3g} of the tolerance")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="wse3", choices=("wse2", "wse3"))
    options = parser.parse_args()
    counts = {"pass": 0, "given up": 0, "WRONG": 0}
    for sample in SAMPLES:
        with tempfile.TemporaryDirectory(prefix="fabrica-corpus-") as folder:
            verdict, detail = judge(sample, options.arch, Path(folder))
        counts[verdict] += 1
        sys.stdout.write(f"{sample.name:28}{verdict:10}{detail}\n")
        sys.stdout.flush()
    total = len(SAMPLES)
    sys.stdout.write(f"{counts['pass']} of {total} pass, {counts['given up']} given up, {counts['WRONG']} wrong\n")
    return 1 if counts["WRONG"] or counts["pass"] < SHARE * total else 0


if __name__ == "__main__":
    sys.exit(main())
