"""Proxy metrics of predictions, with values worked out by hand; chrF against sacrebleu itself."""

from __future__ import annotations

import pytest

from fabrica_bench.export.proxy import Prediction, proxy_scores

GOOD = 'param n: u16;\nvar x = @zeros([4]f32);\nvar p: [*]f32 = &x;\ncomptime {\n  @export_symbol(p, "x");\n}\n'
LOST = "var x = @zeros([4]f32);\nfn f() void {\n  @frobnicate(x);\n}\n"


def prediction(text: str, **more) -> Prediction:
    return Prediction(files={"pe.csl": text}, editable=("pe.csl",), params=("n",), exports=("x",), **more)


def test_shares_are_of_what_they_say() -> None:
    scores = proxy_scores([prediction(GOOD), prediction(LOST), prediction("fn ("), prediction(" ")])
    assert scores.predictions == 4
    assert scores.usable == 2 / 4
    assert scores.contract == 1 / 2
    assert scores.vocabulary == 3 / 4  # @zeros twice and @export_symbol exist, @frobnicate doesn't
    assert scores.chrf is None


def test_chrf_is_sacrebleus() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    scores = proxy_scores([prediction(LOST, reference={"pe.csl": GOOD}), prediction(GOOD, reference={"pe.csl": GOOD})])
    assert scores.chrf == pytest.approx(sacrebleu.corpus_chrf([LOST, GOOD], [[GOOD, GOOD]]).score)


def test_nothing_has_no_shares() -> None:
    scores = proxy_scores([])
    assert (scores.usable, scores.contract, scores.chrf, scores.vocabulary) == (None, None, None, None)
