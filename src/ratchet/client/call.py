"""Calls of the API without any I/O: what is sent, what comes back, and who carries it.

A method of a repository is written once, as a generator: it yields requests, is sent their answers
and returns its result. `RemoteRepository` and `endpoint` turn it into a method that blocks or is
awaited, as the repository's transport does.
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
"""A request of many items is sent in parts of about this size; one item may be larger."""

MAX_ITEMS = 1_000
"""Items in one request."""


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to the server."""

    method: str
    path: str
    """From the server's address on, with its query."""
    body: bytes = b""
    headers: dict[str, str] = {}
    waits_s: float = 0.0
    """How long the server was asked to wait before it answers."""


class ApiResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answered: a success, or 304."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    place: str
    """The server's address, for errors."""

    def read(self, kind: type[T]) -> T:
        """The body as that type.

        Raises:
            StoreError: It is none.
        """
        try:
            read: T = _decoder(kind).decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise StoreError(
                f"The server {self.place} answered with something else than was asked for: {error}",
                hint="Is that a Ratchet server, and of a version that fits this one?",
            ) from None
        return read


Steps: TypeAlias = Generator[ApiRequest, ApiResponse, T]
"""The course of a call: yields requests, is sent answers, returns the result."""


class BlockingTransport(Protocol):
    """Carries requests while the caller's thread waits."""

    def carry(self, steps: Steps[T]) -> T:
        """Go through a call to its end."""
        ...


class AsyncTransport(Protocol):
    """Carries requests while the caller's task waits."""

    async def carry(self, steps: Steps[T], /) -> T:
        """Go through a call to its end."""
        ...


Carrier = TypeVar("Carrier", bound="BlockingTransport | AsyncTransport")


class RemoteRepository(Generic[Carrier]):
    """A repository at the server; its methods block or are awaited as its carrier is."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier


class endpoint(Generic[P, T]):  # noqa: N801 - a decorator
    """Makes a method of a `RemoteRepository` out of the course of a call."""

    def __init__(self, course: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._course = course
        self.__doc__ = course.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(
        self, room: RemoteRepository[BlockingTransport], owner: Any = None
    ) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, room: RemoteRepository[AsyncTransport], owner: Any = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, room: None, owner: Any = None) -> endpoint[P, T]: ...
    def __get__(self, room: Any, owner: Any = None) -> Any:
        if room is None:
            return self
        course = MethodType(self._course, room)
        carry = room._carrier.carry

        @functools.wraps(course)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return carry(course(*args, **kwargs))

        # Found there the next time, before this descriptor.
        room.__dict__[self._name] = call
        return call


def path(*parts: str, **query: str | int | float | None) -> str:
    """A path under /v1 of these parts, and a query of what is not None."""
    address = "/v1/" + "/".join(quote(part, safe="@:") for part in parts)
    asked = {name: value for name, value in query.items() if value is not None}
    return f"{address}?{urlencode(asked)}" if asked else address


def get(*parts: str, **query: str | int | float | None) -> ApiRequest:
    """A request that reads."""
    return ApiRequest(method="GET", path=path(*parts, **query))


def post(*parts: str, body: Any, waits_s: float = 0.0) -> ApiRequest:
    """A request that sends JSON."""
    return ApiRequest(method="POST", path=path(*parts), body=json_of(body), waits_s=waits_s)


_encoder = msgspec.json.Encoder()


def json_of(value: Any) -> bytes:
    """JSON of builtin data or structs.

    Raises:
        InputError: It has none.
    """
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"What is to be sent has no JSON form: {error}.",
            hint="Use Unicode strings, finite numbers, booleans, None, lists and dictionaries.",
        ) from None


def batches(items: Sequence[Item]) -> Iterator[tuple[list[Item], msgspec.Raw]]:
    """Items in parts that fit into a request each, with the JSON list of each part."""
    part: list[Item] = []
    encoded: list[bytes] = []
    size = 0
    for item in items:
        one = json_of(item)
        if part and (size + len(one) > MAX_BODY_BYTES or len(part) >= MAX_ITEMS):
            yield part, _list(encoded)
            part, encoded, size = [], [], 0
        part.append(item)
        encoded.append(one)
        size += len(one)
    if part:
        yield part, _list(encoded)


def chunks(items: Iterable[Item], size: int = MAX_ITEMS) -> Iterator[list[Item]]:
    """Small items in parts of at most so many."""
    known = list(items)
    for start in range(0, len(known), size):
        yield known[start : start + size]


def _list(encoded: Sequence[bytes]) -> msgspec.Raw:
    return msgspec.Raw(b"[" + b",".join(encoded) + b"]")


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    known = _decoders.get(kind)
    if known is None:
        known = _decoders[kind] = msgspec.json.Decoder(kind)
    return known
