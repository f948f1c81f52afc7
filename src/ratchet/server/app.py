"""ASGI application of the server: routes requests, authenticates callers and sends responses."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from ratchet._asgi import AsgiApp, AsgiScope, HeaderList, Headers, Receive, Send
from ratchet.server import http_problems
from ratchet.server.access import Caller
from ratchet.server.agent_limits import check_answered, check_asked
from ratchet.server.api import GROUPS
from ratchet.server.body import (
    SMALL_BODY,
    ClientDisconnected,
    Content,
    HeldBody,
    decompressed,
    read_body,
)
from ratchet.server.dashboard import Dashboard, PageFile
from ratchet.server.forwarded import Network, client_address
from ratchet.server.http_problems import NO_TYPE, HttpProblem, problem_of
from ratchet.server.routes import (
    INGEST,
    ApiRoute,
    Response,
    RouteTable,
    StreamResponse,
    TextResponse,
)
from ratchet.server.services import Services
from ratchet.types import KeyScope, RatchetError

log = logging.getLogger("ratchet.server")


_encode = msgspec.json.Encoder().encode
_JSON = (b"content-type", b"application/json")

_RAW_METHODS = {"/v1/traces": ("POST",)}
"""Methods of paths that are dispatched before the route table is consulted."""

SEND_TIMEOUT_S = 30.0
"""Seconds within which the client of a stream must accept a piece, or the stream ends."""

MAX_PATH = 4096
"""Longest accepted path and query, in bytes."""


class App:
    """ASGI application around the services of one store.

    Args:
        services: The services.
        root_path: Path under which a proxy has the server, such as `/ratchet`; empty for none.
        proxies: Networks of the proxies whose word for a client's address is taken.
    """

    def __init__(
        self, services: Services, root_path: str = "", proxies: Sequence[Network] = ()
    ) -> None:
        self.services = services
        self.dashboard = Dashboard(root_path=root_path)
        self._root_path = root_path
        self._proxies = proxies
        self.table = RouteTable([route for group in GROUPS for route in group.routes])
        self._decoders = {
            id(route): msgspec.json.Decoder(route.body)
            for route in self.table.routes
            if route.body is not None
        }

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or handle the ASGI lifespan events."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(self._behind(self._below(scope)), receive, send)
        else:  # WebSockets are not supported
            await send({"type": "websocket.close", "code": 1003})

    def _below(self, scope: AsgiScope) -> AsgiScope:
        """The request without the proxy's path prefix, which the proxy may already have removed."""
        root, path = self._root_path, scope["path"]
        if root and (path == root or path.startswith(f"{root}/")):
            return {**scope, "path": path[len(root) :] or "/"}
        return scope

    def _behind(self, scope: AsgiScope) -> AsgiScope:
        """The request with the address of the client, where it comes from a trusted proxy."""
        peer = scope.get("client")
        if not self._proxies or not peer:
            return scope
        address = client_address(peer[0], scope["headers"], self._proxies)
        return {**scope, "client": (address, 0)} if address != peer[0] else scope

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.services.start()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    raise
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.services.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        begun = time.perf_counter()
        sent = _Sent(send)
        template = "unmatched"
        caller: Caller | None = None
        route: ApiRoute | None = None
        try:
            try:
                _check_length(scope["path"])
                early = await self._before(scope, sent)
                if early is not None:
                    template = early
                    return
                raw = self._raw(scope["method"], scope["path"])
                if raw is not None:
                    template, scopes, answer = raw
                    _check_length(scope["path"], scope["query_string"])
                    caller = await self._admit(scope, scopes, with_attempt=True)
                    await answer(scope, receive, sent)
                elif (file := self._page_file(scope)) is not None:
                    template = "/dashboard"
                    await sent.whole(200, file.headers, file.content)
                else:
                    route, path = self._route(scope)
                    template = route.path
                    _check_length(scope["path"], scope["query_string"])
                    caller = Caller()
                    if route.scopes or "caller" in route.takes:
                        caller = await self._caller_of(route, scope)
                    with self.services.bodies.hold() as held_body:
                        await self._answer(route, path, caller, scope, receive, sent, held_body)
            except RatchetError as error:
                raise problem_of(error) from error
            except RecursionError:
                raise HttpProblem(400, "The body is nested too deeply.") from None
        except HttpProblem as problem:
            await self._refuse(problem, scope, sent)
        except ClientDisconnected:
            sent.status = 499
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await self._refuse(
                HttpProblem(500, "The server failed on this request.", hint="See its log."),
                scope,
                sent,
            )
        finally:
            services = self.services
            services.metrics.request(
                template, scope["method"], sent.status, time.perf_counter() - begun
            )
            audited = route is not None and route.audited and sent.status < 400
            if audited or sent.status in (401, 403):
                services.activity_log.audit(
                    caller, scope, route.name if route else template, sent.status
                )

    async def _before(self, scope: AsgiScope, sent: _Sent) -> str | None:
        """Answer a CORS preflight; return its label for metrics, or None for other requests."""
        return await self.services.gatekeeper.screen(scope, sent)

    def _raw(self, method: str, path: str) -> tuple[str, frozenset[KeyScope], AsgiApp] | None:
        if path.startswith("/gateway/"):
            return "/gateway", INGEST, self.services.gateway
        if path == "/v1/traces" and method == "POST":
            return "/v1/traces", INGEST, self.services.otlp
        return None

    async def _admit(
        self, scope: AsgiScope, scopes: frozenset[KeyScope], *, with_attempt: bool
    ) -> Caller:
        gatekeeper = self.services.gatekeeper
        caller = await gatekeeper.admit(scope)
        if not (with_attempt and caller.attempt is not None):
            gatekeeper.allow(caller, scopes)
        scope["ratchet.caller"] = caller
        return caller

    async def _caller_of(self, route: ApiRoute, scope: AsgiScope) -> Caller:
        """The caller of a route; possibly nobody if the route needs no key."""
        if route.scopes:
            return await self._admit(scope, route.scopes, with_attempt=False)
        try:
            return await self.services.gatekeeper.admit(scope)
        except HttpProblem as problem:
            if problem.status != 401:
                raise
            return Caller()

    def _page_file(self, scope: AsgiScope) -> PageFile | None:
        """A file of the dashboard, for paths that are not a route."""
        methods, _ = self.table.find(scope["path"])
        return None if methods else self.dashboard.find(scope)

    def _route(self, scope: AsgiScope) -> tuple[ApiRoute, dict[str, str]]:
        path, method = scope["path"], scope["method"]
        methods, names = self.table.find(path)
        if not methods:
            raise HttpProblem(
                404,
                f"There is no route {path}.",
                hint="GET /openapi.json lists the routes.",
                type=NO_TYPE,
            )
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(sorted({*methods, *_RAW_METHODS.get(path, ())}))
            raise HttpProblem(
                405, f"{path} supports {allowed}, not {method}.", headers={"allow": allowed}
            )
        return route, names

    async def _answer(
        self,
        route: ApiRoute,
        path: dict[str, str],
        caller: Caller,
        scope: AsgiScope,
        receive: Receive,
        sent: _Sent,
        held_body: HeldBody,
    ) -> None:
        if caller.agent and route.agents is None:
            await check_asked(caller, None, self.services, path)
        arguments: dict[str, Any] = dict(path)
        if "server" in route.takes:
            arguments["server"] = self.services
        if "caller" in route.takes:
            arguments["caller"] = caller
        if "scope" in route.takes:
            arguments["scope"] = scope
        if "headers" in route.takes:
            arguments["headers"] = {
                k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]
            }
        if route.query is not None:
            arguments["query"] = _query(route, scope)
        if route.body is not None:
            arguments["body"] = await self._body(route, caller, scope, receive, held_body)
            scope["ratchet.reason"] = getattr(arguments["body"], "reason", "")
        await check_asked(caller, route.agents, self.services, arguments)
        if route.waits:
            with self.services.gatekeeper.stream(caller):
                answer = await _unless_hung_up(route.handler(**arguments), receive)
        else:
            answer = await route.handler(**arguments)
        check_answered(caller, route.agents, answer)
        if isinstance(answer, StreamResponse):
            await self._stream(answer, caller, receive, sent)
        elif isinstance(answer, TextResponse):
            await sent.whole(200, [(b"content-type", answer.media_type.encode())], answer.content)
        elif isinstance(answer, Response):
            headers = [(k.encode(), v.encode()) for k, v in answer.headers.items()]
            body = b"" if answer.body is None else _encode(answer.body)
            await sent.whole(answer.status, [*headers, _JSON] if body else headers, body)
        elif answer is None:
            await sent.whole(204, [], b"")
        else:
            await sent.whole(route.status, [_JSON], _encode(answer))

    async def _body(
        self,
        route: ApiRoute,
        caller: Caller,
        scope: AsgiScope,
        receive: Receive,
        held_body: HeldBody,
    ) -> Any:
        limits = self.services.limits
        # Whoever has no key, or one that anybody can read, sends little.
        strange = caller.is_public or not caller.scopes
        limit = limits.public_body_bytes if strange else limits.body_bytes
        encoding, length = "identity", 0
        for name, value in scope["headers"]:
            if name == b"content-encoding":
                encoding = value.decode("latin-1").strip().lower()
            elif name == b"content-length" and value.isdigit():
                length = int(value[:20])
            elif name == b"content-type" and b"json" not in value.lower():
                content_type = value.decode("latin-1")
                raise HttpProblem(415, f"The body is {content_type!r}; send application/json.")
        body = await read_body(receive, limit, held_body, length=length)
        body = await decompressed(body, encoding, limit, held_body)
        if len(body) <= SMALL_BODY:
            return self._decode(route, body)
        await held_body.weigh(body)
        async with self.services.bodies.decoding:
            decoded = self._decode(route, body)
            await asyncio.sleep(0)
        return decoded

    def _decode(self, route: ApiRoute, body: Content) -> Any:
        try:
            return self._decoders[id(route)].decode(body)
        except msgspec.ValidationError as error:
            raise _unfit(error, "body") from None
        except msgspec.DecodeError as error:
            raise HttpProblem(400, f"The body is not JSON: {error}.", field="body") from None
        except UnicodeDecodeError as error:
            raise HttpProblem(
                400, f"The body is not UTF-8 at byte {error.start + 1}.", field="body"
            ) from None

    async def _stream(
        self, stream: StreamResponse, caller: Caller, receive: Receive, sent: _Sent
    ) -> None:
        with self.services.gatekeeper.stream(caller):
            await sent.begin(
                200,
                [
                    (b"content-type", stream.media_type.encode()),
                    (b"cache-control", b"no-store"),
                    (b"x-accel-buffering", b"no"),
                ],
            )
            hung_up = asyncio.ensure_future(_hung_up(receive))
            pieces = stream.pieces
            following: asyncio.Future[bytes] | None = None
            try:
                while True:
                    following = asyncio.ensure_future(anext(pieces))
                    await asyncio.wait({following, hung_up}, return_when="FIRST_COMPLETED")
                    if not following.done():
                        break
                    try:
                        piece = following.result()
                    except StopAsyncIteration:
                        break
                    try:
                        async with asyncio.timeout(SEND_TIMEOUT_S):
                            await sent.piece(piece)
                    except TimeoutError:
                        raise ClientDisconnected from None
            finally:
                for task in (hung_up, following):
                    if task is not None and not task.done():
                        task.cancel()
                        await asyncio.wait({task})
                await pieces.aclose()  # type: ignore[attr-defined]
            await sent.end()

    async def _refuse(self, problem: HttpProblem, scope: AsgiScope, sent: _Sent) -> None:
        if sent.begun:
            # The response has begun: only an aborted connection can signal the error.
            raise ConnectionAbortedError(problem.detail)
        headers = [(k.encode(), v.encode("latin-1", "replace")) for k, v in problem.headers.items()]
        headers.append((b"content-type", http_problems.MEDIA_TYPE))
        instance = scope["path"][:200]
        await sent.whole(problem.status, headers, problem.body(instance))


class _Sent:
    """Wrapper of an ASGI `send` that records the status and whether the response has begun."""

    __slots__ = ("_send", "begun", "granted", "status")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False
        self.status = 499
        self.granted: Headers = ()

    async def __call__(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            self.status = message["status"]
            if self.granted:
                message = {**message, "headers": [*message.get("headers", ()), *self.granted]}
        await self._send(message)

    async def begin(self, status: int, headers: HeaderList) -> None:
        await self({"type": "http.response.start", "status": status, "headers": headers})

    async def piece(self, content: bytes) -> None:
        await self._send({"type": "http.response.body", "body": content, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def whole(self, status: int, headers: HeaderList, content: bytes) -> None:
        if status not in (204, 304):
            headers = [*headers, (b"content-length", str(len(content)).encode())]
        await self.begin(status, headers)
        await self._send({"type": "http.response.body", "body": content})


def _check_length(path: str, query: bytes = b"") -> None:
    """Check that an address is not too long.

    Raises:
        HttpProblem: It is too long (400).
    """
    if len(path) + len(query) > MAX_PATH:
        raise HttpProblem(400, f"The address is longer than {MAX_PATH} characters.")


async def _unless_hung_up(work: Awaitable[Any], receive: Receive) -> Any:
    """Await the work; cancel it when the client disconnects.

    Raises:
        ClientDisconnected: The client disconnected first.
    """
    working = asyncio.ensure_future(work)
    hung_up = asyncio.ensure_future(_hung_up(receive))
    try:
        await asyncio.wait({working, hung_up}, return_when="FIRST_COMPLETED")
        if working.done():
            return working.result()
        raise ClientDisconnected
    finally:
        for task in (working, hung_up):
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _query(route: ApiRoute, scope: AsgiScope) -> Any:
    try:
        pairs = parse_qsl(
            scope["query_string"].decode("ascii"), keep_blank_values=True, max_num_fields=50
        )
    except (ValueError, UnicodeDecodeError) as error:
        raise HttpProblem(400, f"The query is malformed: {error}.", field="query") from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            raise HttpProblem(422, f"The query has {name!r} twice.", field=name)
        parameters[name] = value
    try:
        return msgspec.convert(parameters, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise _unfit(error, "query") from None


def _unfit(error: msgspec.ValidationError, where: str) -> HttpProblem:
    """Convert a validation error to a problem that names the field and the reason."""
    message, _, path = str(error).partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    match = _NAMED.fullmatch(message)
    if match is not None:
        field = f"{field}.{match[2]}" if field else match[2]
        message = (
            f"There is no field {match[2]!r}"
            if match[1] == "contains unknown"
            else (f"The field {match[2]!r} is missing")
        )
    at = f"{field} in the {where}" if field else f"the {where}"
    return HttpProblem(422, f"{message}, at {at}.", field=field or where)


_NAMED = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
