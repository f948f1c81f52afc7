"""Relay: one call, from the client to the upstream and back, byte for byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import time
from typing import Any, TypeAlias

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from ratchet.llm.backoff import requested_delay
from ratchet.server.gateway.headers import response_headers
from ratchet.server.gateway.pool import CONNECT_S, UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.recording import Recording
from ratchet.server.gateway.upstream import Upstream
from ratchet.server.problems import Send

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

WATCH_AFTER_S = 0.02
"""How long a call goes on before it is looked whether its client hangs up, in seconds: most that
are shorter need no such look, which costs as much as a tenth of the relay."""

RETRY_AFTER_LIMIT_S = 60.0
"""The longest pause that an upstream may ask for before a retry; after a longer one the client
rather decides itself."""

BACK_OFF_S = (0.25, 8.0)
"""Shortest and longest pause between tries where the upstream asks for none."""

CONNECTION_CHECK_S = 0.5
"""How often it is looked whether the connection of a stream still stands, in seconds. aiohttp tells
nobody who reads when it closes one in the middle of a body because of what came on it."""

_log = logging.getLogger(__name__)


class UpstreamFailure(Exception):
    """The call failed on the upstream's side.

    Args:
        kind: A word for it, the `error.type` of the span.
        status: HTTP status that tells the client so.
        detail: The same in a sentence.
    """

    def __init__(self, kind: str, status: int, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = status
        self.detail = detail


class UpstreamRequest:
    """A request as it goes to an upstream."""

    __slots__ = ("body", "endpoint", "headers", "method", "url")

    def __init__(
        self,
        endpoint: UpstreamEndpoint,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        body: bytes | None,
    ) -> None:
        self.endpoint = endpoint
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body


class CallRelay:
    """One call under way.

    Args:
        pool: Connections to the upstreams.
        outgoing: What is sent.
        recording: What is noted of it; None for what is not recorded.
    """

    __slots__ = (
        "_next_check",
        "_outgoing",
        "_over",
        "_pool",
        "_recording",
        "_watcher",
        "begun",
        "hung_up",
    )

    def __init__(
        self, pool: UpstreamPool, outgoing: UpstreamRequest, recording: Recording | None
    ) -> None:
        self._pool = pool
        self._outgoing = outgoing
        self._recording = recording
        self._watcher: asyncio.Task[None] | None = None
        self._next_check: asyncio.TimerHandle | None = None
        self._over = False
        self.begun = False
        """Whether the client got the head of an answer."""
        self.hung_up = False
        """Whether the client went away before the end."""

    @property
    def upstream(self) -> Upstream:
        """Who is called."""
        return self._outgoing.endpoint.upstream

    async def run(self, task: asyncio.Task[Any], receive: Receive, send: Send) -> None:
        """Relay the call. When this returns without an error, the client got all or hung up.

        Args:
            task: The current one.
            receive: The ASGI channel, whose request was read.
            send: The ASGI channel.

        Raises:
            Failure: The upstream failed. When the answer had `begun`, it is to be cut.
            Problem: Too many calls are with the upstream.
        """
        watch = asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._watch, receive, task)
        endpoint = self._outgoing.endpoint
        try:
            await endpoint.acquire()
            try:
                await self._relay(send)
            finally:
                endpoint.release()
        except asyncio.CancelledError:
            if not self.hung_up:
                raise
            task.uncancel()
        finally:
            self._over = True
            watch.cancel()
            if self._watcher is not None:
                self._watcher.cancel()

    async def _relay(self, send: Send) -> None:
        response = await self._open()
        whole = False
        self._check_connection(response)
        try:
            status = response.status
            headers = response_headers(response.raw_headers)
            recording = self._recording
            if recording is not None:
                given = response.headers
                recording.begin(
                    status, given.get("Content-Type", ""), given.get("Content-Encoding", "")
                )
            self.begun = True
            await send({"type": "http.response.start", "status": status, "headers": headers})
            content = response.content
            while True:
                piece = await content.readany()
                last = content.at_eof()
                if last:
                    self._over = True
                await send({"type": "http.response.body", "body": piece, "more_body": not last})
                if piece and recording is not None:
                    recording.piece(piece)
                if last:
                    break
            whole = True
        except Exception as error:  # whatever garbage the upstream sent
            await self._pass_on_rest(response.content, send)
            raise self._failure(error) from error
        finally:
            if self._next_check is not None:
                self._next_check.cancel()
            if whole:
                response.release()
            else:
                response.close()

    def _check_connection(self, response: aiohttp.ClientResponse) -> None:
        """Let the reader know when its connection is gone; look again until the end."""
        content, connection = response.content, response.connection
        if connection is None or content.at_eof() or content.exception() is not None:
            return
        transport = connection.transport
        if self._next_check is not None and (transport is None or transport.is_closing()):
            content.set_exception(aiohttp.ClientPayloadError("What came is no body."))
            return
        loop = asyncio.get_running_loop()
        self._next_check = loop.call_later(CONNECTION_CHECK_S, self._check_connection, response)

    async def _pass_on_rest(self, content: aiohttp.StreamReader, send: Send) -> None:
        """Pass on what came just before the upstream cut its answer.

        The reader refuses to give it out once it knows of the end.
        """
        rest = b"".join(getattr(content, "_buffer", ()))
        if rest and self.begun:
            await send({"type": "http.response.body", "body": rest, "more_body": True})
            if self._recording is not None:
                self._recording.piece(rest)

    async def _open(self) -> aiohttp.ClientResponse:
        """Send the request, again where the upstream is to be retried."""
        retries = self._outgoing.endpoint.upstream.retries
        retry = 0
        while True:
            try:
                response = await self._send()
            except UpstreamFailure as failure:
                if retry >= retries:
                    raise
                pause = _pause(retry, None)
                _log.info("Trying again in %.2f s: %s", pause, failure.detail)
            else:
                if retry >= retries or not (response.status == 429 or response.status >= 500):
                    return response
                pause = _pause(retry, response.headers.get("Retry-After"))
                if pause > RETRY_AFTER_LIMIT_S:
                    return response
                response.close()
            retry += 1
            if self._recording is not None:
                self._recording.attributes["ratchet.retries"] = retry
            await asyncio.sleep(pause)

    async def _send(self) -> aiohttp.ClientResponse:
        outgoing = self._outgoing
        try:
            response = await self._pool.send(
                outgoing.endpoint, outgoing.method, outgoing.url, outgoing.headers, outgoing.body
            )
        except Exception as error:  # whatever garbage the upstream sent
            raise self._failure(error) from error
        if not outgoing.endpoint.upstream.retries:
            outgoing.body = None  # it may be large, and the answer may take long
        if not 200 <= response.status < 600:
            response.close()
            raise UpstreamFailure(
                "invalid_response",
                502,
                f"{self._label()} answered with status {response.status}, which is none of HTTP's.",
            )
        return response

    def _label(self) -> str:
        upstream = self._outgoing.endpoint.upstream
        return f"The upstream {upstream.name!r}"

    def _failure(self, error: Exception) -> UpstreamFailure:
        """What went wrong, in words for the client."""
        who = self._label()
        if isinstance(error, UpstreamFailure):
            return error
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return UpstreamFailure(
                "timeout", 504, f"{who} took no connection within {CONNECT_S:g} s."
            )
        if isinstance(error, TimeoutError):
            timeout_s = self._outgoing.endpoint.upstream.timeout_s
            return UpstreamFailure("timeout", 504, f"{who} sent nothing for {timeout_s:g} s.")
        if isinstance(error, aiohttp.ClientConnectorError):
            return UpstreamFailure(
                "connect_error", 502, f"{who} cannot be reached: {error.strerror or error}."
            )
        if isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionError)):
            return UpstreamFailure("upstream_disconnected", 502, f"{who} closed the connection.")
        if isinstance(error, aiohttp.ClientPayloadError):
            return UpstreamFailure("upstream_disconnected", 502, f"{who} cut its answer.")
        if isinstance(error, aiohttp.ClientOSError):
            return UpstreamFailure(
                "connect_error", 502, f"The connection to {who} failed: {error}."
            )
        if not isinstance(error, (aiohttp.ClientError, ValueError)):
            _log.exception("%s did something unexpected.", who, exc_info=error)
        return UpstreamFailure(
            "invalid_response", 502, f"{who} sent what is no HTTP: {type(error).__name__}."
        )

    def _watch(self, receive: Receive, task: asyncio.Task[None]) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._await_end(receive, task))

    async def _await_end(self, receive: Receive, task: asyncio.Task[None]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        if not self._over:
            self.hung_up = True
            task.cancel()


def _pause(retry: int, retry_after: str | None) -> float:
    """Seconds to wait before the next try."""
    asked_s = (
        requested_delay({"retry-after": retry_after}, time()) if retry_after is not None else None
    )
    shortest, longest = BACK_OFF_S
    return float(min(shortest * 2**retry, longest)) if asked_s is None else asked_s
