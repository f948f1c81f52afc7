"""AsyncClient: a server's repositories, whose methods are awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ratchet.client.address import ClientKey
from ratchet.client.call import ApiRequest, ApiResponse, AsyncTransport, Steps
from ratchet.client.events import READ_S, EventStream, ServerEvent
from ratchet.client.failures import RequestRefused, ServerUnreachable
from ratchet.client.http import BaseClient, ResponseBody, transport_errors
from ratchet.client.repositories import Repositories
from ratchet.client.retry_policy import Came, RetryPause, with_retries

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


class AsyncClient(BaseClient, Repositories[AsyncTransport]):
    """A Ratchet server, as `Client` has it, with methods to await.

    Args:
        url: Address of the server; RATCHET_URL when left out.
        key: Its key; RATCHET_KEY when left out.
        patience_s: How long a request is sent again while the server is away or busy.
        timeout_s: How long one answer may take.

    Raises:
        ConfigError: No server is named, or the address or the key is malformed. Methods raise what
            those of `Client` do.

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
        """Go through a call to its end; the repositories' methods are made of this."""
        course = with_retries(steps, self._patience_s)
        came: Came = None
        try:
            while True:
                wanted = course.send(came)
                if isinstance(wanted, RetryPause):
                    await asyncio.sleep(wanted.seconds)
                    came = None
                else:
                    came = await self._exchange(wanted)
        except StopIteration as end:
            result: T = end.value
            return result

    async def events(self, after: str | None = None) -> AsyncIterator[ServerEvent]:
        """What happens at the server, as it happens; it goes on through reconnections.

        Args:
            after: Id of the last event known: those after it come first. Left out: only new ones.

        Raises:
            RatchetError: The server refuses, or is away for longer than `patience_s`.
        """
        following = EventStream(after, self._patience_s)
        while True:
            stream = self._follow(following)
            try:
                async for came in stream:
                    if not isinstance(came, ServerEvent):
                        await asyncio.sleep(following.lost(came))
                        break
                    yield came
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
            asked = http.build_request(**self._server.arguments(request))
            response = await http.send(asked, stream=True)
            try:
                async for part in response.aiter_bytes():
                    arriving.add(part, time.monotonic())
            finally:
                await response.aclose()
        except transport_errors() as error:
            return self._server.unreached(error)
        return self._server.came(request, response.status_code, response.headers, arriving.body())

    async def _follow(
        self, following: EventStream
    ) -> AsyncGenerator[ServerEvent | RequestRefused | ServerUnreachable, None]:
        """Events until the stream ends, and why it did."""
        import httpx2

        http, request = self._connected(), following.request()
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
                    following.connected()
                    async for message in httpx2.EventSource(response):
                        event = following.heard(message.event, message.data, message.id)
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
            import httpx2

            # Connections belong to the loop that opened them: in another one begin anew.
            self._loop = loop
            self._http = httpx2.AsyncClient(**self._server.options())
        return self._http
