"""A run as one file: the same bytes for the same run, refused when anything in it was changed, checked by execution."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from helpers.double_it import FIXTURE_TASKS
from helpers.sample_run import write_sample_run

from fabrica_bench.cli.main import main
from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.plugins import Budget
from fabrica_bench.report.bundle import pack_run, unpack_bundle
from fabrica_bench.report.leaderboard import add_bundle, load_entries, write_leaderboard
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run

ROOT = Path(__file__).parents[2]
TOY_AGENTS = Path(__file__).parents[1] / "fixtures" / "agents"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    """A finished run of the toy agent, and the surroundings in which it can be executed again."""
    folder = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FABRICA_BENCH_TASKS", str(FIXTURE_TASKS))
        patch.setenv("FABRICA_BENCH_TEST_DOUBLES", "1")
        patch.setenv("FABRICA_BENCH_KEYS", str(folder / "keys"))
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TOY_AGENTS, ROOT, ROOT / "agents"))))
        patch.syspath_prepend(str(TOY_AGENTS))
        budget = Budget(evaluations=5, wall_s=20.0, tokens=0)
        config = RunConfig(
            agent="toy", tasks=("Double-It",), out=folder / "run", toolchain="scripted", budget=budget, repeat=2
        )
        execute_run(config)
        yield folder / "run"


def test_a_bundle_gets_in_by_re_execution_and_has_the_same_bytes_again(finished, tmp_path):
    digest = pack_run(finished, tmp_path / "one")
    assert pack_run(finished, tmp_path / "two") == digest
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert add_bundle(tmp_path / "board", tmp_path / "one") == digest
    (entry,) = load_entries(tmp_path / "board")
    assert entry.verified
    assert entry.report.summary.valid == 2
    assert {path.suffix for path in write_leaderboard(tmp_path / "board")} == {".html", ".md", ".csv", ".json"}
    assert add_bundle(tmp_path / "board", tmp_path / "two") == digest  # adding it again changes nothing
    assert len(load_entries(tmp_path / "board")) == 1
    assert not list((tmp_path / "board").glob(".adding-*"))


def boast(record):
    """Verdicts that say more than was measured."""
    if record["record"] == "verdict":
        record["verdict"].update(cycles=10, speedup=100.0)
    return record


def forged(finished: Path, folder: Path, change=boast) -> Path:
    """The run with changed records (None leaves one out), packed properly."""
    copy = folder / "forged"
    shutil.copytree(finished, copy)
    path = copy / "records.jsonl"
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = change(json.loads(line))
        if record is not None:
            lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    pack_run(copy, folder / "forged.fabrica")
    return folder / "forged.fabrica"


def test_a_forged_verdict_is_refused_and_leaves_nothing(finished, tmp_path):
    with pytest.raises(FabricaError, match="2 of 2 verdicts come out otherwise"):
        add_bundle(tmp_path / "board", forged(finished, tmp_path))
    assert load_entries(tmp_path / "board") == []


def test_verdicts_whose_candidates_were_left_out_are_refused(finished, tmp_path):
    """Nothing could be executed again, so nothing would come out otherwise."""
    path = forged(finished, tmp_path, lambda record: None if record["record"] == "candidate" else boast(record))
    with pytest.raises(FabricaError, match=r"2 of 2 verdicts come out otherwise .* the run holds no candidate"):
        add_bundle(tmp_path / "board", path)


def test_a_success_at_an_attempt_that_was_not_made_is_refused(finished, tmp_path):
    def move(record):
        return {**record, "attempt": 7} if record.get("attempt") == 2 else record

    with pytest.raises(FabricaError, match="1 of 2 attempts are owed"):
        forged(finished, tmp_path, move)


def test_a_bundle_without_its_key_asks_for_it(finished, tmp_path):
    pack_run(finished, tmp_path / "no-key", with_key=False)
    with pytest.raises(FabricaError, match="no held-out key"):
        add_bundle(tmp_path / "board", tmp_path / "no-key")


def test_a_run_with_a_key_of_ones_own_is_packed_with_its_file(finished, tmp_path, monkeypatch, capsys):
    (kept,) = Path(os.environ["FABRICA_BENCH_KEYS"]).iterdir()
    own = shutil.copy(kept, tmp_path / "my.key")
    monkeypatch.setenv("FABRICA_BENCH_KEYS", str(tmp_path / "none"))
    words = ["submit", str(finished), "--out", str(tmp_path / "bundle")]
    assert main(words) == ExitCode.BAD_INPUT
    assert "--key FILE" in capsys.readouterr().err
    assert main([*words, "--key", str(own)]) == ExitCode.OK
    assert kept.read_bytes() in (tmp_path / "bundle").read_bytes()


def rewritten(source: Path, target: Path, change) -> Path:
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update({"records.jsonl": m["records.jsonl"] + b"\n"}), "changed: records.jsonl"),
        (lambda m: m.update({"../evil": b"x"}), "doesn't belong"),
        (lambda m: m.update({"files/aa/../../x": b"x"}), "doesn't belong"),
        (lambda m: m.pop("bundle.json"), "missing or damaged"),
        (lambda m: m.pop("key"), "changed: key"),
        (lambda m: m.update({"bundle.json": b"[]"}), "missing or damaged"),
        (lambda m: m.update({"bundle.json": b"[" * 100_000}), "missing or damaged"),
        (lambda m: m.update({"bundle.json": b'{"digest": "", "format": 1, "members": [1]}'}), "missing or damaged"),
        (lambda m: m.update({"bundle.json": m["bundle.json"].replace(b'"toy"', b'"me"')}), "changed: bundle.json"),
    ],
)
def test_a_changed_bundle_is_refused(finished, tmp_path, change, message):
    pack_run(finished, tmp_path / "good")
    bad = rewritten(tmp_path / "good", tmp_path / "bad", change)
    with pytest.raises(FabricaError, match=message):
        unpack_bundle(bad, tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda manifest: manifest["config"].update(tasks=5), "config.tasks"),
        (lambda manifest: manifest["config"].pop("agent"), "config.agent"),
        (lambda manifest: manifest.update(run_id="../../x"), "run_id"),
    ],
)
def test_a_bundle_whose_run_never_was_one_is_refused(finished, tmp_path, change, field):
    """Digests and all are in order: whoever made it up computed them again."""

    def make_up(members):
        manifest = json.loads(members["manifest.json"])
        change(manifest)
        members["manifest.json"] = json.dumps(manifest).encode()
        head = json.loads(members["bundle.json"])
        del head["digest"]
        head["members"] = {n: hashlib.sha256(d).hexdigest() for n, d in members.items() if n != "bundle.json"}
        digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()
        members["bundle.json"] = json.dumps({**head, "digest": digest}).encode()

    pack_run(finished, tmp_path / "good")
    bad = rewritten(tmp_path / "good", tmp_path / "bad", make_up)
    with pytest.raises(FabricaError, match=f"not a run manifest of this version: {field}"):
        add_bundle(tmp_path / "board", bad)


def test_what_is_no_archive_is_named(tmp_path):
    (tmp_path / "x").write_bytes(b"hello")
    with pytest.raises(FabricaError, match="not a bundle") as caught:
        unpack_bundle(tmp_path / "x", tmp_path / "into")
    assert caught.value.place == str(tmp_path / "x")


def test_a_partial_run_is_not_packed(tmp_path):
    run = write_sample_run(tmp_path / "run")
    with pytest.raises(FabricaError, match="partial: 1 of 5"):
        pack_run(run, tmp_path / "b", with_key=False)
    assert not (tmp_path / "b").exists()


def test_a_zip_bomb_is_refused_by_its_directory(tmp_path):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("records.jsonl", b"\0" * 1_000_000)
    (tmp_path / "bomb").write_bytes(data.getvalue())
    with pytest.raises(FabricaError, match="compressed"):
        unpack_bundle(tmp_path / "bomb", tmp_path / "into")
