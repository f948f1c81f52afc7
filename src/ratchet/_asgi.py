"""Types of the ASGI interface between a web server and an application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

AsgiScope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

HeaderList: TypeAlias = list[tuple[bytes, bytes]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
"""Names in lower case, and values."""
