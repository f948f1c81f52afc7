"""Cost of model calls, from tokens and configured or published prices.

Works offline: the prices are those of the installed version of `genai-prices`.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from ratchet.store.usage import call_of
from ratchet.types import LOCAL_MODELS, Span
from ratchet.types.cost import USAGE_OF_STREAMS
from ratchet.types.trace import ModelCall

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo

CACHE_TTL_S = 60.0
"""Seconds for which a price is cached: some prices change by date, a few by time of day."""

MAX_CACHED = 1024
"""Maximum number of cached prices; model names come from clients and are unbounded."""

_STANDARD = frozenset({"", "auto", "default"})
"""Service tiers whose price is the published one."""

MAX_NAME = 200
"""Maximum length of a model name that is looked up, in characters."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of a call."""

    input_tokens: int = 0
    """All input tokens, including those read from or written to a cache."""
    output_tokens: int = 0
    """All output tokens, including reasoning."""
    cache_read_tokens: int = 0
    """Input tokens read from a cache."""
    cache_write_tokens: int = 0
    """Input tokens written to a cache."""
    cache_write_1h_tokens: int = 0
    """Number of these tokens that are kept for an hour."""
    web_searches: int = 0
    """Web searches that the provider made."""


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True):
    """A configured price, in dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    """Price of input read from a cache; None if it is that of `input`."""
    cache_write: float | None = None
    """Price of input written to a cache; None if it is that of `input`."""
    cache_write_1h: float | None = None
    """Price of input written to a cache for an hour; None if it is that of `cache_write`."""
    web_search: float | None = None
    """Dollars per thousand web searches; None if unknown."""


class _Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Fixed dollars per token."""

    fresh: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float
    request: float = 0.0
    """Dollars of the call itself."""
    web_search: float | None = None
    """Dollars per web search; None if unknown."""

    def of(self, usage: Usage) -> float | None:
        read, write = usage.cache_read_tokens, usage.cache_write_tokens
        fresh = usage.input_tokens - read - write
        if fresh < 0 or (usage.web_searches and self.web_search is None):
            return None
        hour = min(usage.cache_write_1h_tokens, write)
        return (
            fresh * self.fresh
            + read * self.cache_read
            + (write - hour) * self.cache_write
            + hour * self.cache_write_1h
            + usage.output_tokens * self.output
            + usage.web_searches * (self.web_search or 0.0)
            + self.request
        )


class _Tiered(msgspec.Struct, frozen=True):
    """A price that depends on the token counts; computed by the library."""

    price: Any
    """A `ModelPrice`."""

    def of(self, usage: Usage) -> float | None:
        from genai_prices import Usage as TheirUsage

        if usage.web_searches and getattr(self.price, "web_searches_kcount", None) is None:
            return None
        counts = {name: count for name, count in msgspec.structs.asdict(usage).items() if count}
        try:
            return float(self.price.calc_price(TheirUsage(**counts))["total_price"])
        except (ValueError, LookupError, ArithmeticError):
            return None


_Price: TypeAlias = _Rate | _Tiered | None

_cached: dict[tuple[str, str, str], tuple[float, _Price]] = {}
_configured: dict[str, _Rate] = {}
_lock = threading.Lock()
_snapshot: DataSnapshot | None = None


def loaded() -> bool:
    """Whether the prices are loaded."""
    return _snapshot is not None


def load() -> None:
    """Load the prices, which takes about 40 MB and, once, half a second. Thread-safe."""
    global _snapshot
    with _lock:
        if _snapshot is None:
            from genai_prices.data import providers
            from genai_prices.data_snapshot import DataSnapshot

            # Not the library's own snapshot: other code in this process may have made it fetch
            # newer prices from the network.
            _snapshot = DataSnapshot(providers=providers, from_auto_update=False)


@lru_cache(MAX_CACHED)
def provider_by_name(model: str) -> str:
    """The provider in genai-prices whose models have such names; empty if there is none.

    Args:
        model: A model's name, whether it has a price or not.
    """
    if not model or len(model) > MAX_NAME:
        return ""
    load()
    assert _snapshot is not None
    try:
        return str(_snapshot.find_provider(model, None, None).id)
    except LookupError:
        return ""


def set_prices(prices: Mapping[str, ModelPrice]) -> None:
    """Set this process's prices for models, by name; they take precedence over published prices.

    Args:
        prices: By the name that the model's answers report, or else its requests.
    """
    _configured.clear()
    for model, price in prices.items():
        fresh = price.input / 1e6
        read, write = (
            fresh if rate is None else rate / 1e6 for rate in (price.cache_read, price.cache_write)
        )
        _configured[model] = _Rate(
            fresh=fresh,
            cache_read=read,
            cache_write=write,
            cache_write_1h=write if price.cache_write_1h is None else price.cache_write_1h / 1e6,
            output=price.output / 1e6,
            web_search=None if price.web_search is None else price.web_search / 1e3,
        )


def dollars(provider: str, model: str, usage: Usage, tier: str = "") -> float | None:
    """Dollars of a call; None if the model has no configured or published price.

    A local model of Ratchet's costs nothing.

    Args:
        provider: Name in genai-prices, such as `openai`, or the URL of its API.
        model: Model name from the answer, or else from the request.
        usage: Token counts.
        tier: Service tier stated in the answer, such as `priority`.
    """
    if len(model) > MAX_NAME or not model:
        return None
    configured = _configured.get(model)
    if configured is not None:
        return configured.of(usage)
    # Some instrumentations record the requested name, which an agent in front of one may choose.
    if model.startswith(LOCAL_MODELS) or model == LOCAL_MODELS.rstrip("/"):
        return 0.0
    key = (provider, model, tier)
    now = time.monotonic()
    cached = _cached.get(key)
    if cached is None or cached[0] < now:
        if len(_cached) >= MAX_CACHED:
            _cached.clear()
        cached = _cached[key] = (now + CACHE_TTL_S, _look_up(provider, model, tier))
    price = cached[1]
    return None if price is None else price.of(usage)


def _look_up(provider: str, model: str, tier: str) -> _Price:
    from datetime import UTC, datetime
    from decimal import Decimal

    listing = _listed(provider, model)
    if listing is None:
        return None
    now = datetime.now(UTC)
    if tier in _STANDARD:
        price = listing.get_prices(now)
    elif len(inspect.signature(listing.get_prices).parameters) > 1:
        price = listing.get_prices(now, {"service_tier": tier})
    else:
        return None  # genai-prices before 0.1, which a framework may hold back, knows no tiers
    rates = [getattr(price, name, None) for name in _RATES]
    if all(rate is None for rate in rates):
        return None
    if not all(rate is None or isinstance(rate, Decimal) for rate in rates):
        return _Tiered(price)
    fresh, read, write, hour, output, search, request = (
        None if rate is None else float(rate) for rate in rates
    )
    fresh = fresh or 0.0
    write = fresh if write is None else write
    return _Rate(
        fresh=fresh / 1e6,
        cache_read=(fresh if read is None else read) / 1e6,
        cache_write=write / 1e6,
        cache_write_1h=(write if hour is None else hour) / 1e6,
        output=(output or 0.0) / 1e6,
        web_search=None if search is None else search / 1e3,
        request=(request or 0.0) / 1e3,
    )


def _listed(provider: str, model: str) -> ModelInfo | None:
    """Published data about a model."""
    load()
    assert _snapshot is not None
    by_url = "://" in provider
    try:
        _, listing = _snapshot.find_provider_model(
            model, None, None if by_url else provider or None, provider if by_url else None
        )
    except LookupError:
        return None
    return listing


def is_flagged(provider: str, model: str) -> bool:
    """Whether the published data marks a model as deprecated, without a date.

    Args:
        provider: As spans name it, or the URL of its API; without one, the model's maker.
        model: Its name.
    """
    listing = _listed(SELLERS.get(provider.lower(), provider.lower()), model)
    return listing is not None and bool(listing.deprecated)


_RATES = (
    *("input_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok", "output_mtok"),
    *("web_searches_kcount", "requests_kcount"),
)
"""Names of the rates in genai-prices, in dollars per million tokens, or per thousand searches."""


COST = "ratchet.cost_usd"
"""Span attribute: dollars of the call."""

SELLERS = {
    "aws.bedrock": "aws",
    "azure.ai.inference": "azure",
    "azure.ai.openai": "azure",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "gcp.vertex_ai": "google",
    "mistral_ai": "mistral",
    "x_ai": "x-ai",
}
"""Provider names that differ between OpenTelemetry's GenAI conventions and genai-prices."""


def price(call: ModelCall) -> float | None:
    """Dollars of a call at current prices; None if they are unknown.

    Args:
        call: The call. Without a provider, the model's known provider is used.
    """
    provider = call.provider.lower()
    return price_at(SELLERS.get(provider, provider), call)


def price_at(seller: str, call: ModelCall) -> float | None:
    """Dollars of a call at a seller's current prices; None if they are unknown.

    Args:
        seller: Name in genai-prices, such as `openai`, or the URL of its API; may be empty.
        call: The call.
    """
    if call.broken_off or not call.model or not (call.input_tokens or call.output_tokens):
        return None
    usage = Usage(
        input_tokens=call.input_tokens,
        output_tokens=call.output_tokens,
        cache_read_tokens=call.cache_read_tokens,
        cache_write_tokens=call.cache_write_tokens,
        cache_write_1h_tokens=call.cache_write_1h_tokens,
        web_searches=call.web_searches,
    )
    return dollars(seller, call.model, usage, call.tier)


def why_unknown(model: str) -> str:
    """Why calls of a model have an unknown cost, and how to make it known.

    Args:
        model: The model; if it has a price, its calls did not report what they used.
    """
    if price(ModelCall(model=model, input_tokens=1)) is None:
        name = repr(model) if model else "a model"
        return f"the price of {name} is unknown; set it under [prices] in ratchet.toml"
    return (
        f"calls of {model!r} broke off or reported no usage; streams report it with"
        f" {USAGE_OF_STREAMS}"
    )


def with_price(span: Span) -> Span:
    """Return the span with the dollars of its call as an attribute, if they can be computed.

    Args:
        span: Any span; one that has a cost or reports no tokens is returned unchanged.
    """
    attributes = span.attributes
    if COST in attributes or not has_tokens(attributes):
        return span
    usd = price(call_of(attributes, failed=span.status == "error"))
    if usd is None:
        return span
    return msgspec.structs.replace(span, attributes={**attributes, COST: usd})


def has_tokens(attributes: Mapping[str, Any]) -> bool:
    """Whether a span's attributes report tokens."""
    return "gen_ai.usage.input_tokens" in attributes or "gen_ai.usage.output_tokens" in attributes
