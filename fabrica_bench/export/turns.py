"""The turns of a run's translations: what a model was asked, what it wrote, and how that turned out.

Nothing is taken from what an agent claims. A turn is a recorded model call whose answer holds files; it passed when the
harness itself found exactly these files valid on the visible inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fabrica_bench.models.replay import MODEL_CALL
from fabrica_bench.runs.records import AgentEvent, AnyRecord, Evaluation
from fabrica_bench.runs.store import RunStore

WRITING_STAGES: Final = frozenset(("implementer", "single-shot"))
"""Stages whose answers are translations; an optimizer's edit starts from a program that is right already."""

DESIGN_STAGES: Final = frozenset(("architect",))
"""A call of one of these after a translation starts a new design: what came before belongs to the old one."""


@dataclass(frozen=True)
class Turn:
    """One translation by a model.

    Attributes:
        run, task, attempt: Where it comes from.
        number: Turn within the attempt, from 1 on.
        epoch: Designs before this one.
        model, stage: Who answered what.
        system, user: The prompt.
        files: The answer's files by name.
        passed: Found valid on the visible inputs.
        evaluated: Run on the visible inputs, or found not to compile.
        outcome: What the harness said last about it.
        label: Equation 3 of the paper: 1 passed; 0 failed, but a later turn of the same attempt passed; -1 otherwise.
    """

    run: str
    task: str
    attempt: int
    number: int
    epoch: int
    model: str
    stage: str
    system: str
    user: str
    files: dict[str, str]
    passed: bool
    evaluated: bool
    outcome: str
    label: int

    @property
    def completion(self) -> str:
        """The files as one text."""
        return "\n".join(f"=== {name} ===\n{text.rstrip()}" for name, text in sorted(self.files.items())) + "\n"


def read_turns(run_dirs: Iterable[Path]) -> list[Turn]:
    """Every turn of the runs, attempt by attempt in order.

    Raises:
        FabricaError: A folder holds no run.
    """
    turns: list[Turn] = []
    for run_dir in run_dirs:
        store = RunStore.open(run_dir)
        records = store.records()
        jobs = dict.fromkeys((r.task, r.attempt) for r in records if isinstance(r, AgentEvent))
        for task, attempt in jobs:
            own = [r for r in records if getattr(r, "task", None) == task and getattr(r, "attempt", None) == attempt]
            turns += _labelled(store.manifest.run_id, task, attempt, _last_try(own))
    return turns


def _last_try(records: list[AnyRecord]) -> list[AnyRecord]:
    """A job that was started again is told from its last start."""
    starts = [index for index, record in enumerate(records) if record.record == "job_started"]
    return records[starts[-1] :] if starts else records


def _labelled(run: str, task: str, attempt: int, records: list[AnyRecord]) -> list[Turn]:
    verdicts: dict[str, tuple[bool, str]] = {}
    for record in records:
        if isinstance(record, Evaluation) and _judges(record):
            key = _digest_key(record.files)
            passed = record.action == "run_visible" and record.ok
            verdicts[key] = (passed or verdicts.get(key, (False, ""))[0], _outcome(record))
    drafts = list(_drafts(records))
    found: list[Turn] = []
    later_pass = False
    for number, (epoch, data, files) in reversed(list(enumerate(drafts, 1))):
        key = _digest_key({name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()})
        passed, outcome = verdicts.get(key, (False, "not evaluated"))
        request = data["request"]
        turn = Turn(
            run=run,
            task=task,
            attempt=attempt,
            number=number,
            epoch=epoch,
            model=str(data["model"]),
            stage=request["stage"],
            system=request["system"],
            user=request["user"],
            files=files,
            passed=passed,
            evaluated=key in verdicts,
            outcome=outcome,
            label=1 if passed else 0 if later_pass else -1,
        )
        later_pass = later_pass or passed
        found.append(turn)
    return found[::-1]


def _drafts(records: list[AnyRecord]) -> Iterator[tuple[int, dict[str, Any], dict[str, str]]]:
    epoch, written = 0, False
    for record in records:
        if not isinstance(record, AgentEvent) or record.event != MODEL_CALL or record.data.get("reply") is None:
            continue
        stage = record.data["request"]["stage"]
        if stage in DESIGN_STAGES and written:
            epoch, written = epoch + 1, False
        if stage in WRITING_STAGES and (files := answer_files(record.data["reply"]["answer"])):
            written = True
            yield epoch, record.data, files


def answer_files(answer: dict[str, Any]) -> dict[str, str]:
    """The files in an answer: its member `files`, or itself when it holds nothing but texts by file name."""
    inner = answer.get("files", answer)
    if not isinstance(inner, dict):
        return {}
    return {name: text for name, text in inner.items() if isinstance(text, str) and "." in name}


def _digest_key(digests: dict[str, str]) -> str:
    return repr(sorted(digests.items()))


def _judges(record: Evaluation) -> bool:
    """A program that compiles may pass or fail, and a profile judges nothing."""
    return record.action == "run_visible" or (record.action == "compile" and not record.ok)


def _outcome(record: Evaluation) -> str:
    if record.action == "compile":
        return "; ".join(record.diagnostics)[:2000]
    return record.outcome[:2000]
