"""Cost of model calls in dollars: a number or unknown."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

LOCAL_MODELS = "local/"
"""Prefix of the names with which Ratchet's local models answer; their calls cost nothing."""

USAGE_OF_STREAMS = 'stream_options={"include_usage": true}'
"""Setting with which OpenAI's chat completions, and compatible APIs, report the usage of a
stream."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars of model calls; unknown, never zero, if the price of any call is unknown."""

    known_usd: float = 0.0
    """Dollars of the calls whose price is known."""
    unpriced: dict[str, int] = {}
    """Number of calls whose price is unknown, by model; empty if all prices are known."""

    @property
    def usd(self) -> float | None:
        """Dollars of all calls; None if the price of any call is unknown."""
        return None if self.unpriced else self.known_usd

    @property
    def unpriced_calls(self) -> int:
        """Number of calls whose price is unknown."""
        return sum(self.unpriced.values())

    @classmethod
    def of(cls, usd: float | None, model: str = "") -> Cost:
        """Create the cost of a call.

        Args:
            usd: Dollars; None if they are unknown.
            model: Name of the called model.
        """
        return cls(unpriced={model: 1}) if usd is None else cls(known_usd=usd)

    def __str__(self) -> str:
        if not self.unpriced:
            return dollars_text(self.known_usd)
        if not self.known_usd:
            return "cost not measured"
        calls = f"{self.unpriced_calls} call{'' if self.unpriced_calls == 1 else 's'}"
        return f"at least {dollars_text(self.known_usd)}, {calls} unpriced"


def dollars_text(usd: float) -> str:
    """Format dollars for display."""
    if 0 < usd < 0.00005:
        return "<$0.0001"
    return f"${usd:.4f}" if usd < 1 else f"${usd:.2f}"


def rollout_dollars(usd: float) -> str:
    """Format the dollars of a rollout, which may be far below a cent, with two significant
    digits."""
    if not 0 < usd < 0.1:
        return dollars_text(usd)
    return f"${usd:.{1 - math.floor(math.log10(usd))}f}"


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Sum costs; the result does not depend on their order."""
    amounts: list[float] = []
    unpriced: dict[str, int] = {}
    for cost in costs:
        amounts.append(cost.known_usd)
        for model, calls in cost.unpriced.items():
            unpriced[model] = unpriced.get(model, 0) + calls
    return Cost(known_usd=math.fsum(amounts), unpriced=dict(sorted(unpriced.items())))
