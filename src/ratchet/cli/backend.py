"""Where a person looks at what ran live: a store, or a server."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from ratchet.cli.console import display_path
from ratchet.cli.keys import open_store, store_in
from ratchet.client import URL_VARIABLE, is_server
from ratchet.store import Store
from ratchet.store.location import parse
from ratchet.types import Feedback, InputError, dollars_text
from ratchet.types.trace import (
    EVERY,
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
    typer.Option("--server", help=f"Address of a server to look at; by default {URL_VARIABLE}."),
]

if TYPE_CHECKING:
    from ratchet.client import Client

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


class Backend(Protocol):
    """What can be looked at, here or at a server."""

    label: str
    """For people."""

    def traces(
        self, filters: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """One page of traces, and the cursor of the next."""
        ...

    def mark(self) -> int:
        """How far the store has come."""
        ...

    def after(self, mark: int, filters: TraceFilter) -> tuple[list[Trace], int]:
        """Traces of which something was stored after a mark, and a mark to go on from."""
        ...

    def trace(self, id: str) -> TraceDetail | None:
        """A trace by its id, or by the start of it where no other begins so."""
        ...

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """One page of conversations, and the cursor of the next."""
        ...

    def conversation(self, id: str) -> ConversationLog | None:
        """A conversation by its id, or by the start of it where no other begins so."""
        ...

    def give_feedback(self, item: Feedback) -> None:
        """Give feedback."""
        ...


class StoreBackend:
    """A store.

    Args:
        store: The store.
        limit: Spans of a trace to show at most.
        label: How people name it.
    """

    def __init__(self, store: Store, limit: int = 100_000, label: str = "the store") -> None:
        self.store = store
        self.label = label
        self._limit = limit

    def traces(
        self, filters: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """As `Backend` says."""
        return self.store.traces.list(filters, sort=sort, limit=limit, cursor=cursor, price=price)

    def mark(self) -> int:
        """As `Backend` says."""
        return self.store.traces.mark()

    def after(self, mark: int, filters: TraceFilter) -> tuple[list[Trace], int]:
        """As `Backend` says."""
        return self.store.traces.after(mark, filters, price=price)

    def trace(self, id: str) -> TraceDetail | None:
        """As `Backend` says."""
        found = self.store.traces.find(id, 2)
        whole = id if id in found else next(iter(found), "")
        if len(found) > 1 and whole != id:
            raise InputError(f"{id!r} begins several traces.", hint="Give more of it.")
        return self.store.traces.get(whole, limit=self._limit, price=price) if whole else None

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """As `Backend` says."""
        return self.store.conversations.list(agent=agent, limit=limit)

    def conversation(self, id: str) -> ConversationLog | None:
        """As `Backend` says."""
        found = self.store.conversations.find(id, 2)
        whole = id if id in found else next(iter(found), "")
        if len(found) > 1 and whole != id:
            raise InputError(f"{id!r} begins several conversations.", hint="Give more of it.")
        return self.store.conversations.log(whole) if whole else None

    def give_feedback(self, item: Feedback) -> None:
        """As `Backend` says."""
        self.store.feedback.add([item], time.time())


class MissingStoreBackend:
    """A store that is not there yet. To look at it does not make it.

    Args:
        file: Where it would be.
    """

    def __init__(self, file: str) -> None:
        self.label = display_path(file)

    def traces(
        self, filters: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """As `Backend` says."""
        return [], None

    def mark(self) -> int:
        """As `Backend` says."""
        return 0

    def after(self, mark: int, filters: TraceFilter) -> tuple[list[Trace], int]:
        """As `Backend` says."""
        return [], mark

    def trace(self, id: str) -> TraceDetail | None:
        """As `Backend` says."""
        return None

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """As `Backend` says."""
        return [], None

    def conversation(self, id: str) -> ConversationLog | None:
        """As `Backend` says."""
        return None

    def give_feedback(self, item: Feedback) -> None:
        """Nothing is here that feedback could be about.

        Raises:
            InputError: Always.
        """
        raise InputError(f"There is no store yet at {self.label}.")


class ServerBackend:
    """A server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.label = client.url

    def traces(
        self, filters: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """As `Backend` says."""
        return self._client.traces.list(filters, sort=sort, limit=limit, cursor=cursor)

    def mark(self) -> int:
        """As `Backend` says."""
        return self._client.traces.mark()

    def after(self, mark: int, filters: TraceFilter) -> tuple[list[Trace], int]:
        """As `Backend` says."""
        return self._client.traces.after(mark, filters)

    def trace(self, id: str) -> TraceDetail | None:
        """As `Backend` says."""
        return self._client.traces.get(id, limit=100_000)

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """As `Backend` says."""
        return self._client.conversations.list(agent=agent, limit=limit)

    def conversation(self, id: str) -> ConversationLog | None:
        """As `Backend` says; a server knows whole ids alone."""
        return self._client.conversations.log(id)

    def give_feedback(self, item: Feedback) -> None:
        """As `Backend` says."""
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
    """What is to be looked at: what is named, or else what `ratchet.init` here would send to.

    Args:
        folder: The project's.
        store: URL of a store.
        server: Address of a server.
        by_environment: Whether RATCHET_URL names it where nothing else does.
        make: Whether a store that is not there yet is made: to wait for what comes.

    Raises:
        InputError: Both are named, or there is no such folder.
        RatchetError: It cannot be opened.
    """
    from ratchet.client import Client

    if store is not None and server is not None:
        raise InputError("Say either --store or --server.")
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
    if not make and file is not None and not Path(file).exists():
        yield MissingStoreBackend(file)
        return
    with open_store(folder, store) as opened:
        yield StoreBackend(opened, label=display_path(file) if file is not None else "the store")


def price(call: ModelCall) -> float | None:
    """What a call costs by published prices, which are read when they are first needed."""
    from ratchet.llm import price as published

    return published(call)


def parse_time(text: str, now: float) -> int:
    """Unix nanoseconds of a moment, such as `90s`, `15m`, `1h`, `2d` ago, or a date or time.

    Raises:
        InputError: It is none.
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())
    if found:
        return int((now - int(found[1]) * _UNITS[found[2]]) * 1e9)
    try:
        return int(datetime.fromisoformat(text.strip()).astimezone().timestamp() * 1e9)
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"{text!r} is no moment.",
            hint="Write how long ago, such as 15m, 1h or 2d; or when, such as 2026-03-01T09:30.",
        ) from None


def spent(trace: Trace) -> str:
    """What a trace's model calls cost, for people; nothing where no model was called."""
    cost = trace.cost
    if not cost.unpriced:
        return dollars_text(cost.known_usd) if cost.known_usd or trace.models else ""
    return f"≥{dollars_text(cost.known_usd)}" if cost.known_usd else "not measured"
