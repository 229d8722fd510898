"""Check 1, first version: how much of a text is the reference kernel's, after renaming and reformatting.

Both texts are cut into tokens without comments and layout; every name that the file itself declares becomes the same
placeholder, and so do number literals. Fingerprints are all runs of `WINDOW` tokens. The score is the share of the
reference's distinctive fingerprints (those that public material, such as the layout, doesn't have) in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

NAME: Final = "leakage"

WINDOW: Final = 24
"""Tokens per fingerprint: longer than any statement that the frozen interface forces on every program."""

THRESHOLD: Final = 0.8
"""Share of the reference's distinctive fingerprints above which a text counts as a copy.

Measured on the expert and plain kernels of the first six tasks: kernels of different tasks share at most 0.59 and an
independent lowering of ReLU 0.64 (small kernels are mostly interface); a kernel with every name changed and reformatted
shares more than 0.95."""

_TOKEN: Final = re.compile(
    r"""//[^\n]* | "(?:\\.|[^"\\\n])*"
      | '(?:\\.|[^'\\\n])*' | @?[A-Za-z_]\w* | \d[\w.]* | \.\* | [-+*/%&|^<>=!]=|<<|>>|->|=> | \S""",
    re.VERBOSE,
)
_DECLARED: Final = re.compile(
    r"\b(?:const|var|param|fn|task)\s+([A-Za-z_]\w*)|\|\s*([A-Za-z_]\w*)\s*(?:,\s*([A-Za-z_]\w*)\s*)?\|"
)


@dataclass(frozen=True)
class Similarity:
    """How much of the reference a text holds.

    Attributes:
        share: Found distinctive fingerprints over all of them; 0 when there are none.
        found, total: The two counts.
    """

    share: float
    found: int
    total: int

    @property
    def is_copy(self) -> bool:
        return self.share > THRESHOLD


def tokens(text: str) -> list[str]:
    """Token stream of CSL text (or of prose around it) with declared names and numbers made anonymous."""
    declared = {name for match in _DECLARED.finditer(text) for name in match.groups() if name}
    stream = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token.startswith("//"):
            continue
        if token in declared:
            token = "$name"
        elif token[0].isdigit():
            token = "$number"
        stream.append(token)
    return stream


def fingerprints(text: str) -> frozenset[tuple[str, ...]]:
    """Every run of `WINDOW` tokens."""
    stream = tokens(text)
    return frozenset(tuple(stream[start : start + WINDOW]) for start in range(len(stream) - WINDOW + 1))


def similarity(text: str, reference: str, public: Iterable[str] = ()) -> Similarity:
    """Compare a text with a reference kernel.

    Args:
        text: What is examined: a candidate, a prompt, a retrieved document.
        reference: The kernel that must not leak.
        public: Texts whose content anyone may use; what they share with the reference is not distinctive.
    """
    distinctive = set(fingerprints(reference))
    for known in public:
        distinctive -= fingerprints(known)
    if not distinctive:
        return Similarity(0.0, 0, 0)
    found = len(distinctive & fingerprints(text))
    return Similarity(found / len(distinctive), found, len(distinctive))
