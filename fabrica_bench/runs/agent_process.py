"""The parent's side of an agent's process: start it, serve its tool calls, hold it to its budget."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.firewall.library import KNOWLEDGE_VARIABLE, knowledge_folder
from fabrica_bench.models.selection import VARIABLE as MODEL_VARIABLE
from fabrica_bench.plugins import (
    SEED_VARIABLE,
    Budget,
    Candidate,
    CompileOutcome,
    ModelError,
    TaskView,
    VisibleRun,
    WorkedExample,
)
from fabrica_bench.runs.link import Link, LinkFailure
from fabrica_bench.runs.model_gate import ModelGate
from fabrica_bench.tasks import secret_roots
from fabrica_bench.toolchains.folders import private_folder
from fabrica_bench.toolchains.landlock import Confinement, describe_confinement, python_paths
from fabrica_bench.toolchains.processes import (
    ChildProcess,
    Limits,
    isolation_report,
    python_environment,
    scrubbed_environment,
)
from fabrica_bench.toolchains.seccomp import describe_calls
from fabrica_bench.toolchains.watch import TreeLimits, tree_watched

AGENT_LIMITS: Final = Limits(cpu_s=3600, address_space=16 << 30, file_size=256 << 20, processes=64, open_files=256)

AGENT_TREE: Final = TreeLimits()

START_DEADLINE_S: Final = 60.0
"""Importing plug-ins takes about a second; a busy machine gets more."""

MAX_LOG_EVENTS: Final = 5000
MAX_LOG_BYTES: Final = 32 << 20
"""What an agent may log for one task; more would fill the disk."""

PASSED_ON: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
"""Variables that an agent gets beside those that begin with `FABRICA_AGENT_`. No key of a model provider is among them:
the harness asks the model on the agent's behalf."""

PRINTED: Final = "printed"
"""Event with the last part of what the agent's process printed."""

ToolCall = Callable[[str, dict[str, str]], CompileOutcome | VisibleRun]
ExampleCall = Callable[[], list[WorkedExample]]
ProfileCall = Callable[[dict[str, str]], str]
LogCall = Callable[[str, dict[str, Any]], None]


class AgentFailure(Exception):
    """The agent crashed, broke the protocol or exceeded a limit; the message says which."""


@dataclass(frozen=True)
class AgentFacts:
    """What an agent says about itself."""

    name: str
    model: str
    control: bool


@dataclass(frozen=True)
class AgentAnswer:
    """A candidate, or the reasons why there is none. Exactly one of the two is set.

    `provider_failed`: there is none because the agent's model provider failed.
    """

    candidate: Candidate | None
    gave_up: tuple[str, ...] = ()
    provider_failed: bool = False


def option_variable(name: str) -> str:
    """Variable of an agent's process that holds an option: `mode` is FABRICA_AGENT_MODE."""
    return "FABRICA_AGENT_" + name.upper().replace("-", "_")


def agent_isolation() -> dict[str, str]:
    """What confines an agent's process."""
    report = isolation_report(AGENT_LIMITS, confinement=describe_confinement(network=True), calls=describe_calls())
    return {**report, "tree": AGENT_TREE.describe()}


def describe_agent(name: str, options: Mapping[str, str] | None = None, model: str | None = None) -> AgentFacts:
    """Ask an agent about itself, in a process of its own: loading a plug-in runs foreign code.

    Raises:
        FabricaError: There is no such agent, or its plug-in fails.
    """
    deadline = time.monotonic() + START_DEADLINE_S
    with (
        private_folder("fabrica-agent-") as folder,
        _start(folder, options or {}, model=model) as link,
    ):
        try:
            link.send({"type": "describe", "agent": name}, deadline)
            message = _receive(link, deadline, START_DEADLINE_S)
        except (AgentFailure, LinkFailure) as failure:
            raise FabricaError(
                f"agent {name!r} can't be loaded: {failure}",
                remedy="see `fabrica-bench doctor`",
                code=ExitCode.ENVIRONMENT,
            ) from failure
    if message["type"] == "failed":
        raise FabricaError(str(message["error"]), code=ExitCode.USAGE)
    return AgentFacts(str(message["name"]), str(message["model"]), bool(message["control"]))


def no_profile(files: Mapping[str, str]) -> str:
    """What stands for a profile where there is no profiler."""
    return "no profile: there is no profiler here"


def run_agent(
    name: str,
    view: TaskView,
    budget: Budget,
    *,
    call: ToolCall,
    log: LogCall,
    inspect: Callable[[Path], None] | None = None,
    options: Mapping[str, str] | None = None,
    seed: int = 0,
    gate: ModelGate | None = None,
    examples: ExampleCall = list,
    profile: ProfileCall = no_profile,
    tree: TreeLimits = AGENT_TREE,
) -> AgentAnswer:
    """Let an agent translate one task.

    Args:
        name: The agent.
        view: What it may know.
        budget: Evaluations, attempts and wall-clock seconds are held here; tokens and cost by the gate.
        call: Does the work of `AgentTools.compile` and `run_visible`.
        log: Takes the events that the agent logs.
        inspect: Shown the agent's private folder once all its processes are gone.
        options: The run's options of the agent, see `option_variable`.
        seed: For whatever the agent draws; it finds it in its environment.
        gate: Answers model calls; None when there is no model.
        examples: Does the work of `AgentTools.examples`.
        profile: Does the work of `AgentTools.profile`.
        tree: What it may take with all that it starts.

    Raises:
        AgentFailure: It crashed, broke the protocol, or exceeded its wall limit and was killed.
    """
    deadline = time.monotonic() + budget.wall_s
    desk = _Desk(budget, deadline, call, gate, examples, profile)
    with private_folder("fabrica-agent-") as folder:
        try:
            with (
                _start(folder, options or {}, seed, desk.model) as link,
                tree_watched(link.child, folder, tree) as excess,
            ):
                try:
                    answer = _session(link, name, view, budget, deadline, desk, log)
                except AgentFailure as failure:
                    if (reason := excess()) is None:
                        raise
                    raise AgentFailure(reason) from failure
                if (reason := excess()) is not None:
                    raise AgentFailure(reason)
                return answer
        finally:
            if inspect is not None:
                inspect(folder)


def _session(
    link: Link, name: str, view: TaskView, budget: Budget, deadline: float, desk: _Desk, log: LogCall
) -> AgentAnswer:
    try:
        return _converse(link, name, view, budget, deadline, desk, log)
    except LinkFailure as failure:
        raise AgentFailure(str(failure)) from failure
    finally:
        if text := link.printed().strip():
            log(PRINTED, {"text": text})


def _converse(
    link: Link, name: str, view: TaskView, budget: Budget, deadline: float, desk: _Desk, log: LogCall
) -> AgentAnswer:
    request = {"type": "translate", "agent": name, "model": desk.model}
    link.send({**request, "view": view.model_dump(mode="json"), "budget": budget.model_dump(mode="json")}, deadline)
    meter = _LogMeter(log)
    while True:
        message = _receive(link, deadline, budget.wall_s)
        match message["type"]:
            case "call":
                result = desk.serve(message)
                link.send({"type": "reply", "id": message.get("id"), "result": result}, deadline)
            case "log":
                meter.log(str(message.get("event", "")), _mapping(message.get("data")))
            case "candidate":
                return AgentAnswer(_candidate(message))
            case "gave_up":
                reasons = message.get("reasons")
                texts = tuple(map(str, reasons)) if isinstance(reasons, list) and reasons else ("no reason given",)
                return AgentAnswer(None, texts, bool(message.get("provider")))
            case "failed":
                raise AgentFailure(str(message.get("error")))
            case other:
                raise AgentFailure(f"unknown message {other!r}")


def _receive(link: Link, deadline: float, limit_s: float) -> dict[str, Any]:
    message = link.receive(deadline)
    if message is None:
        raise AgentFailure(f"wall limit of {limit_s:g} s exceeded; all its processes were killed")
    return message


class _LogMeter:
    """Passes events on until the agent has logged too much, and says so once."""

    def __init__(self, log: LogCall) -> None:
        self._log = log
        self._events = self._bytes = 0

    def log(self, event: str, data: dict[str, Any]) -> None:
        self._events += 1
        self._bytes += len(event) + len(repr(data))
        if self._events <= MAX_LOG_EVENTS and self._bytes <= MAX_LOG_BYTES:
            self._log(event, data)
        elif self._events <= MAX_LOG_EVENTS + 1:
            self._events = MAX_LOG_EVENTS + 1
            self._log("log_cut", {"limit_events": MAX_LOG_EVENTS, "limit_bytes": MAX_LOG_BYTES})


class _Desk:
    """Serves an agent's tool calls and holds them to the budget."""

    def __init__(
        self, budget: Budget, deadline: float, call: ToolCall, gate: ModelGate | None, examples: ExampleCall,
        profile: ProfileCall,
    ) -> None:
        self._budget = budget
        self._deadline = deadline
        self._call = call
        self._gate = gate
        self._examples = examples
        self._profile = profile
        self._used = 0
        self._programs: set[str] = set()
        self._since_valid: set[str] | None = None

    @property
    def model(self) -> str | None:
        return None if self._gate is None else self._gate.name

    def serve(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one call of the agent."""
        match message.get("method"):
            case "compile" | "run_visible" as method:
                files = {str(name): str(text) for name, text in _mapping(message.get("files")).items()}
                return self._evaluate(method, files).model_dump(mode="json")
            case "profile":
                files = {str(name): str(text) for name, text in _mapping(message.get("files")).items()}
                return {"text": self._spent(files) or self._profile(files)}
            case "complete":
                try:
                    if self._gate is None:
                        raise ModelError("no model is configured; choose one with --model")
                    return self._gate.complete(_mapping(message.get("request")), self._deadline).model_dump(mode="json")
                except ModelError as error:
                    return {"error": str(error)}
            case "examples":
                found = self._examples()
                if self._gate is not None:
                    self._gate.know(found)
                return {"examples": [example.model_dump(mode="json") for example in found]}
            case other:
                raise AgentFailure(f"unknown tool {other!r}")

    def _evaluate(self, method: str, files: dict[str, str]) -> CompileOutcome | VisibleRun:
        spent = self._spent(files)
        if spent is not None:
            if method == "compile":
                return CompileOutcome(ok=False, diagnostics=[spent])
            return VisibleRun(ok=False, outcome=spent)
        outcome = self._call(method, files)
        if method == "run_visible" and outcome.ok and self._since_valid is None:
            self._since_valid = {_program(files)}
        return outcome

    def _spent(self, files: Mapping[str, str]) -> str | None:
        """Which limit forbids to evaluate these files; None and counted when none does."""
        self._used += 1
        if self._used > self._budget.evaluations:
            return f"the budget of {self._budget.evaluations} evaluations is used up"
        program, limits = _program(files), self._budget
        if self._since_valid is None:
            new = self._programs | {program}
            if limits.attempts is not None and len(new) > limits.attempts:
                return f"the budget of {limits.attempts} translation attempts is used up"
            self._programs = new
        else:
            new = self._since_valid | {program}
            if limits.optimizations is not None and len(new) - 1 > limits.optimizations:
                return f"the budget of {limits.optimizations} optimization attempts is used up"
            self._since_valid = new
        return None


def _program(files: Mapping[str, str]) -> str:
    return repr(sorted(files.items()))


def _candidate(message: Mapping[str, Any]) -> Candidate:
    try:
        return Candidate.model_validate(message.get("candidate"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise AgentFailure(f"the candidate is malformed: {where}: {first['msg']}") from error


def _mapping(value: Any) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


# --------------------------------------------------------------------------------------------- the process


def _library() -> list[Path]:
    """The user's knowledge folder; none for a user who has no place for one."""
    with suppress(FabricaError):
        return [knowledge_folder()]
    return []


def _start(folder: Path, options: Mapping[str, str], seed: int = 0, model: str | None = None) -> Link:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    passed |= {name: value for name, value in os.environ.items() if name.startswith("FABRICA_AGENT_")}
    passed.pop(MODEL_VARIABLE, None)
    passed |= {} if model is None else {MODEL_VARIABLE: model}
    passed |= {option_variable(name): value for name, value in options.items()}
    library = _library()
    passed |= {**python_environment(), SEED_VARIABLE: str(seed)}
    passed |= {KNOWLEDGE_VARIABLE: str(place) for place in library}
    paths = python_paths(hidden=secret_roots())
    with Confinement(read=[*paths.read, *library], listed=paths.listed, write=[folder], network=True) as confinement:
        child = ChildProcess(
            [sys.executable, "-P", "-m", "fabrica_bench.runs.agent_host"],
            workdir=folder,
            environment=scrubbed_environment(folder, passed),
            limits=AGENT_LIMITS,
            interactive=True,
            confine=confinement.apply,
        )
    return Link(child)
