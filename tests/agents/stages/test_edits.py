"""The catalogue's order: by what a scan finds, and by where a profile says that the cycles go."""

from __future__ import annotations

from fabrica_agent.rewrite.measured import hot_lines
from fabrica_agent.stages.edits import ranked

PROGRAM = """fn compute() void {
  for (@range(u16, 8)) |i| {
    const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{4} -> a[k] });
    @fadds(d, d, 1.0);
  }
  for (@range(u16, 100)) |i| {
    b[i] = b[i] * 2.0;
  }
}
"""


def profile(**cycles: int) -> str:
    lines = [f"  pe.csl:{name[1:]}: {count}" for name, count in cycles.items()]
    return "\n".join(["1000 cycles on 1 PE(s); busy 90% of the time", "main-thread cycles by line, all PEs:", *lines])


def order(hot: dict[int, float]) -> list[str]:
    names = [e.name for e in ranked({"pe.csl": PROGRAM}, "pe.csl", hot)]
    return [n for n in names if n in ("bulk operations", "descriptor chaining")]


def test_a_profile_gives_the_share_of_each_line_of_the_file() -> None:
    text = profile(l3=300, l7=100) + "\n  window.csl:4: 100\noperations:\n  name fadds, cycles 12"
    assert hot_lines(text, "pe.csl") == {3: 0.6, 7: 0.2}
    assert hot_lines("no profile: it does not compile", "pe.csl") == {}


def test_edits_of_what_takes_the_time_come_first() -> None:
    """Line 3 asks for one edit, line 7 for the other; the scan alone puts the latter first."""
    assert order({}) == ["bulk operations", "descriptor chaining"]
    assert order(hot_lines(profile(l3=900, l7=100), "pe.csl")) == ["descriptor chaining", "bulk operations"]
    assert order(hot_lines(profile(l3=100, l7=900), "pe.csl")) == ["bulk operations", "descriptor chaining"]
