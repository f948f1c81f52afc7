"""Adapter loading: gives released weights to a model server that does not know them yet."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec
from multidict import CIMultiDict

from ratchet.autopilot.adapters import AdapterFolder
from ratchet.server.gateway.pool import UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.upstream import Upstream, host_of, is_loopback
from ratchet.server.metrics import Metrics
from ratchet.types import Adapter, RatchetError

LOAD_TIMEOUT_S = 60.0
"""Seconds within which a model server must load an adapter."""

RETRY_S = 30.0
"""Seconds after a failed load until the next call tries again."""

MAX_ADAPTERS = 1_000
"""Maximum number of adapters whose state is remembered."""

_HASH = re.compile(r"[0-9a-f]{64}")
_KEYS = ("Authorization", "x-api-key", "api-key")

_log = logging.getLogger(__name__)


class NamedWeights(NamedTuple):
    """Trained weights that a request names as its model."""

    adapter: Adapter
    name: str
    """The model name sent."""
    loads: int
    """How often the weights had been loaded at the upstream when the request was made."""


class _State:
    """The state of an adapter at an upstream."""

    __slots__ = ("fault", "loads", "retry_at", "task")

    def __init__(self) -> None:
        self.loads = 0
        self.fault = ""
        self.retry_at = 0.0
        self.task: asyncio.Task[None] | None = None


class AdapterLoader:
    """Loads a project's adapters at model servers, by vLLM's `POST /v1/load_lora_adapter`.

    Only what is in the project's folder under its content hash is loaded. Calls that need the same
    adapter share one request.

    Args:
        folder: The adapters, each in a folder named by its content hash.
        metrics: Counts what was loaded, and what failed.
        clock: Monotonic clock in seconds.
        timeout_s: Seconds within which an adapter must be loaded.
    """

    def __init__(
        self,
        folder: Path,
        *,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = LOAD_TIMEOUT_S,
    ) -> None:
        self._folder = AdapterFolder(folder)
        self._metrics = metrics
        self._clock = clock
        self._timeout_s = timeout_s
        self._states: dict[tuple[str, str], _State] = {}

    def named(self, upstream: Upstream, adapter: Adapter, name: str) -> NamedWeights:
        """An adapter in a request that is about to be made."""
        return NamedWeights(adapter, name, self._state(upstream, name).loads)

    def fault(self, upstream: Upstream, name: str) -> str:
        """Why an adapter cannot be used now; empty if it can, or is worth a try."""
        state = self._state(upstream, name)
        return state.fault if self._clock() < state.retry_at else ""

    async def load(
        self,
        pool: UpstreamPool,
        endpoint: UpstreamEndpoint,
        headers: CIMultiDict[str],
        weights: NamedWeights,
    ) -> None:
        """Load an adapter that an upstream does not know; `fault` then gives any failure.

        Args:
            pool: Connections to the upstreams.
            endpoint: The upstream.
            headers: Those of the refused request, for the key.
            weights: What the request named.
        """
        upstream = endpoint.upstream
        state = self._state(upstream, weights.name)
        if state.loads > weights.loads:  # by another call, since this one was sent
            return
        if state.task is None:
            state.task = asyncio.create_task(self._load(state, pool, endpoint, headers, weights))
        # Not awaited directly: a client that hangs up must not cancel what others wait for.
        await asyncio.wait({state.task})

    def refuse(self, upstream: Upstream, weights: NamedWeights) -> None:
        """Record that an upstream does not know an adapter that it has loaded."""
        state = self._state(upstream, weights.name)
        self._failed(
            state, upstream, weights, "it loaded the weights, but still does not know them"
        )

    async def _load(
        self,
        state: _State,
        pool: UpstreamPool,
        endpoint: UpstreamEndpoint,
        headers: CIMultiDict[str],
        weights: NamedWeights,
    ) -> None:
        upstream = endpoint.upstream
        try:
            async with asyncio.timeout(self._timeout_s):
                path = await self._path(upstream, weights.adapter)
                refusal = await _post(pool, endpoint, headers, weights.name, path)
        except TimeoutError:
            self._failed(state, upstream, weights, f"loading took over {self._timeout_s:g} s")
        except RatchetError as error:
            self._failed(state, upstream, weights, str(error))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._failed(state, upstream, weights, f"{type(error).__name__}: {error}")
        except Exception as error:
            _log.exception("The adapter %s could not be loaded.", weights.name)
            self._failed(state, upstream, weights, type(error).__name__)
        else:
            if refusal:
                self._failed(state, upstream, weights, refusal)
                return
            state.loads += 1
            self._count("loaded")
            _log.warning("The upstream %r now serves the weights %s.", upstream.name, weights.name)
        finally:
            state.task = None

    async def _path(self, upstream: Upstream, adapter: Adapter) -> str:
        """The adapter's folder at the upstream.

        Raises:
            RatchetError: It is missing, was changed, or cannot be read by the upstream.
        """
        if not _HASH.fullmatch(adapter.hash):
            raise RatchetError(f"{adapter.hash[:70]!r} is not a content hash.")
        if not upstream.adapters and not is_loopback(host_of(upstream)):
            raise RatchetError(
                "it is on another machine",
                hint=f"Set adapters under [upstreams.{upstream.name}] to its copy of the "
                "project's .ratchet/adapters.",
            )
        path = await asyncio.to_thread(self._folder.verified, adapter)
        return f"{upstream.adapters.rstrip('/')}/{adapter.hash}" if upstream.adapters else str(path)

    def _failed(
        self, state: _State, upstream: Upstream, weights: NamedWeights, reason: str
    ) -> None:
        state.fault = f"The upstream {upstream.name!r} does not serve {weights.name}: {reason}"[
            :1000
        ]
        state.retry_at = self._clock() + RETRY_S
        self._count("failed")
        _log.error("%s", state.fault)

    def _count(self, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.adapter(outcome)

    def _state(self, upstream: Upstream, name: str) -> _State:
        key = (upstream.name, name)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= MAX_ADAPTERS:
                del self._states[next(iter(self._states))]
            state = self._states[key] = _State()
        return state


async def _post(
    pool: UpstreamPool,
    endpoint: UpstreamEndpoint,
    headers: CIMultiDict[str],
    name: str,
    path: str,
) -> str:
    """Ask a model server to load an adapter; return why it refuses, or an empty text."""
    sent = CIMultiDict({"Content-Type": "application/json", "Accept-Encoding": "identity"})
    sent.update({key: headers[key] for key in _KEYS if key in headers})
    body = msgspec.json.encode({"lora_name": name, "lora_path": path})
    url = endpoint.url("load_lora_adapter", b"")
    response = await pool.send(endpoint, "POST", url, sent, body)
    try:
        text = (await response.content.read(2_000)).decode("utf-8", "replace")
    finally:
        response.close()
    # The words are vLLM's.
    if response.status < 400 or "already been loaded" in text:
        return ""
    if response.status in (404, 405):
        return (
            f"it has no route {url.path}; start it so that it loads adapters (ratchet model"
            " --trainable; for vLLM --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True)"
        )
    return f"it answered {response.status}: {text[:500]}"
