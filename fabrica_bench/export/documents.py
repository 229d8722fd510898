"""Notes for the user's knowledge folder: passages of documents, and lessons from runs.

A note is one JSON object per line: title, kind, roles, body, tags, source. Retrieval is the agent's business.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, NamedTuple

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.export.turns import Turn, read_turns
from fabrica_bench.firewall.library import knowledge_folder
from fabrica_bench.firewall.screening import leaks
from fabrica_bench.json_text import json_text, parse_json
from fabrica_bench.tasks import list_tasks

SUFFIXES: Final = (".md", ".txt", ".rst", ".html", ".htm")
MAX_NOTE_CHARS: Final = 3000
MIN_NOTE_CHARS: Final = 40
MAX_FILE_BYTES: Final = 8 << 20
ROLES: Final = ("analyst", "architect", "implementer", "reviewer", "optimizer")
LESSONS_NAME: Final = "lessons.jsonl"
LEAST_SEEN: Final = 2
"""Attempts in which a failure must have come before it is a lesson: one alone could point at its task."""

_HEADING: Final = re.compile(r"^(?:#{1,6} +(?P<md>.+)|(?P<rst>[^\s].*)\n(?:={3,}|-{3,}|~{3,}|\^{3,}))$", re.MULTILINE)


class Added(NamedTuple):
    """What was added: files or runs read, notes written, passages refused, and where they are."""

    files: int
    notes: int
    refused: int
    folder: Path


def add_documents(path: Path) -> Added:
    """Add a document or a folder of them.

    Raises:
        FabricaError: There is none of a known kind, a file can't be read, or the folder can't be written.
    """
    if not path.exists():
        raise FabricaError("there is no such file or folder", place=str(path))
    found = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    files = [p for p in found if p.suffix.lower() in SUFFIXES]
    if not files:
        raise FabricaError("there is no document", place=str(path), remedy=f"known kinds are {', '.join(SUFFIXES)}")
    notes = refused = 0
    for file in files:
        kept = []
        for note in _notes(file):
            if _holds_reference(note["body"]):
                refused += 1
            else:
                kept.append(note)
        notes += len(kept)
        digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
        _write(f"{file.stem[:40]}-{digest}.jsonl", kept)
    return Added(len(files), notes, refused, knowledge_folder())


def add_lessons(run_dirs: Sequence[Path]) -> Added:
    """Replace the lessons by those of these runs.

    Raises:
        FabricaError: A folder holds no run.
    """
    notes = list(lessons_of(read_turns(run_dirs)))
    _write(LESSONS_NAME, notes)
    return Added(len(run_dirs), len(notes), 0, knowledge_folder())


def lessons_of(turns: Iterable[Turn]) -> Iterator[dict[str, Any]]:
    """Failures over attempts: message without names, how often it came, how often the next turn was free of it.

    There is no program text in a lesson, and no task.
    """
    attempts: defaultdict[tuple[str, str, int], list[Turn]] = defaultdict(list)
    for turn in turns:
        attempts[turn.run, turn.task, turn.attempt].append(turn)
    seen: Counter[str] = Counter()
    cured: Counter[str] = Counter()
    for own in attempts.values():
        met: set[str] = set()
        healed: set[str] = set()
        for turn, following in zip(own, [*own[1:], None], strict=True):
            if turn.passed or not turn.evaluated:
                continue
            message = general(turn.outcome)
            met.add(message)
            if following is not None and general(following.outcome) != message:
                healed.add(message)
        seen.update(met)
        cured.update(healed)
    for message, count in sorted(seen.items(), key=lambda item: (-item[1], item[0])):
        if count >= LEAST_SEEN:
            body = f"{message}\nSeen in {count} earlier attempts; the next attempt was free of it in {cured[message]}."
            yield {
                "title": f"Lesson: {message[:80]}",
                "kind": "lesson",
                "roles": ["reviewer", "implementer"],
                "body": body,
            }


def general(message: str) -> str:
    """The first line of a message without places, quoted names and numbers."""
    line = next((text.strip() for text in message.splitlines() if text.strip()), "no message")
    line = re.sub(r"^[\w./<>-]+:\d+:\d+: ", "", line)
    line = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", line)
    return re.sub(r"\b\d[\w.]*\b", "N", line)[:300]


def folder_contents() -> dict[str, int]:
    """Notes by source."""
    counts: Counter[str] = Counter()
    folder = knowledge_folder()
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else []:
        for line in path.read_text(encoding="utf-8").splitlines():
            counts[parse_json(line).get("source") or path.name] += 1
    return dict(counts)


def _notes(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FabricaError(f"more than {MAX_FILE_BYTES >> 20} MiB", place=str(path), remedy="split it")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FabricaError(f"byte {error.start} is not UTF-8", place=str(path), remedy="save as UTF-8") from error
    except OSError as error:
        raise from_os_error(error) from error
    if path.suffix.lower() in (".html", ".htm"):
        text = _plain(text)
    for title, body in _sections(text, path.stem):
        for number, part in enumerate(_parts(body)):
            yield {
                "title": title if number == 0 else f"{title} ({number + 1})",
                "kind": "document",
                "roles": list(ROLES),
                "body": part,
                "source": path.name,
            }


def _sections(text: str, default: str) -> Iterator[tuple[str, str]]:
    heads = [h for h in _HEADING.finditer(text) if not _in_fence(text, h.start())]
    title, start = default, 0
    for head in heads:
        yield title, text[start : head.start()]
        title, start = (head["md"] or head["rst"]).strip(), head.end()
    yield title, text[start:]


def _in_fence(text: str, place: int) -> bool:
    """Whether a place lies in a fenced block, where `#` begins no heading."""
    return len(re.findall(r"^```", text[:place], re.MULTILINE)) % 2 == 1


def _parts(body: str) -> Iterator[str]:
    part = ""
    for paragraph in re.split(r"\n\s*\n", body.strip()):
        if part and len(part) + len(paragraph) > MAX_NOTE_CHARS:
            yield part
            part = ""
        part = f"{part}\n\n{paragraph}" if part else paragraph[:MAX_NOTE_CHARS]
    if len(part) >= MIN_NOTE_CHARS:
        yield part


class _Text(HTMLParser):
    BREAKS = frozenset(("p", "br", "div", "li", "pre", "tr", "section"))

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._silent += 1
        elif re.fullmatch("h[1-6]", tag):
            self.parts.append(f"\n\n{'#' * int(tag[1])} ")
        elif tag in self.BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._silent = max(0, self._silent - 1)
        elif tag in self.BREAKS or re.fullmatch("h[1-6]", tag):
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


def _plain(html: str) -> str:
    parser = _Text()
    parser.feed(html)
    return "".join(parser.parts)


def _holds_reference(text: str) -> bool:
    return any(leaks(text, task, "W1") for task in list_tasks())


def _write(name: str, notes: Sequence[dict[str, Any]]) -> None:
    folder = knowledge_folder()
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text("".join(json_text(note) + "\n" for note in notes), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise FabricaError(
            f"the knowledge folder can't be written ({error.strerror})",
            place=str(path),
            remedy="set FABRICA_AGENT_KB_FOLDER to another folder",
            code=ExitCode.ENVIRONMENT,
        ) from error
