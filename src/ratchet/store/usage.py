"""Usage of model calls: stored with each span, summed per trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ratchet.store.columns import clean
from ratchet.store.counting import Used, counted_once
from ratchet.types import Cost, Span, total_cost
from ratchet.types.cost import USAGE_OF_STREAMS
from ratchet.types.trace import BROKEN_OFF, CALLS, SUMS, ModelCall

Price = Callable[[ModelCall], float | None]
"""Dollars of a call by configured or published prices; None without a price."""

COST = "ratchet.cost_usd"
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
"""Attributes that report token usage."""

OPERATION = "gen_ai.operation.name"
GATEWAY = "ratchet.upstream"
"""Attribute that only the gateway's records of calls have."""

STREAM = "gen_ai.request.stream"

LATE_CALL = "ratchet.late"
"""Attribute of a call that was recorded after its rollout had ended, whose cost is final."""

_READ = "gen_ai.usage.cache_read.input_tokens"
_WRITTEN = "gen_ai.usage.cache_creation.input_tokens"
_WRITTEN_1H = "ratchet.usage.cache_creation_1h.input_tokens"
_SEARCHES = "ratchet.usage.web_searches"
_TIER = "openai.response.service_tier"
_RARE = frozenset({_READ, _WRITTEN, _WRITTEN_1H, _SEARCHES, _TIER, GATEWAY, BROKEN_OFF})

_BEGUN = ("gen_ai.output.messages", "gen_ai.response.time_to_first_chunk")
"""Attributes of an answer that has begun."""

_MAX_NAME = 200
_MOST = 2**53

MAX_USD = 1e9
"""Maximum dollars of one call, or of one attempt."""


class _Stored(msgspec.Struct, array_like=True, frozen=True):
    """Usage as stored in the database, a JSON list."""

    model: str
    provider: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    whole: bool
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    tier: str = ""
    gateway: bool = False
    cache_write_1h_tokens: int = 0
    web_searches: int = 0
    broken_off: bool = False


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Stored).decode


class UsageTotal(NamedTuple):
    """Total usage of a trace."""

    input_tokens: int
    output_tokens: int
    cost: Cost
    models: tuple[str, ...]


def usage_text(attributes: Mapping[str, Any], *, failed: bool = False) -> str:
    """Encode a span's usage for the database; empty if there is none.

    A model call that reports no usage counts as usage of unknown size, unless it failed before
    the model was at work.

    Args:
        attributes: The span's attributes; foreign data, so values may be anything.
        failed: Whether the span's status is error.
    """
    if LATE_CALL in attributes:
        return ""
    get = attributes.get
    input_tokens, output_tokens, cost = get(INPUT_TOKENS), get(OUTPUT_TOKENS), get(COST)
    if input_tokens is None and output_tokens is None and (cost is None or _dollars(cost) is None):
        operation = get(OPERATION)
        if operation.__class__ is not str or operation not in CALLS:
            return ""
        if failed and not _broke_off(attributes, failed):
            return ""
    model = get("gen_ai.response.model") or get("gen_ai.request.model") or ""
    provider = get("gen_ai.provider.name") or get("gen_ai.system") or ""
    # The common case, written four times as fast by hand.
    if (
        cost is None
        and input_tokens.__class__ is int
        and output_tokens.__class__ is int
        and 0 <= input_tokens < _MOST
        and 0 <= output_tokens < _MOST
        and model.__class__ is str
        and provider.__class__ is str
        and len(model) <= _MAX_NAME
        and len(provider) <= _MAX_NAME
        and not attributes.keys() & _RARE
    ):
        operation = get(OPERATION)
        is_whole = operation.__class__ is str and operation in SUMS
        return (
            f"[{_names_text(model, provider)},{input_tokens},{output_tokens},null,"
            f'{"true" if is_whole else "false"},0,0,""]'
        )
    return _encode(_used(attributes, failed)).decode()


@functools.lru_cache(maxsize=256)
def _names_text(model: str, provider: str) -> str:
    """Model and provider as stored in the database; both are short."""
    return _encode((clean(model), clean(provider))).decode()[1:-1]


def used_by(span_id: str, parent_id: str | None, stored: str) -> Used:
    """Decode a span's stored usage."""
    used = _decode(stored)
    return Used(span_id, parent_id, _call(used), used.whole, used.gateway)


def used_in(span: Span) -> Used | None:
    """Usage in a span's attributes; None if there is none."""
    stored = usage_text(span.attributes, failed=span.status == "error")
    return used_by(span.span_id, span.parent_id, stored) if stored else None


def call_of(attributes: Mapping[str, Any], *, failed: bool = False) -> ModelCall:
    """The model call that a span's attributes describe; fields may be empty.

    Args:
        attributes: The span's attributes; foreign data, so values may be anything.
        failed: Whether the span's status is error.
    """
    return _call(_used(attributes, failed))


def _broke_off(attributes: Mapping[str, Any], failed: bool) -> bool:
    """Whether the model was at work when the call ended."""
    recorded = attributes.get(BROKEN_OFF)
    if recorded.__class__ is bool:
        return bool(recorded)
    # Of a failed call that others recorded: its answer had begun, and its usage never came.
    return (
        failed
        and attributes.get(OUTPUT_TOKENS) is None
        and any(attributes.get(key) not in (None, "", "[]") for key in _BEGUN)
    )


def _used(attributes: Mapping[str, Any], failed: bool) -> _Stored:
    get = attributes.get
    model = get("gen_ai.response.model") or get("gen_ai.request.model") or ""
    provider = get("gen_ai.provider.name") or get("gen_ai.system") or ""
    operation = get(OPERATION)
    read, cache_written, tier = get(_READ), get(_WRITTEN), get(_TIER)
    cost = get(COST)
    input_tokens, output_tokens = _tokens(get(INPUT_TOKENS), get(OUTPUT_TOKENS))
    return _Stored(
        model=_name(model),
        provider=_name(provider),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=None if cost is None else _dollars(cost),
        whole=operation.__class__ is str and operation in SUMS,
        cache_read_tokens=0 if read is None else _count(read),
        cache_write_tokens=0 if cache_written is None else _count(cache_written),
        tier="" if tier is None else _name(tier),
        gateway=GATEWAY in attributes,
        cache_write_1h_tokens=_count(get(_WRITTEN_1H)),
        web_searches=_count(get(_SEARCHES)),
        broken_off=_broke_off(attributes, failed),
    )


def _call(used: _Stored) -> ModelCall:
    return ModelCall(
        model=used.model,
        provider=used.provider,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_usd=used.cost_usd,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cache_write_1h_tokens=used.cache_write_1h_tokens,
        web_searches=used.web_searches,
        broken_off=used.broken_off,
        tier=used.tier,
    )


def total(
    used: Sequence[Used], parents: Mapping[str, str | None], price: Price | None = None
) -> UsageTotal:
    """Total usage of a trace or an attempt; each call counts once.

    Args:
        used: Usage by span.
        parents: Parent of each span, including spans without usage.
        price: Prices of calls that recorded no cost.
    """
    calls = [
        record._replace(
            call=msgspec.structs.replace(record.call, cost_usd=cost_of(record.call, price))
        )
        for record in used
    ]
    records = counted_once(calls, parents)
    return UsageTotal(
        sum(record.call.input_tokens for record in records),
        sum(record.call.output_tokens for record in records),
        total_cost(Cost.of(record.call.cost_usd, record.call.model) for record in records),
        tuple(sorted({record.call.model for record in records if record.call.model})),
    )


class SpanUsage(NamedTuple):
    """A span's place in its trace, and its usage as stored; empty if it has none."""

    trace_id: str
    span_id: str
    parent_id: str | None
    usage: str


def total_of(attempt: Iterable[SpanUsage]) -> UsageTotal:
    """Total usage of an attempt's spans, which may be in several traces, at recorded prices."""
    used: list[Used] = []
    parents: dict[str, str | None] = {}
    for span in attempt:
        # A span's parent is in its own trace, and another trace may have a span of the same id.
        own = f"{span.trace_id} {span.span_id}"
        above = None if span.parent_id is None else f"{span.trace_id} {span.parent_id}"
        parents[own] = above
        if span.usage:
            used.append(used_by(own, above, span.usage))
    return total(used, parents)


def usage_of(spans: Iterable[Span]) -> UsageTotal:
    """Like `total_of`, for spans that are not rows."""
    return total_of(
        SpanUsage(
            span.trace_id,
            span.span_id,
            span.parent_id,
            usage_text(span.attributes, failed=span.status == "error"),
        )
        for span in spans
    )


def cost_of(call: ModelCall, price: Price | None) -> float | None:
    """Dollars of a call, as recorded, or else by `price`."""
    if call.cost_usd is not None or price is None:
        return call.cost_usd
    return price(call)


def why_unmeasured(call: ModelCall, attributes: Mapping[str, Any]) -> str:
    """Why the cost of a call is unknown, and how to make it known; follows "not measured".

    Args:
        call: A call without a known cost.
        attributes: Attributes of its span.
    """
    if call.broken_off:
        return "the call broke off before its usage was reported"
    if call.input_tokens or call.output_tokens:
        return "the price of the model is unknown; set it under [prices] in ratchet.toml"
    if attributes.get(STREAM) is True:
        return f"the stream reports no usage; it does with {USAGE_OF_STREAMS}"
    return "the call reports no tokens"


def _tokens(*reported: Any) -> list[int]:
    """The reported numbers of tokens; all 0, for unknown, if any of them is not a number."""
    if all(value is None or _is_count(value) for value in reported):
        return [int(value or 0) for value in reported]
    return [0] * len(reported)


def _count(value: Any) -> int:
    return int(value) if _is_count(value) else 0


def _is_count(value: Any) -> bool:
    return value.__class__ in (int, float) and 0 <= value < _MOST


def claims_no_cost(attributes: Mapping[str, Any]) -> bool:
    """Whether a span claims an invalid cost: not a number of dollars from 0 to a billion."""
    cost = attributes.get(COST)
    return cost is not None and _dollars(cost) is None


def _dollars(value: Any) -> float | None:
    if value.__class__ is bool or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value <= MAX_USD else None


def _name(value: Any) -> str:
    return clean(value[:_MAX_NAME]) if value.__class__ is str else ""
