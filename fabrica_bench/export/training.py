"""Supervised and preference records from turns: filtered, deduplicated, capped per kernel, screened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.export.turns import Turn
from fabrica_bench.firewall.screening import leaks
from fabrica_bench.integrity.leakage import tokens
from fabrica_bench.json_text import json_text
from fabrica_bench.tasks import Task, list_tasks

Kind = Literal["sft", "preference"]


@dataclass
class Dropped:
    """How many turns each filter took, by its name."""

    counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, reason: str) -> None:
        self.counts[reason] += 1


@dataclass(frozen=True)
class Filters:
    """What may go into training data.

    Attributes:
        cap: Records per kernel at most, None for no cap.
        benchmark_disjoint: Leave out every task of the test split.
        labels: Turn labels that supervised records may have.
    """

    cap: int | None = 20
    benchmark_disjoint: bool = True
    labels: frozenset[int] = frozenset((1,))


def supervised(turns: Sequence[Turn], filters: Filters, dropped: Dropped) -> list[dict[str, Any]]:
    """One record per turn that remains: messages, label, and where it comes from."""
    seen: set[str] = set()
    records = []
    for turn in _usable(turns, filters, dropped):
        if turn.label not in filters.labels:
            dropped("label")
            continue
        text = _fingerprint(turn)
        if text in seen:
            dropped("duplicate")
            continue
        seen.add(text)
        messages = [
            {"role": "system", "content": turn.system},
            {"role": "user", "content": turn.user},
            {"role": "assistant", "content": turn.completion},
        ]
        records.append({"messages": messages, "label": turn.label, **_origin(turn)})
    return _capped(records, filters.cap, dropped)


def preferences(turns: Sequence[Turn], filters: Filters, dropped: Dropped) -> list[dict[str, Any]]:
    """Pairs of adjacent turns of one attempt and one design, the first failed, the second passed.

    Both answers stand under the prompt of the failed turn: a preference needs the same prompt, and the later prompt
    holds the failed program itself.
    """
    seen: set[tuple[str, str]] = set()
    records = []
    for first, second in pairwise(_usable(turns, filters, dropped)):
        same = (first.run, first.task, first.attempt) == (second.run, second.task, second.attempt)
        if not same or second.number != first.number + 1 or first.passed or not second.passed:
            continue
        if first.epoch != second.epoch:
            dropped("architecture reset")
            continue
        key = (_fingerprint(first), _fingerprint(second))
        if key in seen or key[0] == key[1]:
            dropped("duplicate")
            continue
        seen.add(key)
        prompt = [{"role": "system", "content": first.system}, {"role": "user", "content": first.user}]
        records.append(
            {
                "prompt": prompt,
                "chosen": [{"role": "assistant", "content": second.completion}],
                "rejected": [{"role": "assistant", "content": first.completion}],
                "rejected_outcome": first.outcome,
                **_origin(second),
            }
        )
    return _capped(records, filters.cap, dropped)


def _usable(turns: Sequence[Turn], filters: Filters, dropped: Dropped) -> list[Turn]:
    tasks = {task.name: task for task in list_tasks()}
    last_epoch: dict[tuple[str, str, int], int] = {}
    for turn in turns:
        last_epoch[turn.run, turn.task, turn.attempt] = turn.epoch
    kept = []
    for turn in turns:
        task = tasks.get(turn.task)
        if filters.benchmark_disjoint and (task is None or task.spec.split == "test"):
            dropped("benchmark task")
        elif not turn.evaluated:
            dropped("not evaluated")
        elif turn.epoch != last_epoch[turn.run, turn.task, turn.attempt]:
            dropped("architecture reset")
        elif _leaks(turn, tasks.values()):
            dropped("leak")
        else:
            kept.append(turn)
    return kept


def _leaks(turn: Turn, tasks: Iterable[Task]) -> bool:
    """Whether a prompt holds a hidden kernel, or prompt or answer that of another task of the test split."""
    for task in tasks:
        if task.name != turn.task and task.spec.split != "test":
            continue
        texts = [turn.user] if task.name == turn.task else [turn.user, turn.completion]
        if any(leaks(text, task, "W1") for text in texts):
            return True
    return False


def _fingerprint(turn: Turn) -> str:
    """What makes two answers the same: their tokens, without comments, layout, and the choice of names."""
    return f"{turn.task}\0" + " ".join(tokens(turn.completion))


def _origin(turn: Turn) -> dict[str, Any]:
    return {
        "task": turn.task,
        "run": turn.run,
        "attempt": turn.attempt,
        "turn": turn.number,
        "model": turn.model,
        "outcome": turn.outcome,
    }


def _capped(records: list[dict[str, Any]], cap: int | None, dropped: Dropped) -> list[dict[str, Any]]:
    counts: Counter[str] = Counter()
    kept = []
    for record in records:
        counts[record["task"]] += 1
        if cap is not None and counts[record["task"]] > cap:
            dropped("cap per kernel")
        else:
            kept.append(record)
    return kept


def write_records(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """Write JSON Lines (`.jsonl`) or Parquet (`.parquet`), both as `datasets` loads them.

    Raises:
        FabricaError: Another suffix, no pyarrow for Parquet, or the file can't be written.
    """
    writers: dict[str, Callable[[Path, Sequence[dict[str, Any]]], None]] = {".jsonl": _jsonl, ".parquet": _parquet}
    writer = writers.get(path.suffix)
    if writer is None:
        raise FabricaError(
            f"unknown suffix {path.suffix!r}", place=str(path), remedy="use .jsonl or .parquet", code=ExitCode.USAGE
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writer(path, records)
    except OSError as error:
        raise from_os_error(error) from error


def _jsonl(path: Path, records: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json_text(record) + "\n" for record in records), encoding="utf-8")


def _parquet(path: Path, records: Sequence[dict[str, Any]]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise FabricaError(
            "Parquet needs pyarrow",
            place=str(path),
            remedy="pip install 'fabrica-bench[training]', or write .jsonl",
            code=ExitCode.ENVIRONMENT,
        ) from error
    pq.write_table(pa.Table.from_pylist(list(records)), path)
