"""The answer of the scorer. Cycles exist only where the candidate is valid: the types leave no other place for them."""

from __future__ import annotations

import html
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from fabrica_bench.integrity.findings import Predicate
from fabrica_bench.tasks.seeds import HeldOutKey, commitment, require_key


class Blame(StrEnum):
    """Who is at fault when there is no score. A candidate's own fault is an `Invalid` verdict, never one of these."""

    AGENT = "agent"
    """The agent crashed, gave up or broke the protocol: it produced no candidate."""
    PROVIDER = "provider"
    """The model's provider gave no usable answer, and there was no candidate without it."""
    HARNESS = "harness"
    """Fabrica-Bench failed, or its reference solution isn't valid here."""
    MACHINE = "machine"
    """No space, no memory, a tool missing."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HeldOutInputs(_Record):
    """What a verdict says of its held-out inputs, and what anybody can compare once the key is revealed.

    Attributes:
        suite: Version of the suite that the seeds are derived for.
        task: Published name of the task.
        key: Fingerprint of the held-out key.
        commitments: SHA-256 commitment of each seed, in the order of their index.
    """

    suite: str
    task: str
    key: str
    commitments: tuple[str, ...] = Field(min_length=1)

    def problems(self, key: HeldOutKey) -> tuple[str, ...]:
        """A sentence for each thing that isn't what follows from the revealed key; empty when all is well.

        Raises:
            FabricaError: `key` is no key.
        """
        require_key(key)
        found = [] if key.fingerprint == self.key else [f"key {self.key} was used, this is {key.fingerprint}"]
        for index, given in enumerate(self.commitments):
            if commitment(key.seed(self.suite, self.task, index)) != given:
                found.append(f"{self.task}: the commitment of held-out input {index} is not that of the key's seed")
        return tuple(found)


class _Answer(_Record):
    """What the three verdicts share: how a notebook shows them, and which held-out inputs they rest on.

    Attributes:
        held_out: Commitments, where the function `score` gave the verdict; a run keeps them beside its verdicts.
    """

    held_out: HeldOutInputs | None = None

    @model_serializer(mode="wrap")
    def _without_empty_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if data.get("held_out") is None:
            data.pop("held_out", None)
        return data

    def _repr_html_(self) -> str:
        """A line with the outcome, and the predicates with their evidence."""
        verdict: Any = self
        text = outcome_text(verdict)
        if isinstance(verdict, Valid):
            text += f": {verdict.cycles:,} cycles, reference {verdict.reference_cycles:,}, {verdict.speedup:.3f} times"
        states = {True: "holds", False: "fails", None: "not evaluated"}
        rows = "".join(
            f"<tr><td>{result.predicate}</td><td>{states[result.holds]}</td>"
            f"<td style='white-space: pre-wrap'>{'<br>'.join(html.escape(line) for line in result.evidence)}</td></tr>"
            for result in getattr(verdict, "evidence", ())
        )
        table = f"<table><tr><th>predicate</th><th></th><th>evidence</th></tr>{rows}</table>" if rows else ""
        return f"<p><b>{html.escape(text)}</b></p>{table}"


class PredicateResult(_Record):
    """One predicate with its evidence.

    Attributes:
        predicate: Which of the five.
        holds: None when it was not evaluated because an earlier one failed.
        evidence: What was looked at and what was found; every violation has a line of its own.
    """

    predicate: Predicate
    holds: bool | None
    evidence: tuple[str, ...] = ()


class Valid(_Answer):
    """The candidate is correct, keeps the contract, and its time can be believed.

    Attributes:
        cycles: Lower median of `samples` (always a measured value).
        reference_cycles: The same for the expert reference, measured on the same inputs and toolchain in this session.
        speedup: `reference_cycles / cycles`; above 1 the candidate is faster.
        samples: Cycles per input, visible inputs first, in the order of their index.
        reference_samples: The same for the reference.
        evidence: All five predicates.
    """

    kind: Literal["valid"] = "valid"
    cycles: int = Field(gt=0)
    reference_cycles: int = Field(gt=0)
    speedup: float = Field(gt=0, allow_inf_nan=False)
    samples: tuple[int, ...] = Field(min_length=1)
    reference_samples: tuple[int, ...] = Field(min_length=1)
    evidence: tuple[PredicateResult, ...]


class Invalid(_Answer):
    """The candidate fails; `predicate` is the first that doesn't hold and `reason` says why in one line."""

    kind: Literal["invalid"] = "invalid"
    predicate: Predicate
    reason: str
    evidence: tuple[PredicateResult, ...] = ()


class NotScored(_Answer):
    """There is nothing to say about a candidate, through no fault of one."""

    kind: Literal["not_scored"] = "not_scored"
    blame: Blame
    reason: str


__all__ = [
    "Blame",
    "HeldOutInputs",
    "Invalid",
    "NotScored",
    "Predicate",
    "PredicateResult",
    "Valid",
    "Verdict",
    "outcome_text",
    "parse_verdict",
    "verdict_bytes",
]

Verdict = Annotated[Valid | Invalid | NotScored, Field(discriminator="kind")]

_ADAPTER: TypeAdapter[Valid | Invalid | NotScored] = TypeAdapter(Verdict)


def verdict_bytes(verdict: Valid | Invalid | NotScored) -> bytes:
    """Canonical JSON of a verdict: equal verdicts give equal bytes."""
    return verdict.model_dump_json().encode("utf-8")


def parse_verdict(data: bytes | str) -> Valid | Invalid | NotScored:
    """Inverse of `verdict_bytes`; raises `pydantic.ValidationError` on anything else."""
    return _ADAPTER.validate_json(data)


def outcome_text(verdict: Valid | Invalid | NotScored) -> str:
    """One line for tables: `valid`, `fails Correct: ...`, or `not scored (machine): ...`."""
    if isinstance(verdict, Valid):
        return "valid"
    if isinstance(verdict, Invalid):
        return f"fails {verdict.predicate}: {verdict.reason}"
    return f"not scored ({verdict.blame}): {verdict.reason}"
