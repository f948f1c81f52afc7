"""A request that the gateway admitted, with its body."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from ratchet._asgi import AsgiScope, HeaderList, Receive, Send
from ratchet.observe.model_apis import MODEL_IN_PATH, DialectName
from ratchet.observe.model_apis.bounded_json import decoded
from ratchet.server.body import SMALL_BODY, Content, HeldBody, decompressed, read_body
from ratchet.server.gateway.target import GatewayTarget
from ratchet.server.http_problems import HttpProblem


@dataclass(slots=True)
class GatewayRequest:
    """A request that the gateway has admitted."""

    task: asyncio.Task[Any]
    target: GatewayTarget
    provider: DialectName
    """API that the client uses."""
    path: str
    """Path below the provider's version."""
    address: str
    """Base URL for which the client's call was intended; empty if it was for the gateway."""
    scope: AsgiScope
    receive: Receive
    send: Send
    held: HeldBody
    """The memory of its body."""

    @property
    def headers(self) -> HeaderList:
        """The client's headers, with names in lower case."""
        headers: HeaderList = self.scope["headers"]
        return headers

    @property
    def api_path(self) -> str:
        """Path without the version."""
        return self.path.removeprefix("v1/")

    @property
    def named_in_path(self) -> re.Match[str] | None:
        """Model and method, where the path names them."""
        return MODEL_IN_PATH.search(self.path)

    async def body(self, limit: int) -> Content:
        """The raw body, of at most this many bytes."""
        length = 0
        for key, value in self.headers:
            if key == b"content-length" and value.isdigit():
                length = int(value[:20])
        return await read_body(self.receive, limit, self.held, length=length)

    async def plain(self, body: Content, encoding: str, limit: int) -> Content:
        """The decompressed body; empty when it is damaged, which the upstream will report."""
        if not encoding:
            return body
        try:
            return await decompressed(body, encoding, limit, self.held)
        except HttpProblem as problem:
            if problem.status in (413, 429):
                raise
            return b""

    async def decoded(self, plain: Content) -> dict[str, Any] | None:
        """The body as an object; None for anything else, which the upstream will report."""
        if len(plain) <= SMALL_BODY:
            return _decoded(plain)
        await self.held.weigh(plain)
        async with self.held.decoding:
            payload = _decoded(plain)
            await asyncio.sleep(0)
        return payload


def _decoded(body: Content) -> dict[str, Any] | None:
    try:
        payload = decoded(body)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None
