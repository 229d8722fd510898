"""The public plug-in API: what an agent is given, what it hands back, and how it is found.

An agent package declares an entry point in the group `fabrica_bench` whose module implements the hook
`fabrica_agents`:

```python
from fabrica_bench.plugins import Agent, hookimpl

@hookimpl
def fabrica_agents() -> list[Agent]:
    return [MyAgent()]
```

Agents run in a process of their own. They see the visible view of a task only: never the reference kernel, never a
held-out seed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import pluggy
from pydantic import BaseModel, ConfigDict, Field

from fabrica_bench.errors import ExitCode, FabricaError, UnknownNameError

__all__ = [
    "ENTRY_POINT_GROUP",
    "SEED_VARIABLE",
    "USAGE_EVENT",
    "Agent",
    "AgentGaveUp",
    "AgentTools",
    "Budget",
    "Candidate",
    "CompileOutcome",
    "Discovery",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "ProviderFailed",
    "TaskView",
    "VisibleRun",
    "WorkedExample",
    "discover_agents",
    "find_agent",
    "hookimpl",
    "hookspec",
    "load_plugins",
]

ENTRY_POINT_GROUP: Final = "fabrica_bench"

USAGE_EVENT: Final = "usage"
"""Name of the event with which an agent accounts for a model call, see `AgentTools.log`."""

SEED_VARIABLE: Final = "FABRICA_AGENT_SEED"
"""Variable of an agent's process: a whole number that depends on the run's seed, the task and the attempt."""

hookspec = pluggy.HookspecMarker(ENTRY_POINT_GROUP)
hookimpl = pluggy.HookimplMarker(ENTRY_POINT_GROUP)

Workflow = Literal["W1", "W1-C", "W2"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskView(_Record):
    """Everything that an agent may know of a task.

    Attributes:
        name: Published name of the task, e.g. `ReLU-1PE`.
        workflow: W1: only the compute file may change; W1-C: layout too; W2: improve a known-correct program.
        arch: Compile target, `wse2` or `wse3`.
        cuda: Text of the CUDA source.
        task_md: Prose description, with the contract of inputs and outputs.
        files: Visible bundle files by name: layout.csl, window.csl, run.py, commands_*.sh; in W2 also pe.csl.
        editable: Names of the files that a candidate must supply, and no others.
        size: The size parameters by name; all of them reach the layout as compile-time params.
        toolchain: Name of the toolchain that will build and run the candidate.
    """

    name: str
    workflow: Workflow
    arch: str
    cuda: str
    task_md: str
    files: dict[str, str]
    editable: tuple[str, ...]
    size: dict[str, int]
    toolchain: str


class Candidate(_Record):
    """An agent's answer.

    Attributes:
        files: Text of each editable file by name.
        notes: What the agent wants recorded about how it got there.
        model: The language model used, or what stood in for it (`deterministic`, `none`).
    """

    files: dict[str, str]
    notes: tuple[str, ...] = ()
    model: str


class CompileOutcome(_Record):
    """Result of compiling a candidate: rendered diagnostics with file:line:column, errors first."""

    ok: bool
    diagnostics: list[str] = Field(default_factory=list)


class VisibleRun(_Record):
    """Result of running a candidate on the visible inputs.

    Attributes:
        ok: It ran, kept the contract and every output is correct.
        outcome: `valid`, or the predicate that failed and why.
        cycles: Device cycles of the timing window, only when ok.
        log: Output of the toolchain, cut to a sane length.
    """

    ok: bool
    outcome: str
    cycles: int | None = None
    log: str = ""


class Budget(_Record):
    """What an agent may spend on one task; the harness refuses what goes beyond it.

    Attributes:
        evaluations: Calls of `compile` and `run_visible` together.
        wall_s: Wall-clock seconds.
        tokens: Model tokens, input and output together.
        cost_usd: US dollars for the model; None for no limit.
        attempts: Different programs that may be evaluated until one is valid on the visible inputs; None for no limit.
        optimizations: Different programs that may be evaluated after that; None for no limit.
    """

    evaluations: int = Field(ge=1)
    wall_s: float = Field(gt=0, allow_inf_nan=False)  # JSON has no infinity: a run couldn't be continued
    tokens: int = Field(ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    attempts: int | None = Field(default=None, ge=1)
    optimizations: int | None = Field(default=None, ge=0)


class ModelRequest(_Record):
    """A chat completion with a structured answer.

    Attributes:
        stage: Name of the stage that asks, for the records.
        system: System prompt.
        user: User prompt.
        answer_schema: JSON Schema of an object, which the answer must satisfy.
        sample: Number of the sample where the same prompt is asked several times.
    """

    stage: str
    system: str
    user: str
    answer_schema: dict[str, Any]
    sample: int = 0

    def key(self) -> str:
        """Digest that identifies the request in recordings."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class ModelReply(_Record):
    """A model's answer.

    Attributes:
        answer: The structured value.
        input_tokens, output_tokens: As the provider counted them; 0 where it doesn't.
        cost_usd: Price in US dollars; None where it isn't known.
    """

    answer: dict[str, Any]
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cost_usd: float | None = None

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


class ModelError(Exception):
    """There is no usable answer: no model is configured, the budget is spent, or the provider failed; says which."""


class WorkedExample(_Record):
    """A translation from the training split, for agents that learn from examples; never the task at hand.

    Attributes:
        name: The other task.
        cuda: Its CUDA source.
        files: Its CSL files: layout and compute file.
    """

    name: str
    cuda: str
    files: dict[str, str]


class AgentGaveUp(Exception):
    """Raised by an agent that has no candidate to offer.

    Args:
        reasons: What it could not do, one plain sentence each; shown in the result table and the report.
    """

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons: list[str] = list(reasons)
        super().__init__("; ".join(self.reasons) or "no reason given")

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the list when the error crosses a process boundary."""
        return (type(self), (self.reasons,))


class ProviderFailed(AgentGaveUp):
    """Raised by an agent whose model provider failed: no answer, refused credentials, an exhausted quota.

    The attempt is then nobody's failure but the provider's: it is tried again, reported apart, and owed when the run is
    continued. The same reasons several times in a row stop the run. Only for a provider that the agent asks itself: how
    the one behind `AgentTools.complete` did is known to the harness.

    Args:
        reasons: What the provider said, without anything that differs from call to call.
    """


@runtime_checkable
class AgentTools(Protocol):
    """What an agent may do besides thinking; each call counts against its budget."""

    def compile(self, files: Mapping[str, str]) -> CompileOutcome:
        """Compile the task's bundle with these editable files."""
        ...

    def run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        """Compile, run and check on the visible inputs."""
        ...

    def profile(self, files: Mapping[str, str]) -> str:
        """Where the cycles go on a visible input, as text; one evaluation."""
        ...

    @property
    def model(self) -> str | None:
        """Name of the configured model, None when there is none."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask the configured model. The harness holds its key, screens the prompt, counts tokens and cost, and records.

        Raises:
            ModelError: Saying why there is no answer.
        """
        ...

    def examples(self) -> list[WorkedExample]:
        """Worked examples from the training split without this task; costs nothing."""
        ...

    def log(self, event: str, **data: Any) -> None:
        """Record an event (a decision, a design) in the run; costs nothing.

        The event `usage` accounts for a model call that the agent makes itself: `input_tokens`, `output_tokens` and, if
        known, `cost_usd`. Calls of `complete` are accounted for by the harness.
        """
        ...


@runtime_checkable
class Agent(Protocol):
    """A translator from CUDA to CSL.

    Attributes:
        name: What `--agent` selects; unique among the installed agents.
        model: The model in use now, e.g. `deterministic`.
        control: True for agents that check the harness rather than compete; rankings leave them out.

    An agent may have `option_names` too: the options that it knows, as in `--option mode=C`. Others are then refused
    before a run begins. Without it any name is taken, and one that is misspelt has no effect.
    """

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def control(self) -> bool: ...

    def translate(self, view: TaskView, tools: AgentTools, budget: Budget) -> Candidate:
        """Produce the editable files, or raise `AgentGaveUp`."""
        ...


class AgentHooks:
    """Hook specifications of the group `fabrica_bench`."""

    @hookspec
    def fabrica_agents(self) -> list[Agent]:
        """Return the agents of this plug-in; called once per process, must be quick and must not touch the network."""
        raise NotImplementedError


REINSTALL: Final = "reinstall the package that provides it, or uninstall it"
OWN_FILES_ONLY: Final = (
    "in a run an agent's process reads little but installed packages: put the file into the plug-in's"
)
BUILT_IN_PLUGINS: Final = ("baseline_agents", "fabrica_agent")
"""Plug-in packages that ship with the distribution; their entry points are declared in its metadata too."""


class Discovery(NamedTuple):
    """What the installed plug-ins provide: agents by name, sorted, and one error per plug-in that is broken."""

    agents: dict[str, Agent]
    errors: list[FabricaError]


def load_plugins(sources: Iterable[EntryPoint] | None = None) -> Discovery:
    """Load every plug-in of the entry-point group. A broken one takes nothing from the others.

    Args:
        sources: Entry points to load instead of the installed ones.
    """
    manager = pluggy.PluginManager(ENTRY_POINT_GROUP)
    manager.add_hookspecs(AgentHooks)
    owners: dict[str, str] = {}
    agents: dict[str, Agent] = {}
    errors: list[FabricaError] = []
    for plugin_name, load in _sources(sources):
        try:
            found = _agents_of(manager, plugin_name, load)
        except FabricaError as error:
            errors.append(error)
            continue
        for agent in found:
            if agent.name in agents:
                text = f"agent {agent.name!r} is already provided by plug-in {owners[agent.name]!r}"
                errors.append(_plugin_error(plugin_name, text, "rename one of them"))
                continue
            agents[agent.name], owners[agent.name] = agent, plugin_name
    return Discovery(dict(sorted(agents.items())), errors)


def discover_agents(sources: Iterable[EntryPoint] | None = None) -> dict[str, Agent]:
    """All agents by name.

    Raises:
        FabricaError: A plug-in can't be imported, its hook fails or returns something else than agents, or two agents
            have the same name. The message names the plug-in and the hook.
    """
    agents, errors = load_plugins(sources)
    if errors:
        raise errors[0]
    return agents


def find_agent(name: str, sources: Iterable[EntryPoint] | None = None) -> Agent:
    """The installed agent called `name`; a broken plug-in that doesn't provide it is no obstacle.

    Raises:
        FabricaError: No agent has this name, but a plug-in is broken and may have been meant.
        UnknownNameError: No plug-in provides it; near matches are named.
    """
    agents, errors = load_plugins(sources)
    if name in agents:
        return agents[name]
    if errors:
        raise errors[0]
    raise UnknownNameError("agent", name, agents, listing="fabrica-bench agents")


def require_options(agent: Agent, given: Iterable[str]) -> None:
    """Refuse options that an agent doesn't know, where it says which ones it knows.

    Args:
        agent: The agent; see `Agent` on `option_names`.
        given: Names of options, with hyphens or underscores.

    Raises:
        UnknownNameError: The agent knows no such option; near matches are named.
    """
    names: Iterable[str] | None = getattr(agent, "option_names", None)
    if names is None:
        return
    known = {name.replace("-", "_") for name in names}
    for name in given:
        if name.replace("-", "_") not in known:
            raise UnknownNameError(f"option of agent {agent.name}", name, known)


def _sources(given: Iterable[EntryPoint] | None) -> list[tuple[str, Callable[[], object]]]:
    found = list(entry_points(group=ENTRY_POINT_GROUP)) if given is None else list(given)
    # The same distribution may be visible twice, e.g. an editable install beside its source folder.
    points = {(point.name, point.value): point for point in found}
    sources = {point.name: point.load for point in points.values()}
    if given is None:
        # A source checkout on PYTHONPATH has no metadata, yet its own agents are importable.
        for module in BUILT_IN_PLUGINS:
            sources.setdefault(module, functools.partial(importlib.import_module, module))
    return sorted(sources.items())


def _agents_of(manager: pluggy.PluginManager, plugin_name: str, load: Callable[[], object]) -> list[Agent]:
    try:
        plugin = load()
    except Exception as error:
        raise _plugin_error(
            plugin_name,
            f"can't be loaded: {type(error).__name__}: {error}",
            OWN_FILES_ONLY if isinstance(error, PermissionError) else REINSTALL,
        ) from error
    try:
        manager.register(plugin, name=plugin_name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise _plugin_error(plugin_name, f"{error}", "implement the hook with the documented arguments") from error
    callers = manager.subset_hook_caller(
        "fabrica_agents", [other for name, other in manager.list_name_plugin() if name != plugin_name]
    )
    try:
        answers = callers()
    except Exception as error:
        raise _plugin_error(
            plugin_name,
            f"hook fabrica_agents failed: {type(error).__name__}: {error}",
            "report it to the plug-in's author",
        ) from error
    agents = [agent for answer in answers for agent in _as_list(plugin_name, answer)]
    for agent in agents:
        if not isinstance(agent, Agent):
            raise _plugin_error(
                plugin_name,
                f"hook fabrica_agents returned {agent!r}, which lacks name, model, control or translate",
                "see fabrica_bench.plugins.Agent",
            )
    return agents


def _as_list(plugin_name: str, answer: object) -> list[Any]:
    if not isinstance(answer, list):
        raise _plugin_error(
            plugin_name, f"hook fabrica_agents returned {type(answer).__name__}, expected a list of agents", None
        )
    return answer


def _plugin_error(plugin_name: str, text: str, remedy: str | None) -> FabricaError:
    return FabricaError(f"plug-in {plugin_name!r}: {text}", remedy=remedy, code=ExitCode.ENVIRONMENT)
