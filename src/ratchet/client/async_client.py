"""Asynchronous client of a Ratchet server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ratchet.client.address import ClientKey
from ratchet.client.call import ApiRequest, ApiResponse, AsyncTransport, Steps
from ratchet.client.events import READ_S, EventMessages, EventStream, ServerEvent
from ratchet.client.failures import RequestRefused, ServerUnreachable
from ratchet.client.http import BaseClient, ResponseBody, transport_errors
from ratchet.client.repositories import Repositories
from ratchet.client.retry_policy import RequestResult, RetryPause, with_retries

if TYPE_CHECKING:
    from ratchet._http import httpx2

T = TypeVar("T")


class AsyncClient(BaseClient, Repositories[AsyncTransport]):
    """A Ratchet server, like `Client`, with awaitable methods.

    Args:
        url: Address of the server; by default that of RATCHET_URL.
        key: API key; by default that of RATCHET_KEY.
        patience_s: Seconds for which a request is retried while the server is unreachable or busy.
        timeout_s: Timeout of one response, in seconds.

    Raises:
        ConfigError: The address is missing, or the address or the key is malformed. Methods raise
            the errors of `Client`.

    Example:
        async with ratchet.AsyncClient("http://127.0.0.1:8765") as client:
            await client.rollouts.create([...])
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | ClientKey | None = None,
        *,
        patience_s: float = 30.0,
        timeout_s: float = 30.0,
    ) -> None:
        BaseClient.__init__(self, url, key, patience_s, timeout_s)
        Repositories.__init__(self, self)
        self._http: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def carry(self, steps: Steps[T], /) -> T:
        """Run a call's requests, with retries, and return its result; used by the repositories."""
        call = with_retries(steps, self._patience_s)
        result: RequestResult = None
        try:
            while True:
                step = call.send(result)
                if isinstance(step, RetryPause):
                    await asyncio.sleep(step.seconds)
                    result = None
                else:
                    result = await self._exchange(step)
        except StopIteration as end:
            value: T = end.value
            return value

    async def events(self, after: str | None = None) -> AsyncIterator[ServerEvent]:
        """Stream the server's events, reconnecting when the connection breaks.

        Args:
            after: Id of the last received event, to resume after it; by default only new events.

        Raises:
            RatchetError: The server refuses, or is unreachable for longer than `patience_s`.
        """
        events = EventStream(after, self._patience_s)
        while True:
            stream = self._follow(events)
            try:
                async for event in stream:
                    if not isinstance(event, ServerEvent):
                        await asyncio.sleep(events.lost(event))
                        break
                    yield event
            finally:
                await stream.aclose()

    async def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._closed = True
        http, self._http = self._http, None
        if http is not None and self._loop is asyncio.get_running_loop():
            await http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _exchange(
        self, request: ApiRequest
    ) -> ApiResponse | RequestRefused | ServerUnreachable:
        http = self._connected()
        arriving = ResponseBody(time.monotonic() + self._server.timeout_s + request.waits_s)
        try:
            built = http.build_request(**self._server.arguments(request))
            response = await http.send(built, stream=True)
            try:
                async for part in response.aiter_bytes():
                    arriving.add(part, time.monotonic())
            finally:
                await response.aclose()
        except transport_errors() as error:
            return self._server.unreached(error)
        return self._server.result(request, response.status_code, response.headers, arriving.body())

    async def _follow(
        self, events: EventStream
    ) -> AsyncGenerator[ServerEvent | RequestRefused | ServerUnreachable, None]:
        """Yield events until the stream ends, and then the reason."""
        from ratchet._http import httpx2

        http, request = self._connected(), events.request()
        arguments = {**self._server.arguments(request), "timeout": httpx2.Timeout(READ_S)}
        ended: RequestRefused | ServerUnreachable
        try:
            async with http.stream(**arguments) as response:
                if response.status_code != 200:
                    body = await response.aread()
                    ended = self._server.refused(
                        request, response.status_code, response.headers, body
                    )
                else:
                    events.connected()
                    messages = EventMessages()
                    async for piece in response.aiter_bytes():
                        for message in messages.feed(piece):
                            event = events.received(*message)
                            if event is not None:
                                yield event
                    ended = ServerUnreachable(
                        reason="it ended the stream of events", place=self.url
                    )
        except transport_errors() as error:
            ended = self._server.unreached(error)
        yield ended

    def _connected(self) -> httpx2.AsyncClient:
        self._check_open()
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            from ratchet._http import httpx2

            # Connections belong to the loop that opened them, so another loop needs new ones.
            self._loop = loop
            self._http = httpx2.AsyncClient(**self._server.options())
        return self._http
