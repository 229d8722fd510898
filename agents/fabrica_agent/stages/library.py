"""The knowledge that a stage's prompt gets: primer, retrieved cards, lessons, and the nearest worked examples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fabrica_agent.knowledge.cards import load_cards, load_folder, primer_text
from fabrica_agent.knowledge.index import Bm25, words
from fabrica_agent.stages.settings import Knowledge, Settings
from fabrica_bench.plugins import WorkedExample

MAX_CARD_CHARS: Final = 9000
"""Of all cards in one prompt together."""

KNOWLEDGE_VARIABLE: Final = "FABRICA_AGENT_KB_FOLDER"
MAX_EXAMPLE_CHARS: Final = 30_000


class Library:
    """Knowledge as the settings allow it.

    Args:
        settings: The tier, and how many cards.
        arch: Cards for another target only are left out.
    """

    def __init__(self, settings: Settings, arch: str) -> None:
        self._settings = settings
        cards = load_cards() if self.retrieves else []
        folder = os.environ.get(KNOWLEDGE_VARIABLE)
        if self.retrieves and folder:
            cards = [*cards, *load_folder(Path(folder))]
        self._cards = [card for card in cards if card.arch in (None, arch)]
        self._indices: dict[str, Bm25] = {}

    @property
    def retrieves(self) -> bool:
        """Whether this tier retrieves anything."""
        return self._settings.knowledge is Knowledge.FULL

    def primer(self, role: str) -> str:
        """The primer, empty in the tier without it."""
        return "" if self._settings.knowledge is Knowledge.NO_PRIMER else primer_text()

    def cards(self, role: str, query: str, count: int | None = None) -> str:
        """The cards of a role that fit a query best, as a block of the prompt; empty when there are none."""
        mine = [card for card in self._cards if role in card.roles]
        if not mine:
            return ""
        index = self._indices.setdefault(role, Bm25([f"{card.title} {card.tags} {card.body}" for card in mine]))
        room, parts = MAX_CARD_CHARS, []
        for number in index.best(query, count or self._settings.cards):
            text = f"[{mine[number].title}]\n{mine[number].body.strip()}"
            if len(text) <= room:
                parts.append(text)
                room -= len(text)
        return "Cards from the knowledge base\n---\n" + "\n\n".join(parts) if parts else ""

    def nearest(self, examples: list[WorkedExample], cuda: str, count: int) -> list[WorkedExample]:
        """The examples whose CUDA is most like the task's, within a size that a prompt can bear."""
        fitting = [e for e in examples if sum(map(len, e.files.values())) + len(e.cuda) <= MAX_EXAMPLE_CHARS]
        order = Bm25([example.cuda for example in fitting]).best(" ".join(sorted(set(words(cuda)))), count)
        return [fitting[number] for number in order]
