"""From runs to a ranking, by the commands of docs/reports.md, with the real agents, tasks and toolchain."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

AGENTS = ("reference", "null", "copycat", "cheat", "fabrica")


def submit(cli, folder: Path, agent: str, filters: str) -> Path:
    """Run an agent, pack its run, and add the bundle to the leaderboard; returns the bundle."""
    run = folder / agent
    assert cli("run", "--agent", agent, "--filter", filters, "--out", run, "--jobs", 2).code == 0
    bundle = folder / f"{agent}.fabrica"
    assert cli("submit", run).out.splitlines()[0] == str(bundle)
    added = cli("leaderboard", "add", bundle, "--folder", folder / "board", "--jobs", 2)
    assert (added.code, added.out.split(":")[0]) == (0, "verified and added")
    return bundle


def ranking(cli, folder: Path) -> dict[str, dict]:
    outcome = cli("leaderboard", "show", "--folder", folder / "board", "--json")
    return {entry["name"]: entry for entry in outcome.json()["entries"]}


def test_runs_of_every_control_and_of_an_agent_get_in_by_re_execution(cli, tmp_path):
    for agent in AGENTS:
        submit(cli, tmp_path, agent, "name=ReLU-1PE")
    entries = ranking(cli, tmp_path)
    assert {name: entry["control_holds"] for name, entry in entries.items()} == {
        **dict.fromkeys(AGENTS[:4], True),
        "fabrica": None,
    }
    assert all(entry["verified"] for entry in entries.values())
    assert entries["fabrica"]["valid"] == 1
    # One task is no whole set: it is shown, and the only reason against a rank is that.
    assert entries["fabrica"]["not_ranked_because"] == ["its tasks are no whole set of the benchmark"]
    page = (tmp_path / "board" / "leaderboard.html").read_text(encoding="utf-8")
    assert "its tasks are no whole set of the benchmark" in page
    again = cli("leaderboard", "show", "--folder", tmp_path / "board")
    assert again.code == 0
    assert (tmp_path / "board" / "leaderboard.html").read_text(encoding="utf-8") == page

    # What says more than was measured is refused by execution, though it is packed properly.
    forged = tmp_path / "forged"
    shutil.copytree(tmp_path / "null", forged)
    records = forged / "records.jsonl"
    honest = [json.loads(line) for line in (tmp_path / "reference" / "records.jsonl").read_text("utf-8").splitlines()]
    (valid,) = [record["verdict"] for record in honest if record["record"] == "verdict"]
    lines = [json.loads(line) for line in records.read_text("utf-8").splitlines()]
    for record in lines:
        if record["record"] == "verdict":
            record["verdict"] = valid
    records.write_text("".join(json.dumps(record) + "\n" for record in lines), encoding="utf-8")
    manifest = json.loads((forged / "manifest.json").read_text("utf-8"))
    (forged / "manifest.json").write_text(json.dumps({**manifest, "run_id": "another"}), encoding="utf-8")
    assert cli("submit", forged).code == 0
    refused = cli("leaderboard", "add", tmp_path / "forged.fabrica", "--folder", tmp_path / "board")
    assert refused.code != 0
    assert "1 of 1 verdicts come out otherwise" in refused.err
    assert ranking(cli, tmp_path).keys() == entries.keys()


@pytest.mark.slow
def test_a_whole_set_is_ranked_and_a_hack_is_shown_without_a_rank(cli, tmp_path):
    for agent in AGENTS[:4]:
        submit(cli, tmp_path, agent, "set=diagnostic")
        entries = ranking(cli, tmp_path)
        assert entries[agent]["rank"] is None
    submit(cli, tmp_path, "fabrica", "set=diagnostic")
    entries = ranking(cli, tmp_path)
    assert (entries["fabrica"]["rank"], entries["fabrica"]["not_ranked_because"]) == (1, [])
    assert entries["fabrica"]["attempts"] == 8
    why = "replays outputs of the visible inputs"
    excluded = ("leaderboard", "exclude", entries["fabrica"]["run_id"], "--folder", tmp_path / "board")
    assert cli(*excluded, "--reason", why).code == 0
    found = ranking(cli, tmp_path)["fabrica"]
    assert (found["rank"], found["not_ranked_because"]) == (None, [f"excluded: {why}"])
    assert why in (tmp_path / "board" / "leaderboard.html").read_text(encoding="utf-8")
    assert cli(*excluded, "--reason", "").code == 0
    assert ranking(cli, tmp_path)["fabrica"]["rank"] == 1
    # Without a control that holds nobody is ranked.
    reference = next(
        path
        for path in (tmp_path / "board" / "entries").iterdir()
        if json.loads((path / "manifest.json").read_text("utf-8"))["config"]["agent"] == "reference"
    )
    shutil.rmtree(reference)
    assert ranking(cli, tmp_path)["fabrica"]["not_ranked_because"] == ["no verified control in this track: reference"]
