"""Pictures of the report page in an installed Chromium: `nox -s screenshots -- FOLDER`.

report-3.png           three attempts, the whole page
report-3-dark.png      the same in the dark scheme
report-3-attempt.png   an opened attempt
report-3-print.pdf     what a printer gets
report-10000.png       ten thousand attempts, from the controls of the list on
leaderboard.png        a ranking with controls, an excluded and a partial entry
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from fabrica_bench.report import load_report, render_html
from fabrica_bench.report.document import build_document
from fabrica_bench.report.leaderboard import ranking_html
from fabrica_bench.report.ranking import Entry
from fabrica_bench.scoring.verdict import Predicate
from helpers.many_runs import CORE, big_report, invalid, write_run
from helpers.sample_run import make_valid, write_sample_run

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MANY = 10_000


def find_browser() -> str | None:
    """Path of an installed Chromium; None without one."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def launch(playwright: Any) -> Any:
    """A headless browser that uses no network and no GPU."""
    return playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"])


def sample_page(folder: Path) -> str:
    """The page of the small run."""
    return render_html(load_report(write_sample_run(folder / "sample")))


def board_page(folder: Path) -> str:
    """A ranking with two ranked entries, one that was excluded, one that is not verified, and the controls."""
    nothing = invalid(Predicate.CORRECT, "output 'y' differs")
    entries = [
        _entry(folder, "swift", lambda i: make_valid(100 + i, 300), verified=True),
        _entry(folder, "steady", lambda i: nothing if i % 4 == 1 else make_valid(280 + i, 300), verified=True),
        _entry(folder, "replay", lambda i: make_valid(90, 300), verified=True, excluded="memoises the inputs"),
        _entry(folder, "unseen", lambda i: make_valid(90, 300)),
        _entry(folder, "reference", lambda i: make_valid(300, 300), control=True, verified=True),
        *(_entry(folder, n, lambda i: nothing, control=True, verified=True) for n in ("null", "copycat", "cheat")),
    ]
    return ranking_html(build_document(entries))


def _entry(folder: Path, agent: str, verdict: Any, *, control: bool = False, **more: Any) -> Entry:
    verdicts = {task: verdict(index) for index, task in enumerate(CORE)}
    return Entry(agent, load_report(write_run(folder / agent, agent, verdicts, control=control)), **more)


def take(folder: Path) -> list[Path]:
    """Take every picture."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        browser = launch(playwright)

        def visit(name: str, text: str, **options: Any) -> Any:
            path = Path(scratch) / f"{name}.html"
            path.write_text(text, encoding="utf-8")
            page = browser.new_page(viewport={"width": 1300, "height": 900}, **options)
            page.goto(path.as_uri())
            return page

        small = sample_page(Path(scratch))
        page = visit("small", small)
        page.screenshot(path=folder / "report-3.png", full_page=True)
        page.pdf(path=folder / "report-3-print.pdf")
        visit("dark", small, color_scheme="dark").screenshot(path=folder / "report-3-dark.png", full_page=True)
        page.locator("#search").fill("fast")
        page.locator(".row").first.click()
        page.wait_for_selector("#panel[open]")
        page.evaluate("document.querySelectorAll('#panel details').forEach(found => found.open = true)")
        page.set_viewport_size({"width": 1300, "height": 1900})
        page.screenshot(path=folder / "report-3-attempt.png")
        big = visit("big", render_html(big_report(MANY)))
        big.evaluate("document.querySelector('#attempts').scrollIntoView()")
        big.screenshot(path=folder / "report-10000.png")
        visit("board", board_page(Path(scratch))).screenshot(path=folder / "leaderboard.png", full_page=True)
        browser.close()
    return sorted(folder.iterdir())


if __name__ == "__main__":
    print("\n".join(str(path) for path in take(Path(sys.argv[1]))))
