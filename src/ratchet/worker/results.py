"""The result of a call: what is awaited, and what is produced item by item."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any


async def settled(called: Any) -> Any:
    """The result of a call, awaited; the items of an iterator, texts joined."""
    if inspect.isawaitable(called):
        called = await called
    if isinstance(called, AsyncIterator):
        return joined([item async for item in called])
    return joined(list(called)) if isinstance(called, Iterator) else called


def collected(called: Any) -> Any:
    """The same where no event loop runs."""
    if isinstance(called, AsyncIterator) or inspect.isawaitable(called):
        return asyncio.run(settled(called))
    return joined(list(called)) if isinstance(called, Iterator) else called


def joined(items: list[Any]) -> Any:
    """Texts as one text, other items as a list."""
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items
