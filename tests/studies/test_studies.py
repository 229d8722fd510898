"""Protocols as data: every one can be planned, has its own denominators, and is refused without its controls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from helpers.answering import answers
from helpers.double_it import plain
from helpers.many_runs import invalid, write_run
from helpers.sample_run import make_valid

from fabrica_bench.cli.main import main
from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError
from fabrica_bench.report import load_report
from fabrica_bench.report.figures import figures
from fabrica_bench.runs.execution import RunInterrupted
from fabrica_bench.runs.summary import load_summary
from fabrica_bench.runs.usage import Usage
from fabrica_bench.scoring.verdict import Predicate
from fabrica_bench.studies import list_studies, load_study, plan_study, study_json_schema
from fabrica_bench.studies.planning import Prices
from fabrica_bench.studies.protocol import CONTROLS
from fabrica_bench.studies.proxy import chrf, vocabulary
from fabrica_bench.studies.results import (
    ArmResult,
    StudyResult,
    load_results,
    results_html,
    results_json,
    results_markdown,
    transfer_table,
)
from fabrica_bench.studies.running import run_study

NAMES = [study.name for study in list_studies()]


def test_the_published_protocols_are_there_with_their_denominators():
    """Set sizes are the published ones; the five repeats and five modes as well."""
    found = {s.name: [arm.denominator for arm in s.arms] for s in list_studies()}
    assert found == {
        "controlled-comparison": [28, 28],
        "coverage": [49, 6],
        "feedback-ablation": [40] * 5,
        "finetuning-proxy": [41],
        "hardware-replay": [14, 14],
        "knowledge-ablation": [15, 15, 15],
        "model-study": [28, 12],
        "optimization-only": [14],
    }
    assert sum(found["coverage"]) == 55


@pytest.mark.parametrize("name", NAMES)
def test_every_study_runs_with_every_control_and_prints_its_estimate_first(name, tmp_path):
    study = load_study(name)
    assert set(CONTROLS) <= set(study.controls)
    if study.kind == "replay":
        with pytest.raises(FabricaError, match="name it"):
            plan_study(study, agent="fabrica", out=tmp_path)
        return
    plan = plan_study(study, agent="fabrica", out=tmp_path, prices=Prices(3.0, 15.0))
    assert {run.config.agent for run in plan.runs if run.control} == set(CONTROLS)
    arms = [run for run in plan.runs if not run.control]
    assert [run.config.study for run in arms] == [f"{name}/{arm.name}" for arm in study.arms]
    for run, arm in zip(arms, study.arms, strict=True):
        assert run.attempts + len(run.unwritten) * arm.repeat == arm.denominator
    bounds = plan.estimate()
    assert bounds["attempts"] == sum(run.attempts for run in arms)
    assert bounds["evaluations_at_most"] > 0


def test_the_schema_describes_the_packages_own_files():
    jsonschema = pytest.importorskip("jsonschema")
    schema = study_json_schema()
    for path in (Path(__file__).parents[2] / "fabrica_bench" / "studies" / "data").glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x"}, schema)


def own_study(tmp_path: Path, **changes: object) -> Path:
    body = {
        "schema_version": 1,
        "name": "mine",
        "title": "Mine",
        "question": "Does it matter?",
        "compare": [["calm", "wild"]],
        "arms": [
            {"name": "calm", "what": "one", "filter": ["name=Double-It"], "toolchain": "scripted"},
            {"name": "wild", "what": "two", "filter": ["name=Double-It"], "toolchain": "scripted", "repeat": 2},
        ],
        **changes,
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"published": True}, "runs with its controls; missing: reference"),
        ({"arms": []}, "arms"),
        ({"compare": [["calm", "nobody"]]}, "nobody"),
        ({"colour": "red"}, "colour"),
        ({"arms": [{"name": "a", "what": "b", "filter": ["set=core"], "denominator": 3}], "compare": []}, "give 28"),
        ({"arms": [{"name": "a", "what": "b", "filter": ["set=cores"]}], "compare": []}, "cores"),
        ({"arms": [{"name": "a", "what": "b", "filter": ["level=1"], "repeat": True}], "compare": []}, "repeat"),
        (
            {"arms": [{"name": "a", "what": "b", "filter": ["level=1"], "budget": {"tokens": True}}], "compare": []},
            "tokens",
        ),
    ],
)
def test_a_study_that_is_none_names_the_file_and_the_field(tmp_path, changes, message):
    path = own_study(tmp_path, **changes)
    with pytest.raises(FabricaError) as caught:
        load_study(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": "gigantic"}, "unknown size of ReLU-1PE 'gigantic'"),
        ({"toolchain": "embeded"}, "unknown toolchain 'embeded'"),
    ],
)
def test_an_arm_that_cannot_run_is_refused_before_the_first_one_runs(tmp_path, wrong, message):
    arms = [{"name": name, "what": name, "filter": ["name=ReLU-1PE"]} for name in ("first", "second")]
    arms[1].update(wrong)
    path = tmp_path / "late.yaml"
    data = {"schema_version": 1, "name": "late", "title": "Late", "question": "When?", "arms": arms}
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    for only_shown in (True, False):
        with pytest.raises(FabricaError, match=message):
            plan_study(load_study(str(path)), agent="null", out=tmp_path / "out", only_shown=only_shown)
    assert not (tmp_path / "out").exists()


def test_a_study_of_ones_own_is_read_whatever_its_file_is_called(tmp_path, monkeypatch):
    own_study(tmp_path).rename(tmp_path / "mine.txt")
    assert load_study(str(tmp_path / "mine.txt")).name == "mine"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "coverage").write_text("something else", encoding="utf-8")
    assert load_study("coverage").published


def test_an_unknown_study_names_the_near_ones():
    with pytest.raises(UnknownNameError) as caught:
        load_study("feedback-ablatio")
    assert "feedback-ablation" in str(caught.value.remedy)


def test_an_unknown_agent_names_the_near_one(tmp_path):
    with pytest.raises(UnknownNameError, match=r"unknown agent 'fabrika' \(did you mean fabrica"):
        plan_study(load_study(str(own_study(tmp_path))), agent="fabrika", out=tmp_path, only_shown=True)


def test_a_study_that_is_not_there_or_is_none_says_what_a_study_needs(tmp_path):
    with pytest.raises(FabricaError, match=r"there is no such file \(check the path\)"):
        load_study(str(tmp_path / "nowhere.yaml"))
    with pytest.raises(FabricaError, match="the file: compare names the arm tame, which doesn't exist"):
        load_study(str(own_study(tmp_path, compare=[["calm", "tame"]])))


def test_a_control_that_is_not_installed_refuses_the_study(tmp_path):
    study = load_study(str(own_study(tmp_path, controls=["reference", "nobody"])))
    with pytest.raises(FabricaError, match="needs the agent nobody"):
        plan_study(study, agent="fabrica", out=tmp_path)


def test_an_option_that_the_agent_does_not_know_is_found_before_anything_runs(tmp_path):
    arm = {"name": "hasty", "what": "two repairs", "filter": ["set=probe"], "options": {"repair": "2"}}
    study = load_study(str(own_study(tmp_path, controls=["reference"], compare=[], arms=[arm])))
    with pytest.raises(FabricaError, match=r"option of agent fabrica 'repair' \(did you mean repairs"):
        plan_study(study, agent="fabrica", out=tmp_path, only_shown=True)


def test_a_study_of_ones_own_runs_resumes_and_never_pools_its_arms(tmp_path, toys):
    study = load_study(str(own_study(tmp_path, controls=["reference"])))
    plan = plan_study(study, agent="toy", out=toys, jobs=2)
    assert [run.label.split("/")[0] for run in plan.runs] == ["controls", "calm", "wild"]  # one control for both arms
    run_study(plan)
    again = plan_study(study, agent="toy", out=toys)
    assert [run.owed for run in again.runs] == [0, 0, 0]
    result = load_results(study, toys, {"calm": 1, "wild": 2})
    assert [arm.planned for arm in result.arms] == [1, 2]
    assert [arm.figures.total for arm in result.arms] == [1, 2]
    assert all(arm.publishable for arm in result.arms)
    assert any("not distinguishable" in text for text in result.findings)
    body = json.loads(results_json(result))
    assert [arm["denominator"] for arm in body["arms"]] == [1, 2]
    text = results_markdown(result)
    assert "never pooled" in text
    assert "\\" not in text.split("## Words")[0]  # a terminal shows it as it is
    partial = load_results(study, toys, {"calm": 1, "wild": 5})
    assert "partial: 2 of 5" in results_markdown(partial)


def test_a_control_that_does_not_hold_stops_a_published_study(tmp_path, toys, monkeypatch):
    study = load_study(str(own_study(tmp_path, controls=["reference"])))
    study = study.model_copy(update={"published": True})
    monkeypatch.setattr("fabrica_bench.studies.running.control_holds", lambda report: False)
    with pytest.raises(FabricaError, match="control reference does not hold"):
        run_study(plan_study(study, agent="toy", out=toys))
    assert not (toys / "calm" / "run").exists()


def test_an_interrupted_study_is_continued_with_its_own_command(tmp_path, toys, monkeypatch):
    def interrupt(config, progress):
        raise RunInterrupted("interrupted: 0 of 1 results are kept", place=str(config.out), remedy="with this --out")

    monkeypatch.setattr("fabrica_bench.studies.running.execute_run", interrupt)
    with pytest.raises(RunInterrupted, match="give the study's command again") as caught:
        run_study(plan_study(load_study(str(own_study(tmp_path))), agent="toy", out=toys))
    assert caught.value.code == ExitCode.INTERRUPTED


def test_a_missing_key_is_found_before_the_controls_run(tmp_path, toys, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    study = load_study(str(own_study(tmp_path, controls=["reference"])))
    with pytest.raises(FabricaError, match="no key for anthropic"):
        run_study(plan_study(study, agent="toy", out=toys, model="anthropic:NAME"))
    assert not (toys / "controls").exists()


def test_a_replay_scores_the_same_candidates_on_two_targets(tmp_path, toys):
    arms = [
        {"name": "first", "what": "a", "filter": ["name=Double-It"], "toolchain": "scripted"},
        {"name": "second", "what": "b", "filter": ["name=Double-It"], "toolchain": "scripted", "arch": "wse2"},
    ]
    translated = load_study(str(own_study(tmp_path, arms=arms[:1], compare=[])))
    run_study(plan_study(translated, agent="toy", out=toys))
    source = toys / "first" / "run"
    replay = load_study(str(own_study(tmp_path, arms=arms, compare=[], kind="replay")))
    out = tmp_path / "replayed"
    run_study(plan_study(replay, agent="toy", out=out, replay=source))
    before, after = load_summary(source), load_summary(out / "second" / "run")
    assert [(row.valid, row.cycles) for row in after.rows] == [(row.valid, row.cycles) for row in before.rows]
    result = load_results(replay, out, {"first": 1, "second": 1})
    assert [item.ratio for item in result.transfers] == [1.0]
    assert "transfer (ratio)" in results_markdown(result)
    page = results_html(result)
    assert ("<circle" in page, "<polygon" in page) == (True, True)  # the pair of targets is two marks


def test_a_replay_of_a_run_over_other_tasks_is_refused_before_its_controls_run(tmp_path):
    other = write_run(tmp_path / "other", "other", {"ReLU-1PE": make_valid(100, 200)})
    with pytest.raises(FabricaError, match=r"none of the 14 tasks of arm first \(set=w2\)"):
        plan_study(load_study("hardware-replay"), agent="null", out=tmp_path / "study", replay=other)


def replayed(cycles: dict[str, tuple[tuple[int, int] | None, tuple[int, int] | None]], folder: Path) -> StudyResult:
    """Results of the published replay with (cycles, reference cycles) of every task on its two targets."""
    study = load_study("hardware-replay")
    reports = []
    for place in (0, 1):
        verdicts = {
            task: make_valid(*pair[place]) if pair[place] else invalid(Predicate.CORRECT, "differs")
            for task, pair in cycles.items()
        }
        reports.append(load_report(write_run(folder / str(place), f"target{place}", verdicts)))
    arms = tuple(
        ArmResult(arm.name, arm.what, report, 14, figures(report.summary), Usage(), {})
        for arm, report in zip(study.arms, reports, strict=True)
    )
    return StudyResult(study, arms, (), transfer_table(*reports))


def test_the_transfer_is_the_ratio_of_the_speed_ups_each_over_its_own_targets_reference(tmp_path):
    pairs = {"GEMV": ((100, 200), (400, 600)), "GEMM": ((50, 100), None), "CG": ((100, 100), (50, 150))}
    result = replayed(pairs, tmp_path)
    assert [item.ratio for item in result.transfers] == [pytest.approx(1.5 / 2), None, pytest.approx(3.0)]
    mean, interval, tasks = result.transfer_mean
    assert (mean, tasks) == (pytest.approx((0.75 * 3) ** 0.5), 2)
    assert interval.low <= mean <= interval.high
    table = [line for line in results_markdown(result).splitlines() if line.startswith(("| GEM", "| CG"))]
    assert table[0] == "| GEMV | 200 | 100 | 2.000 | 600 | 400 | 1.500 | 0.750 |"
    assert table[1] == "| GEMM | 100 | 50 | 2.000 | – | – | – | – |"
    first = json.loads(results_json(result))["transfers"][0]
    assert (first["reference_cycles_second"], first["cycles_second"], first["speedup_second"]) == (600, 400, 1.5)


def test_without_a_program_that_is_valid_on_both_targets_there_is_no_transfer(tmp_path):
    result = replayed({"GEMV": ((100, 200), None)}, tmp_path)
    assert result.transfer_mean is None
    assert "there is no transfer" in results_markdown(result)
    assert json.loads(results_json(result))["transfer_geometric_mean"] is None


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_of_every_study_prints_what_it_may_cost_and_does_nothing(name, capsys, tmp_path):
    words = ["study", "run", name, "--agent", "fabrica", "--out", str(tmp_path / "s"), "--dry-run"]
    assert main([*words, "--model", "anthropic:some", "--price-in", "3", "--price-out", "15", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {run["config"]["model"] for run in plan["runs"] if run["control"]} == {"lowering"}
    assert {run["config"]["model"] for run in plan["runs"] if not run["control"]} == {"anthropic:some"}
    bounds = plan["estimate"]
    assert bounds["attempts"] == sum(arm.denominator for arm in load_study(name).arms)
    if name == "hardware-replay":  # the agent doesn't work, whatever its model is
        assert (bounds["tokens_at_most"], bounds["cost_usd_at_most"], bounds["evaluations_at_most"]) == (0, 0, 0)
    else:
        assert bounds["cost_usd_at_most"] == pytest.approx(bounds["tokens_at_most"] * 15e-6)
    assert main(words) == 0
    assert "estimate:" in capsys.readouterr().out
    assert not (tmp_path / "s").exists()


def test_limits_of_cost_bound_the_estimate_where_no_price_is_known(tmp_path):
    arms = [{"name": "a", "what": "b", "filter": ["name=GEMV"], "repeat": 3, "budget": {"cost_usd": 0.5}}]
    study = load_study(str(own_study(tmp_path, arms=arms, compare=[])))
    plan = plan_study(study, agent="single-shot", out=tmp_path, model="anthropic:some", overrides={"max_cost": 1.2})
    assert plan.estimate()["cost_usd_at_most"] == pytest.approx(1.2)
    plan = plan_study(study, agent="single-shot", out=tmp_path, model="anthropic:some")
    assert plan.estimate()["cost_usd_at_most"] == pytest.approx(1.5)
    free = load_study(str(own_study(tmp_path, arms=[{**arms[0], "budget": {}}], compare=[])))
    assert (
        plan_study(free, agent="single-shot", out=tmp_path, model="anthropic:some").estimate()["cost_usd_at_most"]
        is None
    )


def test_the_agent_of_a_study_asks_the_model_that_was_named(tmp_path, toys, capsys):
    arms = [{"name": "only", "what": "a", "filter": ["name=Double-It"], "toolchain": "scripted"}]
    path = own_study(tmp_path, arms=arms, compare=[])
    words = ["study", "run", str(path), "--agent", "single-shot", "--out", str(toys), "--json"]
    thread = answers(tmp_path / "x", plain())
    assert main([*words, "--model", f"exchange:{tmp_path / 'x'}"]) == 0
    thread.join()
    (arm,) = json.loads(capsys.readouterr().out)["arms"]
    assert (arm["valid"], arm["usage"]["calls"]) == (1, 1)
    assert (arm["denominator"], arm["state"]) == (1, "complete, without controls")  # a task of one's own counts too
    assert {path.name for path in toys.glob("study.*")} == {"study.html", "study.json", "study.md"}


def test_the_command_line_shows_lists_and_plans(capsys, tmp_path):
    assert main(["study", "list", "--json"]) == 0
    assert [item["name"] for item in json.loads(capsys.readouterr().out)] == NAMES
    assert main(["study", "show", "coverage"]) == 0
    assert "denominator 49" in capsys.readouterr().out
    assert main(["study", "run", "model-study", "--agent", "fabrica", "--out", str(tmp_path), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "estimate:" in out
    assert "core-hours" in out
    assert not any(tmp_path.iterdir())
    assert main(["study", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Study"


def test_chrf_of_equal_texts_is_100_and_of_strangers_0():
    assert chrf("const x = 1;", "const x = 1;") == pytest.approx(100)
    assert chrf("aaaa", "bbbb") == 0.0
    assert chrf("", "abc") == 0.0


def test_chrf_is_sacrebleus():
    sacrebleu = pytest.importorskip("sacrebleu")
    pairs = [("fn main() void {}", "fn main() void { return; }"), ("a b c d e f", "a b x d e f g"), ("abc", "abcdefgh")]
    for hypothesis, reference in pairs:
        expected = sacrebleu.sentence_chrf(hypothesis, [reference]).score
        assert chrf(hypothesis, reference) == pytest.approx(expected, abs=1e-6)


def test_vocabulary_counts_what_the_language_has():
    assert vocabulary("@fadds(a, b); @get_dsd(x); @invented();  // @not_code") == pytest.approx(2 / 3)
    assert vocabulary("no names") == 1.0
