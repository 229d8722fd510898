"""The page of the suite's reference cycles: ours beside the published ones, from what the specs record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabrica_bench.tasks.recording import FAR, PUBLISHED_ARCH, comparisons
from fabrica_bench.tasks.spec import ARCHS, CyclePair
from fabrica_bench.tasks.task import Task

HEAD = """# Reference cycles

Cycles of both reference programs of every task at every size, as spec.yaml records them: the median over 3 visible and
5 held-out inputs in one window, from the earliest start stamp to the latest end stamp over all PEs, exactly as in a
verdict. `expert` is pe.csl, `plain` is plain.csl. They are cycles of this project's [model](cycle-model.md), not of a
wafer.

Measured with: {toolchains}. Recorded by `fabrica-bench tasks validate --all --record`; this page is written by
`fabrica-bench tasks cycles --out docs/reference-cycles.md`.
"""

BESIDE = f"""
## Beside the published cycles

Published counts come from the vendor's simulator, each with its own window, named below; ours come from our model and
our one window. So they can be compared in size only. What is compared is plain.csl on the first visible input, whose
scalars are the published ones; from {100 * FAR:.0f} % apart on, the last section says why.

| task | size | published | plain | ratio | SDK | published window | source |
|---|---|---:|---:|---:|---|---|---|"""


def cycles_page(tasks: Sequence[Task]) -> str:
    """The page as Markdown; the same specs give the same bytes."""
    columns = [*(f"{arch}: expert / plain" for arch in ARCHS), f"{PUBLISHED_ARCH}: plain over expert"]
    toolchains = sorted({task.spec.reference_cycles.toolchain or "nothing yet" for task in tasks})
    lines = [
        HEAD.format(toolchains=", ".join(toolchains)),
        f"| task | size | {' | '.join(columns)} |",
        "|---|---|" + "---:|" * len(columns),
        *(row for task in tasks for row in _rows(task)),
        BESIDE,
        *(row for task in tasks for row in _published_rows(task)),
        "\n## Why some are far apart\n",
        *(line for task in tasks for line in _note(task)),
    ]
    return "\n".join(lines) + "\n"


def _rows(task: Task) -> Iterator[str]:
    cycles = task.spec.reference_cycles.cycles
    for size in task.spec.size_names:
        pairs = [cycles.get(arch, {}).get(size) for arch in ARCHS]
        main = cycles.get(PUBLISHED_ARCH, {}).get(size)
        ratio = f"{main.plain / main.expert:.2f}" if main and main.plain and main.expert else "–"
        yield f"| {task.name} | {size} | " + " | ".join(map(_pair, pairs)) + f" | {ratio} |"


def _pair(pair: CyclePair | None) -> str:
    if pair is None:
        return "–"
    return " / ".join("–" if value is None else f"{value:,}" for value in (pair.expert, pair.plain))


def _published_rows(task: Task) -> Iterator[str]:
    published = task.spec.published
    for found in comparisons(task.spec):
        measured = "–" if found.measured is None else f"{found.measured:,}"
        ratio = "–" if found.ratio is None else f"{found.ratio:.2f}"
        about = (published.sdk, published.window, published.source) if published else ("–", "–", "–")
        cells = [task.name, found.size, f"{found.published:,}", measured, ratio, *(_cell(text) for text in about)]
        yield f"| {' | '.join(cells)} |"


def _note(task: Task) -> Iterator[str]:
    far = [found.size for found in comparisons(task.spec) if found.far]
    if far:
        yield f"- **{task.name}** ({', '.join(far)}): {task.spec.reference_cycles.note or 'not explained'}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
