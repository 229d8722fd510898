"""Names for sets of PEs: rectangles instead of long lists."""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT_LIMIT = 6


def pe_list(positions: Iterable[tuple[int, int]], limit: int = DEFAULT_LIMIT) -> str:
    """`PE(0..3,2), PE(5,0..1)`: the set as rectangles, at most `limit` of them."""
    blocks = _blocks(set(positions))
    shown = ", ".join(f"PE({_span(left, right)},{_span(top, bottom)})" for left, right, top, bottom in blocks[:limit])
    hidden = sum((right - left + 1) * (bottom - top + 1) for left, right, top, bottom in blocks[limit:])
    return f"{shown} and {hidden} more PE(s)" if hidden else shown


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _blocks(positions: set[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Disjoint rectangles (left, right, top, bottom): runs of a row, merged with equal runs of the rows below."""
    runs: dict[int, list[tuple[int, int]]] = {}
    for x, y in sorted(positions, key=lambda at: (at[1], at[0])):
        row = runs.setdefault(y, [])
        if row and row[-1][1] == x - 1:
            row[-1] = (row[-1][0], x)
        else:
            row.append((x, x))
    done: list[tuple[int, int, int, int]] = []
    open_: dict[tuple[int, int], tuple[int, int]] = {}
    for y in sorted(runs):
        growing: dict[tuple[int, int], tuple[int, int]] = {}
        for run in runs[y]:
            top, bottom = open_.get(run, (y, y))
            growing[run] = (top, y) if bottom in (y, y - 1) else (y, y)
        done += [(*run, *rows) for run, rows in open_.items() if run not in growing or growing[run][0] != rows[0]]
        open_ = growing
    done += [(*run, *rows) for run, rows in open_.items()]
    return sorted(done, key=lambda block: (block[2], block[0]))
