"""A loopback HTTP server that answers chat completions as a test tells it to, bad ones included.

It is no simulator of a model: it says what the test has it say.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import msgspec

HANG, CUT, ENDLESS = b"hang", b"cut", b"endless"


class Request(msgspec.Struct):
    """What came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def said(self) -> str:
        """The last message."""
        return str(self.body["messages"][-1]["content"])


class Reaction(msgspec.Struct):
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}
    how: bytes = b""
    """HANG: nothing is sent; CUT: half of it; ENDLESS: without an end."""
    delay_s: float = 0.0
    """How long the answer takes."""


def answer(
    text: str | None,
    *,
    finish: str | None = "stop",
    usage: dict[str, Any] | None = None,
    model: str = "gpt-4o-mini",
    **message: Any,
) -> Reaction:
    """A chat completion."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        if usage is None
        else usage,
    }
    return Reaction(body=json.dumps(body).encode())


def error(status: int, message: str = "", headers: dict[str, str] | None = None) -> Reaction:
    """An error in OpenAI's form."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode()
    return Reaction(status=status, body=body, headers=headers or {})


React = Callable[[Request], Reaction]


class Endpoint:
    """A server in a thread of its own.

    Args:
        react: What is answered to a request.
    """

    def __init__(self, react: React) -> None:
        self.react = react
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._at_once = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            self._server.close()
            for task in asyncio.all_tasks(self._loop) - {asyncio.current_task()}:
                task.cancel()
            await self._loop.shutdown_asyncgens()
            self._loop.call_soon(self._loop.stop)

        # In its own thread: that of the test may run a loop, too.
        asyncio.run_coroutine_threadsafe(stop(), self._loop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        given = [line.split(": ", 1) for line in head[1:] if line]
        kept = {name.lower(): value for name, value in given}
        request = Request(head[0].split(" ")[1], kept, json.loads(raw or b"{}"))
        self.requests.append(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self._answer(self.react(request), reader, writer)
        finally:
            self._at_once -= 1

    async def _answer(
        self, reaction: Reaction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if reaction.how == HANG:
            await reader.read(1)  # until the other side gives up
            return False
        await asyncio.sleep(reaction.delay_s)
        size = 10**12 if reaction.how == ENDLESS else len(reaction.body)
        sent = {"Content-Type": "application/json", "Content-Length": str(size)}
        sent |= reaction.headers
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"HTTP/1.1 {reaction.status} X\r\n{lines}\r\n".encode())
        if reaction.how == CUT:
            writer.write(reaction.body[: len(reaction.body) // 2])
            await writer.drain()
            return False
        writer.write(reaction.body)
        await writer.drain()
        while reaction.how == ENDLESS:
            writer.write(b" " * 65536)
            await writer.drain()
        return True
