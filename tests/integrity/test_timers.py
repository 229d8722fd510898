"""Stamps that can't be true are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabrica_bench.integrity.timers import LAUNCH_SLACK, TAIL_SLACK, WindowTimes, check_timers, decode_stamps
from fabrica_bench.wse.evidence import CLOCK_FIELDS, Readback, RunEvidence, read_evidence

MAX_STAMP = 2**48 - 1


def stamps(*pes: tuple[int, int]) -> np.ndarray:
    words = [[value >> shift & 0xFFFF for value in pe for shift in (0, 16, 32)] for pe in pes]
    return np.array(words, dtype=np.uint16).reshape(1, len(pes), 6)


def times(*pes: tuple[int, int]) -> WindowTimes:
    decoded = decode_stamps(stamps(*pes), (len(pes), 1))
    assert isinstance(decoded, WindowTimes)
    return decoded


@given(st.lists(st.tuples(st.integers(0, MAX_STAMP), st.integers(0, MAX_STAMP)), min_size=1, max_size=6))
def test_all_48_bits_are_read(pes: list[tuple[int, int]]) -> None:
    decoded = times(*pes)
    assert decoded.start.tolist() == [[start for start, _ in pes]]
    assert decoded.end.tolist() == [[end for _, end in pes]]


def test_the_window_reaches_from_the_first_start_to_the_last_end() -> None:
    assert times((10, 50), (12, 90), (11, 20)).cycles == 80


@pytest.mark.parametrize(
    "array", [np.zeros((1, 6), np.uint16), np.zeros((1, 2, 6), np.uint16), np.zeros((1, 1, 6), np.int64)]
)
def test_stamps_of_another_form_are_refused(array: np.ndarray) -> None:
    assert isinstance(decode_stamps(array, (1, 1)), str)


@pytest.mark.parametrize(
    ("pes", "reported", "launch", "message"),
    [
        ([(100, 200)], 100, (90, 260), None),
        ([(100, 200)], 100, None, None),
        ([(100, 200)], 99, None, "reports 99"),
        ([(100, 200), (0, 0)], 200, None, "never taken"),
        ([(100, 200), (150, 140)], 100, None, "end before they start"),
        ([(100, 109)], 9, None, "below the lower bound of 10"),
        ([(100, 200)], 100, (100, 180), "launch of only 80"),
        ([(100, 200)], 100, (100, 220 + LAUNCH_SLACK), "lie outside"),
    ],
)
def test_each_implausibility_is_named(
    pes: list[tuple[int, int]], reported: int, launch: tuple[int, int] | None, message: str | None
) -> None:
    found = check_timers(times(*pes), reported, lower_bound=10, launch=launch)
    if message is None:
        assert found == []
    else:
        assert message in found[0].message


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_higher_bound_never_makes_a_timer_plausible(cycles: int, low: int, high: int) -> None:
    low, high = sorted((low, high))
    measured = times((5, 5 + cycles))
    if check_timers(measured, cycles, lower_bound=low, launch=None):
        assert check_timers(measured, cycles, lower_bound=high, launch=None)


# --------------------------------------------------------------------------------- what the simulator itself saw


def seen(**changes: Any) -> RunEvidence:
    """Two PEs whose stamps (100, 200) and (100, 300) are true: the counter has been zero in cycle 50."""
    clocks = {
        "first_read": (150, 150),
        "first_value": (100, 100),
        "last_read": (250, 350),
        "last_value": (200, 300),
        "released": (328, 428),
        "ended": (335, 435),
        "issued": (240, 340),
    }
    own = {name: changes.pop(name) for name in list(changes) if name in clocks}
    return dataclasses.replace(RunEvidence(145, 428, 0, False, clocks | own), **changes)


def evidence_messages(evidence: RunEvidence, *pes: tuple[int, int]) -> list[str]:
    measured = times(*(pes or ((100, 200), (100, 300))))
    found = check_timers(measured, measured.cycles, lower_bound=10, launch=None, evidence=evidence)
    return [finding.message for finding in found]


def test_stamps_that_the_simulator_confirms_are_believed() -> None:
    assert evidence_messages(seen()) == []


def copy_of(symbol: str, changed: int, latest: int) -> tuple[Readback, ...]:
    return (Readback("x", 600, 0, -1), Readback(symbol, 700, changed, latest))


@pytest.mark.parametrize(
    "changes",
    [
        {"ended": (349, 435)},
        {"ended": (335, 428 + TAIL_SLACK)},
        {"released": (430, 428), "ended": (437, 435)},
        {"readbacks": copy_of("out", 1, 350)},
        {"readbacks": copy_of("window_stamps", 2, 435)},
    ],
    ids=["works for others", "leaves its loops", "serves while it returns", "stores for others", "stores the stamps"],
)
def test_what_a_pe_may_do_after_its_own_return(changes: dict[str, Any]) -> None:
    assert evidence_messages(seen(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "pes", "message"),
    [
        ({}, ((100, 200), (100, 299)), "the end stamp of 1 of 2 PEs is not what the counter gave: 299 instead of 300"),
        ({}, ((101, 200), (101, 300)), "the start stamp of 2 of 2 PEs is not what the counter gave"),
        ({"first_read": (-1, -1), "first_value": (-1, -1)}, (), "is not what the counter gave"),
        ({"last_value": (200, 290)}, ((100, 200), (100, 290)), "of 1 of 2 PEs was stopped or set"),
        (
            {"first_value": (100, 140), "last_value": (200, 340)},
            ((100, 200), (140, 340)),
            "240 cycles, but the simulator saw 200 between the first and the last stamp; "
            "the counters of the PEs began up to 40 cycles apart",
        ),
        ({"work_before": 3}, (), "PEs worked 3 cycles after the inputs had arrived"),
        ({"moves_before": True}, (), "data moved after the inputs had arrived"),
        ({"start": 120}, (), "took its start stamp 30 cycles after the launch"),
        ({"released": (328, 480), "ended": (335, 487)}, (), "returned 130 cycles after the last end stamp"),
        ({"ended": (329 + TAIL_SLACK, 435)}, (), "1 of 2 PEs worked on after the last end stamp, up to 43 cycles"),
        ({"readbacks": copy_of("out", 1, 351)}, (), "'out' of 1 of 2 PEs changed after their end stamps"),
        ({"ended": (335, 900)}, (), "up to 550 cycles"),
        ({"issued": (240, 351)}, (), "data still moved 1 cycles after the last end stamp"),
    ],
)
def test_each_contradiction_to_the_simulator_is_named(
    changes: dict[str, Any], pes: tuple[tuple[int, int], ...], message: str
) -> None:
    assert any(message in found for found in evidence_messages(seen(**changes), *pes))


def test_counters_that_began_together_are_not_blamed() -> None:
    found = evidence_messages(seen(last_value=(200, 290)), (100, 200), (100, 290))
    assert "190 cycles, but the simulator saw 200 between the first and the last stamp" in found


def test_work_before_a_launch_counts_from_the_first_copy_on() -> None:
    clocks = {name: [0] for name in CLOCK_FIELDS}
    activity = [("launch", 10, 0, -1), ("copy", 30, 9, -1), ("launch", 90, 29, 40)]
    content = {
        "launches": [{"name": "open", "start": 10, "end": 12}, {"name": "compute", "start": 90, "end": 120}],
        "activity": [dict(zip(("kind", "cycle", "busy", "issued"), item, strict=True)) for item in activity],
        "clocks": clocks,
        "readbacks": [
            {"symbol": name, "cycle": cycle, "changed": 1, "latest": 115} for name, cycle in (("a", 50), ("b", 130))
        ],
    }
    found = read_evidence(content, "compute")
    assert found is not None
    assert (found.start, found.end, found.work_before, found.moves_before) == (90, 120, 20, True)
    assert found.readbacks == (Readback("b", 130, 1, 115),)
    assert read_evidence(content, "other") is None
