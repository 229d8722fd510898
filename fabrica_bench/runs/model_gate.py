"""The harness's side of `AgentTools.complete`: every prompt is screened, metered and recorded here.

The agent's process has no key and needs no network for a model; what it asks passes through this gate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from fabrica_bench.firewall.screening import leaks
from fabrica_bench.models.provider import ModelProvider, ProviderError
from fabrica_bench.models.replay import MODEL_CALL
from fabrica_bench.plugins import Budget, ModelError, ModelReply, ModelRequest, WorkedExample, Workflow
from fabrica_bench.tasks import Task

MAX_PROMPT_CHARS: Final = 2_000_000
"""No model reads more; a prompt beyond it is a mistake."""

MAX_CALLS: Final = 500
"""Model calls per task: a backstop beside the token budget, for models that count no tokens."""

LogCall = Callable[[str, dict[str, Any]], None]


def _nobody(reply: ModelReply) -> None:
    """Keeps no account."""


class ModelGate:
    """Model calls of one attempt at one task.

    Args:
        provider: The model, None when there is none.
        task: The task, whose hidden kernels must be in no prompt.
        workflow: What a candidate may change; decides which kernels are hidden.
        budget: Tokens and cost are held here.
        log: Takes the records.
        notice: Told about waits and retries.
        account: Told about each answer, for the sum of tokens and cost.
    """

    def __init__(
        self,
        provider: ModelProvider | None,
        task: Task,
        workflow: Workflow,
        budget: Budget,
        *,
        log: LogCall,
        notice: Callable[[str], None],
        account: Callable[[ModelReply], None] = _nobody,
    ) -> None:
        self._provider = provider
        self._task = task
        self._workflow = workflow
        self._budget = budget
        self._log = log
        self._notice = notice
        self._account = account
        self._public: list[str] = []
        self._calls = 0
        self.tokens = 0
        self.cost_usd = 0.0
        self.failure: str | None = None
        """The last failure of the provider itself after which no call succeeded: a task without a candidate is then its
        fault. What a request of the agent may have caused is none."""

    @property
    def name(self) -> str | None:
        """The model's public name."""
        return None if self._provider is None else self._provider.name

    def know(self, examples: list[WorkedExample]) -> None:
        """Examples that the agent was given: what they share with a hidden kernel is no leak."""
        self._public += [text for example in examples for text in example.files.values()]

    def complete(self, data: Mapping[str, Any], deadline: float) -> ModelReply:
        """Answer one request.

        Raises:
            ModelError: No model, a malformed or leaking prompt, the budget spent, or the provider failed.
        """
        if self._provider is None:
            raise ModelError("no model is configured; choose one with --model")
        try:
            request = ModelRequest.model_validate(data)
        except ValidationError as error:
            raise ModelError(f"the request is malformed: {error.errors()[0]['msg']}") from error
        self._check(request)
        self._calls += 1
        begin = time.monotonic()
        try:
            reply = self._provider.complete(request, deadline, self._notice)
        except ModelError as error:
            if isinstance(error, ProviderError):
                self.failure = str(error)
            self._record(request, None, begin, str(error))
            raise
        self.failure = None
        self._account(reply)
        self.tokens += reply.tokens
        self.cost_usd += reply.cost_usd or 0.0
        # What the model wrote itself may stand in later prompts, whatever it resembles.
        self._public += [text for text in _texts(reply.answer) if len(text) > 200]
        self._record(request, reply, begin, None)
        if self._budget.cost_usd is not None and reply.cost_usd is None and reply.tokens:
            raise ModelError(f"the price of {self.name} isn't known, so a limit on cost can't be kept; limit tokens instead")
        return reply

    def _check(self, request: ModelRequest) -> None:
        if self._calls >= MAX_CALLS:
            raise ModelError(f"the limit of {MAX_CALLS} model calls is reached")
        if self.tokens >= self._budget.tokens:
            raise ModelError(f"the budget of {self._budget.tokens} model tokens is used up ({self.tokens})")
        if self._budget.cost_usd is not None and self.cost_usd >= self._budget.cost_usd:
            raise ModelError(f"the budget of ${self._budget.cost_usd:g} is used up (${self.cost_usd:.4f})")
        if len(request.system) + len(request.user) > MAX_PROMPT_CHARS:
            raise ModelError(f"the prompt has more than {MAX_PROMPT_CHARS} characters")
        for text in (request.system, request.user):
            for finding in leaks(text, self._task, self._workflow, f"prompt of {request.stage}", self._public):
                self._log("leak", {"stage": request.stage, "found": finding.message})
                raise ModelError(f"the prompt of stage {request.stage} {finding.message}; it was not sent")

    def _record(self, request: ModelRequest, reply: ModelReply | None, begin: float, error: str | None) -> None:
        data: dict[str, Any] = {
            "model": self.name,
            "stage": request.stage,
            "key": request.key(),
            "request": request.model_dump(mode="json"),
            "reply": None if reply is None else reply.model_dump(mode="json"),
            "seconds": round(time.monotonic() - begin, 3),
            "tokens_used": self.tokens,
            "cost_usd_used": round(self.cost_usd, 6),
        }
        if error is not None:
            data["error"] = error
        self._log(MODEL_CALL, data)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []
