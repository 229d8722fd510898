"""The store only grows, survives being cut anywhere, and says what is damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabrica_bench.errors import FabricaError
from fabrica_bench.runs.manifest import Manifest, config_difference
from fabrica_bench.runs.records import AgentEvent, JobStarted
from fabrica_bench.runs.store import RunStore


def manifest() -> Manifest:
    return Manifest(
        run_id="r",
        created="2026-01-01T00:00:00Z",
        config={"agent": "a", "tasks": ["T"], "repeat": 1},
        model="none",
        control=False,
        versions={},
        toolchain={},
        isolation={},
        key_fingerprint="f",
        commitments={},
        tasks={},
    )


def job(number: int) -> JobStarted:
    return JobStarted(task="T", attempt=number)


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r", manifest()) as store:
        written = [job(1), AgentEvent(task="T", attempt=1, event="e", data={"text": "a\nb\u2028c", "n": 1.5})]
        for record in written:
            store.append(record)
    assert RunStore.open(tmp_path / "r").records() == written
    assert RunStore.open(tmp_path / "r").manifest == manifest()


def test_a_folder_of_tasks_whose_name_is_no_utf8_is_kept(tmp_path: Path) -> None:
    head = manifest().model_copy(update={"tasks_dir": os.fsdecode(b"/tmp/caf\xe9")})
    RunStore.create(tmp_path / "r", head).close()
    assert RunStore.open(tmp_path / "r").manifest == head


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"run_id": 1}'])
def test_a_broken_manifest_is_named(text: str, tmp_path: Path) -> None:
    RunStore.create(tmp_path / "r", manifest()).close()
    path = tmp_path / "r" / "manifest.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FabricaError, match="not a run manifest of this version") as caught:
        RunStore.open(tmp_path / "r")
    assert caught.value.place == str(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(cut=st.integers(0, 400))
def test_a_file_cut_anywhere_keeps_every_whole_record_and_goes_on(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut") / "r"
    with RunStore.create(folder, manifest()) as store:
        for number in range(1, 4):
            store.append(job(number))
    path = folder / "records.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - cut)])
    whole = path.read_bytes().count(b"\n")
    assert [r.attempt for r in RunStore.open(folder).records()] == list(range(1, whole + 1))  # type: ignore[union-attr]
    with RunStore.resume(folder) as store:
        store.append(job(9))
    assert [r.attempt for r in RunStore.open(folder).records()] == [*range(1, whole + 1), 9]  # type: ignore[union-attr]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r", manifest()) as store:
        store.append(job(1))
        store.append(job(2))
    path = tmp_path / "r" / "records.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"attempt":2', '"attempt":"x"'), encoding="utf-8")
    with pytest.raises(FabricaError, match=r"records\.jsonl:2: damaged record"):
        RunStore.open(tmp_path / "r").records()


def test_two_writers_are_kept_apart(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r", manifest()):
        with pytest.raises(FabricaError, match="another process is working on this run"):
            RunStore.resume(tmp_path / "r")
        assert RunStore.open(tmp_path / "r").records() == []
    RunStore.resume(tmp_path / "r").close()


def test_a_run_is_never_created_over_another(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "r", manifest()).close()
    with pytest.raises(FabricaError, match="already stored here"):
        RunStore.create(tmp_path / "r", manifest())


@pytest.mark.parametrize("content", [b"{", b"{}", b"\xff", b"[]"])
def test_a_bad_manifest_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(FabricaError, match=r"manifest\.json"):
        RunStore.open(tmp_path)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(FabricaError, match="no run here"):
        RunStore.open(tmp_path / "none")


def test_reading_does_not_allow_appending(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "r", manifest()).close()
    with pytest.raises(ValueError, match="not open for writing"):
        RunStore.open(tmp_path / "r").append(job(1))


@given(text=st.text(max_size=200))
def test_texts_are_kept_by_content(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with RunStore.create(tmp_path_factory.mktemp("t") / "r", manifest()) as store:
        digest = store.put_text(text)
        assert store.put_text(text) == digest
        assert store.get_text(digest) == text


@pytest.mark.parametrize("digest", ["../../etc/passwd", "", "A" * 64, "0" * 63])
def test_only_digests_lead_to_files(tmp_path: Path, digest: str) -> None:
    with RunStore.create(tmp_path / "r", manifest()) as store, pytest.raises(FabricaError, match="not a digest"):
        store.get_text(digest)


def test_the_index_is_rebuilt_from_the_records(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r", manifest()) as store:
        store.append(job(1))
        assert store.index().execute("select task, attempt from records").fetchall() == [("T", 1)]
        store.append(job(2))
        assert store.index().execute("select count(*) from records").fetchone() == (2,)
        (tmp_path / "r" / "index.sqlite").write_bytes(b"not a database, not a database, not a database")
        rows = store.index().execute("select body from records order by line").fetchall()
        assert [json.loads(body)["attempt"] for (body,) in rows] == [1, 2]


def test_differences_of_configurations_are_listed() -> None:
    assert config_difference({"a": 1, "b": [1]}, {"a": 1, "b": [1]}) == []
    assert config_difference({"a": 1, "b": 2}, {"a": 3}) == ["a: 1 -> 3", "b: 2 -> null"]
