"""One attempt at one task, in a process of its own: `python -m fabrica_bench.runs.job`.

Reads a job (one JSON object), runs the agent, then says `sealed`; only then does the coordinator send the held-out
seeds, so that nothing that an agent could reach ever knows them. Writes JSON lines:

    {"type": "progress", "stage": ..., "text": ...}
    {"type": "agent_event", "event": ..., "data": {...}}
    {"type": "evaluation", ...}        a compile or visible run of the agent
    {"type": "candidate", ...}         its answer, when there is one
    {"type": "sealed"}                 answered by {"type": "seeds", "seeds": ["...", ...]}
    {"type": "lookup", "key": ...}     answered by {"type": "found", "evaluation": {...} or null}; the job computes null
    {"type": "measured", "key": ..., "evaluation": {...}}
    {"type": "verdict", ...} | {"type": "failed", "code": N, "reason": ...}
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from fabrica_bench.errors import ExitCode, FabricaError, from_os_error
from fabrica_bench.firewall.disguise import disguised
from fabrica_bench.firewall.examples import worked_examples
from fabrica_bench.firewall.screening import Screen, reference_share
from fabrica_bench.firewall.view import task_view
from fabrica_bench.models.selection import NO_MODEL, open_model
from fabrica_bench.integrity.findings import Finding
from fabrica_bench.plugins import USAGE_EVENT, Budget, Candidate, CompileOutcome, VisibleRun, Workflow
from fabrica_bench.runs.agent_process import AgentFailure, agent_isolation, run_agent
from fabrica_bench.runs.cache import evaluation_from_json, evaluation_to_json
from fabrica_bench.runs.model_gate import ModelGate
from fabrica_bench.runs.usage import Usage
from fabrica_bench.scoring.candidate import CandidateError, candidate_digest, read_candidate
from fabrica_bench.scoring.conditions import Conditions, HarnessFault
from fabrica_bench.scoring.inputs import held_out_cases, visible_cases
from fabrica_bench.scoring.profiling import profile_text
from fabrica_bench.scoring.scorer import Scorer, invalid_contract
from fabrica_bench.scoring.staging import task_digest
from fabrica_bench.scoring.validity import Evaluation
from fabrica_bench.scoring.verdict import Blame, Invalid, NotScored, Valid
from fabrica_bench.tasks import load_task
from fabrica_bench.tasks.spec import Arch
from fabrica_bench.toolchains import get_toolchain
from fabrica_bench.toolchains.embedded import spread
from fabrica_bench.toolchains.processes import adopt_orphans, kill_orphans
from fabrica_bench.toolchains.starter import close_starters

LOG_LIMIT: Final = 4000
"""Characters of toolchain output that an agent and the records get per evaluation."""

REFERENCE_CONTROL: Final = "reference"
"""The one control that stands for the reference kernel: it hands in nothing and the harness supplies the files."""

COPY_CONTROL: Final = "copycat"
"""The control whose answer is the reference kernel in disguise; the harness supplies that too."""


class JobSpec(BaseModel):
    """What a job is told at its start.

    Attributes:
        agent_options: The run's options of the agent.
        agent_seed: For whatever the agent draws.
        tasks_dir: Folder of the tasks; None for the one that is found.
        digest: What the task's digest has to be: on another machine, its folder may hold something else.
        provider: Word of the model, as `--model` takes it.
        requests_per_minute: This job's share of the rate limit.
        files: Skips the agent and scores these.
        beside: Jobs on this machine at a time, itself included; None where that isn't known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: str
    model: str
    control: bool
    task: str
    attempt: int
    toolchain: str
    arch: Arch
    size: str
    workflow: Workflow
    budget: Budget
    agent_options: dict[str, str] = Field(default_factory=dict)
    agent_seed: int = 0
    tasks_dir: str | None = None
    digest: str | None = None
    provider: str = NO_MODEL
    requests_per_minute: float | None = None
    files: dict[str, str] | None = None
    beside: int | None = None


class Job:
    """State of one attempt. `emit` sends a message to the coordinator."""

    def __init__(self, spec: JobSpec, channel: _Channel) -> None:
        self.spec = spec
        self._channel = channel
        self.task = load_task(spec.task)
        if spec.digest is not None and task_digest(self.task) != spec.digest:
            raise FabricaError(
                f"task {spec.task} here isn't the one of the run: its digest differs",
                place=str(self.task.root),
                remedy="install the same version with the same tasks wherever jobs run",
                code=ExitCode.HARNESS,
            )
        self.toolchain = get_toolchain(spec.toolchain)
        if spec.beside is not None:
            self.toolchain = spread(self.toolchain, spec.beside)
        conditions = Conditions(self.task, self.toolchain, spec.arch, spec.size, spec.workflow)
        self.scorer = Scorer(conditions, _RemoteStore(channel), repeat=spec.attempt)
        self.visible = visible_cases(self.task)
        self.screen = Screen(self.task, spec.workflow)
        self.evaluations = 0
        self.usage = Usage()
        self.model = spec.model

    def run(self) -> None:
        """Do the whole job."""
        answer: dict[str, str] | NotScored
        answer = self._translate() if self.spec.files is None else self.spec.files
        self._emit("sealed")
        seeds = [int(text) for text in self._channel.receive()["seeds"]]
        cases = (*self.visible, *held_out_cases(self.task, seeds))
        commitments = [case.commitment for case in cases if case.kind == "held-out"]
        verdict: Valid | Invalid | NotScored
        files: dict[str, str] = {}
        share: float | None = None
        exposed: Sequence[Finding] = ()
        if isinstance(answer, NotScored):
            verdict, digest = answer, None
        else:
            self._emit("progress", stage="score", text="scoring on visible and held-out inputs")
            files, digest = answer, candidate_digest(answer)
            trusted = self._is_control(REFERENCE_CONTROL)
            exposed = [] if trusted else self.screen.findings
            verdict = invalid_contract(exposed) if exposed else self.scorer.judge(files, cases, trusted=trusted)
            if not trusted:
                share = round(reference_share(files, self.task, self.spec.workflow), 4)
        self._emit(
            "verdict",
            verdict=verdict.model_dump(mode="json"),
            key=self.scorer.key(files, cases),
            candidate=digest,
            model=self.model,
            evaluations=self.evaluations,
            usage=self.usage.model_dump(mode="json"),
            commitments=commitments,
            reference_share=share,
            screened=bool(exposed),
        )

    # ------------------------------------------------------------------------------------------- agent

    def _translate(self) -> dict[str, str] | NotScored:
        spec = self.spec
        view = task_view(
            self.task, arch=spec.arch, size=spec.size, workflow=spec.workflow, toolchain=self.toolchain.name
        )
        self._emit("progress", stage="agent", text=f"agent {spec.agent} at work")
        gate = ModelGate(
            open_model(spec.provider, os.environ, requests_per_minute=spec.requests_per_minute),
            self.task,
            spec.workflow,
            spec.budget,
            log=self._log,
            notice=lambda text: self._emit("progress", stage="model", text=text),
            account=lambda reply: self._account(reply.model_dump()),
        )
        begin = time.monotonic()
        try:
            answer = run_agent(
                spec.agent,
                view,
                spec.budget,
                call=self._call,
                log=self._log,
                options=spec.agent_options,
                seed=spec.agent_seed,
                gate=gate,
                profile=self._profile,
                examples=lambda: worked_examples(self.task, spec.workflow),
                inspect=self.screen.folder,
            )
        except AgentFailure as failure:
            return NotScored(blame=Blame.AGENT, reason=f"the agent failed: {failure}")
        finally:
            # Nothing that the agent left running may see what comes next. Starters are children of ours, too.
            close_starters()
            kill_orphans()
        if answer.candidate is None:
            if gate.failure is not None:
                return NotScored(blame=Blame.PROVIDER, reason=f"the model gave no answer: {gate.failure}")
            reasons = "; ".join(answer.gave_up)
            if answer.provider_failed and gate.name is None:  # of the harness's own provider we know better
                return NotScored(blame=Blame.PROVIDER, reason=f"the model provider failed: {reasons}")
            return NotScored(blame=Blame.AGENT, reason=f"the agent gave up: {reasons}")
        candidate = self._completed(answer.candidate)
        self.model = candidate.model or spec.model
        self._emit(
            "candidate",
            model=self.model,
            notes=list(candidate.notes),
            files=candidate.files,
            isolation=agent_isolation(),
            seconds=time.monotonic() - begin,
        )
        return dict(candidate.files)

    def _completed(self, candidate: Candidate) -> Candidate:
        """The empty candidate of a control that stands for the reference, filled in; any other as it is."""
        if candidate.files:
            return candidate
        if self._is_control(REFERENCE_CONTROL):
            return candidate.model_copy(update={"files": self.scorer.reference_files()})
        if self._is_control(COPY_CONTROL):
            window = self.task.spec.bundle.window
            copies = {name: disguised(text, window) for name, text in self.scorer.reference_files().items()}
            return candidate.model_copy(update={"files": copies})
        return candidate

    def _is_control(self, name: str) -> bool:
        return self.spec.control and self.spec.agent == name

    def _call(self, method: str, files: dict[str, str]) -> CompileOutcome | VisibleRun:
        self.evaluations += 1
        self.screen.data(files, "a program that the agent tried")
        begin = time.monotonic()
        outcome: CompileOutcome | VisibleRun
        try:
            outcome = self._compile(files) if method == "compile" else self._run_visible(files)
        except FabricaError as error:
            text = _fault_of_the_harness(error)
            compiles = method == "compile"
            outcome = CompileOutcome(ok=False, diagnostics=[text]) if compiles else VisibleRun(ok=False, outcome=text)
        text = "" if isinstance(outcome, CompileOutcome) else outcome.outcome
        self._emit(
            "evaluation",
            index=self.evaluations,
            action=method,
            ok=outcome.ok,
            outcome=text or ("compiled" if outcome.ok else "does not compile"),
            cycles=None if isinstance(outcome, CompileOutcome) else outcome.cycles,
            diagnostics=outcome.diagnostics if isinstance(outcome, CompileOutcome) else [],
            log=None if isinstance(outcome, CompileOutcome) else outcome.log,
            files=files,
            seconds=time.monotonic() - begin,
        )
        return outcome

    def _profile(self, files: dict[str, str]) -> str:
        self.evaluations += 1
        self.screen.data(files, "a program that the agent profiled")
        begin = time.monotonic()
        try:
            text = profile_text(self.scorer.conditions, read_candidate(files, self.scorer.editable), self.visible[0])
        except CandidateError as error:
            text = f"no profile: {error}"
        except FabricaError as error:
            text = f"no profile: {_fault_of_the_harness(error)}"
        ok = not text.startswith("no profile")
        self._emit(
            "evaluation",
            index=self.evaluations,
            action="profile",
            ok=ok,
            outcome="profiled" if ok else text[:LOG_LIMIT],
            cycles=None,
            diagnostics=[],
            log=text,
            files=files,
            seconds=time.monotonic() - begin,
        )
        return text

    def _compile(self, files: Mapping[str, str]) -> CompileOutcome:
        try:
            checked = read_candidate(files, self.scorer.editable)
        except CandidateError as error:
            return CompileOutcome(ok=False, diagnostics=[str(error)])
        result = self.scorer.compile(checked)
        return CompileOutcome(ok=result.ok, diagnostics=[str(item) for item in result.diagnostics])

    def _run_visible(self, files: Mapping[str, str]) -> VisibleRun:
        try:
            checked = read_candidate(files, self.scorer.editable)
        except CandidateError as error:
            return VisibleRun(ok=False, outcome=str(error))
        evaluation = self.scorer.evaluate(checked, self.visible)
        log = evaluation.log[-LOG_LIMIT:]
        if evaluation.ok and evaluation.samples:
            return VisibleRun(ok=True, outcome="valid", cycles=median_low(evaluation.samples), log=log)
        failed = evaluation.failed
        lines = "\n".join(failed.evidence) if failed else "nothing was run"
        return VisibleRun(ok=False, outcome=f"{failed.predicate if failed else 'Run'}: {lines}"[:LOG_LIMIT], log=log)

    def _log(self, event: str, data: dict[str, Any]) -> None:
        self.screen.data(data, f"the agent's event {event!r}")
        if event == USAGE_EVENT:
            self._account(data)
        self._emit("agent_event", event=event, data=data)

    def _account(self, data: Mapping[str, Any]) -> None:
        self.usage = self.usage.plus(data)

    def _emit(self, kind: str, **data: Any) -> None:
        self._channel.send({"type": kind, **data})


def _fault_of_the_harness(error: FabricaError) -> str:
    """What an agent is told of a program on which the harness failed; only that of its answer ends the attempt.

    Else the attempt would be lost for an agent that goes on, and counted for nothing for one that provokes it.

    Raises:
        FabricaError: `error` itself, if no other program could be tried either.
    """
    if error.code != ExitCode.HARNESS or isinstance(error, HarnessFault):
        raise error
    return f"the harness failed on this program, which may be right: {error.message}"


class _RemoteStore:
    """The coordinator's evaluations: asked for by key, answered when another job has finished what it computes."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def find(self, key: str) -> Evaluation | None:
        """See `EvaluationStore`."""
        self._channel.send({"type": "lookup", "key": key})
        found = self._channel.receive()["evaluation"]
        return None if found is None else evaluation_from_json(found)

    def keep(self, key: str, evaluation: Evaluation) -> None:
        """See `EvaluationStore`."""
        self._channel.send({"type": "measured", "key": key, "evaluation": evaluation_to_json(evaluation)})


class _Channel:
    def __init__(self) -> None:
        # Nothing that prints may break into the protocol.
        self._writer = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
        os.dup2(2, 1)

    def send(self, message: Mapping[str, Any]) -> None:
        self._writer.write(json.dumps(message) + "\n")
        self._writer.flush()

    def receive(self) -> dict[str, Any]:
        line = sys.stdin.readline()
        if not line:
            raise EOFError("the coordinator closed the channel")
        message: dict[str, Any] = json.loads(line)
        return message


def _fail(channel: _Channel, error: FabricaError) -> int:
    failure = {"code": int(error.code), "reason": error.message, "place": error.place, "remedy": error.remedy}
    channel.send({"type": "failed", **failure})
    return int(error.code)


def main() -> int:
    """Serve one job over the process's standard streams."""
    channel = _Channel()
    adopt_orphans()
    try:
        job = Job(JobSpec.model_validate(channel.receive()), channel)
        with job.scorer:
            job.run()
    except FabricaError as error:
        return _fail(channel, error)
    except OSError as error:
        return _fail(channel, from_os_error(error))
    except EOFError:
        return int(ExitCode.INTERRUPTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
