"""The parent's side of an agent's process: start it, serve its tool calls, hold it to its budget."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.plugins import SEED_VARIABLE, Budget, Candidate, CompileOutcome, TaskView, VisibleRun
from fabrica_bench.runs.link import Link, LinkFailure
from fabrica_bench.tasks import secret_roots
from fabrica_bench.toolchains.landlock import Confinement, describe_confinement, python_paths
from fabrica_bench.toolchains.processes import (
    ChildProcess,
    Limits,
    isolation_report,
    python_environment,
    scrubbed_environment,
)

AGENT_LIMITS: Final = Limits(cpu_s=3600, address_space=16 << 30, file_size=256 << 20, processes=64, open_files=256)

START_DEADLINE_S: Final = 60.0
"""Importing plug-ins takes about a second; a busy machine gets more."""

MAX_LOG_EVENTS: Final = 5000
MAX_LOG_BYTES: Final = 32 << 20
"""What an agent may log for one task; more would fill the disk."""

PASSED_ON: Final = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "OPENROUTER_API_KEY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
)
"""Variables that an agent's model provider needs; beside them those that begin with `FABRICA_AGENT_` are passed on."""

PRINTED: Final = "printed"
"""Event with the last part of what the agent's process printed."""

ToolCall = Callable[[str, dict[str, str]], CompileOutcome | VisibleRun]
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
    """A candidate, or the reasons why there is none. Exactly one of the two is set."""

    candidate: Candidate | None
    gave_up: tuple[str, ...] = ()


def option_variable(name: str) -> str:
    """Variable of an agent's process that holds an option: `mode` is FABRICA_AGENT_MODE."""
    return "FABRICA_AGENT_" + name.upper().replace("-", "_")


def agent_isolation() -> dict[str, str]:
    """What confines an agent's process."""
    return isolation_report(AGENT_LIMITS, confinement=describe_confinement(network=True))


def describe_agent(name: str, options: Mapping[str, str] | None = None) -> AgentFacts:
    """Ask an agent about itself, in a process of its own: loading a plug-in runs foreign code.

    Raises:
        FabricaError: There is no such agent, or its plug-in fails.
    """
    deadline = time.monotonic() + START_DEADLINE_S
    with tempfile.TemporaryDirectory(prefix="fabrica-agent-") as folder, _start(Path(folder), options or {}) as link:
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
) -> AgentAnswer:
    """Let an agent translate one task.

    Args:
        name: The agent.
        view: What it may know.
        budget: Evaluations and wall-clock seconds are enforced here; tokens are the agent's own business.
        call: Does the work of `AgentTools.compile` and `run_visible`.
        log: Takes the events that the agent logs.
        inspect: Shown the agent's private folder once all its processes are gone.
        options: The run's options of the agent, see `option_variable`.
        seed: For whatever the agent draws; it finds it in its environment.

    Raises:
        AgentFailure: It crashed, broke the protocol, or exceeded its wall limit and was killed.
    """
    deadline = time.monotonic() + budget.wall_s
    with tempfile.TemporaryDirectory(prefix="fabrica-agent-") as folder:
        try:
            with _start(Path(folder), options or {}, seed) as link:
                return _session(link, name, view, budget, deadline, call, log)
        finally:
            if inspect is not None:
                inspect(Path(folder))


def _session(
    link: Link, name: str, view: TaskView, budget: Budget, deadline: float, call: ToolCall, log: LogCall
) -> AgentAnswer:
    try:
        return _converse(link, name, view, budget, deadline, call, log)
    except LinkFailure as failure:
        raise AgentFailure(str(failure)) from failure
    finally:
        if text := link.printed().strip():
            log(PRINTED, {"text": text})


def _converse(
    link: Link, name: str, view: TaskView, budget: Budget, deadline: float, call: ToolCall, log: LogCall
) -> AgentAnswer:
    request = {"type": "translate", "agent": name}
    link.send({**request, "view": view.model_dump(mode="json"), "budget": budget.model_dump(mode="json")}, deadline)
    used = 0
    meter = _LogMeter(log)
    while True:
        message = _receive(link, deadline, budget.wall_s)
        match message["type"]:
            case "call":
                used += 1
                result = _serve(message, used, budget, call)
                link.send({"type": "reply", "id": message.get("id"), "result": result}, deadline)
            case "log":
                meter.log(str(message.get("event", "")), _mapping(message.get("data")))
            case "candidate":
                return AgentAnswer(_candidate(message))
            case "gave_up":
                reasons = message.get("reasons")
                return AgentAnswer(
                    None, tuple(map(str, reasons)) if isinstance(reasons, list) and reasons else ("no reason given",)
                )
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


def _serve(message: Mapping[str, Any], used: int, budget: Budget, call: ToolCall) -> dict[str, Any]:
    method, files = message.get("method"), _mapping(message.get("files"))
    if method not in ("compile", "run_visible"):
        raise AgentFailure(f"unknown tool {method!r}")
    if used > budget.evaluations:
        text = f"the budget of {budget.evaluations} evaluations is used up"
        spent: CompileOutcome | VisibleRun
        spent = (
            CompileOutcome(ok=False, diagnostics=[text]) if method == "compile" else VisibleRun(ok=False, outcome=text)
        )
        return spent.model_dump(mode="json")
    return call(method, {str(name): str(text) for name, text in files.items()}).model_dump(mode="json")


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


def _start(folder: Path, options: Mapping[str, str], seed: int = 0) -> Link:
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    passed |= {name: value for name, value in os.environ.items() if name.startswith("FABRICA_AGENT_")}
    passed |= {option_variable(name): value for name, value in options.items()}
    passed |= {**python_environment(), SEED_VARIABLE: str(seed)}
    paths = python_paths(hidden=secret_roots())
    with Confinement(read=paths.read, listed=paths.listed, write=[folder], network=True) as confinement:
        child = ChildProcess(
            [sys.executable, "-P", "-m", "fabrica_bench.runs.agent_host"],
            workdir=folder,
            environment=scrubbed_environment(folder, passed),
            limits=AGENT_LIMITS,
            interactive=True,
            confine=confinement.apply,
        )
    return Link(child)
