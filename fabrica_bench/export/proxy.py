"""Proxy metrics of predicted programs: they need no toolchain, and say nothing about correctness.

- usable: the share of predictions with every editable file, none empty, that parse;
- contract: of these, the share that declares every param of the layout and exports every symbol;
- chrF: character n-gram F-score against a reference text (Popović, 2015), as sacrebleu computes it;
- vocabulary: the share of builtin calls that name a builtin which exists.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from fabrica_bench.csl import ast
from fabrica_bench.csl.builtins import load_all
from fabrica_bench.csl.builtins.registry import BUILTINS
from fabrica_bench.csl.diagnostics import CslError
from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.errors import ExitCode, FabricaError


class Prediction(BaseModel):
    """A predicted program: its files, what the layout wants of it, and a reference text to compare with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: dict[str, str]
    editable: tuple[str, ...]
    params: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    reference: dict[str, str] = {}


@dataclasses.dataclass(frozen=True)
class ProxyScores:
    """Shares from 0 to 1, chrF from 0 to 100; None where there is nothing to take the share of."""

    predictions: int
    usable: float | None
    contract: float | None
    chrf: float | None
    vocabulary: float | None


def proxy_scores(predictions: Sequence[Prediction]) -> ProxyScores:
    """Score predictions.

    Raises:
        FabricaError: sacrebleu isn't installed, and there are references to compare with.
    """
    load_all()
    trees = [_trees(prediction) for prediction in predictions]
    usable = [(p, t) for p, t in zip(predictions, trees, strict=True) if t is not None]
    calls = [
        call.name
        for _, t in usable
        for tree in t.values()
        for call in _nodes(tree)
        if isinstance(call, ast.BuiltinCall)
    ]
    return ProxyScores(
        predictions=len(predictions),
        usable=_share(len(usable), len(predictions)),
        contract=_share(sum(_keeps_contract(p, t) for p, t in usable), len(usable)),
        chrf=_chrf(predictions),
        vocabulary=_share(sum(name in BUILTINS for name in calls), len(calls)),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _trees(prediction: Prediction) -> dict[str, ast.File] | None:
    trees = {}
    for name in prediction.editable:
        text = prediction.files.get(name, "")
        if not text.strip():
            return None
        try:
            trees[name] = parse_file(virtual_source(name, text))
        except CslError:
            return None
    return trees


def _keeps_contract(prediction: Prediction, trees: Mapping[str, ast.File]) -> bool:
    params: set[str] = set()
    exports: set[str] = set()
    for tree in trees.values():
        for node in _nodes(tree):
            if isinstance(node, ast.VarDecl) and node.kind is ast.VarKind.PARAM:
                params.add(node.name)
            elif isinstance(node, ast.BuiltinCall) and node.name == "export_symbol" and node.args:
                last = node.args[-1]
                exports.add(last.value.decode() if isinstance(last, ast.StringLit) else getattr(last, "name", ""))
    return set(prediction.params) <= params and set(prediction.exports) <= exports


def _nodes(node: object) -> Iterator[object]:
    if isinstance(node, ast.Span | ast.SourceFile | ast.Comment):
        return
    if isinstance(node, ast.Node):
        yield node
    if isinstance(node, list | tuple):
        for item in node:
            yield from _nodes(item)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            yield from _nodes(getattr(node, field.name))


def _chrf(predictions: Sequence[Prediction]) -> float | None:
    pairs = [(p.files.get(n, ""), text) for p in predictions for n, text in sorted(p.reference.items())]
    if not pairs:
        return None
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise FabricaError(
            "chrF needs sacrebleu", remedy="pip install 'fabrica-bench[training]'", code=ExitCode.ENVIRONMENT
        ) from error
    return float(CHRF().corpus_score([guess for guess, _ in pairs], [[truth for _, truth in pairs]]).score)
