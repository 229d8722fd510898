"""Turn labels, filters and pairs; files that `datasets` loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.double_it import expert

from fabrica_bench.errors import FabricaError
from fabrica_bench.export.documents import add_documents, add_lessons, folder_contents, general
from fabrica_bench.export.training import Dropped, Filters, preferences, supervised, write_records
from fabrica_bench.export.turns import read_turns

# Long enough to have fingerprints of their own.
PROGRAM = "var x = @zeros([8]f32);\nfn f{n}() void {{\n  x[{n}] = {n}.0;\n{more}}}\n"


def text(n: int) -> str:
    return PROGRAM.format(n=n, more="  x[0] += 1.0;\n" * n)


A, B, C, D = (text(n) for n in (1, 2, 3, 4))


def test_labels_follow_equation_3(run_of) -> None:
    folder = run_of([("implementer", A, "build"), ("implementer", B, "pass"), ("implementer", C, "fail")])
    turns = read_turns([folder])
    assert [(t.number, t.label, t.passed) for t in turns] == [(1, 0, False), (2, 1, True), (3, -1, False)]
    assert turns[0].outcome.endswith("identifier 'q7'")


def test_a_label_is_what_the_harness_found_not_what_an_agent_says(run_of) -> None:
    (turn,) = read_turns([run_of([("implementer", A, "none")])])
    assert (turn.label, turn.evaluated) == (-1, False)
    dropped = Dropped()
    assert supervised([turn], Filters(labels=frozenset((-1,))), dropped) == []
    assert dropped.counts == {"not evaluated": 1}


def test_a_program_that_was_only_compiled_has_neither_passed_nor_failed(run_of) -> None:
    compiled, judged = read_turns([run_of([("implementer", A, "compiled"), ("implementer", B, "fail")])])
    assert (compiled.evaluated, judged.evaluated) == (False, True)
    dropped = Dropped()
    (record,) = supervised([compiled, judged], Filters(labels=frozenset((-1,))), dropped)
    assert record["turn"] == 2
    assert dropped.counts == {"not evaluated": 1}


def test_only_translations_are_turns(run_of) -> None:
    steps = [("analyst", A, "none"), ("optimizer", B, "pass"), ("single-shot", C, "pass"), ("reviewer", D, "none")]
    assert [t.stage for t in read_turns([run_of(steps)])] == ["single-shot"]


def test_supervised_records_hold_the_conversation(run_of) -> None:
    turns = read_turns([run_of([("implementer", A, "fail"), ("implementer", B, "pass")])])
    dropped = Dropped()
    (record,) = supervised(turns, Filters(), dropped)
    assert [m["role"] for m in record["messages"]] == ["system", "user", "assistant"]
    assert record["messages"][1]["content"] == "prompt 2"
    assert record["messages"][2]["content"] == f"=== pe.csl ===\n{B}"
    assert (record["label"], record["model"], record["turn"]) == (1, "exchange", 2)
    assert dropped.counts == {"label": 1}


def test_renamed_and_reformatted_copies_are_duplicates(run_of) -> None:
    again = B.replace("f2", "other").replace("  ", "    ") + "// a comment\n"
    run_of([("implementer", B, "pass")])
    turns = read_turns([run_of([("implementer", again, "pass")], attempt=2)])
    dropped = Dropped()
    assert len(supervised(turns, Filters(), dropped)) == 1
    assert dropped.counts == {"duplicate": 1}


def test_the_cap_is_per_kernel(run_of) -> None:
    for attempt, program in enumerate((A, B, C), 1):
        folder = run_of([("implementer", program, "pass")], attempt=attempt)
    dropped = Dropped()
    assert len(supervised(read_turns([folder]), Filters(cap=2), dropped)) == 2
    assert dropped.counts == {"cap per kernel": 1}


def test_tasks_of_the_test_split_and_unknown_ones_are_left_out(run_of) -> None:
    turns = read_turns([run_of([("implementer", A, "pass")], task="Elsewhere")])
    dropped = Dropped()
    assert supervised(turns, Filters(), dropped) == []
    assert dropped.counts == {"benchmark task": 1}
    assert len(supervised(turns, Filters(benchmark_disjoint=False), Dropped())) == 1


def test_a_prompt_with_the_reference_is_a_leak(run_of) -> None:
    (turn,) = read_turns([run_of([("implementer", A, "pass")])])
    from dataclasses import replace

    dropped = Dropped()
    assert supervised([replace(turn, user=expert())], Filters(), dropped) == []
    assert dropped.counts == {"leak": 1}


def test_turns_of_a_design_that_was_given_up_are_left_out(run_of) -> None:
    steps = [
        ("architect", "", "none"),
        ("implementer", A, "fail"),
        ("architect", "", "none"),
        ("implementer", B, "fail"),
        ("implementer", C, "pass"),
    ]
    turns = read_turns([run_of(steps)])
    assert [t.epoch for t in turns] == [0, 1, 1]
    dropped = Dropped()
    assert len(supervised(turns, Filters(labels=frozenset((0, 1))), dropped)) == 2
    assert dropped.counts == {"architecture reset": 1}


def test_pairs_are_adjacent_and_share_the_failed_turns_prompt(run_of) -> None:
    steps = [
        ("implementer", A, "fail"),
        ("implementer", B, "build"),
        ("implementer", C, "pass"),
        ("implementer", D, "pass"),
    ]
    (pair,) = preferences(read_turns([run_of(steps)]), Filters(), Dropped())
    assert pair["prompt"][1]["content"] == "prompt 2"
    assert pair["rejected"][0]["content"].endswith(B)
    assert pair["chosen"][0]["content"].endswith(C)


def test_a_job_that_was_started_again_counts_from_its_last_start(run_of) -> None:
    run_of([("implementer", A, "fail")])
    turns = read_turns([run_of([("implementer", B, "pass")])])
    assert [(t.number, t.label) for t in turns] == [(1, 1)]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_datasets_loads_the_files(run_of, tmp_path: Path, suffix: str) -> None:
    datasets = pytest.importorskip("datasets")
    turns = read_turns([run_of([("implementer", A, "fail"), ("implementer", B, "pass")])])
    path = tmp_path / f"out/data{suffix}"
    write_records(path, supervised(turns, Filters(labels=frozenset((0, 1))), Dropped()))
    kind = "json" if suffix == ".jsonl" else "parquet"
    loaded = datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["label"] == [0, 1]
    assert loaded[1]["messages"][2]["content"].endswith(B)


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match=r"use \.jsonl or \.parquet"):
        write_records(tmp_path / "data.csv", [])


# ------------------------------------------------------------------------------------------------ knowledge


def notes(tmp_path: Path) -> list[dict]:
    lines = [line for path in sorted((tmp_path / "kb").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_documents_are_cut_at_headings_and_added_once(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    body = "Queues have a depth, and a full one stops its sender until a word is taken.\n"
    (folder / "a.md").write_text(
        f"# Queues\n\n{body}\n```csl\n# not a heading\n```\n\n## Depth\n\n{body}", encoding="utf-8"
    )
    (folder / "b.html").write_text(f"<h2>Tasks</h2><script>no()</script><p>{body}</p>", encoding="utf-8")
    (folder / "c.bin").write_bytes(b"\xff")
    for _ in range(2):
        assert add_documents(folder)[:3] == (2, 3, 0)
    assert {note["title"] for note in notes(tmp_path)} == {"Queues", "Depth", "Tasks"}
    assert not any("no()" in note["body"] for note in notes(tmp_path))
    assert folder_contents() == {"a.md": 2, "b.html": 1}


def test_an_agent_retrieves_what_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fabrica_agent.stages.library import Library
    from fabrica_agent.stages.settings import Settings

    path = tmp_path / "note.md"
    path.write_text(
        "# Zorblax\n\nThe zorblax register holds what the frobnicator left behind, always.\n", encoding="utf-8"
    )
    add_documents(path)
    assert "frobnicator left behind" in Library(Settings(), "wse3").cards("implementer", "zorblax frobnicator")


def test_a_document_with_a_reference_kernel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leak.md"
    path.write_text(f"# Found\n\n```csl\n{expert()}```\n", encoding="utf-8")
    assert add_documents(path)[:3] == (1, 0, 1)


@pytest.mark.parametrize(("name", "message"), [("gone.md", "no such file"), ("x.bin", "no document")])
def test_what_is_no_document_is_named(tmp_path: Path, name: str, message: str) -> None:
    if name == "x.bin":
        (tmp_path / name).write_bytes(b"\0")
    with pytest.raises(FabricaError, match=message):
        add_documents(tmp_path / name)


def test_lessons_are_counts_without_programs_or_tasks(run_of, tmp_path: Path) -> None:
    for attempt in (1, 2):
        folder = run_of([("implementer", A, "build"), ("implementer", B, "pass")], attempt=attempt)
    run_of([("implementer", C, "fail")], attempt=3)
    assert add_lessons([folder])[:2] == (1, 1)
    (lesson,) = notes(tmp_path)
    assert lesson["body"].startswith("error: use of undeclared identifier '...'")
    assert "Seen in 2 earlier attempts; the next attempt was free of it in 2." in lesson["body"]
    assert "Double-It" not in json.dumps(lesson)


def test_messages_lose_places_names_and_numbers() -> None:
    assert general("a/pe.csl:3:9: error: 'q7' has 12 words\nmore") == "error: '...' has N words"
