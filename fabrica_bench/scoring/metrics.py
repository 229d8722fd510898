"""`Accept` and `fast_p`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from statistics import median_low

from fabrica_bench.errors import wrong_type
from fabrica_bench.scoring.verdict import Invalid, NotScored, Valid


def accept(new: Valid | Invalid | NotScored, old: Valid | Invalid | NotScored) -> bool:
    """`Accept(Q | P, S)`: Q is valid and its median cycles are strictly lower than P's.

    Args:
        new: Verdict on Q over visible and held-out inputs.
        old: Verdict on P. A P that isn't valid has no cycles to beat: any valid Q is accepted.

    Raises:
        ValueError: The two were measured on different numbers of inputs, or on different tasks, so their medians can't
            be compared.
    """
    if new.held_out and old.held_out and new.held_out.task != old.held_out.task:
        raise ValueError(f"verdicts on {new.held_out.task} and on {old.held_out.task} can't be compared")
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
        FabricaError: One of them is no verdict, or `p` no number.
        ValueError: `p` is negative, or there is no scored verdict.
    """
    # A single verdict can be iterated over too, and would give a rate of its fields.
    if isinstance(verdicts, Valid | Invalid | NotScored) or not isinstance(verdicts, Iterable):
        raise wrong_type("verdicts", verdicts, "a sequence of verdicts")
    if not isinstance(p, Real):
        raise wrong_type("p", p, "a number")
    verdicts = list(verdicts)
    for place, verdict in enumerate(verdicts):
        if not isinstance(verdict, Valid | Invalid | NotScored):
            raise wrong_type(f"element {place} of verdicts", verdict, "a verdict")
    if not p >= 0:
        raise ValueError(f"p must be at least 0, not {p}")
    scored = [v for v in verdicts if not isinstance(v, NotScored) or v.blame == "agent"]
    if not scored:
        raise ValueError("no verdict was scored, so there is no rate")
    return sum(isinstance(v, Valid) and v.speedup > p for v in scored) / len(scored)
