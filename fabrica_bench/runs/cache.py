"""Finished evaluations by content key: shared by the jobs of a run, kept in its records, and between runs on disk.

Only the coordinator reads and writes here. Jobs ask it over their channel, and neither agents nor candidates can reach
either: their processes may not write outside their own folders. Where the kernel can't hold them to that, nothing is
kept between runs.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fabrica_bench.json_text import parse_json
from fabrica_bench.scoring.validity import Evaluation
from fabrica_bench.scoring.verdict import PredicateResult
from fabrica_bench.toolchains.landlock import landlock_abi

CACHE_VARIABLE: Final = "FABRICA_BENCH_EVALUATIONS"
OFF: Final = "off"
MOST_FILES: Final = 50_000
"""Files kept between runs, some 4 KB each; the older half goes when there are more."""


def evaluation_to_json(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON values."""
    return {
        "results": [result.model_dump(mode="json") for result in evaluation.results],
        "samples": list(evaluation.samples),
        "log": evaluation.log,
        "isolation": dict(evaluation.isolation),
    }


def evaluation_from_json(value: Mapping[str, Any]) -> Evaluation:
    """Inverse of `evaluation_to_json`.

    Raises:
        ValueError: It isn't one.
    """
    try:
        results = tuple(PredicateResult.model_validate(item) for item in value["results"])
        samples = tuple(int(sample) for sample in value["samples"])
        return Evaluation(results, samples, str(value["log"]), dict(value.get("isolation", {})))
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"not an evaluation: {error}") from error


def shared_folder() -> Path | None:
    """$FABRICA_BENCH_EVALUATIONS (`off`: none), else fabrica-bench/evaluations in the user's cache folder.

    None as well where the kernel can't keep candidates from writing there.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen == OFF or not landlock_abi():
        return None
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(cache) if cache else Path.home() / ".cache") / "fabrica-bench" / "evaluations"
    except RuntimeError:  # no home folder
        return None


class EvaluationCache:
    """Evaluations in memory and, with a folder, on disk.

    Args:
        folder: Where they are kept between runs; None keeps nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}

    def learn(self, key: str, value: Mapping[str, Any]) -> None:
        """Take over an evaluation from a run's records."""
        self._known[key] = dict(value)

    def holds_in_run(self, key: str) -> bool:
        """Whether it is among this run's own, or has been taken over into it."""
        return key in self._known

    def find(self, key: str) -> dict[str, Any] | None:
        """The evaluation's JSON values, or None. A damaged file counts as none."""
        if key in self._known:
            return self._known[key]
        if self._folder is None:
            return None
        try:
            stored = parse_json(self._path(key).read_bytes())
            if stored["key"] != key:
                return None
            evaluation_from_json(stored["evaluation"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        self._known[key] = stored["evaluation"]
        return self._known[key]

    def keep(self, key: str, value: Mapping[str, Any]) -> None:
        """Store an evaluation; a folder that can't be written keeps nothing, which costs time and no result."""
        self._known[key] = dict(value)
        if self._folder is None:
            return
        path = self._path(key)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_text(json.dumps({"key": key, "evaluation": value}), encoding="utf-8")
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def prune(self) -> None:
        """Remove the older half of too many files."""
        if self._folder is None:
            return
        try:
            files = list(self._folder.glob("*/*.json"))
            if len(files) > MOST_FILES:
                for path in sorted(files, key=lambda path: path.stat().st_mtime)[: len(files) // 2]:
                    path.unlink(missing_ok=True)
        except OSError:
            return  # another process prunes

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / key[:2] / f"{key[2:]}.json"
