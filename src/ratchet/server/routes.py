"""Route table of the API. A route is one decorated function.

The handler's parameters declare its inputs: `server`; `body` and `query` (msgspec structs);
`caller`; `headers`; `scope` (ASGI's); and the names in braces in its path. Its return value is the
response. Documentation, decoding, authorization and errors follow from that declaration.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, get_type_hints

import msgspec

from ratchet.server.agent_limits import Concerns
from ratchet.types import KeyScope

Handler = Callable[..., Awaitable[Any]]
Decorated = TypeVar("Decorated", bound=Handler)

NO_SCOPES: frozenset[KeyScope] = frozenset()
"""Scopes of routes that need no key."""
READ: frozenset[KeyScope] = frozenset({"read", "develop"})
RUNNER: frozenset[KeyScope] = frozenset({"runner"})
READ_BY_RUNNERS: frozenset[KeyScope] = READ | RUNNER
"""Scopes for reading what a runner needs to run the rollouts that it claims."""
DEVELOP: frozenset[KeyScope] = frozenset({"develop"})
LIVE: frozenset[KeyScope] = READ | {"ingest"}
"""Scopes for what a live agent reads, with the same key with which it sends spans."""
INGEST: frozenset[KeyScope] = frozenset({"ingest"})
SEND_SPANS: frozenset[KeyScope] = INGEST | RUNNER
"""Includes runners: a runner says in a span why its agent does not load."""
GIVE_FEEDBACK: frozenset[KeyScope] = frozenset({"feedback", "ingest", "develop"})
READ_ONLY: frozenset[KeyScope] = frozenset({"read"})
ADMIN: frozenset[KeyScope] = frozenset({"admin"})


class Response(msgspec.Struct, frozen=True):
    """A response with its own status or headers."""

    body: Any = None
    """Sent as JSON; nothing when it is None."""
    status: int = 200
    headers: dict[str, str] = {}


class TextResponse(msgspec.Struct, frozen=True):
    """A response that is not JSON."""

    content: bytes
    media_type: str


class StreamResponse(msgspec.Struct, frozen=True):
    """A response sent in pieces, until the client disconnects or the server stops."""

    pieces: AsyncIterator[bytes]
    media_type: str = "text/event-stream"


class ApiRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A route of the API: one method of one path, and its handler."""

    method: str
    path: str
    """With names in braces, such as `/v1/rollouts/{id}`."""
    scopes: frozenset[KeyScope]
    """Any of these scopes suffices; `admin` always does. If empty, no key is required."""
    handler: Handler
    name: str
    summary: str
    description: str
    takes: frozenset[str]
    """Names of the handler's parameters."""
    body: Any = None
    """Type of the request body; None when there is none."""
    query: Any = None
    """Struct of the query parameters; None when there are none."""
    answers: Any = None
    """Type of the response body; None when there is none."""
    media_type: str = "application/json"
    status: int = 200
    audited: bool = False
    """Whether successful calls are written to the audit log; refusals always are."""
    waits: bool = False
    """Whether the handler may wait for long; it is cancelled when the client disconnects."""
    tag: str = ""
    agents: Concerns | None = None
    """How to find the agents that a request concerns; None if it may concern any."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the path's parameters."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))


class RouteGroup:
    """The routes of one noun."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[ApiRoute] = []

    def route(
        self,
        method: str,
        path: str,
        scopes: frozenset[KeyScope],
        *,
        audited: bool = False,
        waits: bool = False,
        status: int = 200,
        media_type: str = "application/json",
        answers: Any = None,
        agents: Concerns | None = None,
    ) -> Callable[[Decorated], Decorated]:
        """Register a handler.

        Args:
            method: HTTP method.
            path: Path with names in braces.
            scopes: Scopes of which one is required.
            audited: Whether successful calls are written to the audit log.
            waits: Whether the handler may wait for long.
            status: HTTP status of success.
            media_type: Media type of success.
            answers: Type of the response body, where the handler returns a `Response`.
            agents: How the agents are found that a request concerns, for keys that are limited to
                one; without it, the route refuses them.
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
                    agents=agents,
                )
            )
            return handler

        return register


class RouteTable:
    """Finds the route of a request.

    Args:
        routes: All routes; method and path must be unique.
    """

    def __init__(self, routes: Sequence[ApiRoute]) -> None:
        self.routes = tuple(routes)
        self._fixed: dict[str, dict[str, ApiRoute]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, ApiRoute]]] = []
        by_path: dict[str, dict[str, ApiRoute]] = {}
        for route in routes:
            methods = by_path.setdefault(route.path, {})
            assert route.method not in methods, f"{route.method} {route.path} is registered twice"
            methods[route.method] = route
        for path, methods in by_path.items():
            if "{" in path:
                pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(path))
                self._patterns.append((re.compile(pattern), methods))
            else:
                self._fixed[path] = methods

    def find(self, path: str) -> tuple[Mapping[str, ApiRoute], dict[str, str]]:
        """Routes of a path by method, and the values of its parameters.

        An unknown path has no routes.
        """
        methods = self._fixed.get(path)
        if methods is not None:
            return methods, {}
        for pattern, methods in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return methods, match.groupdict()
        return {}, {}
