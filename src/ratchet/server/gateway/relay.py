"""Relay: forwards one call to the upstream and its response to the client, byte for byte."""

from __future__ import annotations

import asyncio
import logging
from time import time
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from ratchet._asgi import HeaderList, Receive, Send
from ratchet.llm.backoff import requested_delay
from ratchet.server.body import Content
from ratchet.server.gateway.adapter_loading import NamedWeights
from ratchet.server.gateway.headers import response_headers
from ratchet.server.gateway.pool import CONNECT_TIMEOUT_S, UpstreamEndpoint, UpstreamPool
from ratchet.server.gateway.recording import CallRecording
from ratchet.server.gateway.stripping import ResponseStripper
from ratchet.server.gateway.translating import AnswerTranslator, RefusedSettings
from ratchet.server.gateway.upstream import Upstream

WATCH_AFTER_S = 0.02
"""Seconds after which a call starts to watch for the client's disconnection. Most calls are
shorter, and watching costs a tenth of the relay's time.
"""

RETRY_AFTER_LIMIT_S = 60.0
"""Longest `Retry-After` that is honoured, in seconds; with a longer one the response is returned,
so that the client decides.
"""

BACK_OFF_S = (0.25, 8.0)
"""Shortest and longest pause between attempts without `Retry-After`, in seconds."""

CONNECTION_CHECK_S = 0.5
"""Interval between checks of a stream's connection, in seconds. aiohttp does not notify the reader
when it closes a connection in the middle of a body because of invalid data.
"""

_log = logging.getLogger(__name__)


class UpstreamFailure(Exception):
    """The call failed at the upstream.

    Args:
        kind: The `error.type` of the span.
        status: HTTP status of the response to the client.
        detail: The error message.
    """

    def __init__(self, kind: str, status: int, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = status
        self.detail = detail


class UnknownWeights(Exception):
    """The upstream does not know the trained weights named in the request."""


class UpstreamRequest:
    """A request to an upstream."""

    __slots__ = (
        "body",
        "endpoint",
        "headers",
        "method",
        "stripper",
        "translator",
        "url",
        "weights",
    )

    def __init__(
        self,
        endpoint: UpstreamEndpoint,
        method: str,
        url: URL,
        headers: CIMultiDict[str],
        body: Content | None,
        stripper: ResponseStripper | None = None,
        weights: NamedWeights | None = None,
        translator: AnswerTranslator | None = None,
    ) -> None:
        self.translator = translator
        """Translates the response for the client; None if both speak the same API."""
        self.weights = weights
        """Trained weights that the upstream may have to load first."""
        self.stripper = stripper
        """Changes the response for the client; None to pass it on byte for byte."""
        self.endpoint = endpoint
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body


class CallRelay:
    """One call in flight.

    Args:
        pool: Connections to the upstreams.
        outgoing: The request to send.
        recording: Its recording; None when the call is not recorded.
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
        self, pool: UpstreamPool, outgoing: UpstreamRequest, recording: CallRecording | None
    ) -> None:
        self._pool = pool
        self._outgoing = outgoing
        self._recording = recording
        self._watcher: asyncio.Task[None] | None = None
        self._next_check: asyncio.TimerHandle | None = None
        self._over = False
        self.begun = False
        """Whether the response to the client has begun."""
        self.hung_up = False
        """Whether the client disconnected before the end."""

    @property
    def upstream(self) -> Upstream:
        """The upstream that is called."""
        return self._outgoing.endpoint.upstream

    async def run(self, task: asyncio.Task[Any], receive: Receive, send: Send) -> None:
        """Relay the call; return when the client has the whole response or disconnected.

        Args:
            task: The current task.
            receive: The ASGI channel, after the request was read.
            send: The ASGI channel.

        Raises:
            UpstreamFailure: The upstream failed. When the response has `begun`, it must be aborted.
            UnknownWeights: The upstream has answered 404, and nothing was sent to the client.
            RefusedSettings: It has answered 400, and nothing was sent to the client.
            HttpProblem: The upstream is at its concurrency limit.
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
        if response.status == 404 and self._outgoing.weights is not None:
            response.close()
            raise UnknownWeights
        complete = False
        self._check_connection(response)
        try:
            status = response.status
            headers = response_headers(response.raw_headers)
            recording = self._recording
            if self._outgoing.translator is not None:
                await self._translate(response, self._outgoing.translator, headers, send)
                complete = True
                return
            if recording is not None:
                upstream_headers = response.headers
                recording.begin(
                    status,
                    upstream_headers.get("Content-Type", ""),
                    upstream_headers.get("Content-Encoding", ""),
                )
            stripper = self._outgoing.stripper
            if stripper is not None:
                headers = stripper.begin(status, headers)
            self.begun = True
            await send({"type": "http.response.start", "status": status, "headers": headers})
            content = response.content
            while True:
                piece = await content.readany()
                last = content.at_eof()
                if last:
                    self._over = True
                stripped = piece if stripper is None else stripper.feed(piece, last)
                await send({"type": "http.response.body", "body": stripped, "more_body": not last})
                if piece and recording is not None:
                    recording.piece(piece)
                if last:
                    break
            complete = True
        except RefusedSettings:
            raise
        except Exception as error:  # the upstream may send any garbage
            await self._pass_on_rest(response.content, send)
            raise self._failure(error) from error
        finally:
            if self._next_check is not None:
                self._next_check.cancel()
            if complete:
                response.release()
            else:
                response.close()

    async def _translate(
        self,
        response: aiohttp.ClientResponse,
        translator: AnswerTranslator,
        headers: HeaderList,
        send: Send,
    ) -> None:
        """Relay a response whose API differs from the client's."""
        recording, status, content = self._recording, response.status, response.content
        headers = translator.begin(status, headers)
        if recording is not None:
            recording.begin(status, translator.content_type, "")
        while True:
            piece = await content.readany()
            last = content.at_eof()
            try:
                translated = translator.feed(piece, last)
            except ValueError as error:
                detail = f"{self._label()} sent an answer that cannot be translated: {error}."
                raise UpstreamFailure("invalid_response", 502, detail) from error
            if last:
                self._over = True
            if not self.begun and (last or translator.streams):
                self.begun = True
                await send({"type": "http.response.start", "status": status, "headers": headers})
            if translated or last:
                await send(
                    {"type": "http.response.body", "body": translated, "more_body": not last}
                )
            if translated and recording is not None:
                recording.piece(translated)
            if last:
                return

    def _check_connection(self, response: aiohttp.ClientResponse) -> None:
        """Fail the reader if its connection is closed; check again until the end."""
        content, connection = response.content, response.connection
        if connection is None or content.at_eof() or content.exception() is not None:
            return
        transport = connection.transport
        if self._next_check is not None and (transport is None or transport.is_closing()):
            content.set_exception(aiohttp.ClientPayloadError("The upstream sent an invalid body."))
            return
        loop = asyncio.get_running_loop()
        self._next_check = loop.call_later(CONNECTION_CHECK_S, self._check_connection, response)

    async def _pass_on_rest(self, content: aiohttp.StreamReader, send: Send) -> None:
        """Relay the bytes received just before the upstream broke off.

        The reader does not return them once it has an exception.
        """
        remaining = b"".join(getattr(content, "_buffer", ()))
        if remaining and self.begun:
            if self._outgoing.translator is not None:
                return
            if self._outgoing.stripper is None:
                await send({"type": "http.response.body", "body": remaining, "more_body": True})
            if self._recording is not None:
                self._recording.piece(remaining)

    async def _open(self) -> aiohttp.ClientResponse:
        """Send the request, with retries."""
        retries = self._outgoing.endpoint.upstream.retries
        retry = 0
        while True:
            try:
                response = await self._send()
            except UpstreamFailure as failure:
                if retry >= retries:
                    raise
                pause = _pause(retry, None)
                _log.info("Retrying in %.2f s: %s", pause, failure.detail)
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
        except Exception as error:  # the upstream may send any garbage
            raise self._failure(error) from error
        if not outgoing.endpoint.upstream.retries:
            outgoing.body = None  # free it: it may be large, and the response may take long
        if not 200 <= response.status < 600:
            response.close()
            raise UpstreamFailure(
                "invalid_response",
                502,
                f"{self._label()} answered with status {response.status}, which is not valid HTTP.",
            )
        return response

    def _label(self) -> str:
        endpoint = self._outgoing.endpoint
        return f"The upstream {endpoint.upstream.name!r} at {endpoint.address}"

    def _failure(self, error: Exception) -> UpstreamFailure:
        """The failure, with a message for the client."""
        who = self._label()
        if isinstance(error, UpstreamFailure):
            return error
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return UpstreamFailure(
                "connect_error",
                504,
                f"{who} accepted no connection within {CONNECT_TIMEOUT_S:g} s.",
            )
        if isinstance(error, TimeoutError):
            timeout_s = self._outgoing.endpoint.upstream.timeout_s
            return UpstreamFailure("timeout", 504, f"{who} sent nothing for {timeout_s:g} s.")
        if isinstance(error, aiohttp.ClientConnectorError):
            fixed = (
                " The agent calls it whatever OPENAI_BASE_URL and the like say; see model_hosts"
                " in ratchet.toml."
                if self._outgoing.endpoint.addressed
                else ""
            )
            return UpstreamFailure(
                "connect_error", 502, f"{who} cannot be reached: {error.strerror or error}.{fixed}"
            )
        if isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionError)):
            return UpstreamFailure("upstream_disconnected", 502, f"{who} closed the connection.")
        if isinstance(error, aiohttp.ClientPayloadError):
            return UpstreamFailure(
                "upstream_disconnected", 502, f"{who} stopped in the middle of its answer."
            )
        if isinstance(error, aiohttp.ClientOSError):
            return UpstreamFailure(
                "connect_error", 502, f"The connection to {who} failed: {error}."
            )
        if not isinstance(error, (aiohttp.ClientError, ValueError)):
            _log.exception("%s caused an unexpected error.", who, exc_info=error)
        return UpstreamFailure(
            "invalid_response", 502, f"{who} sent invalid HTTP: {type(error).__name__}."
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
    """Seconds to wait before the next attempt."""
    asked_s = (
        requested_delay({"retry-after": retry_after}, time()) if retry_after is not None else None
    )
    shortest, longest = BACK_OFF_S
    return float(min(shortest * 2**retry, longest)) if asked_s is None else asked_s
