"""Cards: short notes, each on one thing, in Markdown files with several cards each.

    ## TITLE
    roles: architect, implementer · tags: words for retrieval · check: top|body|layout|fails
    Text, with at most one fenced `csl` block.

`check` says what the block is; a test compiles every one (see tests/agents/knowledge).
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

CARDS: Final = Path(__file__).parent / "cards"
PRIMER: Final = Path(__file__).parent / "primer.md"
ROLES: Final = ("analyst", "architect", "implementer", "reviewer", "optimizer")
Kind = Literal["language", "library", "idiom", "failure", "pattern", "document", "lesson"]

_CARD: Final = re.compile(r"^## (.+)\n(roles: .+)\n", re.MULTILINE)
_CODE: Final = re.compile(r"^```csl\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Card(BaseModel):
    """One note.

    Attributes:
        title: What it is about.
        kind: Language feature, library, idiom, failure recipe, design pattern; or a user's document, or a lesson.
        roles: Stages that may retrieve it.
        body: Its text.
        tags: Further words to find it by.
        arch: The target that it is about; None for both.
        check: How its code is tested, None when it has none.
        message: For a failure's code: part of the diagnostic that it must give.
        expect: A variable's final values when the code is run.
        source: Where a user's document came from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    kind: Kind
    roles: tuple[str, ...]
    body: str
    tags: str = ""
    arch: str | None = None
    check: Literal["top", "body", "layout", "fails"] | None = None
    message: str = ""
    expect: str = ""
    source: str = ""

    @property
    def code(self) -> str | None:
        """The fenced block."""
        found = _CODE.search(self.body)
        return found[1] if found else None


@cache
def primer_text() -> str:
    """The primer."""
    return PRIMER.read_text(encoding="utf-8")


@cache
def load_cards() -> list[Card]:
    """All cards that ship with the agent, in a fixed order."""
    cards = []
    for path in sorted(CARDS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        heads = list(_CARD.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            end = following.start() if following else len(text)
            cards.append(_card(head[1], head[2], text[head.end() : end].strip(), path.stem))
    return cards


def load_folder(folder: Path) -> list[Card]:
    """Cards of the user's knowledge folder; lines that aren't cards are passed over."""
    cards = []
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else []:
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                cards.append(Card.model_validate(json.loads(line)))
            except (ValueError, ValidationError):
                continue
    return cards


def _card(title: str, head: str, body: str, kind: str) -> Card:
    fields: dict[str, Any] = {}
    for part in head.split(" · "):
        name, _, value = part.partition(": ")
        fields[name.strip()] = value.strip()
    fields["roles"] = tuple(role.strip() for role in fields["roles"].split(","))
    if fields["roles"] == ("all",):
        fields["roles"] = ROLES
    return Card(title=title, kind=kind, body=body, **fields)  # type: ignore[arg-type]  # checked by the model
