"""The controls: what they hand in, from what they can see."""

from __future__ import annotations

import pytest
from baseline_agents import NullAgent, ReferenceAgent
from baseline_agents.layout_facts import exported_names, read_layout
from baseline_agents.null import interface_preamble, null_program, param_types

from fabrica_bench.csl.parser import parse_file
from fabrica_bench.csl.source import virtual_source
from fabrica_bench.firewall.view import task_view
from fabrica_bench.integrity.frozen import check_frozen
from fabrica_bench.plugins import AgentGaveUp, Budget, TaskView
from fabrica_bench.tasks import Task, list_tasks

TASKS = list_tasks()
BUDGET = Budget(evaluations=1, wall_s=10, tokens=0)

LAYOUT = """
param n: u16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  const extra = .{ .flag = true };
  @set_tile_code(0, 0, "pe.csl", @concat_structs(.{ .memcpy_params = memcpy.get_params(0), .n = n }, extra));
  @set_tile_code(0, 0, "other.csl", .{ .alien = 1 });
  @export_name("a", [*]f32, true);
  @export_name("b", [*]const i16, false);
  @export_name("go", fn(f32, u16)void);
}
"""


class NoTools:
    """The controls need none."""

    def compile(self, files):
        raise AssertionError

    def run_visible(self, files):
        raise AssertionError

    def log(self, event, **data):
        raise AssertionError


def view_of(task: Task, workflow: str = "W1") -> TaskView:
    return task_view(task, arch="wse3", size="small", workflow=workflow, toolchain="embedded")


def test_a_layout_tells_params_and_exports_of_one_program():
    facts = read_layout(LAYOUT)
    assert facts.params == ("memcpy_params", "n", "flag")
    a, b, go = facts.exports
    assert (a.element, a.mutable, a.parameters) == ("f32", True, None)
    assert (b.type_text, b.mutable) == ("[*]const i16", False)
    assert (go.parameters, go.element) == (("f32", "u16"), None)


def test_exports_of_a_module_are_found_by_their_host_names():
    text = 'fn f() void {}\nvar p: [*]u16 = &x;\ncomptime { @export_symbol(f); @export_symbol(p, "stamps"); }'
    assert exported_names(text) == {"f", "stamps"}


def test_types_are_read_from_code_spans_that_share_one():
    text = "- `Mt: u16`, `Nt: u16`: rows\n- `east`, `west: color`: links\n- `param n: [4]color`, and `x + 1` is no name"
    assert param_types(text) == {"Mt": "u16", "Nt": "u16", "east": "color", "west": "color", "n": "[4]color"}


def test_a_description_without_the_imports_to_keep_is_given_up():
    assert interface_preamble("no code here\n```csl\nfn f() void {}\n```\n") == ""
    view = view_of(TASKS[0]).model_copy(update={"task_md": "nothing"})
    with pytest.raises(AgentGaveUp, match="interface"):
        NullAgent().translate(view, NoTools(), BUDGET)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)
def test_the_null_program_keeps_the_interface_of_every_task(task):
    candidate = NullAgent().translate(view_of(task), NoTools(), BUDGET)
    assert set(candidate.files) == set(view_of(task).editable)
    spec = task.spec
    reference = {name: (task.bundle_dir / name).read_text(encoding="utf-8") for name in candidate.files}
    findings = check_frozen(
        candidate.files, reference, window_file=spec.bundle.window, launches=list(spec.frozen.launches)
    )
    assert [str(finding) for finding in findings] == []


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.slug)
def test_the_null_program_only_idles_between_the_stamps(task):
    tree = parse_file(virtual_source("pe.csl", null_program(view_of(task), "pe.csl")))
    bodies = {item.name: item.body for item in tree.items if type(item).__name__ == "FnDecl"}
    assert {task.spec.entry.name, "idle"} == set(bodies)
    assert len(bodies[task.spec.entry.name].stmts) == 4


def test_the_null_agent_does_not_hand_back_the_program_that_w2_shows():
    task = next(task for task in TASKS if "W2" in task.spec.bundle.editable and task.spec.bundle.plain)
    view = view_of(task, "W2")
    assert NullAgent().translate(view, NoTools(), BUDGET).files["pe.csl"] != view.files["pe.csl"]


def test_an_editable_layout_is_handed_back_unchanged():
    view = view_of(TASKS[0], "W1-C")
    assert NullAgent().translate(view, NoTools(), BUDGET).files["layout.csl"] == view.files["layout.csl"]


def test_the_reference_control_sees_no_kernel_and_hands_in_nothing():
    assert ReferenceAgent().translate(view_of(TASKS[0]), NoTools(), BUDGET).files == {}


def test_controls_say_that_they_are():
    assert NullAgent().control
    assert ReferenceAgent().control
