"""Discovery of agents: what is found, and how a broken plug-in is named."""

from __future__ import annotations

import pickle
import sys
import types
from importlib.metadata import EntryPoint

import pytest

from fabrica_bench.errors import FabricaError, UnknownNameError
from fabrica_bench.plugins import (
    AgentGaveUp,
    Budget,
    Candidate,
    discover_agents,
    find_agent,
    hookimpl,
    load_plugins,
    require_options,
)


class Echo:
    model = "none"
    control = False

    def __init__(self, name: str) -> None:
        self.name = name

    def translate(self, view, tools, budget):
        return Candidate(files={}, model=self.model)


@pytest.fixture
def plugin(monkeypatch):
    """Make an importable plug-in module whose hook does what it is given, and its entry point."""

    def make(name: str, answer) -> EntryPoint:
        module = types.ModuleType(name)

        def fabrica_agents():
            return answer() if callable(answer) else answer

        module.fabrica_agents = hookimpl(fabrica_agents)
        monkeypatch.setitem(sys.modules, name, module)
        return EntryPoint(name, name, "fabrica_bench")

    return make


def test_agents_of_several_plugins_are_found_by_name(plugin):
    points = [plugin("first", [Echo("b"), Echo("a")]), plugin("second", [Echo("c")])]
    assert list(discover_agents(points)) == ["a", "b", "c"]


def test_the_shipped_controls_are_installed():
    agents = discover_agents()
    assert agents["reference"].control
    assert agents["null"].control
    assert not agents["fabrica"].control


def test_an_option_that_an_agent_does_not_know_names_the_near_one():
    agent = Echo("a")
    require_options(agent, ["anything"])  # it doesn't say what it knows
    agent.option_names = ("mode", "max_depth")
    require_options(agent, ["mode", "max-depth"])
    with pytest.raises(UnknownNameError, match=r"option of agent a 'moed' \(did you mean mode\?"):
        require_options(agent, ["mode", "moed"])


def test_one_entry_point_seen_twice_is_one_plugin(plugin):
    point = plugin("first", [Echo("a")])
    assert list(discover_agents([point, point])) == ["a"]


def test_an_unknown_agent_names_the_near_one(plugin):
    with pytest.raises(UnknownNameError, match="did you mean echo"):
        find_agent("ecko", [plugin("first", [Echo("echo")])])


def test_two_agents_of_one_name_are_refused_naming_both_plugins(plugin):
    with pytest.raises(FabricaError, match=r"plug-in 'second'.*already provided by plug-in 'first'"):
        discover_agents([plugin("first", [Echo("a")]), plugin("second", [Echo("a")])])


def test_a_plugin_that_cannot_be_imported_is_named():
    with pytest.raises(FabricaError, match=r"plug-in 'gone'.*ModuleNotFoundError"):
        discover_agents([EntryPoint("gone", "no_such_module_anywhere", "fabrica_bench")])


def test_a_plugin_that_may_not_read_a_file_is_told_where_files_belong(monkeypatch):
    def refused(point):
        raise PermissionError(13, "Permission denied", "/elsewhere/prompt.txt")

    monkeypatch.setattr(EntryPoint, "load", refused)
    with pytest.raises(FabricaError, match=r"/elsewhere/prompt.txt.*put the file into the plug-in's"):
        discover_agents([EntryPoint("curious", "curious", "fabrica_bench")])


def test_a_broken_plugin_takes_nothing_from_the_others(plugin):
    points = [EntryPoint("gone", "no_such_module_anywhere", "fabrica_bench"), plugin("well", [Echo("a")])]
    assert find_agent("a", points).name == "a"
    agents, errors = load_plugins(points)
    assert list(agents) == ["a"]
    assert len(errors) == 1
    with pytest.raises(FabricaError, match="plug-in 'gone'"):
        find_agent("b", points)


def test_a_hook_that_raises_is_named_with_its_plugin(plugin):
    def fail():
        raise RuntimeError("boom")

    with pytest.raises(FabricaError, match=r"plug-in 'bad'.*hook fabrica_agents failed: RuntimeError: boom"):
        discover_agents([plugin("bad", fail)])


@pytest.mark.parametrize("answer", [None, "agents", 7])
def test_a_hook_must_return_a_list(plugin, answer):
    if answer is None:
        # pluggy drops None: such a plug-in provides nothing.
        assert discover_agents([plugin("odd", None)]) == {}
    else:
        with pytest.raises(FabricaError, match="expected a list of agents"):
            discover_agents([plugin("odd", answer)])


def test_a_hook_must_return_agents(plugin):
    with pytest.raises(FabricaError, match="lacks name, model, control or translate"):
        discover_agents([plugin("odd", [object()])])


def test_a_misspelt_hook_is_refused(monkeypatch):
    module = types.ModuleType("misspelt")

    def fabrica_agent():
        return []

    module.fabrica_agent = hookimpl(fabrica_agent)
    monkeypatch.setitem(sys.modules, "misspelt", module)
    with pytest.raises(FabricaError, match="fabrica_agent"):
        discover_agents([EntryPoint("misspelt", "misspelt", "fabrica_bench")])


def test_giving_up_keeps_its_reasons_across_processes():
    error = pickle.loads(pickle.dumps(AgentGaveUp(["no lowering for atomics", "too big"])))
    assert error.reasons == ["no lowering for atomics", "too big"]


def test_records_are_closed_and_frozen():
    with pytest.raises(ValueError, match="extra"):
        Candidate(files={}, model="m", cycles=1)
    with pytest.raises(ValueError, match="frozen"):
        Budget(evaluations=1, wall_s=1, tokens=0).tokens = 5
