"""Facts, design and the agent's flow on the shipped tasks, with tools that stand in for the harness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fabrica_agent.agent import FabricaAgent, Spending
from fabrica_agent.analyst import analyse
from fabrica_agent.architect import design
from fabrica_agent.cuda.source import parse
from fabrica_agent.extraction.host import observe
from fabrica_agent.extraction.layout import layout_facts
from fabrica_agent.extractor import extract
from fabrica_agent.records import BindingKind, Decomposition, FailureKind, Idiom
from fabrica_agent.reviewer import review_compile, review_run

from fabrica_bench.firewall.view import task_view
from fabrica_bench.plugins import AgentGaveUp, Budget, CompileOutcome, TaskView, VisibleRun
from fabrica_bench.tasks import load_task


def view_of(name: str, workflow: Any = "W1", size: str = "small") -> TaskView:
    return task_view(load_task(name), arch="wse3", size=size, workflow=workflow, toolchain="embedded")


class Tools:
    """Answers from a script: a list of outcomes for successive runs; compiling always works unless told otherwise."""

    def __init__(self, runs: list[VisibleRun], compiles: bool = True, hot: str = "") -> None:
        self.runs = runs
        self.compiles = compiles
        self.hot = hot
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.events: list[str] = []

    def compile(self, files: Mapping[str, str]) -> CompileOutcome:
        self.calls.append(("compile", dict(files)))
        return CompileOutcome(ok=self.compiles, diagnostics=[] if self.compiles else ["pe.csl:1:1: error: no"])

    def run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        self.calls.append(("run", dict(files)))
        return self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]

    def profile(self, files: Mapping[str, str]) -> str:
        """All cycles in the lines with `hot`."""
        self.calls.append(("profile", dict(files)))
        lines = enumerate(files["pe.csl"].splitlines(), 1)
        return "\n".join(f"  pe.csl:{number}: 100" for number, line in lines if self.hot and self.hot in line)

    def log(self, event: str, **data: Any) -> None:
        self.events.append(event)


VALID = VisibleRun(ok=True, outcome="valid", cycles=100)
WRONG = VisibleRun(ok=False, outcome="Correct fails: out differs")
BUDGET = Budget(evaluations=20, wall_s=120, tokens=0)


def test_nothing_is_begun_that_would_take_longer_than_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("fabrica_agent.agent.time.monotonic", lambda: now)
    spending = Spending(Budget(evaluations=9, wall_s=300, tokens=0), started=0.0)
    now = 200.0  # to plan takes long, but the first evaluation is worth a try
    assert spending.allows()
    spending.evaluations = 1
    now = 240.0
    assert spending.allows()  # 40 s more
    now = 270.0
    assert not spending.allows()
    spending = Spending(Budget(evaluations=1, wall_s=300, tokens=0), started=0.0)
    now = 296.0
    assert not spending.allows()


def test_the_host_script_shows_where_every_element_goes() -> None:
    facts = extract(view_of("Single-Tile-Matvec"))
    places = {p.array: p for p in facts.host.placements}
    n, pitch = 25, 28
    assert places["A"].offset == (1, 1, pitch)  # column-major, padded, behind one element
    assert places["A"].x is None
    assert places["y"].shape == (2, 2, n)
    assert (places["y"].x, places["y"].y) == ((0, 0, 1, 0), (0, 1, 0, 0))
    assert facts.host.arguments["compute"] == ("iters",)
    assert facts.host.launches == ("window_open", "compute")


def test_a_vector_spread_over_pes_counts_as_rows() -> None:
    facts = extract(view_of("ParReduce-Sum"))
    (x,) = [p for p in facts.host.placements if p.array == "x"]
    assert x.shape == (1, 4, 128)
    assert x.x == (0, 0, 1, 0)


NARROW = """
import sys
import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime

HOW = dict(data_type=MemcpyDataType.MEMCPY_16BIT, order=MemcpyOrder.ROW_MAJOR, streaming=False, nonblock=False)

def make_inputs():
    random = np.random.default_rng(0)
    return {"x": random.standard_normal((3, 2)).astype(np.float16), "k": random.integers(-9, 9, 4).astype(np.int16)}

def main():
    inputs = dict(np.load("in")) if "--inputs" in sys.argv else make_inputs()
    device = SdkRuntime("out")
    for name, data in (("x", inputs["x"].T), ("k", np.tile(inputs["k"], (2, 1)))):
        words = np.ascontiguousarray(data).view(np.uint16).astype(np.uint32)
        device.memcpy_h2d(device.get_id(name), words.ravel(), 0, 0, 2, 1, data.shape[1], **HOW)
    device.launch("main")
    y, z = np.zeros(6, np.uint32), np.zeros(2, np.uint32)
    device.memcpy_d2h(y, device.get_id("y"), 0, 0, 2, 1, 3, **HOW)
    device.memcpy_d2h(z, device.get_id("z"), 0, 0, 2, 1, 1, **HOW)
    y, z = (a.astype(np.uint16) for a in (y, z))
    np.savez("out", y=y.view(np.float16).reshape(2, 3).T, z=z.view(np.int16))
"""


def test_elements_of_16_bits_are_followed_too() -> None:
    facts = observe(NARROW, {})
    assert facts.problem is None
    places = {p.array: p for p in facts.placements}
    assert set(places) == {"x", "k", "y", "z"}
    # Rows of x and y go along the PEs' arrays, columns to the PEs; all PEs hold k; each PE gives one element of z.
    for name in ("x", "y"):
        assert (places[name].shape, places[name].symbol, places[name].length) == ((3, 2), name, 3)
        assert (places[name].x, places[name].y, places[name].offset) == ((0, 0, 1), (0, 0, 0), (0, 1, 0))
    assert (places["k"].x, places["k"].offset) == (None, (0, 1))
    assert (places["z"].x, places["z"].offset) == ((0, 1), (0, 0))


def test_inputs_made_of_parts_are_seen_as_a_whole() -> None:
    """As a task's runner, but its dictionary of arrays is put together from a smaller one."""
    task = load_task("SAXPY-1PE")
    runner, host = ((task.bundle_dir / name).read_text(encoding="utf-8") for name in ("run.py", "host.py"))
    whole = observe(runner, {"n": 512}, {"host": host})
    old = """    return {
        "alpha": random.uniform(1.0, 3.0, 1).astype(np.float32),
        "x": host.normal(random, size["n"]),
        "y": host.normal(random, size["n"]),
    }
"""
    assert old in runner
    made = runner.replace(
        old,
        """    vectors = {name: host.normal(random, size["n"]) for name in ("x", "y")}
    return {"alpha": random.uniform(1.0, 3.0, 1).astype(np.float32), **vectors}
""",
    )
    assert observe(made, {"n": 512}, {"host": host}) == whole
    assert len(whole.inputs) > 1


def test_a_script_that_cannot_be_observed_says_why() -> None:
    facts = observe("import sys\ndef main():\n    sys.exit('nothing to do')\n", {"n": 4})
    assert facts.problem is not None
    assert "nothing to do" in facts.problem


def test_observing_leaves_the_process_as_it_was() -> None:
    import sys

    before = set(sys.modules), list(sys.argv)
    observe("from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime\ndef main():\n    raise ValueError\n", {})
    assert (set(sys.modules), list(sys.argv)) == before


def test_layout_facts_come_from_the_syntax_tree() -> None:
    facts = extract(view_of("SAXPY-1PE"))
    assert [p.name for p in facts.layout.params] == ["memcpy_params", "n"]
    assert facts.layout.memcpy_param == "memcpy_params"
    assert facts.entry.args == ("f32",)
    assert (facts.window.start, facts.window.end, facts.window.unblock) == ("start", "end", "unblock")
    assert facts.sizes["small"] == {"n": 512}


def test_the_params_of_the_host_interface_are_told_from_those_of_other_modules() -> None:
    """Several modules of the library have a `get_params`."""
    layout = """
const other = @import_module("<kernels/tally/layout>", .{});
const host = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  const first = host.get_params(0);
  @set_tile_code(0, 0, "pe.csl", .{ .a = first, .b = other.get_params(0, 0) });
  @export_name("x", [*]f32, true);
}
"""
    facts = layout_facts(layout, {})
    assert facts.memcpy_param == "a"
    assert [p.name for p in facts.params] == ["a", "b"]


def test_the_analysis_names_idioms_and_the_design_binds_by_name() -> None:
    view = view_of("Prefix-Sum-1PE")
    analysis = analyse(parse(view.cuda))
    assert set(analysis.kernels[0].idioms) >= {Idiom.SHARED_MEMORY, Idiom.BARRIER}
    chosen = design(analysis, extract(view), view.size)
    assert chosen.decomposition is Decomposition.SINGLE_PE
    assert {b.parameter: b.kind for b in chosen.bindings}["n"] is BindingKind.SIZE


@pytest.mark.parametrize("name", ["ReLU-1PE", "SAXPY-1PE", "Prefix-Sum-1PE", "Single-Tile-Matvec"])
def test_names_mean_nothing(name: str) -> None:
    """Another task name, kernel name, launcher name and no comments: the same candidate."""
    view = view_of(name)
    files = FabricaAgent().translate(view, Tools([VALID]), BUDGET).files
    analysis = analyse(parse(view.cuda))
    cuda = "\n".join(line.partition("//")[0] for line in view.cuda.splitlines())
    for index, old in enumerate([analysis.entry, *(k.name for k in analysis.kernels)]):
        cuda = cuda.replace(old, f"f{index}")
    renamed = view.model_copy(update={"name": "Nothing-To-See", "task_md": "", "cuda": cuda})
    assert FabricaAgent().translate(renamed, Tools([VALID]), BUDGET).files == files


def test_a_candidate_holds_exactly_the_editable_files_and_the_stamps() -> None:
    view = view_of("ReLU-1PE", "W1-C")
    candidate = FabricaAgent().translate(view, Tools([VALID]), BUDGET)
    assert set(candidate.files) == set(view.editable)
    assert candidate.files["layout.csl"] == view.files["layout.csl"]
    body = candidate.files["pe.csl"].partition("fn compute(")[2]
    statements = [line.strip() for line in body.splitlines()[1:] if line.strip()]
    assert statements[0] == "window.start();"
    assert statements[statements.index("sys_mod.unblock_cmd_stream();") - 1] == "window.end();"
    assert candidate.model == "deterministic"


def test_a_failing_bulk_form_falls_back_to_scalar_loops() -> None:
    tools = Tools([WRONG, VALID])
    candidate = FabricaAgent().translate(view_of("SAXPY-1PE"), tools, BUDGET)
    assert "scalar loops" in candidate.notes[0]
    assert "review" in tools.events


def test_a_translation_that_never_works_is_given_up_with_the_reason() -> None:
    with pytest.raises(AgentGaveUp, match="numerical"):
        FabricaAgent().translate(view_of("SAXPY-1PE"), Tools([WRONG]), BUDGET)


@pytest.mark.slow
def test_data_that_channels_cannot_bring_are_named() -> None:
    """Every PE's one color reaches all its neighbours at once, which no movement along lines makes use of."""
    with pytest.raises(AgentGaveUp, match="by which PEs get all of x"):
        FabricaAgent().translate(view_of("7pt-Stencil"), Tools([WRONG]), BUDGET)


def test_the_optimizer_keeps_only_what_is_faster() -> None:
    slower = VisibleRun(ok=True, outcome="valid", cycles=200)
    first = Tools([VALID, slower])
    kept = FabricaAgent().translate(view_of("SAXPY-1PE"), first, BUDGET)
    assert kept.files == first.calls[0][1]
    faster = VisibleRun(ok=True, outcome="valid", cycles=50)
    second = Tools([VALID, faster, slower])
    assert FabricaAgent().translate(view_of("SAXPY-1PE"), second, BUDGET).files != second.calls[0][1]


def test_the_budget_is_kept() -> None:
    tools = Tools([VALID])
    FabricaAgent().translate(view_of("SAXPY-1PE"), tools, Budget(evaluations=3, wall_s=120, tokens=0))
    assert len(tools.calls) <= 3


def test_pes_that_share_the_work_gather_the_data_first() -> None:
    candidate = FabricaAgent().translate(view_of("ParBroadcast-Scale"), Tools([VALID]), BUDGET)
    assert "from_broadcast" in candidate.files["pe.csl"]


def test_data_that_no_pe_has_room_for_are_refused_plainly() -> None:
    with pytest.raises(AgentGaveUp, match="bytes"):
        FabricaAgent().translate(view_of("GEMM"), Tools([VALID]), BUDGET)


def test_in_w2_the_given_program_is_kept_when_nothing_better_is_found() -> None:
    view = view_of("ParReduce-Sum", "W2")
    candidate = FabricaAgent().translate(view, Tools([VALID]), BUDGET)
    assert candidate.files == {n: view.files[n] for n in view.editable}
    assert candidate.notes == ("the given program",)


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        ("Correct fails: y is off by 3 times the tolerance", FailureKind.NUMERICAL),
        ("Run fails: deadlock: PE(0,0) waits", FailureKind.DEADLOCK),
        ("Run fails: fault: PE(0,0) reads outside its memory", FailureKind.FAULT),
        ("Timing fails: no start stamp", FailureKind.TIMING),
        ("Contract fails: symbol y is missing", FailureKind.INTERFACE),
        ("something else", FailureKind.UNKNOWN),
    ],
)
def test_failures_are_told_apart(outcome: str, kind: FailureKind) -> None:
    assert review_run(VisibleRun(ok=False, outcome=outcome)).kind is kind


def test_compile_failures_are_told_apart() -> None:
    plain = review_compile(CompileOutcome(ok=False, diagnostics=["pe.csl:3:4: error: undeclared identifier 'q'"]))
    memory = review_compile(CompileOutcome(ok=False, diagnostics=["error: ran out of PE memory"]))
    assert (plain.kind, memory.kind) == (FailureKind.COMPILE, FailureKind.MEMORY)


def test_conditions_around_an_access_tell_that_it_is_local() -> None:
    """A warp reads 32 columns under a condition that leaves those of the PE's own rows."""
    candidate = FabricaAgent().translate(view_of("GEMV-RowPart"), Tools([VALID]), BUDGET)
    assert "@fm" in candidate.files["pe.csl"]


def test_w2_rewrites_the_given_text_and_keeps_only_what_is_faster() -> None:
    view = view_of("DFT-1PE", "W2")
    runs = [VALID.model_copy(update={"cycles": c}) for c in (1000, 400, 500)]
    tools = Tools(runs)
    candidate = FabricaAgent().translate(view, tools, BUDGET)
    assert candidate.files == [files for kind, files in tools.calls if kind == "run"][1]
    assert "@map(" in candidate.files["pe.csl"]
    slower = Tools([VALID.model_copy(update={"cycles": c}) for c in (1000, 1001)])
    assert FabricaAgent().translate(view, slower, BUDGET).files == {n: view.files[n] for n in view.editable}


HOT_FILL, HOT_UPDATE = "tile[k * Nt + i] = 0.0;", "@fmacs(tile_column, tile_column, left_column, -factor_j);"


@pytest.mark.parametrize(("hot", "other"), [(HOT_FILL, HOT_UPDATE), (HOT_UPDATE, HOT_FILL)])
def test_the_optimizer_begins_where_the_profile_shows_the_time(hot: str, other: str) -> None:
    tools = Tools([VALID], hot=hot)
    FabricaAgent().translate(view_of("Cholesky", "W2"), tools, Budget(evaluations=3, wall_s=120, tokens=0))
    assert [kind for kind, _ in tools.calls] == ["run", "profile", "run"]
    first = tools.calls[2][1]["pe.csl"]
    assert hot not in first
    assert other in first


def test_a_profile_is_an_evaluation_of_the_budget() -> None:
    tools = Tools([VALID])
    FabricaAgent().translate(view_of("Cholesky", "W2"), tools, Budget(evaluations=2, wall_s=120, tokens=0))
    assert [kind for kind, _ in tools.calls] == ["run", "profile"]
