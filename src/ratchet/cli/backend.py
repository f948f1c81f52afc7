"""Read access to live traces and conversations, from a local store or a server."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from ratchet.cli.console import display_path
from ratchet.cli.keys import open_store, store_in
from ratchet.client import URL_VARIABLE, is_server
from ratchet.store import Store
from ratchet.store.local_agents import has_records
from ratchet.store.location import parse
from ratchet.types import Feedback, InputError, dollars_text
from ratchet.types.trace import (
    EVERY_TRACE,
    Conversation,
    ConversationLog,
    ModelCall,
    Sort,
    Trace,
    TraceDetail,
    TraceFilter,
)

ServerUrl = Annotated[
    str | None,
    typer.Option("--server", help=f"Address of a server to read from; by default {URL_VARIABLE}."),
]

if TYPE_CHECKING:
    from ratchet.client import Client

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


class Backend(Protocol):
    """Read access to the traces and conversations of a store or a server."""

    label: str
    """Name for messages."""

    def traces(
        self,
        filters: TraceFilter = EVERY_TRACE,
        *,
        sort: Sort,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[Trace], str | None]:
        """One page of traces, and the cursor of the next page."""
        ...

    def mark(self) -> int:
        """Current position in the store's sequence of changes."""
        ...

    def after(self, mark: int, filters: TraceFilter) -> tuple[list[Trace], int]:
        """Traces that changed after a mark, and the mark to continue from."""
        ...

    def trace(self, id: str) -> TraceDetail | None:
        """A trace by its id or a unique prefix of it."""
        ...

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """One page of conversations, and the cursor of the next page."""
        ...

    def conversation(self, id: str) -> ConversationLog | None:
        """A conversation by its id or a unique prefix of it."""
        ...

    def give_feedback(self, item: Feedback) -> None:
        """Record feedback."""
        ...


class StoreBackend:
    """Reads a store.

    Args:
        store: The store.
        limit: Maximum number of spans of a trace to read.
        label: Name for messages.
    """

    def __init__(self, store: Store, limit: int = 100_000, label: str = "the store") -> None:
        self.store = store
        self.label = label
        self._limit = limit

    def traces(
        self,
        filters: TraceFilter = EVERY_TRACE,
        *,
        sort: Sort,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[Trace], str | None]:
        """See `Backend`."""
        if filters.is_indexed:
            # No server may be at it, and a command has the time.
            self.store.trace_index.complete(price)
        options: dict[str, Any] = {"sort": sort, "limit": limit, "cursor": cursor}
        return self.store.traces.list(filters, price=price, texts=True, **options)

    def mark(self) -> int:
        """See `Backend`."""
        return self.store.traces.mark()

    def after(self, mark: int, filters: TraceFilter) -> tuple[list[Trace], int]:
        """See `Backend`."""
        return self.store.traces.after(mark, filters, price=price, texts=True)

    def trace(self, id: str) -> TraceDetail | None:
        """See `Backend`."""
        matches = self.store.traces.find(id, 2)
        trace_id = id if id in matches else next(iter(matches), "")
        if len(matches) > 1 and trace_id != id:
            raise InputError(
                f"Several traces have an id that begins with {id!r}.", hint="Give more digits."
            )
        return self.store.traces.get(trace_id, limit=self._limit, price=price) if trace_id else None

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """See `Backend`."""
        return self.store.conversations.list(agent=agent, limit=limit)

    def conversation(self, id: str) -> ConversationLog | None:
        """See `Backend`."""
        matches = self.store.conversations.find(id, 2)
        conversation_id = id if id in matches else next(iter(matches), "")
        if len(matches) > 1 and conversation_id != id:
            raise InputError(
                f"Several conversations have an id that begins with {id!r}.",
                hint="Give more digits of the id.",
            )
        return self.store.conversations.log(conversation_id) if conversation_id else None

    def give_feedback(self, item: Feedback) -> None:
        """See `Backend`."""
        self.store.feedback.add([item], time.time())


class ServerBackend:
    """Reads from a server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.label = client.url

    def traces(
        self,
        filters: TraceFilter = EVERY_TRACE,
        *,
        sort: Sort,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[Trace], str | None]:
        """See `Backend`."""
        return self._client.traces.list(filters, sort=sort, limit=limit, cursor=cursor)

    def mark(self) -> int:
        """See `Backend`."""
        return self._client.traces.mark()

    def after(self, mark: int, filters: TraceFilter) -> tuple[list[Trace], int]:
        """See `Backend`."""
        return self._client.traces.after(mark, filters)

    def trace(self, id: str) -> TraceDetail | None:
        """See `Backend`."""
        return self._client.traces.get(id, limit=100_000)

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """See `Backend`."""
        return self._client.conversations.list(agent=agent, limit=limit)

    def conversation(self, id: str) -> ConversationLog | None:
        """See `Backend`; a server accepts only full ids."""
        return self._client.conversations.log(id)

    def give_feedback(self, item: Feedback) -> None:
        """See `Backend`."""
        self._client.feedback.add([item])


@contextmanager
def open_backend(
    folder: Path,
    store: str | None,
    server: str | None,
    *,
    by_environment: bool = True,
    make: bool = False,
) -> Iterator[Backend]:
    """Open the named store or server; by default the one that `ratchet.init` would use here.

    Args:
        folder: The project's folder.
        store: URL of a store.
        server: Address of a server.
        by_environment: Use RATCHET_URL when neither is given.
        make: Create the store if it does not exist, to wait for new traces.

    Raises:
        InputError: Both are given, or the folder does not exist.
        RatchetError: It cannot be opened.
    """
    from ratchet.client import Client

    if store is not None and server is not None:
        raise InputError("Give either --store or --server, not both.")
    format_feedback = server or ""
    if by_environment and store is None and server is None:
        format_feedback = os.environ.get(URL_VARIABLE, "").strip()
    if server is None and "://" in format_feedback and not is_server(format_feedback):
        store, format_feedback = format_feedback, ""
    if format_feedback:
        with Client(format_feedback) as client:
            yield ServerBackend(client)
        return
    url, _ = store_in(folder, store)
    file = parse(url).database if url.startswith("sqlite:") else None
    if not (make or file is None or Path(file).exists() or has_records(url)):
        # Reading does not create the store.
        with TemporaryDirectory() as empty, Store.open(f"sqlite:///{empty}/empty.db") as nothing:
            yield StoreBackend(nothing, label=display_path(file))
        return
    with open_store(folder, store) as opened:
        yield StoreBackend(opened, label=display_path(file) if file is not None else "the store")


def price(call: ModelCall) -> float | None:
    """Cost of a call by published prices, which are loaded on first use."""
    from ratchet.llm import price as published

    return published(call)


def parse_time(text: str, now: float) -> int:
    """Parse a time into Unix nanoseconds: an age such as `90s`, `15m`, `1h`, `2d`, or a date or
    time.

    Raises:
        InputError: The text is neither.
    """
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())
    if match:
        return int((now - int(match[1]) * _UNITS[match[2]]) * 1e9)
    try:
        return int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1e9)
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"{text!r} is not a time.",
            hint="Give an age, such as 15m, 1h or 2d, or a time, such as 2026-03-01T09:30.",
        ) from None


def spent(trace: Trace) -> str:
    """Cost of a trace's model calls as text; empty when no model was called."""
    cost = trace.cost
    if not cost.unpriced:
        return dollars_text(cost.known_usd) if cost.known_usd or trace.models else ""
    return f"≥{dollars_text(cost.known_usd)}" if cost.known_usd else "not measured"
