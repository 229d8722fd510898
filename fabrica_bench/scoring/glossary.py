"""What every number in a report means: one list, printed wherever the numbers are."""

from __future__ import annotations

from typing import Final

from fabrica_bench.scoring.statistics import CONFIDENCE, RESAMPLES, SEED

GLOSSARY: Final[tuple[tuple[str, str], ...]] = (
    (
        "valid",
        "the program builds, runs, keeps the contract of its files, stamps its time honestly, and its outputs agree "
        "with a float64 NumPy oracle on visible and held-out inputs",
    ),
    (
        "cycles",
        "lower median over the inputs of: latest end stamp minus earliest start stamp over all PEs, in device cycles; "
        "only a valid program has any",
    ),
    ("reference cycles", "the same for the expert reference, on the same inputs and toolchain, in the same session"),
    ("speed-up", "ratio: reference cycles divided by cycles. Above 1 the candidate is faster than the expert"),
    (
        "fast_p",
        "share of the scored attempts that are valid with a speed-up above p; fast_0 is the share of valid ones. An "
        "attempt for which the agent offered nothing counts as scored; one that harness or machine failed doesn't",
    ),
    (
        "pass@k",
        "probability that k attempts at a task, drawn without replacement from those made, hold a valid one (the "
        "unbiased estimator), averaged over the tasks with at least k scored attempts",
    ),
    (
        "geometric mean",
        "exponential of the mean logarithm, always with the number of values that it is over; of the valid attempts' "
        "speed-ups it says nothing about the others",
    ),
    (
        "improvement",
        "a relative change, (new - old) / old, or a ratio, new / old; the report says which of the two each time. "
        "Fewer cycles are a negative relative change of cycles and a speed-up ratio above 1",
    ),
    (
        "interval",
        f"{CONFIDENCE:.0%} confidence. Rates: Wilson's score interval over attempts. Means of ratios: percentile "
        f"bootstrap with {RESAMPLES} resamples of whole tasks (clusters), seed {SEED}",
    ),
    (
        "not distinguishable",
        f"passes: the exact McNemar test over shared tasks (first attempt of each) has p above {1 - CONFIDENCE:.2g}; "
        "speed: the paired bootstrap interval of the ratio of cycles contains 1, or there is one task only",
    ),
    (
        "first pass",
        "number of the evaluation, counted from 1 and including compiles, at which the agent's program first ran "
        "correctly on the visible inputs",
    ),
    (
        "not scored",
        "there was nothing to judge: the agent offered no candidate, or harness or machine failed: see the blame",
    ),
    ("partial", "attempts are owed: the run hasn't finished, or was limited; it can't be ranked"),
    (
        "breaks the rules",
        "the program fails Contract or Timing: it changes what is frozen, or claims a time that can't be. Such an "
        "attempt is shown and never counted as valid",
    ),
    (
        "excluded",
        "the entry is shown without a rank because it isn't verified, is partial, lacks controls that hold, or was "
        "found to be hacked; the reason stands beside it",
    ),
    (
        "cost",
        "what the agent said that its model calls cost, in US dollars, and their tokens; a dash where it said nothing",
    ),
)


def markdown_glossary() -> list[str]:
    """The definitions as lines of Markdown."""
    return [f"- **{word}**: {meaning}" for word, meaning in GLOSSARY]
