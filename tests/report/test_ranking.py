"""Who is ranked, who isn't and why; and that every view of a ranking says the same."""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import replace

import pytest
from helpers.many_runs import CORE, invalid, write_run
from helpers.sample_run import make_valid

from fabrica_bench.report.data import load_report
from fabrica_bench.report.document import build_document
from fabrica_bench.report.leaderboard import RENDERERS, exclude, load_entries, write_leaderboard
from fabrica_bench.report.ranking import Entry, compare_entries, rank
from fabrica_bench.scoring.statistics import NOT_DISTINGUISHABLE
from fabrica_bench.scoring.verdict import Predicate

BOARD = (
    ("reference", 28, True),
    ("null", 0, True),
    ("copycat", 0, True),
    ("cheat", 0, True),
    ("a", 12, False),
    ("b", 20, False),
)
WRONG = invalid(Predicate.CORRECT, "wrong")


def make_entry(tmp_path, agent, passes, *, cycles=500, verified=True, control=False, tasks=CORE, excluded=""):
    verdicts = {task: make_valid(cycles, 1000) if i < passes else WRONG for i, task in enumerate(tasks)}
    folder = tmp_path / agent
    if not folder.exists():
        write_run(folder, agent, verdicts, control=control)
    return Entry(agent, load_report(folder), verified, excluded)


@pytest.fixture
def controls(tmp_path):
    return [
        make_entry(tmp_path, "reference", len(CORE), cycles=1000, control=True),
        *(make_entry(tmp_path, name, 0, control=True) for name in ("null", "copycat", "cheat")),
    ]


def test_the_better_is_first_and_the_order_of_the_entries_does_not_matter(tmp_path, controls):
    entries = [make_entry(tmp_path, name, passes) for name, passes in (("a", 5), ("b", 20), ("c", 12))]
    expected = [("b", 1), ("c", 2), ("a", 3), *((name, None) for name in ("cheat", "copycat", "null", "reference"))]
    for seed in range(5):
        shuffled = [*entries, *controls]
        random.Random(seed).shuffle(shuffled)
        got = [(item.entry.name, item.rank) for item in rank(shuffled)]
        assert got[:3] == expected[:3]
        assert sorted(got[3:]) == expected[3:]


def test_equal_results_share_a_rank(tmp_path, controls):
    ranks = {i.entry.name: i.rank for i in rank([*controls, *(make_entry(tmp_path, n, 9) for n in "ab")])}
    assert (ranks["a"], ranks["b"]) == (1, 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"verified": False}, "not verified"),
        ({"excluded": "memoises its inputs"}, "excluded: memoises its inputs"),
        ({"tasks": CORE[:5]}, "no whole set"),
    ],
)
def test_what_is_not_to_be_trusted_is_shown_without_a_rank(tmp_path, controls, change, reason):
    items = rank([*controls, make_entry(tmp_path, "good", 4), make_entry(tmp_path, "odd", 5, **change)])
    (odd,) = [item for item in items if item.entry.name == "odd"]
    assert odd.rank is None
    assert any(reason in text for text in odd.reasons)
    assert [item.rank for item in items if item.entry.name == "good"] == [1]


def test_a_partial_run_is_shown_as_partial(tmp_path, controls):
    folder = write_run(tmp_path / "part", "part", {task: make_valid(1, 2) for task in CORE})
    lines = (folder / "records.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:-3]), encoding="utf-8")
    (item,) = [i for i in rank([*controls, Entry("part", load_report(folder), True)]) if not i.control]
    assert item.rank is None
    assert f"partial: 3 of {len(CORE)} attempts are owed" in item.reasons


def test_without_controls_that_hold_nobody_is_ranked(tmp_path, controls):
    entry = make_entry(tmp_path, "a", 5)
    (alone,) = rank([entry])
    assert any(
        "no verified control in this track: reference, null, copycat, cheat" in reason for reason in alone.reasons
    )
    broken = make_entry(tmp_path, "cheat too", 1, control=True)
    (item,) = [i for i in rank([entry, *controls, broken]) if not i.control]
    assert any("control cheat too does not hold" in reason for reason in item.reasons)
    # Somebody's bad control must not take the track from the others for ever, and an excluded one vouches for nobody.
    withdrawn = replace(broken, excluded="not a control of ours")
    ranked = rank([entry, *controls, withdrawn])
    assert [i.rank for i in ranked if not i.control] == [1]
    assert "control: excluded: not a control of ours" in RENDERERS["html"](
        build_document([entry, *controls, withdrawn])
    )
    (item,) = [i for i in rank([entry, *(replace(c, excluded="x") for c in controls)]) if not i.control]
    assert any("no verified control in this track: reference" in reason for reason in item.reasons)


def test_attempts_that_break_the_rules_are_counted_and_never_valid(tmp_path, controls):
    verdicts = dict.fromkeys(CORE, invalid(Predicate.TIMING, "3 cycles, below the lower bound"))
    entry = Entry("hacker", load_report(write_run(tmp_path / "hacker", "hacker", verdicts)), True)
    (item,) = [i for i in rank([entry, *controls]) if not i.control]
    assert (item.figures.rule_breaks, item.figures.valid) == (len(CORE), 0)
    assert "breaks the rules (Timing)" in RENDERERS["html"](build_document([entry, *controls]))


def test_neighbours_are_compared_in_words(tmp_path):
    first, second, third = (make_entry(tmp_path, n, p) for n, p in (("a", 20), ("b", 19), ("c", 2)))
    assert NOT_DISTINGUISHABLE in compare_entries(first, second)[0]
    assert compare_entries(first, third)[0].startswith("a passes more")


@pytest.fixture
def board(tmp_path):
    """A leaderboard folder whose entries were put there by hand."""
    root = tmp_path / "board" / "entries"
    verdicts = {task: make_valid(400, 1000) for task in CORE}
    for name, passes, control in BOARD:
        chosen = {task: v if i < passes else WRONG for i, (task, v) in enumerate(verdicts.items())}
        write_run(root / name, name, chosen, control=control)
        (root / name / "verification.json").write_text("{}", encoding="utf-8")
    return tmp_path / "board"


def test_every_view_has_the_same_ranks_and_the_same_bytes_again(board):
    first = {path: path.read_bytes() for path in write_leaderboard(board)}
    assert {path: path.read_bytes() for path in write_leaderboard(board)} == first
    expected = [("b", 1), ("a", 2)]
    body = json.loads((board / "leaderboard.json").read_text(encoding="utf-8"))
    assert [(entry["name"], entry["rank"]) for entry in body["entries"][:2]] == expected
    rows = list(csv.DictReader(io.StringIO((board / "leaderboard.csv").read_text(encoding="utf-8"))))
    assert [(row["name"], int(row["rank"])) for row in rows[:2]] == expected
    text = (board / "leaderboard.md").read_text(encoding="utf-8")
    assert text.index("| 1 | b |") < text.index("| 2 | a |")
    page = (board / "leaderboard.html").read_text(encoding="utf-8")
    assert page.index('<td class="name">b</td>') < page.index('<td class="name">a</td>')


def test_an_exclusion_is_shown_with_its_reason_and_can_be_taken_back(board):
    exclude(board, "r-b", "replays outputs")
    (item,) = [i for i in rank(load_entries(board)) if i.entry.name == "b"]
    assert item.rank is None
    write_leaderboard(board)
    assert "replays outputs" in (board / "leaderboard.html").read_text(encoding="utf-8")
    exclude(board, "r-b", "")
    assert [i.rank for i in rank(load_entries(board)) if i.entry.name == "b"] == [1]


def test_an_entry_without_a_verification_is_not_ranked(board):
    (board / "entries" / "b" / "verification.json").unlink()
    assert [i.rank for i in rank(load_entries(board)) if i.entry.name == "b"] == [None]
