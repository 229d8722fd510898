"""The page in a real browser: three attempts and ten thousand."""

from __future__ import annotations

import time

import pytest
from helpers.many_runs import big_report
from helpers.screenshots import board_page, find_browser, launch

from fabrica_bench.report import load_report, render_html

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed")

MANY = 10_000
OPEN_LIMIT_S = 20.0
"""For a machine with other work; an idle core takes about a second."""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        made = launch(playwright)
        yield made
        made.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open a page's text; whatever it complains about or asks the network for fails the test."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1300, "height": 900})

    def open_page(text: str):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: request.url.startswith(("file:", "blob:", "data:")) or complaints.append(request.url),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    context.close()
    assert complaints == []


def test_search_sort_keys_and_details_of_a_small_run(visit, run_dir):
    page = visit(render_html(load_report(run_dir)))
    assert page.locator("#count").text_content() == "4 of 4 attempts"
    page.locator("#head button", has_text="speed-up").click()
    assert page.locator(".row").first.text_content().startswith("testerFast")
    page.locator("#head button", has_text="speed-up").click()
    assert page.locator(".row").first.text_content().startswith("testerSlow")
    page.keyboard.press("/")
    page.keyboard.type("fails correct")
    assert page.locator("#count").text_content() == "1 of 4 attempts"
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel[open]")
    assert "<script>alert('pwned')</script>" in page.locator("#panel-body").text_content()
    page.keyboard.press("Escape")
    assert not page.locator("#panel").is_visible()
    page.locator("#search").fill("fast")
    page.locator(".row").first.click()
    page.wait_for_selector("#panel[open]")
    body = page.locator("#panel-body").text_content()
    expectations = ("+   second();", "-   first();", "unknown name 'first'", "a long log", "a bulk operation")
    for expected in (*expectations, "Evaluation 3: profile", "90 of 100 cycles"):
        assert expected in body, expected


def test_ten_thousand_attempts_open_at_once_and_nothing_moves(visit):
    text = render_html(big_report(MANY))
    assert len(text) < 12_000_000
    begin = time.monotonic()
    page = visit(text)
    page.wait_for_selector(".row")
    assert time.monotonic() - begin < OPEN_LIMIT_S
    total = int(page.locator("#count").text_content().split()[-2].replace(",", ""))
    assert total >= MANY
    assert page.locator(".row").count() < 60  # only what is in view
    top = "document.querySelector('#provenance').offsetTop"
    place = page.evaluate(top)
    grid = page.locator("#grid")
    grid.focus()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('#grid').scrollTop > 200000")
    assert page.locator(".row[aria-selected=true]").count() == 1
    begin = time.monotonic()
    page.locator("#head button", has_text="cycles").first.click()
    page.locator("#search").fill("gemv fails")
    page.wait_for_function("!document.querySelector('#count').textContent.startsWith('10,')")
    assert time.monotonic() - begin < OPEN_LIMIT_S
    assert page.evaluate(top) == place
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_selector("#panel[open]")
    assert "acc[3]" in page.locator("#panel-body").text_content()


def test_it_is_readable_in_the_dark_and_on_paper(visit, run_dir):
    page = visit(render_html(load_report(run_dir)))

    def contrast() -> float:
        colours = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
            ".map(text => text.match(/[0-9.]+/g).slice(0, 3).map(Number))"
        )
        light = sorted(_luminance(colour) for colour in colours)
        return (light[1] + 0.05) / (light[0] + 0.05)

    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert contrast() > 7  # WCAG 2 level AAA
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#printed tr").count() == 1 + 4
    assert not page.locator("#grid").is_visible()


def test_a_ranking_fits_the_window_and_tells_its_entries_apart(visit, tmp_path):
    page = visit(board_page(tmp_path))
    width = "(sel => { const e = document.querySelector(sel); return e.scrollWidth - e.clientWidth; })"
    assert page.evaluate(f"{width}('#ranking + .scroll')") == 0  # no state is cut off
    assert page.evaluate("document.documentElement.scrollWidth") <= 1300
    cells = page.locator("#ranking + .scroll tbody tr:not(.level)").all()
    ranks = {cell.locator("td").nth(1).text_content(): cell.locator("td").first.text_content() for cell in cells}
    assert ranks["swift"] == "1"
    assert {ranks[name] for name in ("replay", "unseen", "reference", "null", "copycat", "cheat")} == {"–"}
    assert "excluded: memoises the inputs" in page.locator("#ranking + .scroll").text_content()
    fills = page.evaluate(
        "[...document.querySelectorAll('.plot circle')].map(e => [e.getAttribute('class'), getComputedStyle(e).fill])"
    )
    solid = {kind: fill for kind, fill in fills if "hollow" not in kind}
    assert len(set(solid.values())) == len(solid) == 3
    assert {fill for kind, fill in fills if "hollow" in kind} == {"none"}


def _luminance(colour: list[float]) -> float:
    """Relative luminance of WCAG 2."""
    parts = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
