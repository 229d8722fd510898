"""What the agent remembers while it works on a task: an append-only history, in the run's records too."""

from __future__ import annotations

from collections import Counter

from fabrica_agent.records import Review
from fabrica_agent.stages.prompting import clean_output, files_block
from fabrica_agent.stages.records import Attempt, ReviewNote
from fabrica_bench.plugins import AgentTools


class History:
    """Attempts and their reviews, in order; nothing is ever removed or changed."""

    def __init__(self, tools: AgentTools) -> None:
        self._tools = tools
        self._attempts: list[Attempt] = []
        self._reviews: dict[int, Review | ReviewNote] = {}

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(self._attempts)

    def add(self, attempt: Attempt) -> None:
        """Append an attempt."""
        self._attempts.append(attempt)
        self._tools.log("attempt", **attempt.model_dump(mode="json", exclude={"files"}))

    def review(self, number: int, review: Review | ReviewNote) -> None:
        """Append the review of an attempt."""
        self._reviews[number] = review
        self._tools.log("review", attempt=number, **review.model_dump(mode="json"))

    def seen(self, files: dict[str, str]) -> Attempt | None:
        """The attempt with exactly these files, if there was one: it needn't be evaluated again."""
        return next((a for a in self._attempts if a.files == files), None)

    def trail(self) -> str:
        """Every failed attempt with its review, for prompts that show the whole trail."""
        parts = []
        for attempt in self._attempts:
            if attempt.valid:
                continue
            review = self._reviews.get(attempt.number)
            parts.append(
                f"Attempt {attempt.number} ({attempt.origin}), failed {attempt.predicate}:\n"
                f"{clean_output(attempt.outcome)}\n{describe(review) if review else ''}\n{files_block(attempt.files)}"
            )
        return "\n\n".join(parts)

    def repeated(self) -> list[str]:
        """Outcomes that came back more than once: what was tried against them didn't help."""
        heads = Counter(_head(a.outcome) for a in self._attempts if not a.valid)
        return [f"{text} ({count} times)" for text, count in heads.items() if count > 1]


def describe(review: Review | ReviewNote) -> str:
    """A review as text."""
    if isinstance(review, Review):
        return f"{review.kind.value}: {review.reason}"
    text = f"{review.kind.value}: {review.cause}\nWhat to do: {review.action}"
    return f"{text}\nChange of design: {review.design_change}" if review.design_change else text


def _head(text: str) -> str:
    return clean_output(text).splitlines()[0][:160] if text.strip() else "no message"
