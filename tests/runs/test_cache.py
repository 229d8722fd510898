"""Evaluations are computed once per content key: in a job, in a run, on resume and between runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.double_it import KEY, all_cases, candidate, double_it, scripted_scorer

from fabrica_bench.errors import FabricaError
from fabrica_bench.plugins import Budget
from fabrica_bench.runs.cache import EvaluationCache, evaluation_from_json, evaluation_to_json, shared_folder
from fabrica_bench.runs.config import RunConfig
from fabrica_bench.runs.execution import execute_run
from fabrica_bench.runs.planning import plan_run
from fabrica_bench.runs.records import Measured, SessionEnded, VerdictRecord
from fabrica_bench.runs.store import RunStore
from fabrica_bench.runs.usage import Usage, total_usage
from fabrica_bench.runs.verification import verify_run
from fabrica_bench.scoring.conditions import Conditions
from fabrica_bench.scoring.scorer import Scorer
from fabrica_bench.scoring.validity import content_key, split_cases
from fabrica_bench.toolchains.doubles import ScriptedToolchain
from fabrica_bench.toolchains.landlock import landlock_abi

Config = Callable[..., RunConfig]


def measured(run_dir: Path) -> list[Measured]:
    return [record for record in RunStore.open(run_dir).records() if isinstance(record, Measured)]


def test_the_score_takes_over_what_the_agent_has_run_and_the_reference_is_measured_once(config: Config) -> None:
    settings = config(repeat=3, jobs=2)
    execute_run(settings)
    # Per attempt the candidate on visible and on held-out inputs; the reference once on both.
    assert len(measured(settings.out)) == 3 * 2 + 2
    assert len({record.key for record in measured(settings.out)}) == 8
    assert all(record.evaluation["log"] == "" for record in measured(settings.out))


def test_an_evaluation_that_an_agent_and_the_score_share_is_computed_once() -> None:
    scorer, toolchain = scripted_scorer()
    files = candidate(cycles=400)
    scorer.compile(files)
    scorer.evaluate(files, all_cases()[:3])
    scorer.judge(files, all_cases())
    assert (toolchain.builds, toolchain.runs) == (2, 3 + 5 + 8)


@pytest.mark.parametrize("change", ["candidate", "cases", "arch", "size", "workflow", "digest", "repeat"])
def test_whatever_decides_a_result_changes_its_key(change: str) -> None:
    def key(**changes: object) -> str:
        fields = {"arch": "wse3", "size": "small", "workflow": "W1"}
        fields |= {name: value for name, value in changes.items() if name in fields}
        conditions = Conditions(double_it(), ScriptedToolchain(), **fields)
        return content_key(
            conditions,
            changes.get("candidate", candidate()),
            changes.get("cases", all_cases()),
            changes.get("digest", "d"),
            changes.get("repeat", 1),
        )

    other = {
        "candidate": candidate(cycles=1),
        "cases": all_cases()[:3],
        "arch": "wse2",
        "size": "large",
        "workflow": "W2",
        "digest": "e",
        "repeat": 2,
    }
    assert key() == key()
    assert key() != key(**{change: other[change]})


def test_a_changed_evaluation_survives_its_coding() -> None:
    scorer, _ = scripted_scorer()
    for files in (candidate(), candidate(outputs="nan"), candidate(build="error")):
        evaluation = scorer.evaluate(files, all_cases())
        assert evaluation_from_json(evaluation_to_json(evaluation)) == evaluation
    with pytest.raises(ValueError, match="not an evaluation"):
        evaluation_from_json({"results": [{}]})


@pytest.mark.skipif(not landlock_abi(), reason="the kernel has no Landlock, so nothing is kept between runs")
def test_another_run_with_the_same_key_takes_over_and_says_so(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICA_BENCH_EVALUATIONS", str(tmp_path / "cache"))
    key = tmp_path / "my.key"
    KEY.write(key)
    first = execute_run(config(out=tmp_path / "one", key_file=key))
    second = execute_run(config(out=tmp_path / "two", key_file=key))
    assert [row.verdict for row in first.rows] == [row.verdict for row in second.rows]
    assert [record.taken_over for record in measured(tmp_path / "one")] == [False] * 4
    assert [record.taken_over for record in measured(tmp_path / "two")] == [True] * 4
    plan = plan_run(config(out=tmp_path / "three", key_file=key))
    assert [(row.state, row.reference) for row in plan.rows] == [("owed", "cached: visible, held-out")]
    assert not (tmp_path / "three").exists()
    # Verification computes everything again, whatever the cache says.
    for path in (tmp_path / "cache").glob("*/*.json"):
        path.write_text(path.read_text(encoding="utf-8").replace("1000", "999"), encoding="utf-8")
    assert verify_run(tmp_path / "one", key_file=key).ok


def test_a_damaged_or_foreign_cache_file_counts_as_none(tmp_path: Path) -> None:
    cache = EvaluationCache(tmp_path)
    scorer, _ = scripted_scorer()
    value = evaluation_to_json(scorer.evaluate(candidate(), all_cases()[:3]))
    cache.keep("ab" * 32, value)
    assert EvaluationCache(tmp_path).find("ab" * 32) == value
    (path,) = tmp_path.glob("*/*.json")
    other = tmp_path / "cd" / ("cd" * 31 + ".json")
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    assert EvaluationCache(tmp_path).find("cd" * 32) is None
    path.write_bytes(path.read_bytes()[:-9])
    assert EvaluationCache(tmp_path).find("ab" * 32) is None


def test_without_confinement_nothing_is_kept_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FABRICA_BENCH_EVALUATIONS", "/somewhere")
    monkeypatch.setattr("fabrica_bench.runs.cache.landlock_abi", lambda: 0)
    assert shared_folder() is None


def test_a_build_that_was_tampered_with_is_made_again() -> None:
    scorer, toolchain = scripted_scorer()
    files = candidate()
    built = scorer.workshop.build(files)
    assert scorer.workshop.build(files) is built
    assert built.result.artifact is not None
    (built.result.artifact / "pe.csl").write_text("other", encoding="utf-8")
    assert built.altered()
    assert scorer.workshop.build(files) is not built
    assert toolchain.builds == 2


def test_a_workshop_leaves_no_clone_behind() -> None:
    scorer, _ = scripted_scorer()
    with scorer:
        roots = [scorer.workshop.build(candidate(cycles=number)).stage.root for number in range(100, 106)]
        assert sum(root.exists() for root in roots) == 3
    assert not any(root.exists() for root in roots)


def test_groups_are_visible_before_held_out_and_never_empty() -> None:
    assert [len(group) for group in split_cases(all_cases())] == [3, 5]
    assert split_cases(()) == [()]
    assert [len(group) for group in split_cases(all_cases()[:3])] == [3]


def test_the_order_of_a_shuffled_run_and_the_agents_seeds_come_from_the_seed() -> None:
    def config(**fields: object) -> RunConfig:
        return RunConfig(agent="a", tasks=("X", "Y", "Z"), out=Path("o"), repeat=4, **fields)

    plain, shuffled = config(), config(shuffle=True, seed=3)
    assert plain.order()[:4] == [("X", 1), ("Y", 1), ("Z", 1), ("X", 2)]
    assert sorted(shuffled.order()) == sorted(plain.order())
    assert shuffled.order() != plain.order()
    assert shuffled.order() == config(shuffle=True, seed=3).order() != config(shuffle=True, seed=4).order()
    seeds = {plain.agent_seed(*job) for job in plain.order()}
    assert len(seeds) == 12
    assert plain.agent_seed("X", 1) != config(seed=1).agent_seed("X", 1)


def test_the_cost_limit_stops_a_run_which_then_is_partial_and_can_go_on(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICA_AGENT_TOY", "costly")
    settings = config(repeat=4, jobs=1, max_cost=1.0)
    summary = execute_run(settings)
    records = RunStore.open(settings.out).records()
    assert (len(summary.rows), summary.partial) == (2, True)  # 0.75 each: the second goes over
    assert [record.reason for record in records if isinstance(record, SessionEnded)] == ["cost"]
    usage = total_usage(record.usage for record in records if isinstance(record, VerdictRecord))
    assert usage == Usage(calls=2, input_tokens=200, output_tokens=20, cost_usd=1.5)
    assert not execute_run(settings.model_copy(update={"max_cost": 9.0})).partial


def test_the_agent_gets_its_options_and_its_seed(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    from fabrica_bench.runs.records import AgentEvent

    settings = config(options={"toy": "tell", "mode": "C"}, seed=5, repeat=2)
    execute_run(settings)
    events = [r for r in RunStore.open(settings.out).records() if isinstance(r, AgentEvent) and r.event == "told"]
    assert {event.data["mode"] for event in events} == {"C"}
    assert {int(event.data["seed"]) for event in events} == {settings.agent_seed("Double-It", k) for k in (1, 2)}
    with pytest.raises(FabricaError, match='"mode": "C"'):
        execute_run(settings.model_copy(update={"options": {"toy": "tell", "mode": "D"}}))


def test_a_model_call_through_the_harness_costs_what_its_reply_says() -> None:
    from fabrica_bench.runs.execution import cost_of
    from fabrica_bench.models.replay import MODEL_CALL
    from fabrica_bench.runs.records import AgentEvent

    def event(name: str, data: dict[str, object]) -> float:
        return cost_of(AgentEvent(task="T", attempt=1, event=name, data=data))

    assert event(MODEL_CALL, {"reply": {"cost_usd": 0.25}}) == 0.25
    assert event(MODEL_CALL, {"reply": None, "error": "no answer"}) == 0.0
    assert event("usage", {"cost_usd": 0.5}) == 0.5
    assert event("plan", {"cost_usd": 9.0}) == 0.0


def test_nonsense_in_an_agents_account_counts_as_nothing() -> None:
    for value in (float("nan"), float("inf"), 1e308, 10**400, -1, "3", True, None, [1]):
        assert Usage().plus({"input_tokens": value, "cost_usd": value}) == Usage(calls=1)


def test_a_run_is_verified_with_the_tasks_that_it_used(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from helpers.double_it import FIXTURE_TASKS

    mine = tmp_path / "mine"
    shutil.copytree(FIXTURE_TASKS, mine)
    monkeypatch.delenv("FABRICA_BENCH_TASKS")
    settings = config(tasks_dir=mine)
    execute_run(settings)
    assert RunStore.open(settings.out).manifest.tasks_dir == str(mine)
    assert verify_run(settings.out).ok
    moved = mine.rename(tmp_path / "moved")
    with pytest.raises(FabricaError):
        verify_run(settings.out)
    assert verify_run(settings.out, tasks_dir=moved).ok


def test_a_sample_is_verified_and_the_rest_is_said_to_be_left_out(config: Config) -> None:
    settings = config(repeat=3)
    execute_run(settings)
    report = verify_run(settings.out, sample=1, sample_seed=2)
    assert (report.checked, report.ok) == (1, True)
    assert [row.detail for row in report.rows].count("not in the sample") == 2
    again = verify_run(settings.out, sample=1, sample_seed=2)
    assert [row.same for row in again.rows] == [row.same for row in report.rows]


def test_the_scorer_of_another_attempt_measures_for_itself() -> None:
    class Shared:
        def __init__(self) -> None:
            self.kept: dict[str, object] = {}

        def find(self, key: str):
            return self.kept.get(key)

        def keep(self, key: str, evaluation: object) -> None:
            self.kept[key] = evaluation

    store, toolchain = Shared(), ScriptedToolchain()
    for repeat in (1, 2, 2):
        Scorer(Conditions(double_it(), toolchain), store, repeat=repeat).judge(candidate(), all_cases())
    # Two measurements of the candidate, one of the reference.
    assert toolchain.runs == 8 + 8 + 8


def test_budget_is_part_of_the_configuration(config: Config) -> None:
    execute_run(config())
    with pytest.raises(FabricaError, match="budget"):
        execute_run(config(budget=Budget(evaluations=6, wall_s=20.0, tokens=0)))
