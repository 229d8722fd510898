"""The model-driven workflow with a scripted model and scripted evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from fabrica_agent.stages.checks import PE_BYTES, check_design
from fabrica_agent.stages.facts import gather
from fabrica_agent.stages.memory import History
from fabrica_agent.stages.pipeline import Translation
from fabrica_agent.stages.prompting import clean_output
from fabrica_agent.stages.records import Attempt, DesignD
from fabrica_agent.stages.review import triage
from fabrica_agent.stages.settings import Settings, read_settings

from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import (
    AgentGaveUp,
    Budget,
    CompileOutcome,
    ModelError,
    ModelReply,
    ModelRequest,
    TaskView,
    VisibleRun,
    WorkedExample,
)
from fabrica_bench.tasks import load_task

ANALYSIS = {"summary": "adds", "formula": "y = x", "kernels": [], "per_pe_algorithm": ["add"]}
COMMUNICATION = {"transfers": [], "order": "none", "on_layout": "none"}
NOTE = {"kind": "compile", "route": "implementer", "cause": "a slip", "action": "mend it"}
REDESIGN = {**NOTE, "kind": "memory", "route": "architect", "design_change": "smaller buffers"}
BUDGET = Budget(evaluations=50, wall_s=600, tokens=1000)


def design(**changes: Any) -> dict[str, Any]:
    plain = {
        "width": 1,
        "height": 1,
        "sharding": [],
        "steps": ["add"],
        "buffers": [{"name": "x", "element": "f32", "length": 64}],
    }
    return {**plain, **changes}


def program(text: str) -> dict[str, Any]:
    return {"files": {"pe.csl": text}}


def edit(text: str, name: str = "bulk operations") -> dict[str, Any]:
    return {**program(text), "edit": name, "reason": "faster"}


class Tools:
    """A model whose answers are listed by stage, and programs whose fate their text tells.

    A program `build` doesn't compile, `wrong` computes something else, `run 90` is valid and takes 90 cycles.
    """

    model = "scripted"

    def __init__(self, **answers: list[dict[str, Any]]) -> None:
        self.answers = {
            "analyst": [ANALYSIS],
            "communication": [COMMUNICATION],
            "architect": [design()],
            "reviewer": [NOTE],
            **answers,
        }  # fmt: skip
        self.requests: list[ModelRequest] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.calls: list[str] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        left = self.answers.get(request.stage, [])
        if not left:
            raise ModelError(f"the budget is used up at {request.stage}")
        return ModelReply(
            answer=left.pop(0) if len(left) > 1 or request.stage in ("implementer", "optimizer") else left[0]
        )

    def compile(self, files: Mapping[str, str]) -> CompileOutcome:
        self.calls.append(f"compile {files['pe.csl']}")
        ok = not files["pe.csl"].startswith("build")
        return CompileOutcome(ok=ok, diagnostics=[] if ok else ["pe.csl:1:1: error: undeclared name 'q'"])

    def run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        self.calls.append(f"run {files['pe.csl']}")
        kind, _, cycles = files["pe.csl"].partition(" ")
        if kind == "run":
            return VisibleRun(ok=True, outcome="valid", cycles=int(cycles))
        return VisibleRun(ok=False, outcome="Correct: y[3] is 0.0, expected 1.5", log="…")

    def profile(self, files: Mapping[str, str]) -> str:
        return "all in line 7"

    def examples(self) -> list[WorkedExample]:
        return [WorkedExample(name="Other", cuda="__global__ void k(float* x) {}", files={"pe.csl": "// other"})]

    def log(self, event: str, **data: Any) -> None:
        self.events.append((event, data))

    def prompts(self, stage: str) -> list[str]:
        return [r.user for r in self.requests if r.stage == stage]

    def stages(self) -> list[str]:
        return [r.stage for r in self.requests]


@pytest.fixture(scope="module")
def view() -> TaskView:
    return task_view(load_task("SAXPY-1PE"), arch="wse3", size="small", workflow="W1", toolchain="embedded")


@pytest.fixture
def run(view: TaskView) -> Callable[..., tuple[Any, Tools]]:
    def work(tools: Tools, **settings: Any) -> tuple[Any, Tools]:
        values = {"candidates": 1, "steps": 0, "rewrites": 0, **settings}
        return Translation(view, tools, BUDGET, Settings.model_validate(values)).run(), tools

    return work


def test_a_first_program_that_is_valid_is_handed_in(run) -> None:
    candidate, tools = run(Tools(implementer=[program("run 100")]))
    assert candidate.files == {"pe.csl": "run 100"}
    assert candidate.model == "scripted"
    assert tools.stages() == ["analyst", "communication", "architect", "implementer"]
    assert tools.calls == ["compile run 100", "run run 100"]


def test_nothing_is_simulated_that_does_not_compile(run) -> None:
    _, tools = run(Tools(implementer=[program("build 1"), program("run 5")]))
    assert tools.calls == ["compile build 1", "compile run 5", "run run 5"]


def test_candidates_come_before_any_repair_and_the_nearest_one_is_repaired(run) -> None:
    tools = Tools(implementer=[program("build a"), program("wrong b"), program("build c"), program("run 7")])
    candidate, _ = run(tools, candidates=3)
    assert tools.stages()[3:] == ["implementer", "implementer", "implementer", "reviewer", "implementer"]
    assert [r.sample for r in tools.requests if r.stage == "implementer"] == [0, 1, 2, 0]
    assert "wrong b" in tools.prompts("reviewer")[0]
    assert candidate.files == {"pe.csl": "run 7"}


def test_repairs_are_bounded_and_the_best_failure_is_handed_in(run) -> None:
    tools = Tools(implementer=[program("build a"), program("wrong b"), program("build c"), program("build d")])
    candidate, _ = run(tools, repairs=3)
    assert candidate.files == {"pe.csl": "wrong b"}
    assert len(tools.prompts("implementer")) == 4


def test_the_route_to_the_architect_starts_a_new_design_afresh(run) -> None:
    tools = Tools(implementer=[program("wrong a"), program("run 3")], reviewer=[REDESIGN])
    run(tools)
    assert tools.stages()[3:] == ["implementer", "reviewer", "architect", "implementer"]
    assert "smaller buffers" in tools.prompts("architect")[1]
    assert "wrong a" not in tools.prompts("implementer")[1]
    assert [d["epoch"] for e, d in tools.events if e == "attempt"] == [0, 1]


def test_redesigns_are_bounded(run) -> None:
    tools = Tools(implementer=[program(f"wrong {n}") for n in range(6)], reviewer=[REDESIGN])
    run(tools, repairs=4, redesigns=1)
    assert tools.stages().count("architect") == 2


def test_a_design_that_fails_its_checks_is_asked_again_with_the_reasons(run) -> None:
    tools = Tools(architect=[design(width=2), design()], implementer=[program("run 1")])
    run(tools)
    assert "2 x 1 PEs, the layout has 1 x 1" in tools.prompts("architect")[1]


def test_an_answer_that_is_no_record_is_asked_again(run) -> None:
    tools = Tools(analyst=[{"summary": "adds"}, ANALYSIS], implementer=[program("run 1")])
    run(tools)
    assert "formula: Field required" in tools.prompts("analyst")[1]


MODES = {
    "A": (False, False, False),
    "B": (True, False, False),
    "C": (True, True, False),
    "D": (True, True, True),
    "T": (True, True, True),
}


@pytest.mark.parametrize("mode", MODES)
def test_the_feedback_modes_show_what_they_say(run, mode: str) -> None:
    tools = Tools(implementer=[program("wrong a"), program("wrong b"), program("run 1")])
    run(tools, mode=mode)
    first, second = tools.prompts("implementer")[1:]
    code, output, review = MODES[mode]
    assert ("wrong a" in first, "expected 1.5" in first, "mend it" in first) == (code, output, review)
    assert ("reviewer" in tools.stages()) is review
    assert ("wrong a" in second and "wrong b" in second) is (mode == "T")
    assert len({r.key() for r in tools.requests if r.stage == "implementer"}) == 3


@pytest.mark.parametrize(
    ("tier", "primer", "cards", "example"),
    [("full", True, True, True), ("no-retrieval", True, False, False), ("no-primer", False, False, False)],
)
def test_the_knowledge_tiers(run, tier: str, primer: bool, cards: bool, example: bool) -> None:
    tools = Tools(implementer=[program("run 1")])
    run(tools, knowledge=tier)
    assert ("CSL in one page" in tools.requests[-1].system) is primer
    (prompt,) = tools.prompts("implementer")
    assert ("Cards from the knowledge base" in prompt, "Worked example: Other" in prompt) == (cards, example)


def test_the_starter_template_can_be_switched_off(run) -> None:
    for value, shown in (("auto", True), ("off", False)):
        tools = Tools(implementer=[program("run 1")])
        run(tools, template=value)
        assert ("Starter template" in tools.prompts("implementer")[0]) is shown


def test_the_optimizer_keeps_only_what_is_valid_and_faster(run) -> None:
    edits = [edit("run 80"), edit("run 90"), edit("wrong x"), edit("run 70"), edit("build y")]
    candidate, tools = run(Tools(implementer=[program("run 100")], optimizer=edits), steps=5, patience=3)
    assert candidate.files == {"pe.csl": "run 70"}
    accepted = [(d["before"], d["after"]) for e, d in tools.events if e == "accepted"]
    assert accepted == [(100, 80), (80, 70)]
    last = tools.prompts("optimizer")[-1]
    assert "Cycles now: 70" in last
    assert "all in line 7" in last
    assert "failed Correct" in last


def test_patience_ends_the_optimization(run) -> None:
    edits = [edit(f"run {n}") for n in (101, 102, 103, 104)]
    _, tools = run(Tools(implementer=[program("run 100")], optimizer=edits), steps=4, patience=2)
    assert len(tools.prompts("optimizer")) == 2


def test_a_budget_that_ends_leaves_the_best_program(run) -> None:
    candidate, _ = run(Tools(implementer=[program("run 100")], optimizer=[edit("run 90")]), steps=5)
    assert candidate.files == {"pe.csl": "run 90"}
    assert "stopped: the budget is used up at optimizer" in candidate.notes


def test_without_any_program_the_agent_gives_up(run) -> None:
    with pytest.raises(AgentGaveUp, match="used up at implementer"):
        run(Tools())


def test_the_same_program_is_not_evaluated_twice(run) -> None:
    _, tools = run(Tools(implementer=[program("wrong a"), program("wrong a"), program("run 1")]))
    assert tools.calls.count("run wrong a") == 1


def test_w2_improves_the_given_program_and_asks_for_no_translation() -> None:
    given = task_view(load_task("SAXPY-1PE"), arch="wse3", size="small", workflow="W2", toolchain="embedded")
    tools = Tools(optimizer=[edit("run 40"), edit("run 50")])
    tools.run_visible = lambda files: VisibleRun(  # type: ignore[method-assign]
        ok=True, outcome="valid", cycles=int(files["pe.csl"].split()[1]) if files["pe.csl"].startswith("run") else 60
    )
    candidate = Translation(given, tools, BUDGET, Settings(steps=2, rewrites=0)).run()
    assert candidate.files == {"pe.csl": "run 40"}
    assert set(tools.stages()) == {"optimizer"}


def test_w1c_writes_the_layout_too() -> None:
    both = task_view(load_task("SAXPY-1PE"), arch="wse3", size="small", workflow="W1-C", toolchain="embedded")
    files = {"layout.csl": "// mine", "pe.csl": "run 9"}
    tools = Tools(implementer=[{"files": files}])
    candidate = Translation(both, tools, BUDGET, Settings(candidates=1, steps=0)).run()
    assert candidate.files == files
    assert "set_tile_code" in tools.prompts("implementer")[0]


def test_the_optimized_files_of_a_leak_never_reach_an_earlier_prompt(run) -> None:
    """History is append-only: what was logged stays, in order."""
    tools = Tools()
    history = History(tools)  # type: ignore[arg-type]
    for number in (1, 2):
        history.add(Attempt(number=number, origin="repair", epoch=0, files={}, predicate="Build", outcome="no"))
    assert [a.number for a in history.attempts] == [1, 2]
    assert [d["number"] for e, d in tools.events] == [1, 2]
    assert history.repeated() == ["no (2 times)"]


# ------------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"height": 3}, "1 x 3 PEs"),
        ({"buffers": [{"name": "x", "element": "f32", "length": 12000}]}, f"a PE has {PE_BYTES}"),
        ({"buffers": [{"name": "x", "element": "f64", "length": 1}]}, "unknown element type"),
        ({"buffers": [{"name": "x", "element": "f32", "length": 1}] * 2}, "listed twice"),
        ({"colors": [{"name": "c", "number": 22}]}, "belongs to the host interface"),
        ({"colors": [{"name": "c", "number": 24}]}, "doesn't exist"),
        ({"colors": [{"name": "a", "number": 5}, {"name": "b", "number": 5}]}, "is used for a and for b"),
        ({"tasks": [{"name": "t", "number": 28}]}, "task id 28"),
        ({"tasks": [{"name": "t", "number": 9}, {"name": "u", "number": 9}]}, "is used for t and for u"),
        ({"input_queues": [{"name": "q", "number": 1}]}, "input queue 1"),
        ({"output_queues": [{"name": "q", "number": 8}]}, "output queue 8"),
    ],
)
def test_a_design_that_cannot_be_built_is_refused(view: TaskView, changes: dict[str, Any], problem: str) -> None:
    facts = gather(view)
    assert check_design(DesignD.model_validate(design()), facts, "wse3") == []
    (found,) = check_design(DesignD.model_validate(design(**changes)), facts, "wse3")
    assert problem in found


def test_queues_differ_by_target(view: TaskView) -> None:
    six = DesignD.model_validate(design(output_queues=[{"name": "q", "number": 6}]))
    assert check_design(six, gather(view), "wse3") == []
    assert check_design(six, gather(view), "wse2") != []


def test_a_layout_color_cannot_be_taken() -> None:
    strip = task_view(load_task("RowParallel-Softmax"), arch="wse3", size="small", workflow="W1", toolchain="embedded")
    facts = gather(strip)
    for number in (0, 1, 2):  # two of them are computed from the PE's place
        wanted = DesignD.model_validate(design(width=2, colors=[{"name": "c", "number": number}]))
        if number in facts.colors():
            (found,) = check_design(wanted, facts, "wse3")
            assert "belongs to the layout" in found
    assert facts.colors() == (1, 2)
    assert facts.evaluated is not None
    assert "color 1: EAST -> RAMP on (0, 0)" in facts.evaluated.routes
    assert "color 2: RAMP -> EAST on (0, 0)" in facts.evaluated.routes
    assert facts.rectangle() == (2, 1)
    assert facts.launches() == ("window_open", "compute")


# ------------------------------------------------------------------------------------------------- triage


@pytest.mark.parametrize(
    ("predicate", "outcome", "kind", "route"),
    [
        ("Build", "pe.csl:3:4: error: use of undeclared identifier 'q'", "compile", "implementer"),
        (
            "Build",
            "error: symbol 'y' was not declared during layout evaluation",
            "interface",
            "extractor and implementer",
        ),
        ("Build", "error: ran out of PE memory: 60000 bytes", "memory", "architect"),
        ("Run", "Run: visible 0: deadlock: nothing can advance", "deadlock", "implementer"),
        ("Run", "Run: visible 0: fault: address outside of memory", "run-time fault", "implementer"),
        ("Timing", "Timing: 12 cycles are below the bound", "timing", "extractor and implementer"),
        ("Contract", "Contract: param n is shadowed", "interface", "extractor and implementer"),
        ("Correct", "Correct: y[3] is 0.0", "numerical", "implementer"),
    ],
)
def test_failures_are_classified_and_routed(predicate: str, outcome: str, kind: str, route: str) -> None:
    review = triage(Attempt(number=1, origin="candidate", epoch=0, files={}, predicate=predicate, outcome=outcome))
    assert (review.kind.value, review.route.value) == (kind, route)


def test_options_come_from_the_environment_and_bad_ones_are_named() -> None:
    settings = read_settings({"FABRICA_AGENT_MODE": "T", "FABRICA_AGENT_CANDIDATES": "4", "FABRICA_AGENT_OTHER": "x"})
    assert (settings.mode, settings.candidates) == ("T", 4)
    with pytest.raises(AgentGaveUp, match="option mode='Z'"):
        read_settings({"FABRICA_AGENT_MODE": "Z"})


def test_prompts_hold_nothing_that_differs_between_runs() -> None:
    text = "/tmp/fabrica-stage-ab12/bundle/pe.csl:3: error after 1.53 s"
    assert clean_output(text) == "pe.csl:3: error after … s"
    assert len(clean_output("x" * 50_000)) < 6200


def test_the_deterministic_rewrites_come_first_and_share_the_catalogue() -> None:
    task = load_task("SAXPY-1PE")
    given = task_view(task, arch="wse3", size="small", workflow="W2", toolchain="embedded")
    tools = Tools(optimizer=[edit("run 5")])
    seen: list[str] = []

    def measure(files: Mapping[str, str]) -> VisibleRun:
        seen.append(files["pe.csl"])
        cycles = 5 if files["pe.csl"] == "run 5" else 1000 - len(seen)
        return VisibleRun(ok=True, outcome="valid", cycles=cycles)

    tools.run_visible = measure  # type: ignore[method-assign]
    candidate = Translation(given, tools, BUDGET, Settings(steps=1, rewrites=1)).run()
    assert seen[0] == given.files["pe.csl"]
    assert "@fmacs" in seen[1]
    assert len(seen) == 3
    assert candidate.files == {"pe.csl": "run 5"}
    prompt = tools.prompts("optimizer")[0]
    assert "loop nests to bulk operations over boxes: " in prompt
    assert "1000" not in prompt.split("Cycles now: ")[1][:5]
    assert "asynchronous overlap: " in prompt


HOT = ("tile[k * Nt + i] = 0.0;", "@fmacs(tile_column, tile_column, left_column, -factor_j);")


@pytest.mark.parametrize("hot", HOT)
def test_the_rewrites_begin_where_the_profile_shows_the_time(hot: str) -> None:
    given = task_view(load_task("Cholesky"), arch="wse3", size="small", workflow="W2", toolchain="embedded")
    tools = Tools(optimizer=[edit("run 5")])
    seen: list[str] = []
    profiled: list[str] = []

    def measure(files: Mapping[str, str]) -> VisibleRun:
        seen.append(files["pe.csl"])
        return VisibleRun(ok=True, outcome="valid", cycles=5 if files["pe.csl"] == "run 5" else 1000)

    def profile(files: Mapping[str, str]) -> str:
        profiled.append(files["pe.csl"])
        lines = enumerate(files["pe.csl"].splitlines(), 1)
        return "\n".join(f"  pe.csl:{number}: 10" for number, line in lines if hot in line)

    tools.run_visible = measure  # type: ignore[method-assign]
    tools.profile = profile  # type: ignore[method-assign]
    Translation(given, tools, BUDGET, Settings(steps=1, rewrites=1)).run()
    assert hot in seen[0]
    assert hot not in seen[1]
    assert profiled[0] == given.files["pe.csl"]
    # Where the optimizer is to see no profile, its rewrites take none either.
    profiled.clear()
    Translation(given, tools, BUDGET, Settings(steps=1, rewrites=1, profile=False)).run()
    assert profiled == []
