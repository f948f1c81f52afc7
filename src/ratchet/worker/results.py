"""The result of a call: awaited, or collected item by item."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from ratchet.observe import is_async


async def settled(called: Any) -> Any:
    """The result of a call, awaited; the items of an iterator, texts joined."""
    if inspect.isawaitable(called):
        called = await called
    if isinstance(called, AsyncIterator):
        return joined([item async for item in called])
    return joined(list(called)) if isinstance(called, Iterator) else called


def collected(called: Any) -> Any:
    """As `settled`, where no event loop runs."""
    if isinstance(called, AsyncIterator) or inspect.isawaitable(called):
        return asyncio.run(settled(called))
    return joined(list(called)) if isinstance(called, Iterator) else called


def settling(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, wrapped so that it returns its result and nothing to await."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return function
    if is_async(function):

        @functools.wraps(function, updated=())
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await settled(function(*args, **kwargs))

        return awaited

    @functools.wraps(function, updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        return collected(function(*args, **kwargs))

    return called


def joined(items: list[Any]) -> Any:
    """Texts joined into one text, other items as a list."""
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items
