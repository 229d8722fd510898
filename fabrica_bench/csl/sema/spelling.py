"""What a misspelt name may have been meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from fabrica_bench.csl.sema import limits

LONGEST: Final = 200
"""Characters of a name that are compared: the comparison takes the square of them, and a text may be hostile."""


def closest(name: str, known: Sequence[str], likeness: float = 0.6) -> str | None:
    """The known name that is most like `name`; of many known ones the last are looked at.

    Args:
        likeness: Least ratio of `difflib.SequenceMatcher`.
    """
    near = get_close_matches(name[:LONGEST], known[-limits.SUGGESTIONS :], 1, likeness)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str], mark: str = "") -> str | None:
    """A hint for a diagnostic. `mark`: what stands before names of this sort."""
    near = closest(name, list(known))
    return None if near is None else f"did you mean '{mark}{near}'?"
