"""Blocking client of a Ratchet server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ratchet.client.address import ClientKey
from ratchet.client.call import ApiRequest, ApiResponse, BlockingTransport, Steps
from ratchet.client.events import READ_S, EventMessages, EventStream, ServerEvent
from ratchet.client.failures import RequestRefused, ServerUnreachable
from ratchet.client.http import BaseClient, ResponseBody, transport_errors
from ratchet.client.repositories import Repositories
from ratchet.client.retry_policy import RequestResult, RetryPause, with_retries

if TYPE_CHECKING:
    from ratchet._http import httpx2

T = TypeVar("T")


class Client(BaseClient, Repositories[BlockingTransport]):
    """A Ratchet server, with the repositories of a store.

    Threads may share a client, and after a fork both processes may use it. Changes are committed at
    the server when a method returns. A request without a response is retried for `patience_s`
    seconds; every call may be sent twice. Times are those of the server's clock: methods ignore the
    `now` of the store's methods.

    Args:
        url: Address of the server; by default that of RATCHET_URL.
        key: API key; by default that of RATCHET_KEY.
        patience_s: Seconds for which a request is retried while the server is unreachable or busy.
        timeout_s: Timeout of one response, in seconds.

    Raises:
        ConfigError: The address is missing, or the address or the key is malformed. Methods raise
            it when the server refuses the key.
        InputError: From methods: the server refuses the input, or the object does not exist.
        Conflict: From methods: it was changed concurrently.
        StoreError: From methods: the server cannot be reached, or fails.

    Example:
        with ratchet.Client("http://127.0.0.1:8765") as client:
            client.rollouts.create([...])
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
        self._lock = threading.Lock()
        self._http: httpx2.Client | None = None
        self._pid = os.getpid()

    def carry(self, steps: Steps[T]) -> T:
        """Run a call's requests, with retries, and return its result; used by the repositories."""
        call = with_retries(steps, self._patience_s)
        result: RequestResult = None
        try:
            while True:
                step = call.send(result)
                if isinstance(step, RetryPause):
                    time.sleep(step.seconds)
                    result = None
                else:
                    result = self._exchange(step)
        except StopIteration as end:
            value: T = end.value
            return value

    def events(self, after: str | None = None) -> Iterator[ServerEvent]:
        """Stream the server's events, reconnecting when the connection breaks.

        Args:
            after: Id of the last received event, to resume after it; by default only new events.

        Raises:
            RatchetError: The server refuses, or is unreachable for longer than `patience_s`.
        """
        events = EventStream(after, self._patience_s)
        while True:
            lost = yield from self._follow(events)
            time.sleep(events.lost(lost))

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._closed = True
        http, self._http = self._http, None
        if http is not None and self._pid == os.getpid():
            http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _exchange(self, request: ApiRequest) -> ApiResponse | RequestRefused | ServerUnreachable:
        http = self._connected()
        arriving = ResponseBody(time.monotonic() + self._server.timeout_s + request.waits_s)
        try:
            built = http.build_request(**self._server.arguments(request))
            response = http.send(built, stream=True)
            try:
                for part in response.iter_bytes():
                    arriving.add(part, time.monotonic())
            finally:
                response.close()
        except transport_errors() as error:
            return self._server.unreached(error)
        return self._server.result(request, response.status_code, response.headers, arriving.body())

    def _follow(
        self, events: EventStream
    ) -> Generator[ServerEvent, None, RequestRefused | ServerUnreachable]:
        """Yield events until the stream ends; return the reason."""
        from ratchet._http import httpx2

        http, request = self._connected(), events.request()
        arguments = {**self._server.arguments(request), "timeout": httpx2.Timeout(READ_S)}
        try:
            with http.stream(**arguments) as response:
                if response.status_code != 200:
                    body = response.read()
                    return self._server.refused(
                        request, response.status_code, response.headers, body
                    )
                events.connected()
                messages = EventMessages()
                for piece in response.iter_bytes():
                    for message in messages.feed(piece):
                        event = events.received(*message)
                        if event is not None:
                            yield event
        except transport_errors() as error:
            return self._server.unreached(error)
        return ServerUnreachable(reason="it ended the stream of events", place=self.url)

    def _connected(self) -> httpx2.Client:
        self._check_open()
        with self._lock:
            if self._http is None or self._pid != os.getpid():
                from ratchet._http import httpx2

                # After a fork the sockets belong to the parent: leave them open, and use new ones.
                self._pid = os.getpid()
                self._http = httpx2.Client(**self._server.options())
            return self._http
