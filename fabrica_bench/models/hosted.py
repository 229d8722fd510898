"""Models over HTTP through pydantic-ai (extra `llm`): Anthropic, OpenAI, Google, and OpenAI-compatible endpoints.

Retrying is done here, not in the providers' own clients, so that every wait is visible, counts against the deadline and
obeys the server's `Retry-After`.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from fabrica_bench.errors import ExitCode, FabricaError
from fabrica_bench.models.provider import Notice, ProviderError, check_answer, no_notice, parse_answer
from fabrica_bench.plugins import ModelError, ModelReply, ModelRequest

ATTEMPTS: Final = 6
"""Tries per request, the first included."""

FIRST_WAIT_S: Final = 2.0
LONGEST_WAIT_S: Final = 60.0
CALL_LIMIT_S: Final = 300.0
"""Wall-clock seconds of one try."""

MAX_OUTPUT_TOKENS: Final = 32_000
RETRYABLE_STATUS: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
REFUSES_ALL: Final = frozenset({401, 402, 403, 404, 407})
"""Statuses that say nothing of a request but that of its sender or the model's name."""

ANSWER_TOOL: Final = "answer"

PROBE: Final = ModelRequest(
    stage="probe",
    system="",
    user="Hand in the answer with the member `ok` set to true.",
    answer_schema={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
)
"""What a provider is asked that refused a request: if it answers this, the request was at fault."""

PROBE_LIMIT_S: Final = 60.0


class _Failure(Exception):
    """One try failed.

    Args:
        text: Why.
        retry: Whether the same request may succeed later.
        after_s: How long the server asks to wait.
        provider: Whether the provider is to blame, whatever was asked; None where only another request can tell.
    """

    def __init__(self, text: str, *, retry: bool, after_s: float | None = None, provider: bool | None = False) -> None:
        super().__init__(text)
        self.retry = retry
        self.provider = provider
        self.after_s = after_s


class Hosted:
    """A model that a provider serves.

    Args:
        kind: `anthropic`, `openai`, `google` or `compatible`.
        model: The provider's name of the model.
        key: Its key, None for servers that ask for none. Kept out of every message.
        base_url: Another address than the provider's own.
        requests_per_minute: Rate limit; None for none.
        call_limit_s: Wall-clock seconds of one try.
        sleep: Waits; replaced in tests.

    Raises:
        FabricaError: The extra isn't installed.
    """

    def __init__(
        self,
        kind: str,
        model: str,
        *,
        key: str | None,
        base_url: str | None = None,
        requests_per_minute: float | None = None,
        call_limit_s: float = CALL_LIMIT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = f"{kind}:{model}"
        self._kind = kind
        self._model_name = model
        self._key = key
        self._base_url = base_url
        self._call_limit_s = call_limit_s
        self._sleep = sleep
        self._rate = RateLimit(requests_per_minute)
        try:
            self._model_class()
        except ImportError as error:
            raise FabricaError(
                f"{self.name} needs a library that is not installed ({error.name})",
                place="--model",
                remedy="pip install 'fabrica-bench[llm]'",
                code=ExitCode.ENVIRONMENT,
            ) from error

    def complete(self, request: ModelRequest, deadline: float, notice: Notice = no_notice) -> ModelReply:
        """Ask, again after a pause where that can help; see `ModelProvider.complete`."""
        last = "the time for it is over"
        blames: list[bool | None] = []
        for attempt in range(1, ATTEMPTS + 1):
            self._pause(self._rate.wait_s(), deadline, "rate limit", notice)
            limit_s = min(self._call_limit_s, deadline - time.monotonic())
            if limit_s <= 0:
                break
            self._rate.started()
            try:
                return asyncio.run(self._try(request, limit_s))
            except _Failure as failure:
                last = self._redact(str(failure))
                blames.append(failure.provider)
                if not failure.retry or attempt == ATTEMPTS:
                    break
                wait_s = failure.after_s or min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (attempt - 1))
                if not self._pause(wait_s, deadline, f"{last}; attempt {attempt + 1} of {ATTEMPTS}", notice):
                    last += f"; the next attempt, in {wait_s:.0f} s, would be after the deadline"
                    break
        to_blame = True in blames or (None in blames and not self._answers())
        raise (ProviderError if to_blame else ModelError)(f"{self.name}: {last}")

    def _answers(self) -> bool:
        """Whether the provider answers a request that is none of an agent's."""
        try:
            asyncio.run(self._try(PROBE, min(self._call_limit_s, PROBE_LIMIT_S)))
        except _Failure as failure:
            return failure.provider is False  # an answer, of whatever use
        return True

    def _pause(self, seconds: float, deadline: float, why: str, notice: Notice) -> bool:
        if seconds <= 0:
            return True
        if time.monotonic() + seconds >= deadline:
            return False
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        notice(f"{self.name}: {why}; next at {at:%H:%M:%S} UTC")
        self._sleep(seconds)
        return True

    def _redact(self, text: str) -> str:
        text = " ".join(text.split())[:600]
        return text.replace(self._key, "[key]") if self._key else text

    # ---------------------------------------------------------------------------------------- one try

    async def _try(self, request: ModelRequest, limit_s: float) -> ModelReply:
        from pydantic_ai.exceptions import AgentRunError, ModelAPIError, ModelHTTPError

        try:
            with warnings.catch_warnings():
                # Prices of unknown models and unsupported sampling settings: nothing that a user can act on.
                warnings.simplefilter("ignore")
                response = await asyncio.wait_for(self._stream(request, limit_s), limit_s)
        except TimeoutError as error:
            # Less than a whole try was left: whoever asks so late is to blame for that.
            whole = limit_s >= self._call_limit_s
            raise _Failure(f"no answer within {limit_s:.0f} s", retry=True, provider=whole) from error
        except ModelHTTPError as error:
            retry = error.status_code in RETRYABLE_STATUS
            text = f"HTTP status {error.status_code}: {error.body or error.message}"
            provider = True if retry or error.status_code >= 500 or error.status_code in REFUSES_ALL else None
            raise _Failure(text, retry=retry, after_s=_retry_after(error), provider=provider) from error
        except (ModelAPIError, AgentRunError) as error:
            raise _Failure(f"{type(error).__name__}: {error}", retry=True, provider=None) from error
        except Exception as error:
            # What a client library raises on a malformed or cut stream is its own affair; none of it is our bug.
            raise _Failure(f"unreadable answer ({type(error).__name__}: {error})", retry=True, provider=None) from error
        return self._reply(response, request)

    async def _stream(self, request: ModelRequest, limit_s: float) -> Any:
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.messages import ModelRequest as Message
        from pydantic_ai.messages import SystemPromptPart, UserPromptPart
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        model, close = self._client(limit_s)
        parameters = ModelRequestParameters(
            output_mode="tool",
            allow_text_output=True,
            output_tools=[
                ToolDefinition(
                    name=ANSWER_TOOL,
                    description="Hands in the answer.",
                    parameters_json_schema=request.answer_schema,
                    kind="output",
                )
            ],
        )
        messages = [Message(parts=[SystemPromptPart(request.system), UserPromptPart(request.user)])]
        settings: Any = {"max_tokens": MAX_OUTPUT_TOKENS, "timeout": limit_s}
        try:
            async with model_request_stream(
                model, messages, model_settings=settings, model_request_parameters=parameters
            ) as stream:
                async for _ in stream:
                    pass
                return stream.get()
        finally:
            await close()

    def _reply(self, response: Any, request: ModelRequest) -> ModelReply:
        if response.finish_reason in ("length", "content_filter"):
            raise _Failure(f"the answer was cut (finish reason {response.finish_reason})", retry=True)
        answer: dict[str, Any] | None = None
        text = ""
        for part in response.parts:
            if part.part_kind == "tool-call" and part.tool_name == ANSWER_TOOL:
                try:
                    answer = part.args_as_dict()
                except ValueError as error:
                    raise _Failure(f"the answer is not JSON ({error})", retry=True) from error
            elif part.part_kind == "text":
                text += part.content
        try:
            if answer is None:
                answer = parse_answer(text, request.answer_schema)
            elif wrong := check_answer(answer, request.answer_schema):
                raise ModelError(f"the model's answer can't be used: {wrong}")
        except ModelError as error:
            raise _Failure(str(error), retry=True) from error
        usage = response.usage
        return ModelReply(
            answer=answer,
            input_tokens=usage.input_tokens or 0,
            output_tokens=usage.output_tokens or 0,
            cost_usd=_cost(response),
        )

    # ---------------------------------------------------------------------------------------- clients

    def _model_class(self) -> Any:
        if self._kind == "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel

            return AnthropicModel
        if self._kind == "google":
            from pydantic_ai.models.google import GoogleModel

            return GoogleModel
        from pydantic_ai.models.openai import OpenAIChatModel

        return OpenAIChatModel

    def _client(self, limit_s: float) -> tuple[Any, Callable[[], Any]]:
        """A model with a client of its own, which never retries by itself, and how to close it."""
        provider: Any
        if self._kind == "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.providers.anthropic import AnthropicProvider

            claude = AsyncAnthropic(api_key=self._key, base_url=self._base_url, max_retries=0, timeout=limit_s)
            return self._model_class()(
                self._model_name, provider=AnthropicProvider(anthropic_client=claude)
            ), claude.close
        if self._kind == "google":
            from pydantic_ai.providers.google import GoogleProvider

            provider = GoogleProvider(api_key=self._key or "", base_url=self._base_url)
            return self._model_class()(self._model_name, provider=provider), _nothing
        from openai import AsyncOpenAI
        from pydantic_ai.providers.openai import OpenAIProvider

        client = AsyncOpenAI(api_key=self._key or "none", base_url=self._base_url, max_retries=0, timeout=limit_s)
        return self._model_class()(self._model_name, provider=OpenAIProvider(openai_client=client)), client.close


class RateLimit:
    """At most so many calls in any minute.

    Args:
        per_minute: The number; None for no limit.
        now: Monotonic clock; replaced in tests.
    """

    def __init__(self, per_minute: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._spacing_s = 60.0 / per_minute if per_minute else 0.0
        self._now = now
        self._starts: deque[float] = deque(maxlen=1)

    def wait_s(self) -> float:
        """Seconds until the next call may start."""
        return max(0.0, self._starts[-1] + self._spacing_s - self._now()) if self._starts else 0.0

    def started(self) -> None:
        """A call starts now."""
        self._starts.append(self._now())


async def _nothing() -> None:
    return None


def _retry_after(error: Any) -> float | None:
    value = getattr(error, "retry_after", None)
    return float(value) if isinstance(value, (int, float)) and value >= 0 else None


def _cost(response: Any) -> float | None:
    if not response.model_name:
        return None
    try:
        return float(response.cost().total_price)
    except LookupError:
        # The price list knows no such model or provider.
        return None
    except ValueError:
        # The provider left tokens out of its answer, or counted fewer than none.
        return None
