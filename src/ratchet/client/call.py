"""API calls without I/O: requests, responses, and the transports that exchange them.

A method of a repository is written once, as a generator: it yields requests, receives their
responses and returns its result. `RemoteRepository` and `endpoint` turn it into a blocking or an
awaitable method, depending on the repository's transport.
"""

from __future__ import annotations

import functools
from collections.abc import (
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, overload
from urllib.parse import quote, urlencode

import msgspec

from ratchet.types import InputError, StoreError

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Requests with many items are split at about this size; a single item may be larger."""

MAX_ITEMS = 1_000
"""Maximum number of items in one request."""


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the server."""

    method: str
    path: str
    """Path and query."""
    body: bytes = b""
    headers: dict[str, str] = {}
    waits_s: float = 0.0
    """Seconds that the server was asked to wait before it responds."""


class ApiResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A successful response, or 304."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    place: str
    """The server's address, for error messages."""

    def read(self, kind: type[T]) -> T:
        """Decode the body.

        Raises:
            StoreError: The body is not of that type.
        """
        try:
            read: T = _decoder(kind).decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(
                f"The server {self.place} sent an unexpected response: {error}",
                hint="Check that it is a Ratchet server of a compatible version.",
            ) from None
        return read


Steps: TypeAlias = Generator[ApiRequest, ApiResponse, T]
"""A call as a generator: yields requests, receives responses, returns the result."""


class BlockingTransport(Protocol):
    """Exchanges requests while the calling thread blocks."""

    def carry(self, steps: Steps[T]) -> T:
        """Run a call and return its result."""
        ...


class AsyncTransport(Protocol):
    """Exchanges requests while the calling task awaits."""

    async def carry(self, steps: Steps[T], /) -> T:
        """Run a call and return its result."""
        ...


TransportT = TypeVar("TransportT", bound="BlockingTransport | AsyncTransport")


class RemoteRepository(Generic[TransportT]):
    """A repository of the server; its methods block or are awaitable, as the transport is."""

    def __init__(self, transport: TransportT) -> None:
        self._transport = transport


class endpoint(Generic[P, T]):  # noqa: N801 - a decorator
    """Decorator that makes a method of a `RemoteRepository` from the generator of a call."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(
        self, repository: RemoteRepository[BlockingTransport], owner: Any = None
    ) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, repository: RemoteRepository[AsyncTransport], owner: Any = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, repository: None, owner: Any = None) -> endpoint[P, T]: ...
    def __get__(self, repository: Any, owner: Any = None) -> Any:
        if repository is None:
            return self
        steps = MethodType(self._steps, repository)
        carry = repository._transport.carry

        @functools.wraps(steps)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return carry(steps(*args, **kwargs))

        # Cached on the instance, where it is found before this descriptor.
        repository.__dict__[self._name] = call
        return call


def path(*parts: str, **query: str | int | float | None) -> str:
    """A path under /v1 with a query of the arguments that are not None."""
    address = "/v1/" + "/".join(quote(part, safe="@:") for part in parts)
    parameters = {name: value for name, value in query.items() if value is not None}
    return f"{address}?{urlencode(parameters)}" if parameters else address


def get(*parts: str, **query: str | int | float | None) -> ApiRequest:
    """A GET request."""
    return ApiRequest(method="GET", path=path(*parts, **query))


def post(*parts: str, body: Any, waits_s: float = 0.0) -> ApiRequest:
    """A POST request with a JSON body."""
    return ApiRequest(method="POST", path=path(*parts), body=json_of(body), waits_s=waits_s)


_encoder = msgspec.json.Encoder()


def json_of(value: Any) -> bytes:
    """Encode builtin data or structs as JSON.

    Raises:
        InputError: The value has no JSON form.
    """
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"The value cannot be converted to JSON: {error}.",
            hint="Use Unicode strings, finite numbers, Booleans, None, lists and dictionaries.",
        ) from None


def batches(items: Sequence[Item]) -> Iterator[tuple[list[Item], msgspec.Raw]]:
    """Split items into parts that fit into one request, with the JSON list of each part."""
    part: list[Item] = []
    encoded: list[bytes] = []
    size = 0
    for item in items:
        encoded_item = json_of(item)
        if part and (size + len(encoded_item) > MAX_BODY_BYTES or len(part) >= MAX_ITEMS):
            yield part, _list(encoded)
            part, encoded, size = [], [], 0
        part.append(item)
        encoded.append(encoded_item)
        size += len(encoded_item)
    if part:
        yield part, _list(encoded)


def chunks(items: Iterable[Item], size: int = MAX_ITEMS) -> Iterator[list[Item]]:
    """Split small items into lists of limited length."""
    remaining = list(items)
    for start in range(0, len(remaining), size):
        yield remaining[start : start + size]


def _list(encoded: Sequence[bytes]) -> msgspec.Raw:
    return msgspec.Raw(b"[" + b",".join(encoded) + b"]")


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    cached = _decoders.get(kind)
    if cached is None:
        cached = _decoders[kind] = msgspec.json.Decoder(kind)
    return cached
