"""What came out of a study: each arm with its own denominator, its comparisons in words, and nothing pooled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabrica_bench.errors import FabricaError
from fabrica_bench.report.data import RunReport, load_report
from fabrica_bench.report.figures import Figures, figures, figures_json
from fabrica_bench.report.ranking import Entry, compare_entries, control_holds
from fabrica_bench.report.tables import cell_text, number_text, percent_text, ratio_text
from fabrica_bench.runs.store import MANIFEST_NAME
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
    """

    name: str
    what: str
    report: RunReport | None
    planned: int
    figures: Figures | None
    usage: Usage
    controls: dict[str, bool | None]
    proxies: ProxyScore | None = None

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
    """One task on two targets: speed-ups over the reference of the same target, and their ratio."""

    task: str
    first: float
    second: float

    @property
    def ratio(self) -> float:
        """Speed-up on the second target divided by that on the first."""
        return self.second / self.first


@dataclass(frozen=True)
class StudyResult:
    """A study, finished or not. `transfers` is of replays only."""

    study: Study
    arms: tuple[ArmResult, ...]
    findings: tuple[str, ...]
    transfers: tuple[Transfer, ...] = ()

    @property
    def transfer_mean(self) -> tuple[float, Interval] | None:
        """Geometric mean of the transfer ratios with its interval; None without any."""
        ratios = {item.task: [item.ratio] for item in self.transfers}
        if not ratios:
            return None
        return geometric_mean([item.ratio for item in self.transfers]), bootstrap_geometric_mean(ratios)


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
    """The tasks that are valid on both targets, in the order of the first; the first attempt at each."""
    if first is None or second is None:
        return ()
    others = {(row.task, row.attempt): row.speedup for row in second.summary.rows}
    pairs = [(row.task, row.speedup, others.get((row.task, row.attempt))) for row in first.summary.rows]
    found: dict[str, Transfer] = {}
    for task, one, other in pairs:
        if one is not None and other is not None:
            found.setdefault(task, Transfer(task, one, other))
    return tuple(found.values())


def results_json(result: StudyResult) -> str:
    """JSON for scripts."""
    mean = result.transfer_mean
    body: dict[str, Any] = {
        "study": result.study.name,
        "title": result.study.title,
        "arms": [_arm_json(arm) for arm in result.arms],
        "findings": list(result.findings),
        "transfers": [
            {"task": t.task, "speedup_first": t.first, "speedup_second": t.second, "transfer_ratio": t.ratio}
            for t in result.transfers
        ],
        "transfer_geometric_mean": None if mean is None else mean[0],
        "transfer_interval": None if mean is None else list(mean[1]),
        "notes": list(result.study.notes),
        "glossary": dict(GLOSSARY),
    }
    return json.dumps(body, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


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
    if result.transfers:
        lines += ["| task | speed-up, first | speed-up, second | transfer (ratio) |", "|---|---:|---:|---:|"]
        lines += [f"| {cell_text(t.task)} | {t.first:.3f} | {t.second:.3f} | {t.ratio:.3f} |" for t in result.transfers]
        mean = result.transfer_mean
        assert mean is not None
        lines += ["", f"Geometric mean of the transfer {mean[0]:.3f} {mean[1]} over {len(result.transfers)} tasks.", ""]
    lines += [*(f"- {cell_text(text)}" for text in result.findings), ""] if result.findings else []
    lines += [*(f"> {text}" for text in result.study.notes), ""] if result.study.notes else []
    return "\n".join([*lines, "## Words", "", *markdown_glossary()]) + "\n"


def _arm(study: Study, arm: Arm, out: Path, planned: int) -> ArmResult:
    name, what, folder = arm.name, arm.what, out / arm.name
    controls = {control: _control(control_folder(out, arm, control)) for control in study.controls}
    if not (folder / "run" / MANIFEST_NAME).exists():
        return ArmResult(name, what, None, planned, None, Usage(), controls)
    report = load_report(folder / "run")
    usage = total_usage(attempt.usage for attempt in report.attempts)
    proxies = proxy_scores(report) if study.kind == "proxy" else None
    return ArmResult(name, what, report, planned, figures(report.summary), usage, controls, proxies)


def _control(folder: Path) -> bool | None:
    if not (folder / MANIFEST_NAME).exists():
        return None
    report = load_report(folder)
    return None if report.summary.partial else control_holds(report)


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
    return "; ".join(part for part in parts if part) or "complete, controls hold"


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
    return f"| {' | '.join(cell_text(cell) for cell in cells)} |"


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
