"""What a shorter prompt saves: the counted input tokens of model calls, and their cost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ratchet.llm import price
from ratchet.store.counting import counted_once
from ratchet.store.usage import used_in
from ratchet.types import Span
from ratchet.types.trace import ModelCall


class InputUse(msgspec.Struct, frozen=True):
    """The input of model calls."""

    calls: int
    tokens: int
    cached: int
    """Tokens that the provider read from its cache."""
    usd: float | None
    """Their cost, with cached tokens at their own price; None if a price is unknown."""


def input_use(rollouts: Iterable[Iterable[Span]]) -> InputUse:
    """The input of all model calls of rollouts.

    Args:
        rollouts: The spans of each.
    """
    calls: list[ModelCall] = []
    for spans in rollouts:
        attempt = list(spans)
        used = [use for span in attempt if (use := used_in(span)) is not None]
        parents = {span.span_id: span.parent_id for span in attempt}
        calls += [use.call for use in counted_once(used, parents) if use.call.input_tokens]
    costs = [price(_input_of(call)) for call in calls]
    known = [cost for cost in costs if cost is not None]
    return InputUse(
        calls=len(calls),
        tokens=sum(call.input_tokens for call in calls),
        cached=sum(call.cache_read_tokens for call in calls),
        usd=sum(known) if calls and len(known) == len(calls) else None,
    )


def saving_sentence(before: InputUse, after: InputUse) -> str:
    """How much input is saved, in a sentence; empty if no tokens were counted."""
    if not (before.calls and before.tokens and after.calls and after.tokens):
        return ""
    was, now = before.tokens / before.calls, after.tokens / after.calls
    text = f"Model calls take {_change(was, now, 'fewer', 'more')} input tokens:"
    text += f" {now:,.0f} per call instead of {was:,.0f}."
    if before.usd and after.usd is not None:
        usd = _change(before.usd / before.calls, after.usd / after.calls, "less", "more")
        text += f" Their input costs {usd}"
        if before.cached or after.cached:
            shares = [f"{100 * use.cached / use.tokens:.0f} %" for use in (before, after)]
            text += (
                f", with tokens from the provider's cache at their own price: {shares[0]} of the "
                f"input before, {shares[1]} after"
            )
        text += "."
    return text


def _change(was: float, now: float, less: str, more: str) -> str:
    share = 1.0 - now / was
    return f"{abs(share) * 100:.0f} % {less if share >= 0 else more}"


def _input_of(call: ModelCall) -> ModelCall:
    """A call's input alone, without its output and searches, to price it."""
    return msgspec.structs.replace(
        call, output_tokens=0, web_searches=0, cost_usd=None, broken_off=False
    )
