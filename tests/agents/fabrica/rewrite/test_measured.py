"""The order of rewrites: what the static estimate expects, times the share of the measured cycles that they touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from fabrica_agent.rewrite.catalogue import CATALOGUE as REWRITES
from fabrica_agent.rewrite.catalogue import Proposal, Rewrite, Source
from fabrica_agent.rewrite.measured import hot_lines, promise, touched
from fabrica_agent.rewrite.search import search

TEXT = """// two loops
var x = @zeros([8]f32);
var y = @zeros([8]f32);
const x_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> x[i] });
const moved = @increment_dsd_offset(x_dsd, 1, f32);

fn compute() void {
  for (@range(u16, 8)) |i| {
    y[i] = 1.0;
  }
  @fmovs(moved, 0.0);
}
"""
FILL, MOVE = "    y[i] = 1.0;", "  @fmovs(moved, 0.0);"
OTHER_FILL = TEXT.replace(FILL, "    y[i] = 2.0;")
OTHER_MOVE = TEXT.replace(MOVE, "  @fmovs(moved, 2.0);")


def entry(name: str, changed: str, gain: float) -> Rewrite:
    def propose(source: Source) -> list[Proposal]:
        return [Proposal(changed, gain)] if source.text == TEXT else []

    return Rewrite(name, "none", "none", propose)


CATALOGUE = (entry("fill", OTHER_FILL, 100.0), entry("move", OTHER_MOVE, 60.0))


def tried(
    profile: Callable[[str], Mapping[int, float]] | None, catalogue: tuple[Rewrite, ...] = CATALOGUE
) -> list[str]:
    """The rewrites in the order in which they are measured, if none of them helps."""
    names: list[str] = []

    def measure(_: str, name: str) -> None:
        names.append(name)

    search(TEXT, 1000, {}, measure, catalogue, profile)
    return names


@pytest.mark.parametrize(
    ("shares", "order"),
    [
        ({9: 0.5, 11: 0.5}, ["fill", "move"]),
        ({9: 0.2, 11: 0.8}, ["move", "fill"]),  # 100 * 0.2 < 60 * 0.8
        ({9: 0.4, 11: 0.6}, ["fill", "move"]),  # 100 * 0.4 > 60 * 0.6
        ({11: 1.0}, ["move", "fill"]),
        ({2: 1.0}, ["fill", "move"]),  # both touch nothing that takes time: the estimate decides
        ({}, ["fill", "move"]),
    ],
)
def test_rewrites_of_what_takes_the_time_come_first(shares: dict[int, float], order: list[str]) -> None:
    assert tried(lambda _: shares) == order
    assert tried(None) == ["fill", "move"]


def test_a_profile_is_asked_for_only_where_there_is_something_to_order() -> None:
    asked: list[str] = []

    def profile(text: str) -> dict[int, float]:
        asked.append(text)
        return {}

    assert tried(profile, CATALOGUE[:1]) == ["fill"]
    assert tried(profile, (CATALOGUE[0], entry("the same", OTHER_FILL, 1.0))) == ["fill"]
    assert asked == []
    tried(profile)
    assert asked == [TEXT]


def test_each_text_is_profiled_anew() -> None:
    """After an accepted rewrite the cycles lie elsewhere."""
    asked: list[str] = []

    def profile(text: str) -> dict[int, float]:
        asked.append(text)
        return {9: 0.9, 11: 0.1} if text == TEXT else {9: 0.1, 11: 0.9}

    def then(source: Source) -> list[Proposal]:
        if source.text != OTHER_FILL:
            return []
        both = OTHER_FILL.replace(MOVE, "  @fmovs(moved, 3.0);")
        return [Proposal(both, 10.0), Proposal(OTHER_FILL.replace("2.0", "4.0"), 20.0)]

    costs = iter([900, 800])
    catalogue = (*CATALOGUE, Rewrite("then", "none", "none", then))
    found = search(TEXT, 1000, {}, lambda *_: next(costs, None), catalogue, profile)
    assert asked == [TEXT, OTHER_FILL]
    assert found.text == OTHER_FILL.replace(MOVE, "  @fmovs(moved, 3.0);")


def test_a_change_touches_the_lines_it_replaces() -> None:
    assert touched(TEXT, OTHER_FILL) == {9}
    assert touched(TEXT, TEXT.replace("// two loops", "// loops")) == set()


def test_a_changed_declaration_touches_what_uses_it() -> None:
    """Alone or through the descriptors made of it: a declaration takes no cycles itself."""
    assert touched(TEXT, TEXT.replace("var y = ", "var y: [8]f32 align(16) = ")) == {3, 9}
    assert touched(TEXT, TEXT.replace("var x = ", "var x: [8]f32 align(16) = ")) == {2, 11}


def test_what_is_promised_is_the_gain_times_the_share() -> None:
    hot = hot_lines("  pe.csl:9: 30\n  pe.csl:11: 50\n  window.csl:3: 20", "pe.csl")
    proposal = Proposal(OTHER_FILL, 200.0)
    assert promise(CATALOGUE[0], proposal, TEXT, hot) == pytest.approx(60.0)
    assert promise(CATALOGUE[0], proposal, TEXT, {}) == 200.0


def test_what_saves_time_between_lines_is_not_measured_by_lines() -> None:
    """A PE that waits for words or for the scheduler runs no line."""
    fewer = replace(entry("fewer exchanges", OTHER_MOVE, 60.0), between_lines=True)
    assert tried(lambda _: {9: 0.5, 11: 0.1}, (CATALOGUE[0], fewer)) == ["fewer exchanges", "fill"]
    named = {r.name for r in REWRITES if r.between_lines}
    assert named == {"larger pieces", "task fusion"}
