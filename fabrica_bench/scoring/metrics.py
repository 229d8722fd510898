"""`Accept` and `fast_p`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid


def accept(new: Valid | Invalid | NotScored, old: Valid | Invalid | NotScored) -> bool:
    """`Accept(Q | P, S)`: Q is valid and its median cycles are strictly lower than P's.

    Args:
        new: Verdict on Q over visible and held-out inputs.
        old: Verdict on P. A P that isn't valid has no cycles to beat: any valid Q is accepted.

    Raises:
        ValueError: The two were measured on different numbers of inputs, so their medians can't be compared.
    """
    if not isinstance(new, Valid):
        return False
    if not isinstance(old, Valid):
        return True
    if len(new.samples) != len(old.samples):
        raise ValueError(f"{len(new.samples)} and {len(old.samples)} inputs can't be compared")
    return median_low(new.samples) < median_low(old.samples)


def fast_p(verdicts: Sequence[Valid | Invalid | NotScored], p: float) -> float:
    """Share of all scored verdicts that are valid with a speed-up above `p`; `fast_p(v, 0)` is correctness.

    `NotScored` verdicts through a fault of the machine or the harness are left out of the denominator; an agent that
    produced nothing counts as a failure.

    Raises:
        ValueError: `p` is negative, or there is no scored verdict.
    """
    if not p >= 0:
        raise ValueError(f"p must be at least 0, not {p}")
    scored = [v for v in verdicts if not isinstance(v, NotScored) or v.blame == "agent"]
    if not scored:
        raise ValueError("no verdict was scored, so there is no rate")
    return sum(isinstance(v, Valid) and v.speedup > p for v in scored) / len(scored)
