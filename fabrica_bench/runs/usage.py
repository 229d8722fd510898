"""Tokens and cost of an agent's model calls, as the agent reports them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field


MOST: Final = 1e15
"""More tokens or dollars in one call are no sensible number. Sums of what an agent may log stay below 2**63."""


class Usage(BaseModel):
    """A sum over model calls.

    Attributes:
        calls: Model calls that were reported.
        input_tokens, output_tokens: Tokens.
        cost_usd: US dollars; None when no call said what it cost, which isn't the same as nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def plus(self, data: Mapping[str, Any]) -> Usage:
        """With one more call, from the data of an agent's `usage` event; what isn't a sensible number counts as none."""
        cost = data.get("cost_usd")
        known = _number(cost)
        return Usage(
            calls=self.calls + 1,
            input_tokens=self.input_tokens + int(_number(data.get("input_tokens")) or 0),
            output_tokens=self.output_tokens + int(_number(data.get("output_tokens")) or 0),
            cost_usd=self.cost_usd if known is None else (self.cost_usd or 0.0) + known,
        )


def total_usage(parts: Iterable[Usage]) -> Usage:
    """The sum of several."""
    parts = list(parts)
    costs = [part.cost_usd for part in parts if part.cost_usd is not None]
    return Usage(
        calls=sum(part.calls for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=math.fsum(costs) if costs else None,
    )


def _number(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST
    return float(value) if good else None
