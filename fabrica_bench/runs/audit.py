"""`audit_run`: does a revealed key belong to a run, and were its held-out inputs those it committed itself to?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fabrica_bench.json_text import parse_json
from fabrica_bench.errors import FabricaError, from_os_error
from fabrica_bench.runs.records import VerdictRecord
from fabrica_bench.runs.store import MANIFEST_NAME, RECORDS_NAME, RunStore
from fabrica_bench.scoring.inputs import HELD_OUT_COUNT
from fabrica_bench.scoring.verdict import NotScored, parse_verdict
from fabrica_bench.tasks.seeds import HeldOutKey, commitment

SUITE: Final = "suite"


@dataclass(frozen=True)
class Audit:
    """What was found.

    Attributes:
        checked: Commitments that were compared.
        problems: One sentence for each thing that is not as it should be.
    """

    run_dir: Path
    checked: int
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.checked > 0 and not self.problems

    def to_json(self) -> dict[str, Any]:
        """JSON values for `--json` output."""
        return {"run_dir": str(self.run_dir), "ok": self.ok, "checked": self.checked, "problems": list(self.problems)}


def audit_run(run_dir: Path, key: HeldOutKey) -> Audit:
    """Compare a run's commitments with the seeds that follow from a key.

    Args:
        run_dir: The run folder; it is only read.
        key: The revealed key.

    Raises:
        FabricaError: The folder holds no run, or a damaged one.
    """
    store = RunStore.open(run_dir)
    manifest = store.manifest
    problems: list[str] = []
    checked = 0
    if key.fingerprint != manifest.key_fingerprint:
        problems.append(f"the run used key {manifest.key_fingerprint}, this is {key.fingerprint}")
    seeds: dict[str, list[int]] = {}
    suite = manifest.versions[SUITE]
    for task in manifest.tasks:
        committed = manifest.commitments.get(task, ())
        problems += _too_few(task, committed)
        seeds[task] = [key.seed(suite, task, index) for index in range(len(committed))]
        for index, (seed, given) in enumerate(zip(seeds[task], committed, strict=True)):
            checked += 1
            if commitment(seed) != given:
                problems.append(f"{task}: the commitment of held-out input {index} is not that of the key's seed")
    for record in store.records():
        if not isinstance(record, VerdictRecord):
            continue
        if not record.commitments and isinstance(record.verdict, NotScored):
            continue  # nothing was run on any input
        checked += len(record.commitments)
        if record.commitments != manifest.commitments.get(record.task):
            problems.append(f"{record.task} #{record.attempt} was scored on other held-out inputs than committed to")
    problems += _revealed(store, key, seeds)
    return Audit(run_dir, checked, tuple(problems))


def audit_verdict(path: Path, key: HeldOutKey) -> Audit:
    """Compare the commitments of one verdict with the seeds that follow from a key.

    Args:
        path: A verdict as JSON (`verdict_bytes`), or what `fabrica-bench score --json` wrote.
        key: The revealed key.

    Raises:
        FabricaError: The file can't be read, or holds no verdict with commitments.
    """
    remedy = "name a run folder, or a file with the JSON of a verdict of `fabrica_bench.score`"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise from_os_error(error) from error
    try:
        data = parse_json(text)
        verdict = parse_verdict(json.dumps(data["verdict"]) if "verdict" in data else text)
    except (ValueError, TypeError) as error:
        raise FabricaError("holds no verdict", place=str(path), remedy=remedy) from error
    if verdict.held_out is None:
        raise FabricaError("the verdict has no commitments", place=str(path), remedy=remedy)
    facts = verdict.held_out
    problems = [*facts.problems(key), *_too_few(facts.task, facts.commitments)]
    if key.reveal() in text:
        problems.append(f"{path.name} holds the key")
    return Audit(path, len(verdict.held_out.commitments), tuple(problems))


def _too_few(task: str, commitments: Sequence[str]) -> list[str]:
    """A sentence if there were fewer held-out inputs than a verdict rests on: left-out commitments compare with nothing."""
    found = len(commitments)
    return [] if found == HELD_OUT_COUNT else [
        f"{task}: {found} instead of {HELD_OUT_COUNT} held-out inputs are committed to"
    ]


def _revealed(store: RunStore, key: HeldOutKey, seeds: dict[str, list[int]]) -> list[str]:
    """Places in the run folder that held the key or a seed before they were revealed."""
    secrets = {"the key": key.reveal()}
    secrets |= {f"a seed of {task}": str(seed) for task, several in seeds.items() for seed in several}
    problems = []
    for name in (MANIFEST_NAME, RECORDS_NAME):
        path = store.run_dir / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        problems += [f"{name} holds {what}" for what, secret in secrets.items() if secret in text]
    return problems
