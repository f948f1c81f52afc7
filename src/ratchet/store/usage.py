"""Usage: what the calls of a trace used, kept beside each span, and what that comes to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ratchet.store.columns import clean
from ratchet.types import Span
from ratchet.types.trace import SUMS, ModelCall

Price = Callable[[ModelCall], float | None]
"""Dollars of a call by published prices; None when nobody publishes one."""

COST = "ratchet.cost_usd"
INPUT, OUTPUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
"""Attributes that say that a span used something."""

_READ = "gen_ai.usage.cache_read.input_tokens"
_WRITTEN = "gen_ai.usage.cache_creation.input_tokens"
_TIER = "openai.response.service_tier"
_RARE = frozenset({_READ, _WRITTEN, _TIER})

_MAX_NAME = 200
_MOST = 2**53


_Stored: TypeAlias = tuple[str, str, int, int, float | None, bool, int, int, str]
"""How it lies in the database, as a JSON list: model, provider, tokens in and out, dollars, whether
it is a sum, tokens from and into a cache, tier."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Stored).decode


class Used(NamedTuple):
    """What a span of a trace used."""

    span_id: str
    parent_id: str | None
    call: ModelCall
    whole: bool
    """Whether it sums up what others used."""


class Total(NamedTuple):
    """What a trace used."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    models: tuple[str, ...]


def usage_text(attributes: Mapping[str, Any]) -> str:
    """What a span used, as it lies in the database; empty when it used nothing.

    Args:
        attributes: Of the span; foreign data, so anything may stand there.
    """
    get = attributes.get
    given, made, cost = get(INPUT), get(OUTPUT), get(COST)
    if given is None and made is None and cost is None:
        return ""
    model = get("gen_ai.response.model") or get("gen_ai.request.model") or ""
    provider = get("gen_ai.provider.name") or get("gen_ai.system") or ""
    # Most calls have no more to say than this, and are written four times as fast by hand.
    if (
        cost is None
        and given.__class__ is int
        and made.__class__ is int
        and 0 <= given < _MOST
        and 0 <= made < _MOST
        and model.__class__ is str
        and provider.__class__ is str
        and len(model) <= _MAX_NAME
        and len(provider) <= _MAX_NAME
        and not attributes.keys() & _RARE
    ):
        operation = get("gen_ai.operation.name")
        is_whole = operation.__class__ is str and operation in SUMS
        return (
            f"[{_names_text(model, provider)},{given},{made},null,"
            f'{"true" if is_whole else "false"},0,0,""]'
        )
    return _encode(_used(attributes)).decode()


@functools.lru_cache(maxsize=256)
def _names_text(model: str, provider: str) -> str:
    """Model and provider as they lie in the database; both are short."""
    return _encode((clean(model), clean(provider))).decode()[1:-1]


def used_by(span_id: str, parent_id: str | None, stored: str) -> Used:
    """What a span used, from how it lies in the database."""
    used = _decode(stored)
    return Used(span_id, parent_id, _call(used), used[5])


def used_in(span: Span) -> Used | None:
    """What a span used, from its attributes; None when it used nothing."""
    stored = usage_text(span.attributes)
    return used_by(span.span_id, span.parent_id, stored) if stored else None


def call_of(attributes: Mapping[str, Any]) -> ModelCall:
    """What a span's attributes say of the call of a model, be it nothing."""
    return _call(_used(attributes))


def _used(attributes: Mapping[str, Any]) -> _Stored:
    get = attributes.get
    model = get("gen_ai.response.model") or get("gen_ai.request.model") or ""
    provider = get("gen_ai.provider.name") or get("gen_ai.system") or ""
    operation = get("gen_ai.operation.name")
    read, written, tier = get(_READ), get(_WRITTEN), get(_TIER)
    cost = get(COST)
    return (
        _name(model),
        _name(provider),
        _count(get(INPUT)),
        _count(get(OUTPUT)),
        None if cost is None else _dollars(cost),
        operation.__class__ is str and operation in SUMS,
        0 if read is None else _count(read),
        0 if written is None else _count(written),
        "" if tier is None else _name(tier),
    )


def _call(used: _Stored) -> ModelCall:
    return ModelCall(
        model=used[0],
        provider=used[1],
        input_tokens=used[2],
        output_tokens=used[3],
        cost_usd=used[4],
        cache_read_tokens=used[6],
        cache_write_tokens=used[7],
        tier=used[8],
    )


def total(used: Sequence[Used], price: Price | None = None) -> Total:
    """What a trace used; what is reported twice, by a call and by what stands above it, once.

    Args:
        used: By each span.
        price: For calls whose cost nobody recorded.
    """
    counted = list(counted_once(used))
    costs = [cost for one in counted if (cost := cost_of(one.call, price)) is not None]
    return Total(
        sum(one.call.input_tokens for one in counted),
        sum(one.call.output_tokens for one in counted),
        sum(costs) if costs else None,
        tuple(sorted({one.call.model for one in counted if one.call.model})),
    )


def counted_once(used: Sequence[Used]) -> Iterable[Used]:
    """Those that no other one repeats.

    A framework and the client library beneath it may both report a call, and an agent's span may
    sum up all of its calls.
    """
    calls = [one for one in used if not one.whole]
    if not calls:
        return used
    above = {one.parent_id for one in calls}
    return [one for one in calls if one.span_id not in above]


def cost_of(call: ModelCall, price: Price | None) -> float | None:
    """Dollars of a call, as recorded or else by published prices."""
    if call.cost_usd is not None or price is None:
        return call.cost_usd
    return price(call)


def _count(value: Any) -> int:
    if value.__class__ is int:
        return value if 0 <= value < _MOST else 0
    return int(value) if isinstance(value, float) and 0 <= value < _MOST else 0


def _dollars(value: Any) -> float | None:
    if value.__class__ is bool or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < 1e12 else None


def _name(value: Any) -> str:
    return clean(value[:_MAX_NAME]) if value.__class__ is str else ""
