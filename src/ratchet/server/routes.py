"""Routes: the table of what the API answers. A route is one decorated function.

Its parameters say what it takes: `server`; `body` and `query` (msgspec structs); `caller`;
`headers`; and the names in braces of its path. What it returns is its answer. Documentation,
decoding, access and errors all follow from that.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, get_type_hints

import msgspec

from ratchet.types import Scope

Handler = Callable[..., Awaitable[Any]]
Decorated = TypeVar("Decorated", bound=Handler)

NO_SCOPES: frozenset[Scope] = frozenset()
"""For routes that are open to whoever reaches the server."""
READ: frozenset[Scope] = frozenset({"read", "run"})
RUN: frozenset[Scope] = frozenset({"run"})
INGEST: frozenset[Scope] = frozenset({"ingest", "run"})
GIVE_FEEDBACK: frozenset[Scope] = frozenset({"feedback", "ingest", "run"})
READ_ONLY: frozenset[Scope] = frozenset({"read"})
ADMIN: frozenset[Scope] = frozenset({"admin"})


class Response(msgspec.Struct, frozen=True):
    """An answer that is more than a body."""

    body: Any = None
    """What is sent as JSON; nothing when it is None."""
    status: int = 200
    headers: dict[str, str] = {}


class TextResponse(msgspec.Struct, frozen=True):
    """An answer that is not JSON."""

    content: bytes
    media_type: str


class StreamResponse(msgspec.Struct, frozen=True):
    """An answer that comes piece by piece, until the client hangs up or the server stops."""

    pieces: AsyncIterator[bytes]
    media_type: str = "text/event-stream"


class ApiRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: str
    path: str
    """With names in braces, such as `/v1/rollouts/{id}`."""
    scopes: frozenset[Scope]
    """Any of them will do; `admin` always does. Empty: no key is asked for."""
    handler: Handler
    name: str
    summary: str
    description: str
    takes: frozenset[str]
    """Names of the handler's parameters."""
    body: Any = None
    """Type of the request's body; None when it has none."""
    query: Any = None
    """Struct of the query's parameters; None when there are none."""
    answers: Any = None
    """Type of the answer's body; None when it has none."""
    media_type: str = "application/json"
    status: int = 200
    audited: bool = False
    """Whether a call is written to the audit log when it succeeds; refusals always are."""
    waits: bool = False
    """Whether the handler may wait for long; it is cancelled when the client hangs up."""
    tag: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in the path's braces."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))


class RouteGroup:
    """Routes that belong together: those of one noun."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[ApiRoute] = []

    def route(
        self,
        method: str,
        path: str,
        scopes: frozenset[Scope],
        *,
        audited: bool = False,
        waits: bool = False,
        status: int = 200,
        media_type: str = "application/json",
        answers: Any = None,
    ) -> Callable[[Decorated], Decorated]:
        """Register the function that answers.

        Args:
            method: HTTP method.
            path: Path with names in braces.
            scopes: Which scopes allow it.
            audited: Whether it is written to the audit log.
            waits: Whether it may wait for long.
            status: Status of a good answer.
            media_type: Of a good answer.
            answers: Type of the answer's body, where the function returns an `Response`.
        """

        def register(handler: Decorated) -> Decorated:
            hints = get_type_hints(handler)
            returned = answers if answers is not None else hints.get("return")
            summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n\n")
            self.routes.append(
                ApiRoute(
                    method=method,
                    path=path,
                    scopes=scopes,
                    handler=handler,
                    name=handler.__name__,
                    summary=summary.rstrip("."),
                    description=description,
                    takes=frozenset(inspect.signature(handler).parameters),
                    body=hints.get("body"),
                    query=hints.get("query"),
                    answers=None
                    if returned in (Response, type(None), TextResponse, StreamResponse)
                    else returned,
                    media_type=media_type,
                    status=status,
                    audited=audited,
                    waits=waits,
                    tag=self.tag,
                )
            )
            return handler

        return register


class RouteTable:
    """Finds the route of a request.

    Args:
        routes: All of them; two may not share method and path.
    """

    def __init__(self, routes: Sequence[ApiRoute]) -> None:
        self.routes = tuple(routes)
        self._fixed: dict[str, dict[str, ApiRoute]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, ApiRoute]]] = []
        by_path: dict[str, dict[str, ApiRoute]] = {}
        for route in routes:
            methods = by_path.setdefault(route.path, {})
            assert route.method not in methods, f"{route.method} {route.path} is there twice"
            methods[route.method] = route
        for path, methods in by_path.items():
            if "{" in path:
                pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
                self._patterns.append((re.compile(pattern), methods))
            else:
                self._fixed[path] = methods

    def find(self, path: str) -> tuple[Mapping[str, ApiRoute], dict[str, str]]:
        """Routes of a path by method, and the values of the names in its braces.

        A path that nobody answers has no routes.
        """
        methods = self._fixed.get(path)
        if methods is not None:
            return methods, {}
        for pattern, methods in self._patterns:
            found = pattern.fullmatch(path)
            if found is not None:
                return methods, found.groupdict()
        return {}, {}
