"""Proxy metrics of programs that are not run: for training, where running every sample costs too much.

They say how near a program is to something that could work. None of them is correctness, and none enters a ranking.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fabrica_bench.csl.builtins import load_all
from fabrica_bench.csl.builtins.registry import BUILTINS
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.firewall.bundle import reference_files
from fabrica_bench.report.data import RunReport
from fabrica_bench.report.figures import is_scored
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.validity import frozen_findings
from fabrica_bench.scoring.verdict import NotScored, Predicate
from fabrica_bench.tasks import load_task
from fabrica_bench.toolchains import get_toolchain

CHRF_ORDER: Final = 6
CHRF_BETA: Final = 2.0
_BUILTIN: Final = re.compile(r"@(\w+)")
_COMMENT: Final = re.compile(r"//[^\n]*")


@dataclass(frozen=True)
class ProxyScore:
    """Shares over the scored attempts of an arm, an attempt without a program counting as none of it.

    Attributes:
        attempts: Scored attempts.
        programs: Attempts with a program.
        usable: Share that handed in a program that parses.
        contract: Share that keeps the frozen interface and the timing window.
        compiles: Share whose Build holds.
        chrf: Mean chrF against the expert reference over the programs, 0 to 100; None without programs.
        vocabulary: Mean share of the programs' @-names that are builtins; None without programs.
    """

    attempts: int
    programs: int
    usable: float | None
    contract: float | None
    compiles: float | None
    chrf: float | None
    vocabulary: float | None


def proxy_scores(report: RunReport) -> ProxyScore:
    """The proxies of a run's candidates."""
    config = report.manifest.config
    root = Path(report.manifest.tasks_dir) if report.manifest.tasks_dir else None
    attempts = [attempt for attempt in report.attempts if is_scored(attempt.row)]
    programs = [attempt for attempt in attempts if attempt.files]
    usable = contract = compiles = 0
    likeness: list[float] = []
    words: list[float] = []
    for attempt in programs:
        task = load_task(attempt.row.task, root)
        conditions = Conditions(
            task, get_toolchain(config["toolchain"]), config["arch"], config["size"], config["workflow"]
        )
        parses = all(_parses(text) for text in attempt.files.values())
        usable += parses
        contract += parses and not frozen_findings(conditions, attempt.files)
        verdict = attempt.row.verdict
        if not isinstance(verdict, NotScored):
            compiles += any(r.predicate is Predicate.BUILD and r.holds is True for r in verdict.evidence)
        reference = reference_files(task, config["workflow"])
        likeness.append(chrf(_joined(attempt.files), _joined(reference)))
        words.append(vocabulary(_joined(attempt.files)))
    total = len(attempts)

    def share(count: int) -> float | None:
        return count / total if total else None

    return ProxyScore(
        total,
        len(programs),
        share(usable),
        share(contract),
        share(compiles),
        sum(likeness) / len(likeness) if likeness else None,
        sum(words) / len(words) if words else None,
    )


def chrf(hypothesis: str, reference: str) -> float:
    """chrF of a text, 0 to 100 (M. Popović, WMT 2015): character n-grams up to 6 without white space, beta 2.

    Orders for which either text is too short are left out.
    """
    ours, theirs = ("".join(text.split()) for text in (hypothesis, reference))
    scores: list[tuple[float, float]] = []
    for order in range(1, CHRF_ORDER + 1):
        mine, wanted = _grams(ours, order), _grams(theirs, order)
        if mine and wanted:
            common = (mine & wanted).total()
            scores.append((common / mine.total(), common / wanted.total()))
    if not scores:
        return 0.0
    precision = sum(score[0] for score in scores) / len(scores)
    recall = sum(score[1] for score in scores) / len(scores)
    weight = CHRF_BETA**2
    bottom = weight * precision + recall
    return 100 * (1 + weight) * precision * recall / bottom if bottom else 0.0


def vocabulary(text: str) -> float:
    """Share of the text's @-names that are builtins of the language; 1 where there is none."""
    load_all()
    names = _BUILTIN.findall(_COMMENT.sub("", text))
    return sum(name in BUILTINS for name in names) / len(names) if names else 1.0


def _grams(text: str, order: int) -> Counter[str]:
    return Counter(text[index : index + order] for index in range(len(text) - order + 1))


def _parses(text: str) -> bool:
    try:
        parse_file(virtual_source("candidate.csl", text))
    except CslError:
        return False
    return True


def _joined(files: Mapping[str, str]) -> str:
    return "\n".join(files[name] for name in sorted(files))
