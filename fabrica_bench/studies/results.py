"""What came out of a study: each arm with its own denominator, its comparisons in words, and nothing pooled."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabrica_bench.errors import FabricaError
from fabrica_bench.json_text import json_text
from fabrica_bench.report.data import RunReport, load_report
from fabrica_bench.report.document import build_document
from fabrica_bench.report.figures import Figures, figures, figures_json
from fabrica_bench.report.html import render_page
from fabrica_bench.report.ranking import Entry, compare_entries, control_holds
from fabrica_bench.report.tables import cell_text, number_text, percent_text, ratio_text
from fabrica_bench.runs.store import MANIFEST_NAME
from fabrica_bench.runs.summary import RunRow
from fabrica_bench.runs.usage import Usage, total_usage
from fabrica_bench.scoring.glossary import GLOSSARY, markdown_glossary
from fabrica_bench.scoring.statistics import Interval, bootstrap_geometric_mean, geometric_mean
from fabrica_bench.studies.planning import control_folder
from fabrica_bench.studies.protocol import Arm, Study
from fabrica_bench.studies.proxy import ProxyScore, proxy_scores


@dataclass(frozen=True)
class ArmResult:
    """One arm.

    Attributes:
        report: Its run; None when it hasn't begun.
        planned: Its denominator: attempts by the protocol, whatever was written or run.
        controls: For each control whether it holds; None when it hasn't finished.
        control_reports: Their runs by place in the study's folder, as far as they have begun.
    """

    name: str
    what: str
    report: RunReport | None
    planned: int
    figures: Figures | None
    usage: Usage
    controls: dict[str, bool | None]
    proxies: ProxyScore | None = None
    control_reports: dict[str, RunReport] = field(default_factory=dict)

    @property
    def publishable(self) -> bool:
        """Complete, and every control holds."""
        complete = self.report is not None and not self.report.summary.partial
        return complete and self.figures is not None and self.figures.total == self.planned and self.controls_hold

    @property
    def controls_hold(self) -> bool:
        return all(holds is True for holds in self.controls.values())


@dataclass(frozen=True)
class Transfer:
    """One program on two targets: its speed-up over the reference of the same target on each, and their ratio.

    Attributes:
        first, second: (reference cycles, cycles) on that target; None where it isn't valid there.
    """

    task: str
    attempt: int
    first: tuple[int, int] | None
    second: tuple[int, int] | None

    @property
    def speedups(self) -> tuple[float | None, float | None]:
        """Reference cycles divided by cycles on the first and on the second target."""
        first, second = (None if pair is None else pair[0] / pair[1] for pair in (self.first, self.second))
        return first, second

    @property
    def ratio(self) -> float | None:
        """Speed-up on the second target divided by that on the first; None unless it is valid on both."""
        first, second = self.speedups
        return None if first is None or second is None else second / first


@dataclass(frozen=True)
class StudyResult:
    """A study, finished or not. `transfers` is of replays only."""

    study: Study
    arms: tuple[ArmResult, ...]
    findings: tuple[str, ...]
    transfers: tuple[Transfer, ...] = ()

    @property
    def transfer_mean(self) -> tuple[float, Interval, int] | None:
        """Geometric mean of the transfer ratios, its interval over tasks, and how many tasks; None without any."""
        ratios: dict[str, list[float]] = {}
        for item in self.transfers:
            if item.ratio is not None:
                ratios.setdefault(item.task, []).append(item.ratio)
        if not ratios:
            return None
        mean = geometric_mean([ratio for found in ratios.values() for ratio in found])
        return mean, bootstrap_geometric_mean(ratios), len(ratios)


def load_results(study: Study, out: Path, denominators: dict[str, int]) -> StudyResult:
    """Read what there is of a study.

    Args:
        study: The protocol.
        out: The study's folder.
        denominators: Attempts of each arm by the protocol.

    Raises:
        FabricaError: Nothing was run there, or a run is damaged.
    """
    arms = tuple(_arm(study, arm, out, denominators[arm.name]) for arm in study.arms)
    if all(arm.report is None for arm in arms):
        raise FabricaError(
            f"nothing of the study {study.name} is here", place=str(out), remedy="run it with `fabrica-bench study run`"
        )
    by_name = {arm.name: arm for arm in arms}
    findings: list[str] = []
    for better, worse in study.compare:
        one, other = by_name[better].report, by_name[worse].report
        if one is not None and other is not None:
            findings += compare_entries(Entry(better, one), Entry(worse, other))
    transfers: tuple[Transfer, ...] = ()
    if study.kind == "replay" and len(arms) == 2:
        transfers = transfer_table(arms[0].report, arms[1].report)
    return StudyResult(study, arms, tuple(findings), transfers)


def transfer_table(first: RunReport | None, second: RunReport | None) -> tuple[Transfer, ...]:
    """Every program that was judged on both targets, in the order of the first."""
    if first is None or second is None:
        return ()
    others = {(row.task, row.attempt): row for row in second.summary.rows}
    return tuple(
        Transfer(row.task, row.attempt, _cycles(row), _cycles(others[row.task, row.attempt]))
        for row in first.summary.rows
        if (row.task, row.attempt) in others
    )


def _cycles(row: RunRow) -> tuple[int, int] | None:
    if row.reference_cycles is None or row.cycles is None:
        return None
    return row.reference_cycles, row.cycles


def results_json(result: StudyResult) -> str:
    """JSON for scripts."""
    mean = result.transfer_mean
    body: dict[str, Any] = {
        "study": result.study.name,
        "title": result.study.title,
        "arms": [_arm_json(arm) for arm in result.arms],
        "findings": list(result.findings),
        "transfers": [_transfer_json(item) for item in result.transfers],
        "transfer_geometric_mean": None if mean is None else mean[0],
        "transfer_interval": None if mean is None else list(mean[1]),
        "transfer_tasks": 0 if mean is None else mean[2],
        "notes": list(result.study.notes),
        "glossary": dict(GLOSSARY),
    }
    return json_text(body, indent=2, allow_nan=False) + "\n"


def results_markdown(result: StudyResult) -> str:
    """The result tables of a study."""
    lines = [f"# {result.study.title}", "", result.study.question, ""]
    lines += ["| arm | denominator | valid | fast_0 | fast_1 | geometric mean of valid | pass@k | cost | state |"]
    lines += ["|---|---:|---:|---:|---:|---:|---|---:|---|"]
    lines += [_arm_line(arm) for arm in result.arms]
    lines += ["", "Arms have denominators of their own and are never pooled.", ""]
    if any(arm.proxies for arm in result.arms):
        lines += [
            "| arm | programs | usable | contract | compiles | chrF | vocabulary |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        lines += [_proxy_line(arm.name, arm.proxies) for arm in result.arms if arm.proxies]
        lines.append("")
    lines += _transfer_lines(result) if result.transfers else []
    lines += [*(f"- {text}" for text in result.findings), ""] if result.findings else []
    lines += [*(f"> {text}" for text in result.study.notes), ""] if result.study.notes else []
    return "\n".join([*lines, "## Words", "", *markdown_glossary()]) + "\n"


def results_html(result: StudyResult) -> str:
    """One page over the arms and their controls: plot, matrix and every attempt; the arms stay entries of their own."""
    arms = [Entry(arm.name, arm.report) for arm in result.arms if arm.report is not None]
    controls = {name: report for arm in result.arms for name, report in arm.control_reports.items()}
    return render_page(build_document([*arms, *(Entry(*found) for found in controls.items())]), result.study.title)


def _transfer_json(item: Transfer) -> dict[str, Any]:
    found: dict[str, Any] = {"task": item.task, "attempt": item.attempt}
    for place, pair, speedup in zip(("first", "second"), (item.first, item.second), item.speedups, strict=True):
        reference, cycles = pair or (None, None)
        found |= {f"reference_cycles_{place}": reference, f"cycles_{place}": cycles, f"speedup_{place}": speedup}
    return {**found, "transfer_ratio": item.ratio}


def _transfer_lines(result: StudyResult) -> list[str]:
    """The paired targets as a table: what each speed-up is made of, and what carries over."""
    one, other = (arm.name for arm in result.arms)
    heads = [f"{what}, {place}" for place in (one, other) for what in ("reference cycles", "cycles", "speed-up")]
    lines = [f"| task | {' | '.join(heads)} | transfer (ratio) |", f"|---{'|---:' * 7}|"]
    for item in result.transfers:
        name = item.task if item.attempt == 1 else f"{item.task} #{item.attempt}"
        cells = [cell_text(name)]
        for pair, speedup in zip((item.first, item.second), item.speedups, strict=True):
            cells += [*map(number_text, pair or (None, None)), ratio_text(speedup)]
        lines.append(f"| {' | '.join([*cells, ratio_text(item.ratio)])} |")
    mean = result.transfer_mean
    text = "No program is valid on both targets, so there is no transfer."
    if mean is not None:
        text = (
            f"Geometric mean of the transfer {mean[0]:.3f} {mean[1]} over the {mean[2]} tasks that are valid on both."
        )
    return [*lines, "", text, ""]


def _arm(study: Study, arm: Arm, out: Path, planned: int) -> ArmResult:
    name, what, folder = arm.name, arm.what, out / arm.name
    controls: dict[str, bool | None] = {}
    runs: dict[str, RunReport] = {}
    for control in study.controls:
        place = control_folder(out, arm, control)
        begun = load_report(place) if (place / MANIFEST_NAME).exists() else None
        controls[control] = None if begun is None or begun.summary.partial else control_holds(begun)
        if begun is not None:
            runs[f"{control} ({place.parent.name})"] = begun
    if not (folder / "run" / MANIFEST_NAME).exists():
        return ArmResult(name, what, None, planned, None, Usage(), controls, None, runs)
    report = load_report(folder / "run")
    usage = total_usage(attempt.usage for attempt in report.attempts)
    proxies = proxy_scores(report) if study.kind == "proxy" else None
    return ArmResult(name, what, report, planned, figures(report.summary), usage, controls, proxies, runs)


def _state(arm: ArmResult) -> str:
    if arm.report is None or arm.figures is None:
        return "not begun"
    broken = [name for name, holds in arm.controls.items() if holds is False]
    missing = [name for name, holds in arm.controls.items() if holds is None]
    parts = [
        f"partial: {arm.report.summary.missing} owed" if arm.report.summary.partial else "",
        f"partial: {arm.figures.total} of {arm.planned} attempts of the protocol"
        if arm.figures.total != arm.planned
        else "",
        f"controls that do NOT hold: {', '.join(broken)}" if broken else "",
        f"controls that have not finished: {', '.join(missing)}" if missing else "",
    ]
    done = "complete, controls hold" if arm.controls else "complete, without controls"
    return "; ".join(part for part in parts if part) or done


def _arm_line(arm: ArmResult) -> str:
    numbers = arm.figures
    if numbers is None:
        return f"| {arm.name} | {arm.planned} | – | – | – | – | – | – | {_state(arm)} |"
    passes = ", ".join(f"@{k} {percent_text(value)}" for k, value in numbers.pass_at) or "–"
    cells = [
        arm.name,
        f"{numbers.total} of {arm.planned}" if numbers.total != arm.planned else str(arm.planned),
        number_text(numbers.valid),
        f"{percent_text(numbers.fast_0)} {numbers.fast_0_interval or ''}".strip(),
        f"{percent_text(numbers.fast_1)} {numbers.fast_1_interval or ''}".strip(),
        f"{ratio_text(numbers.geometric_mean)} {numbers.geometric_mean_interval or ''}".strip(),
        passes,
        "–" if arm.usage.cost_usd is None else f"${arm.usage.cost_usd:.2f}",
        _state(arm),
    ]
    return f"| {' | '.join(cells)} |"


def _proxy_line(name: str, score: ProxyScore) -> str:
    shares = [percent_text(share) for share in (score.usable, score.contract, score.compiles)]
    likeness = "–" if score.chrf is None else f"{score.chrf:.1f}"
    cells = [name, f"{score.programs} of {score.attempts}", *shares, likeness, percent_text(score.vocabulary)]
    return f"| {' | '.join(cells)} |"


def _arm_json(arm: ArmResult) -> dict[str, Any]:
    return {
        "arm": arm.name,
        "what": arm.what,
        "denominator": arm.planned,
        "state": _state(arm),
        "publishable": arm.publishable,
        "controls": arm.controls,
        "usage": arm.usage.model_dump(mode="json"),
        **(figures_json(arm.figures) if arm.figures is not None else {}),
        **({"proxies": vars(arm.proxies)} if arm.proxies is not None else {}),
    }
