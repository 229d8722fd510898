"""Stage 4: what kind of failure it was, and who has to act on it."""

from __future__ import annotations

from fabrica_agent.records import FailureKind, Review, Route
from fabrica_bench.plugins import CompileOutcome, VisibleRun

# (kind, route, words that betray it), first match wins; the texts are those of the toolchain and of the scorer.
_RULES: tuple[tuple[FailureKind, Route, tuple[str, ...]], ...] = (
    (
        FailureKind.MEMORY,
        Route.REDESIGN,
        ("out of pe memory", "ran out of", "48 kib", "bytes of memory", "memory overflow"),
    ),
    (FailureKind.DEADLOCK, Route.REPAIR_CODE, ("deadlock", "nothing can advance", "stall", "budget")),
    (FailureKind.FAULT, Route.REPAIR_CODE, ("fault", "outside", "out of bounds", "assert")),
    (FailureKind.TIMING, Route.REPAIR_INTERFACE, ("timing", "stamp", "window", "implausibl", "lower bound")),
    (
        FailureKind.INTERFACE,
        Route.REPAIR_INTERFACE,
        ("contract", "was not declared", "export", "symbol", "frozen", "missing param", "mutab"),
    ),
    (
        FailureKind.NUMERICAL,
        Route.REPAIR_CODE,
        ("mismatch", "differs", "correct", "tolerance", "finite", "changed its input"),
    ),
)


def review_compile(outcome: CompileOutcome) -> Review:
    """Classify a failed build."""
    text = "\n".join(outcome.diagnostics)
    lowered = text.lower()
    for kind in (FailureKind.MEMORY, FailureKind.INTERFACE):
        route, words = next((r, w) for k, r, w in _RULES if k is kind)
        if any(w in lowered for w in words):
            return Review(kind=kind, route=route, reason=_first_line(text))
    return Review(kind=FailureKind.COMPILE, route=Route.REPAIR_CODE, reason=_first_line(text))


def review_run(run: VisibleRun) -> Review:
    """Classify a run that isn't valid."""
    lowered = f"{run.outcome}\n{run.log[-4000:]}".lower()
    head = run.outcome.lower()
    for text in (head, lowered):
        for kind, route, words in _RULES:
            if any(w in text for w in words):
                return Review(kind=kind, route=route, reason=_first_line(run.outcome))
    return Review(kind=FailureKind.UNKNOWN, route=Route.REPAIR_CODE, reason=_first_line(run.outcome))


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else "no message")[:400]
