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

from ratchet.llm.backoff import asked_for
from ratchet.server.gateway.answers import Send
from ratchet.server.gateway.headers import response_headers
from ratchet.server.gateway.pool import CONNECT_S, Line, Pool
from ratchet.server.gateway.recording import Recording
from ratchet.server.gateway.upstream import Upstream

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

WATCH_AFTER_S = 0.02
"""How long a call goes on before it is looked whether its client hangs up, in seconds: most that
are shorter need no such look, which costs as much as a tenth of the relay."""

RETRY_AFTER_LIMIT_S = 60.0
"""The longest pause that an upstream may ask for before a retry; after a longer one the client
rather decides itself."""

BACK_OFF_S = (0.25, 8.0)
"""Shortest and longest pause between tries where the upstream asks for none."""

LOOK_S = 0.5
"""How often it is looked whether the connection of a stream still stands, in seconds. aiohttp tells
nobody who reads when it closes one in the middle of a body because of what came on it."""

_log = logging.getLogger(__name__)


class Failure(Exception):
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


class Outgoing:
    """A request as it goes to an upstream."""

    __slots__ = ("body", "headers", "line", "method", "url")

    def __init__(
        self, line: Line, method: str, url: URL, headers: CIMultiDict[str], body: bytes | None
    ) -> None:
        self.line = line
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body


class Relay:
    """One call under way.

    Args:
        pool: Connections to the upstreams.
        outgoing: What is sent.
        recording: What is noted of it; None for what is not recorded.
    """

    __slots__ = (
        "_next_look",
        "_outgoing",
        "_over",
        "_pool",
        "_recording",
        "_watcher",
        "begun",
        "hung_up",
    )

    def __init__(self, pool: Pool, outgoing: Outgoing, recording: Recording | None) -> None:
        self._pool = pool
        self._outgoing = outgoing
        self._recording = recording
        self._watcher: asyncio.Task[None] | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._over = False
        self.begun = False
        """Whether the client got the head of an answer."""
        self.hung_up = False
        """Whether the client went away before the end."""

    @property
    def upstream(self) -> Upstream:
        """Who is called."""
        return self._outgoing.line.upstream

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
        line = self._outgoing.line
        try:
            await line.enter()
            try:
                await self._relay(send)
            finally:
                line.leave()
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
        self._look(response)
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
            if self._next_look is not None:
                self._next_look.cancel()
            if whole:
                response.release()
            else:
                response.close()

    def _look(self, response: aiohttp.ClientResponse) -> None:
        """Let the reader know when its connection is gone; look again until the end."""
        content, connection = response.content, response.connection
        if connection is None or content.at_eof() or content.exception() is not None:
            return
        transport = connection.transport
        if self._next_look is not None and (transport is None or transport.is_closing()):
            content.set_exception(aiohttp.ClientPayloadError("What came is no body."))
            return
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(LOOK_S, self._look, response)

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
        retries = self._outgoing.line.upstream.retries
        tried = 0
        while True:
            try:
                response = await self._send()
            except Failure as failure:
                if tried >= retries:
                    raise
                pause = _pause(tried, None)
                _log.info("Trying again in %.2f s: %s", pause, failure.detail)
            else:
                if tried >= retries or not (response.status == 429 or response.status >= 500):
                    return response
                pause = _pause(tried, response.headers.get("Retry-After"))
                if pause > RETRY_AFTER_LIMIT_S:
                    return response
                response.close()
            tried += 1
            if self._recording is not None:
                self._recording.attributes["ratchet.retries"] = tried
            await asyncio.sleep(pause)

    async def _send(self) -> aiohttp.ClientResponse:
        outgoing = self._outgoing
        try:
            response = await self._pool.send(
                outgoing.line, outgoing.method, outgoing.url, outgoing.headers, outgoing.body
            )
        except Exception as error:  # whatever garbage the upstream sent
            raise self._failure(error) from error
        if not outgoing.line.upstream.retries:
            outgoing.body = None  # it may be large, and the answer may take long
        if not 200 <= response.status < 600:
            response.close()
            raise Failure(
                "invalid_response",
                502,
                f"{self._who()} answered with status {response.status}, which is none of HTTP's.",
            )
        return response

    def _who(self) -> str:
        upstream = self._outgoing.line.upstream
        return f"The upstream {upstream.name!r}"

    def _failure(self, error: Exception) -> Failure:
        """What went wrong, in words for the client."""
        who = self._who()
        if isinstance(error, Failure):
            return error
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return Failure("timeout", 504, f"{who} took no connection within {CONNECT_S:g} s.")
        if isinstance(error, TimeoutError):
            patience = self._outgoing.line.upstream.timeout_s
            return Failure("timeout", 504, f"{who} sent nothing for {patience:g} s.")
        if isinstance(error, aiohttp.ClientConnectorError):
            return Failure(
                "connect_error", 502, f"{who} cannot be reached: {error.strerror or error}."
            )
        if isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionError)):
            return Failure("upstream_disconnected", 502, f"{who} closed the connection.")
        if isinstance(error, aiohttp.ClientPayloadError):
            return Failure("upstream_disconnected", 502, f"{who} cut its answer.")
        if isinstance(error, aiohttp.ClientOSError):
            return Failure("connect_error", 502, f"The connection to {who} failed: {error}.")
        if not isinstance(error, (aiohttp.ClientError, ValueError)):
            _log.exception("%s did something unexpected.", who, exc_info=error)
        return Failure(
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


def _pause(tried: int, asked: str | None) -> float:
    """Seconds to wait before the next try."""
    asked_s = asked_for({"retry-after": asked}, time()) if asked is not None else None
    shortest, longest = BACK_OFF_S
    return float(min(shortest * 2**tried, longest)) if asked_s is None else asked_s
