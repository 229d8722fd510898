"""A leaderboard: a folder of verified runs, and the pages made from them.

    entries/<digest>/   an unpacked bundle, with `verification.json`: what executing it again gave
    exclusions.json     reasons by run id, written by people: a hack that was found, a run that was withdrawn
    leaderboard.{html,md,csv,json}

A bundle gets in only by re-execution. Every candidate is run again on the inputs of the run, where its verdict has to
come out byte for byte, and on fresh held-out inputs that nobody could have known, where what was valid has to be valid
again.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from fabrica_bench.errors import FabricaError, UnknownNameError, from_os_error
from fabrica_bench.json_text import json_text, parse_json
from fabrica_bench.report.bundle import bundle_key, check_commitments, unpack_bundle
from fabrica_bench.report.data import load_report
from fabrica_bench.report.document import Document, build_document, entry_json, glossary
from fabrica_bench.report.html import render_page
from fabrica_bench.report.ranking import Entry, control_state
from fabrica_bench.report.tables import cell_text, no_formula, number_text, percent_text, ratio_text
from fabrica_bench.report.writer import write_whole
from fabrica_bench.runs.events import Progress, no_progress
from fabrica_bench.runs.verification import VerifyReport, verify_run
from fabrica_bench.scoring.glossary import markdown_glossary
from fabrica_bench.tasks.seeds import HeldOutKey

ENTRIES_NAME: Final = "entries"
EXCLUSIONS_NAME: Final = "exclusions.json"
VERIFICATION_NAME: Final = "verification.json"
PAGE_STEM: Final = "leaderboard"
TITLE: Final = "Leaderboard"


def add_bundle(
    folder: Path, bundle: Path, *, key: HeldOutKey | None = None, jobs: int = 2, progress: Progress = no_progress
) -> str:
    """Check a bundle by re-execution and take it into the leaderboard.

    Args:
        folder: The leaderboard; it is made when it doesn't exist.
        bundle: What `fabrica-bench submit` wrote.
        key: The run's held-out key, when the bundle doesn't reveal it.
        jobs: Candidates executed at the same time.
        progress: Told what happens.

    Returns:
        The entry's digest.

    Raises:
        FabricaError: The bundle is damaged, made under other versions, has no key, or a verdict comes out otherwise.
    """
    try:
        (folder / ENTRIES_NAME).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".adding-", dir=folder) as scratch:
            return _add(folder, bundle, Path(scratch) / "run", key, jobs, progress)
    except OSError as error:
        raise from_os_error(error) from error


def exclude(folder: Path, run_id: str, reason: str) -> None:
    """Show a run without a rank from now on, with the reason; an empty reason takes it back.

    Raises:
        FabricaError: No entry has this run id, or the file can't be written.
    """
    known = {entry.report.summary.run_id for entry in load_entries(folder)}
    if not known:
        raise FabricaError(
            "the leaderboard has no entries", place=str(folder), remedy="name its folder with --folder, or add bundles"
        )
    if run_id not in known:
        raise UnknownNameError("run id of an entry", run_id, known)
    reasons = {**_exclusions(folder), run_id: reason}
    kept = {name: text for name, text in sorted(reasons.items()) if text}
    write_whole(folder / EXCLUSIONS_NAME, json_text(kept, indent=2) + "\n")


def load_entries(folder: Path) -> list[Entry]:
    """Every entry of a leaderboard, by agent and run id.

    Raises:
        FabricaError: There is no leaderboard, or an entry is damaged.
    """
    root = folder / ENTRIES_NAME
    if not root.is_dir():
        raise FabricaError(
            "no leaderboard here",
            place=str(folder),
            remedy="make one with `fabrica-bench leaderboard add BUNDLE --folder DIR`",
        )
    reasons = _exclusions(folder)
    loaded = [(load_report(path), _verified(path)) for path in sorted(root.iterdir()) if path.is_dir()]
    loaded.sort(key=lambda pair: (pair[0].summary.agent, pair[0].summary.run_id))
    entries: list[Entry] = []
    for report, verified in loaded:
        agent = report.summary.agent
        number = sum(entry.report.summary.agent == agent for entry in entries) + 1
        name = agent if number == 1 else f"{agent} ({number})"
        entries.append(Entry(name, report, verified, reasons.get(report.summary.run_id, "")))
    return entries


def write_leaderboard(folder: Path) -> list[Path]:
    """Write the pages and tables; the same entries give the same bytes.

    Raises:
        FabricaError: As `load_entries`, or a file can't be written.
    """
    document = build_document(load_entries(folder))
    written: list[Path] = []
    for suffix, render in RENDERERS.items():
        target = folder / f"{PAGE_STEM}.{suffix}"
        write_whole(target, render(document))
        written.append(target)
    return written


def ranking_html(document: Document) -> str:
    """The page."""
    return render_page(document, TITLE)


def ranking_json(document: Document) -> str:
    """The ranking as JSON, with the definitions of its numbers."""
    body = {"entries": [entry_json(item) for item in document.ranked], "glossary": dict(glossary())}
    return json_text(body, indent=2, allow_nan=False) + "\n"


def ranking_csv(document: Document) -> str:
    """One line per entry; lists are joined with a semicolon."""
    rows = [_flat(entry_json(item)) for item in document.ranked]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else ["name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def ranking_markdown(document: Document) -> str:
    """The ranking and its glossary."""
    lines = [f"# {TITLE}", ""]
    track = ""
    for item in document.ranked:
        if str(item.track) != track:
            track = str(item.track)
            lines += ["", f"## {track}", ""]
            lines += ["| rank | entry | model | valid | fast_0 | fast_1 | geometric mean of valid | state |"]
            lines += ["|---:|---|---|---:|---:|---:|---:|---|"]
        numbers = item.figures
        state = "; ".join(item.reasons) or "verified"
        if item.control:
            state = f"control: {control_state(item.entry)}"
        cells = [
            "–" if item.rank is None else str(item.rank),
            cell_text(item.entry.name),
            cell_text(item.entry.report.summary.model),
            f"{number_text(numbers.valid)}/{number_text(numbers.total)}",
            f"{percent_text(numbers.fast_0)} {numbers.fast_0_interval or ''}".strip(),
            f"{percent_text(numbers.fast_1)} {numbers.fast_1_interval or ''}".strip(),
            f"{ratio_text(numbers.geometric_mean)} {numbers.geometric_mean_interval or ''}".strip(),
            cell_text(state),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    comparisons = [line for item in document.ranked for line in item.against_better]
    if comparisons:
        lines += ["", "## Comparisons", "", *(f"- {cell_text(line)}" for line in comparisons)]
    return "\n".join([*lines, "", "## Words", "", *markdown_glossary()]) + "\n"


RENDERERS: Final[Mapping[str, Callable[[Document], str]]] = {
    "html": ranking_html,
    "md": ranking_markdown,
    "csv": ranking_csv,
    "json": ranking_json,
}


# ------------------------------------------------------------------------------------------------- adding


def _add(folder: Path, bundle: Path, scratch: Path, key: HeldOutKey | None, jobs: int, progress: Progress) -> str:
    head = unpack_bundle(bundle, scratch)
    digest = str(head["digest"])
    target = folder / ENTRIES_NAME / digest
    if target.exists():
        return digest
    report = load_report(scratch)
    if any(entry.report.summary.run_id == report.summary.run_id for entry in load_entries(folder)):
        raise FabricaError(f"run {report.summary.run_id} is an entry already", place=str(bundle))
    revealed = key or bundle_key(scratch)
    if revealed is None:
        raise FabricaError(
            "the bundle has no held-out key, so it can't be executed again",
            place=str(bundle),
            remedy="name the key's file with --key FILE",
        )
    check_commitments(scratch, revealed)
    same = verify_run(scratch, jobs=jobs, key=revealed, progress=progress)
    _require(same, bundle, "with the inputs of the run")
    fresh = verify_run(scratch, jobs=jobs, key=HeldOutKey.fresh(), fresh=True, progress=progress)
    _require(fresh, bundle, "with fresh held-out inputs")
    outcome = {"executed": same.checked, "fresh_inputs": fresh.checked, "versions": dict(report.manifest.versions)}
    (scratch / VERIFICATION_NAME).write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
    shutil.move(scratch, target)
    return digest


def _require(report: VerifyReport, bundle: Path, how: str) -> None:
    wrong = [f"{row.task} #{row.attempt}: {row.detail}" for row in report.rows if row.same is False]
    if report.conditions:
        raise FabricaError(
            f"the run was made under other conditions: {'; '.join(report.conditions)}",
            place=str(bundle),
            remedy="check it with the versions that the run names",
        )
    if wrong:
        raise FabricaError(
            f"{len(wrong)} of {report.checked} verdicts come out otherwise {how}: {'; '.join(wrong[:3])}",
            place=str(bundle),
            remedy="the bundle is refused; if the records are honest, report the program as not deterministic",
        )


def _verified(path: Path) -> bool:
    """An entry that somebody put there by hand is shown, but it isn't verified."""
    return (path / VERIFICATION_NAME).is_file()


def _exclusions(folder: Path) -> dict[str, str]:
    path = folder / EXCLUSIONS_NAME
    try:
        reasons = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise FabricaError(f"can't be read: {error}", place=str(path), remedy="mend the file") from error
    if not isinstance(reasons, dict):
        raise FabricaError("not an object of reasons by run id", place=str(path), remedy="mend the file")
    return {str(name): str(text) for name, text in reasons.items()}


def _flat(body: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in body.items():
        if isinstance(value, (list, tuple)):
            value = "; ".join(map(str, value))
        elif isinstance(value, dict):
            value = "; ".join(f"{key}={item}" for key, item in value.items())
        flat[name] = "" if value is None else no_formula(value)
    return flat
