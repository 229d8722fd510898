"""The run page and the tables: complete, self-contained, safe to open, and the same bytes for the same records."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import shutil
import zlib
from html.parser import HTMLParser

import pytest
from helpers.sample_run import HOSTILE, make_manifest, make_valid, make_verdict

from fabrica_bench.errors import FabricaError, UnknownNameError
from fabrica_bench.report import load_report, render_csv, render_html, render_json, render_markdown, write_report
from fabrica_bench.runs.store import RunStore

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Collects tags, links and ids, and checks that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("href", "src", "xlink:href") if name in values]
        assert not any(name.startswith("on") for name in values)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def page(run_dir) -> Page:
    return Page(render_html(load_report(run_dir)))


def blocks(text: str) -> dict[str, object]:
    """The page's data by block, unpacked as its script does."""
    found: dict[str, object] = {}
    for coding, name, body in re.findall(r'<script type="application/(\w+)" id="([\w-]+)">(.*?)</script>', text, re.S):
        raw = zlib.decompress(base64.b64decode(body)).decode() if coding == "deflate" else body
        found[name] = json.loads(raw)
    return found


def test_the_page_needs_nothing_from_outside(run_dir, page):
    assert {"link", "img", "iframe", "object"}.isdisjoint(page.tags)
    assert all(link.startswith("#") for link in page.links)
    text = render_html(load_report(run_dir))
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "url(" not in text


def test_text_of_candidates_and_agents_is_never_markup(run_dir):
    text = render_html(load_report(run_dir))
    assert text.count("<script>") == 1
    assert "<script>alert" not in text
    assert any(HOSTILE in item for item in blocks(text)["text-0"])


def test_only_the_pages_own_script_may_run(run_dir):
    text = render_html(load_report(run_dir))
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert not re.search(r"\b(fetch|XMLHttpRequest|eval|innerHTML|import)\b\(?", script)


def test_every_link_leads_somewhere(page):
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_the_page_shows_verdicts_code_diagnostics_and_evidence(run_dir, page):
    text = " ".join(" ".join(page.text).split()) + json.dumps(blocks(render_html(load_report(run_dir))))
    for expected in (
        "tester: 2 of 5 valid",
        "Partial: 1 of 5 attempts",
        "fails Correct",
        "gave up: atomics",
        "unknown name 'first'",
        "second();",
        "Build looked at",
        "a bulk operation",
        "2.500",
        "(machine): no space left",
        "fingerprint f00d",
    ):
        assert expected in text, expected


def test_the_same_records_give_the_same_bytes_wherever_they_lie(run_dir, tmp_path):
    elsewhere = tmp_path / "moved" / "copy"
    shutil.copytree(run_dir, elsewhere)
    for name in ("html", "md", "csv", "json"):
        assert write_report(run_dir, name).read_bytes() == write_report(elsewhere, name).read_bytes()
        assert str(tmp_path).encode() not in (elsewhere / f"report.{name}").read_bytes()


def test_csv_has_a_line_for_each_attempt_and_no_number_where_there_is_none(run_dir):
    rows = list(csv.DictReader(io.StringIO(render_csv(load_report(run_dir)))))
    assert [row["task"] for row in rows] == ["Fast", "Slow", "Wrong", "Gone"]
    assert rows[0]["speedup"] == "2.5"
    assert [rows[2][name] for name in ("cycles", "reference_cycles", "speedup")] == ["", "", ""]


def test_csv_cells_cannot_become_spreadsheet_formulas(tmp_path):
    with RunStore.create(tmp_path / "run", make_manifest(("=HYPERLINK(1)",))) as store:
        store.append(make_verdict("=HYPERLINK(1)", 1, make_valid(1, 1)))
    assert "\n'=HYPERLINK(1)," in render_csv(load_report(tmp_path / "run"))


def test_json_has_the_counts_and_the_definitions_of_its_numbers(run_dir):
    body = json.loads(render_json(load_report(run_dir)))
    assert (body["valid"], body["invalid"], body["not_scored"], body["missing"], body["total"]) == (2, 1, 1, 1, 5)
    assert body["rows"][2]["cycles"] is None
    assert body["fast_0"] == pytest.approx(0.5)
    assert "run_dir" not in body


def test_markdown_keeps_its_table_whatever_the_reason_says(run_dir):
    lines = render_markdown(load_report(run_dir)).splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 4
    assert any(line.startswith("- **speed-up**") for line in lines)
    for line in table:
        assert line.replace("\\|", "").count("|") == 7
    assert any("Partial" in line for line in lines)


@pytest.mark.parametrize(
    ("agent", "valid", "words"),
    [
        ("reference", True, "It holds."),
        ("reference", False, "harness or a task is broken"),
        ("null", True, "is broken"),
    ],
)
def test_a_control_says_whether_it_holds(tmp_path, agent, valid, words):
    from fabrica_bench.scoring.verdict import Invalid, Predicate

    verdict = make_valid(10, 10) if valid else Invalid(predicate=Predicate.BUILD, reason="no")
    with RunStore.create(tmp_path / "run", make_manifest(("One",), agent, control=True)) as store:
        store.append(make_verdict("One", 1, verdict))
    assert words in render_html(load_report(tmp_path / "run"))


def test_a_run_without_any_verdict_still_has_a_page(tmp_path):
    RunStore.create(tmp_path / "run", make_manifest()).close()
    page = Page(render_html(load_report(tmp_path / "run")))
    assert "tester: 0 of 5 valid" in " ".join(page.text)


def test_a_torn_last_record_is_ignored(run_dir):
    before = render_html(load_report(run_dir))
    with (run_dir / "records.jsonl").open("ab") as stream:
        stream.write(b'{"record": "verdict", "task": "Ow')
    assert render_html(load_report(run_dir)) == before


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(FabricaError, match="no run here"):
        load_report(tmp_path)


def test_an_unknown_format_names_the_known_ones(run_dir):
    with pytest.raises(UnknownNameError, match="did you mean html"):
        write_report(run_dir, "htm")


def test_a_report_that_cannot_be_written_leaves_nothing_half_done(run_dir, tmp_path):
    target = tmp_path / "no" / "such" / "folder" / "x.html"
    with pytest.raises(FabricaError) as caught:
        write_report(run_dir, "html", target)
    assert caught.value.place == str(target)
    assert not list(run_dir.glob("*.tmp"))


def test_what_a_crashed_try_left_is_not_shown_as_the_attempt(tmp_path):
    from helpers.sample_run import TIME, sample_records

    from fabrica_bench.runs.records import JobStarted

    with RunStore.create(tmp_path / "run", make_manifest()) as store:
        for record in [*sample_records(store)[:3], JobStarted(time=TIME, task="Fast", attempt=1)]:
            store.append(record)
        for record in sample_records(store)[4:6]:
            store.append(record)
    (attempt,) = load_report(tmp_path / "run").attempts
    assert (attempt.evaluations, attempt.events, attempt.row.valid) == ([], [], True)


def test_a_large_page_is_packed_and_holds_the_same(tmp_path, monkeypatch, run_dir):
    plain = blocks(render_html(load_report(run_dir)))
    monkeypatch.setattr("fabrica_bench.report.html.PLAIN_LIMIT", 10)
    text = render_html(load_report(run_dir))
    assert 'type="application/deflate"' in text
    assert blocks(text) == plain


def test_parquet_and_pandas_know_what_is_missing(run_dir, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = write_report(run_dir, "parquet", tmp_path / "run.parquet")
    frame = pandas.read_parquet(path)
    assert list(frame["task"]) == ["Fast", "Slow", "Wrong", "Gone"]
    assert frame["speedup"].isna().tolist() == [False, False, True, True]
    assert frame["cost_usd"].isna().all()
    assert frame["cycles"].dtype == "Int64"
    assert write_report(run_dir, "parquet", tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_figures_for_papers_are_pdf_and_svg_and_repeat_byte_for_byte(run_dir, tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("one", "two"):
        write_report(run_dir, "figures", tmp_path / name)
    made = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert made == [f"{n}.{s}" for n in ("failures", "first_pass", "speedup") for s in ("pdf", "svg")]
    for name in made:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert (tmp_path / "one" / "speedup.pdf").read_bytes().startswith(b"%PDF")
    assert "Fast" in (tmp_path / "one" / "speedup.svg").read_text(encoding="utf-8")
