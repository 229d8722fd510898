"""BM25 against its formula, written a second time with arrays; terms; what is found."""

from __future__ import annotations

import numpy as np
import pytest
from fabrica_agent.knowledge.cards import ROLES, load_cards
from fabrica_agent.knowledge.index import Bm25, words
from fabrica_agent.stages.library import MAX_CARD_CHARS, Library
from fabrica_agent.stages.settings import Settings
from hypothesis import given
from hypothesis import strategies as st

TEXTS = ["queue color queue task", "task descriptor", "color color color wavelet route", "memory bank stride memory"]


def by_arrays(documents: list[str], query: str) -> np.ndarray:
    """Robertson and Zaragoza (2009), k1 = 1.2, b = 0.75, with the logarithm kept positive."""
    split = [words(text) for text in documents]
    length = np.array([len(terms) for terms in split])
    total = np.zeros(len(documents))
    for term in set(words(query)):
        frequency = np.array([terms.count(term) for terms in split], dtype=float)
        holders = (frequency > 0).sum()
        rarity = np.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        total += rarity * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length / length.mean()))
    return total


@pytest.mark.parametrize("query", ["queue", "color task", "memory stride wavelet", "queue queue route"])
def test_scores_are_those_of_the_formula(query: str) -> None:
    assert Bm25(TEXTS).scores(query) == pytest.approx(by_arrays(TEXTS, query).tolist())


@given(
    st.lists(st.text(st.sampled_from("ab @_1"), max_size=20), max_size=6),
    st.text(st.sampled_from("ab @_1"), max_size=12),
)
def test_only_what_shares_a_term_is_found_best_first(documents: list[str], query: str) -> None:
    index = Bm25(documents)
    scores, best = index.scores(query), index.best(query, 3)
    assert all(scores[n] > 0 and set(words(query)) & set(words(documents[n])) for n in best)
    assert [scores[n] for n in best] == sorted((s for s in scores if s > 0), reverse=True)[:3]


def test_names_are_terms_whole_and_in_parts() -> None:
    assert words("@get_dsd(mem1d_dsd) of the Queues") == [
        "@get_dsd",
        "get",
        "dsd",
        "mem1d_dsd",
        "mem",
        "1",
        "d",
        "dsd",
        "queue",
    ]


@pytest.mark.parametrize(
    ("role", "query", "title"),
    [
        ("reviewer", "error: expected type 'f32', got: 'i16'", "Expected type 'f32', got an integer"),
        ("reviewer", "deadlock fabin waits for an empty queue", "Deadlock: waiting to receive"),
        ("architect", "all-reduce over the mesh", "All-reduce"),
        ("implementer", "@fmacs scalar axpy", "Multiply-add"),
        ("optimizer", "memory bank conflict stride padding", "Memory banks and strides"),
        ("analyst", "warp shuffle reduction", "Warp shuffles"),
    ],
)
def test_a_role_finds_the_card_that_it_needs(role: str, query: str, title: str) -> None:
    assert f"[{title}]" in Library(Settings(), "wse3").cards(role, query, 3)


def test_cards_are_filtered_by_role_target_and_room() -> None:
    library = Library(Settings(cards=30), "wse2")
    for role in ROLES:
        text = library.cards(role, "data task queue color wse3 wse2 wavelet", 30)
        shown = {card.title for card in load_cards() if f"[{card.title}]" in text}
        assert shown
        for card in load_cards():
            if card.title in shown:
                assert role in card.roles
                assert card.arch in (None, "wse2")
        assert len(text) < MAX_CARD_CHARS + 500
