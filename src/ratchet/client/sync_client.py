"""Client: a server's repositories, whose methods block."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ratchet.client.address import ClientKey
from ratchet.client.call import ApiRequest, ApiResponse, BlockingTransport, Steps
from ratchet.client.events import READ_S, EventStream, ServerEvent
from ratchet.client.failures import RequestRefused, ServerUnreachable
from ratchet.client.http import BaseClient, ResponseBody, transport_errors
from ratchet.client.repositories import Repositories
from ratchet.client.retry_policy import Came, RetryPause, with_retries

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")


class Client(BaseClient, Repositories[BlockingTransport]):
    """A Ratchet server, in the shape of a store.

    Threads may share a client, and a process that forks may go on using it on both sides. What a
    method has returned from is committed at the server. A request that finds no answer is sent
    again for `patience_s` seconds; every call may be sent twice. Times are the server's: where a
    store's method takes `now`, the client's ignores it.

    Args:
        url: Address of the server; RATCHET_URL when left out.
        key: Its key; RATCHET_KEY when left out.
        patience_s: How long a request is sent again while the server is away or busy.
        timeout_s: How long one answer may take.

    Raises:
        ConfigError: No server is named, or the address or the key is malformed. Methods raise it
            when the server refuses the key.
        InputError: From methods: the server does not take what it is given, or knows no such
            thing.
        Conflict: From methods: somebody else changed it meanwhile.
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
        """Go through a call to its end; the repositories' methods are made of this."""
        course = with_retries(steps, self._patience_s)
        came: Came = None
        try:
            while True:
                wanted = course.send(came)
                if isinstance(wanted, RetryPause):
                    time.sleep(wanted.seconds)
                    came = None
                else:
                    came = self._exchange(wanted)
        except StopIteration as end:
            result: T = end.value
            return result

    def events(self, after: str | None = None) -> Iterator[ServerEvent]:
        """What happens at the server, as it happens; it goes on through reconnections.

        Args:
            after: Id of the last event known: those after it come first. Left out: only new ones.

        Raises:
            RatchetError: The server refuses, or is away for longer than `patience_s`.
        """
        following = EventStream(after, self._patience_s)
        while True:
            lost = yield from self._follow(following)
            time.sleep(following.lost(lost))

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
            asked = http.build_request(**self._server.arguments(request))
            response = http.send(asked, stream=True)
            try:
                for part in response.iter_bytes():
                    arriving.add(part, time.monotonic())
            finally:
                response.close()
        except transport_errors() as error:
            return self._server.unreached(error)
        return self._server.came(request, response.status_code, response.headers, arriving.body())

    def _follow(
        self, following: EventStream
    ) -> Generator[ServerEvent, None, RequestRefused | ServerUnreachable]:
        """Events until the stream ends; returns why it did."""
        import httpx2

        http, request = self._connected(), following.request()
        arguments = {**self._server.arguments(request), "timeout": httpx2.Timeout(READ_S)}
        try:
            with http.stream(**arguments) as response:
                if response.status_code != 200:
                    body = response.read()
                    return self._server.refused(
                        request, response.status_code, response.headers, body
                    )
                following.connected()
                for message in httpx2.EventSource(response):
                    event = following.heard(message.event, message.data, message.id)
                    if event is not None:
                        yield event
        except transport_errors() as error:
            return self._server.unreached(error)
        return ServerUnreachable(reason="it ended the stream of events", place=self.url)

    def _connected(self) -> httpx2.Client:
        self._check_open()
        with self._lock:
            if self._http is None or self._pid != os.getpid():
                import httpx2

                # After a fork the sockets are the parent's: begin anew, and leave those alone.
                self._pid = os.getpid()
                self._http = httpx2.Client(**self._server.options())
            return self._http
