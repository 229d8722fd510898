"""Okapi BM25 over short texts: small, deterministic, without a dependency.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), equation 3.15, with the usual
k1 = 1.2 and b = 0.75; the inverse document frequency is kept positive by adding 1 inside the logarithm.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

K1: Final = 1.2
B: Final = 0.75

_WORD: Final = re.compile(r"@?[A-Za-z_][A-Za-z0-9_]*|\d+")
_PARTS: Final = re.compile(r"[A-Za-z][a-z]*|\d+")
_STOP: Final = frozenset(
    "a an and are as at be by for from has in is it its of on or that the this to which with not".split()  # noqa: SIM905
)


def words(text: str) -> list[str]:
    """Terms of a text: names whole (`@get_dsd`, `mem1d_dsd`) and in their parts, lower case, without small words."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match.group().lower()
        if word in _STOP:
            continue
        found.append(_stem(word))
        if "_" in word or word.startswith("@"):
            found += [_stem(part) for part in _PARTS.findall(word) if part not in _STOP and part != word]
    return found


def _stem(word: str) -> str:
    """Without the plural's s: queue and queues are one term."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") and word[0] != "@" else word


class Bm25:
    """An index over documents.

    Args:
        documents: Their texts; `best` gives positions in this list.
    """

    def __init__(self, documents: Sequence[str]) -> None:
        self._counts = [Counter(words(text)) for text in documents]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / len(self._lengths) if self._lengths else 0.0
        self._holders = Counter(term for counts in self._counts for term in counts)

    def scores(self, query: str) -> list[float]:
        """The score of every document; 0 where no term of the query occurs."""
        terms = Counter(words(query))
        return [sum(self._score(term, number) for term in terms) for number in range(len(self._counts))]

    def best(self, query: str, count: int) -> list[int]:
        """Positions of the best documents with a positive score, best first; equal ones in their order."""
        scores = self.scores(query)
        order = sorted((n for n in range(len(scores)) if scores[n] > 0), key=lambda n: (-scores[n], n))
        return order[:count]

    def _score(self, term: str, number: int) -> float:
        frequency = self._counts[number][term]
        if not frequency:
            return 0.0
        holders = self._holders[term]
        rarity = math.log(1 + (len(self._counts) - holders + 0.5) / (holders + 0.5))
        length = K1 * (1 - B + B * self._lengths[number] / self._mean)
        return rarity * frequency * (K1 + 1) / (frequency + length)
