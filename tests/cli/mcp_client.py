"""`ratchet mcp` as a coding agent uses it: the SDK's own client, over stdio, to a real process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from ratchet.cli.mcp_answers import MAX_CHARACTERS

Conversation = Callable[[Client], Awaitable[Any]]


def ask(folder: Path, conversation: Conversation, **environ: str) -> Any:
    """Start the server in a folder, and talk to it."""

    async def talk() -> Any:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-P", "-m", "ratchet", "mcp"],
            cwd=folder,
            env={**os.environ, **environ},
        )
        async with Client(stdio_client(server)) as client:
            return await conversation(client)

    return asyncio.run(asyncio.wait_for(talk(), 400))


async def called(client: Client, tool: str, **arguments: Any) -> tuple[str, Any]:
    """The texts of a tool's answer, held to the bound, and its typed content."""
    result = await client.call_tool(tool, arguments)
    text = "".join(getattr(block, "text", "") for block in result.content)
    assert len(text) <= MAX_CHARACTERS
    assert "Traceback" not in text
    return text, result


async def given(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool's typed answer."""
    text, result = await called(client, tool, **arguments)
    assert not result.is_error, text
    assert json.loads(text) == result.structured_content
    content: dict[str, Any] = result.structured_content
    return content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """What a tool says when it refuses."""
    text, result = await called(client, tool, **arguments)
    assert result.is_error, text
    return text
