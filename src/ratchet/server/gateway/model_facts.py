"""Facts about an upstream's models: maximum output tokens, and the settings they refuse."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection
from typing import TypeVar
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict

from ratchet.observe.model_apis.bounded_json import count, decoded, mapping
from ratchet.server.gateway.pool import UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.upstream import Upstream

ASK_TIMEOUT_S = 5.0
"""Seconds that an upstream has to say how many tokens a model can write."""

SAFE_LIMIT = 8_192
"""Output tokens that every Anthropic model since Claude 3.5 can write."""

MAX_MODELS = 1_024

_BODY = 262_144

_log = logging.getLogger(__name__)


class ModelFacts:
    """Asks the upstreams, and remembers their answers.

    Args:
        pool: Connections to the upstreams.
    """

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool
        self._limits: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._refused: OrderedDict[tuple[str, str], frozenset[str]] = OrderedDict()

    async def most_tokens(
        self, endpoint: UpstreamEndpoint, model: str, headers: CIMultiDict[str]
    ) -> int | None:
        """Maximum number of output tokens of a model; None if the upstream does not say.

        Args:
            endpoint: The upstream.
            model: Its name there.
            headers: Those of the call, for the key.
        """
        key = (endpoint.upstream.name, model)
        limit = self._limits.get(key)
        if limit is None:
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    limit = await self._ask(endpoint, model, headers)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                name = endpoint.upstream.name
                _log.info(
                    "The upstream %r gave no output limit for %r: %s", name, model[:100], error
                )
                return None  # it is asked again at the next call
            _remember(self._limits, key, limit)
        return limit or None

    def refused(self, upstream: Upstream, model: str) -> frozenset[str]:
        """Settings that a model has refused."""
        return self._refused.get((upstream.name, model), frozenset())

    def refuse(self, upstream: Upstream, model: str, names: Collection[str]) -> None:
        """Record settings that a model refuses."""
        known = self.refused(upstream, model)
        _remember(self._refused, (upstream.name, model), known | frozenset(names))

    async def _ask(self, endpoint: UpstreamEndpoint, model: str, headers: CIMultiDict[str]) -> int:
        url = endpoint.url(f"models/{quote(model, safe='')}", b"")
        response = await self._pool.send(endpoint, "GET", url, headers, None)
        try:
            if response.status == 429 or response.status >= 500:
                raise ValueError(f"it answered {response.status}")
            if response.status != 200:
                return 0
            body = b""
            while not response.content.at_eof() and len(body) <= _BODY:
                body += await response.content.readany()
            return count(mapping(decoded(body)).get("max_tokens")) or 0
        finally:
            response.close()


Fact = TypeVar("Fact")


def _remember(known: OrderedDict[tuple[str, str], Fact], key: tuple[str, str], fact: Fact) -> None:
    known[key] = fact
    if len(known) > MAX_MODELS:
        known.popitem(last=False)
