"""Draw a flame graph of scoring: the scorer, and every build and run that it starts.

    python benchmarks/flame.py picture.svg [--task GEMM-1PE] [--candidates 20] [--py-spy PATH] [--checkout FOLDER]

A scorer measures a task's reference and then scores candidates, its plain kernel each time with another comment, on
three visible and five held-out inputs. py-spy (`pip install py-spy`; nothing else needs it) looks 500 times a second at
what each process is doing; samples of all processes become one picture in which width is time. `--checkout` scores with
another state of the sources.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH, ROW = 1200, 17
SMALLEST = 0.005
"""Share of the whole below which a frame is left out."""
_CHARACTER = 6.6
_COLORS = {"csl": "#7fb3d5", "compat": "#f7c66b", "wse": "#f39c6b", "toolchains": "#c39bd3", "": "#d5d8dc"}
_OURS = {"scoring": "#82c99d", "integrity": "#82c99d", "firewall": "#82c99d", "tasks": "#82c99d"}


@dataclass
class Frame:
    """A place in the tree of calls; `samples` counts those at or below it."""

    samples: int = 0
    below: dict[str, Frame] = field(default_factory=dict)


def work(name: str, candidates: int) -> None:
    """What is watched."""
    from fabrica_bench.firewall.bundle import bundle_texts
    from fabrica_bench.scoring.conditions import Conditions
    from fabrica_bench.scoring.inputs import held_out_cases, held_out_seeds, visible_cases
    from fabrica_bench.scoring.scorer import Scorer
    from fabrica_bench.tasks import load_task
    from fabrica_bench.tasks.canary import without_canary
    from fabrica_bench.tasks.seeds import HeldOutKey
    from fabrica_bench.toolchains import get_toolchain

    task = load_task(name)
    cases = (*visible_cases(task), *held_out_cases(task, held_out_seeds(task, HeldOutKey.fresh())))
    texts, bundle = bundle_texts(task), task.spec.bundle
    kernel = without_canary(texts[bundle.plain or bundle.compute])
    scorer = Scorer(Conditions(task, get_toolchain("embedded")))
    scorer.reference(cases)
    for number in range(candidates):
        verdict = scorer.score({bundle.compute: f"{kernel}// {number}\n"}, cases)
        if verdict.kind != "valid":
            raise SystemExit(f"{name}: {verdict}")
    scorer.close()


def read_samples(text: str) -> Frame:
    """The tree of py-spy's lines `process 1:"python ...";f (file:12);g (file:3) 17`."""
    root = Frame()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        here = root
        here.samples += int(count)
        programs: list[str] = []
        for part in stack.split(";"):
            program = re.match(r'process \d+:"(.*)"?', part)
            name = re.sub(r":\d+\)$", ")", part)
            if program is not None:
                name = _program_name(program[1])
                if name in programs:  # a fork is shown by what it does
                    continue
                programs.append(name)
            elif "<frozen runpy>" in part:
                continue
            imports = "<frozen importlib" in part
            here = here.below.setdefault("imports" if imports else name, Frame())
            here.samples += int(count)
            if imports:  # what for is of less interest than how long
                break
    return root


def _program_name(command: str) -> str:
    module = re.search(r"-m ([\w.]+)", command)
    return f"python -m {module[1]}" if module else "scorer"


def draw(root: Frame, title: str) -> str:
    """The picture, callers above what they call."""
    shapes: list[str] = []
    deepest = _draw(root.below, root.samples, 0.0, 1, shapes)
    height = (deepest + 2) * ROW
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" '
        f'font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="4" y="13">{escape(title)}</text>'
    )
    return "\n".join([head, *shapes, "</svg>\n"])


def _draw(frames: dict[str, Frame], total: int, left: float, row: int, shapes: list[str]) -> int:
    deepest = row
    for name, frame in sorted(frames.items(), key=lambda item: -item[1].samples):
        share = frame.samples / total
        if share >= SMALLEST:
            x, width = left * WIDTH, share * WIDTH
            y = row * ROW
            room = int((width - 4) / _CHARACTER)
            label = name if len(name) <= room else name[: max(room - 1, 0)]
            text = f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(label)}</text>' if room >= 4 else ""
            shapes.append(
                f'<g><title>{escape(name)}: {100 * share:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
                f'height="{ROW - 1}" fill="{_color(name)}"/>{text}</g>'
            )
            deepest = max(deepest, _draw(frame.below, total, left, row + 1, shapes))
        left += share
    return deepest


def _color(name: str) -> str:
    package = re.search(r"fabrica_bench/(\w+)/", name)
    return {**_COLORS, **_OURS}.get(package[1] if package else "", _COLORS[""])


def main(arguments: list[str]) -> int:
    """Watch a scorer and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--task", default="GEMM-1PE")
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--py-spy", default="py-spy")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work(options.task, options.candidates)
        return 0
    # Not above: the scorer that is watched may be of another checkout.
    from fabrica_bench.errors import answer

    return answer(lambda: draw_scoring(options))


def draw_scoring(options: argparse.Namespace) -> int:
    """Watch a scorer in a process of its own, and draw what it did. Raises `FabricaError`."""
    from fabrica_bench.errors import ExitCode, FabricaError
    from fabrica_bench.tasks import load_task

    load_task(options.task)  # a wrong name is told before py-spy starts
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples"
        watch = [options.py_spy, "record", "--subprocesses", "--nonblocking", "--rate", "500", "--format", "raw"]
        scorer = [sys.executable, __file__, "--work", "--task", options.task, "--candidates", str(options.candidates)]
        watched = subprocess.run(
            [*watch, "-o", str(samples), "--", *scorer, str(options.picture)],
            env={**os.environ, "PYTHONPATH": str(options.checkout.resolve())},
        )
        if watched.returncode:
            raise FabricaError(
                f"py-spy ended with status {watched.returncode}",
                remedy="it says why above; it may need permission to look at processes",
                code=ExitCode.ENVIRONMENT,
            )
        root = read_samples(samples.read_text(encoding="utf-8"))
    title = f"{options.task}: reference and {options.candidates} candidates, {root.samples} samples"
    options.picture.write_text(draw(root, title), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
