"""Where a person looks at what ran live: a store, or a server."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from ratchet.cli.console import near
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


class Place(Protocol):
    """What can be looked at, here or at a server."""

    where: str
    """For people."""

    def traces(
        self, wanted: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """One page of traces, and the cursor of the next."""
        ...

    def mark(self) -> int:
        """How far the store has come."""
        ...

    def after(self, mark: int, wanted: TraceFilter) -> tuple[list[Trace], int]:
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

    def tell(self, item: Feedback) -> None:
        """Give feedback."""
        ...


class StorePlace:
    """A store.

    Args:
        store: The store.
        limit: Spans of a trace to show at most.
        where: How people name it.
    """

    def __init__(self, store: Store, limit: int = 100_000, where: str = "the store") -> None:
        self.store = store
        self.where = where
        self._limit = limit

    def traces(
        self, wanted: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """As `Place` says."""
        return self.store.traces.list(wanted, sort=sort, limit=limit, cursor=cursor, price=price)

    def mark(self) -> int:
        """As `Place` says."""
        return self.store.traces.mark()

    def after(self, mark: int, wanted: TraceFilter) -> tuple[list[Trace], int]:
        """As `Place` says."""
        return self.store.traces.after(mark, wanted, price=price)

    def trace(self, id: str) -> TraceDetail | None:
        """As `Place` says."""
        found = self.store.traces.find(id, 2)
        whole = id if id in found else next(iter(found), "")
        if len(found) > 1 and whole != id:
            raise InputError(f"{id!r} begins several traces.", hint="Give more of it.")
        return self.store.traces.get(whole, limit=self._limit, price=price) if whole else None

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """As `Place` says."""
        return self.store.conversations.list(agent=agent, limit=limit)

    def conversation(self, id: str) -> ConversationLog | None:
        """As `Place` says."""
        found = self.store.conversations.find(id, 2)
        whole = id if id in found else next(iter(found), "")
        if len(found) > 1 and whole != id:
            raise InputError(f"{id!r} begins several conversations.", hint="Give more of it.")
        return self.store.conversations.log(whole) if whole else None

    def tell(self, item: Feedback) -> None:
        """As `Place` says."""
        self.store.feedback.add([item], time.time())


class NothingPlace:
    """A store that is not there yet. To look at it does not make it.

    Args:
        file: Where it would be.
    """

    def __init__(self, file: str) -> None:
        self.where = near(file)

    def traces(
        self, wanted: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """As `Place` says."""
        return [], None

    def mark(self) -> int:
        """As `Place` says."""
        return 0

    def after(self, mark: int, wanted: TraceFilter) -> tuple[list[Trace], int]:
        """As `Place` says."""
        return [], mark

    def trace(self, id: str) -> TraceDetail | None:
        """As `Place` says."""
        return None

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """As `Place` says."""
        return [], None

    def conversation(self, id: str) -> ConversationLog | None:
        """As `Place` says."""
        return None

    def tell(self, item: Feedback) -> None:
        """Nothing is here that feedback could be about.

        Raises:
            InputError: Always.
        """
        raise InputError(f"There is no store yet at {self.where}.")


class ServerPlace:
    """A server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.where = client.url

    def traces(
        self, wanted: TraceFilter = EVERY, *, sort: Sort, limit: int, cursor: str | None = None
    ) -> tuple[list[Trace], str | None]:
        """As `Place` says."""
        return self._client.traces.list(wanted, sort=sort, limit=limit, cursor=cursor)

    def mark(self) -> int:
        """As `Place` says."""
        return self._client.traces.mark()

    def after(self, mark: int, wanted: TraceFilter) -> tuple[list[Trace], int]:
        """As `Place` says."""
        return self._client.traces.after(mark, wanted)

    def trace(self, id: str) -> TraceDetail | None:
        """As `Place` says."""
        return self._client.traces.get(id, limit=100_000)

    def conversations(self, agent: str | None, limit: int) -> tuple[list[Conversation], str | None]:
        """As `Place` says."""
        return self._client.conversations.list(agent=agent, limit=limit)

    def conversation(self, id: str) -> ConversationLog | None:
        """As `Place` says; a server knows whole ids alone."""
        return self._client.conversations.log(id)

    def tell(self, item: Feedback) -> None:
        """As `Place` says."""
        self._client.feedback.add([item])


@contextmanager
def look(
    folder: Path,
    store: str | None,
    server: str | None,
    *,
    by_environment: bool = True,
    make: bool = False,
) -> Iterator[Place]:
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
    named = server or ""
    if by_environment and store is None and server is None:
        named = os.environ.get(URL_VARIABLE, "").strip()
    if server is None and "://" in named and not is_server(named):
        store, named = named, ""
    if named:
        with Client(named) as client:
            yield ServerPlace(client)
        return
    url, _ = store_in(folder, store)
    file = parse(url).database if url.startswith("sqlite:") else None
    if not make and file is not None and not Path(file).exists():
        yield NothingPlace(file)
        return
    with open_store(folder, store) as opened:
        yield StorePlace(opened, where=near(file) if file is not None else "the store")


def price(call: ModelCall) -> float | None:
    """What a call costs by published prices, which are read when they are first needed."""
    from ratchet.llm import price as published

    return published(call)


def moment(text: str, now: float) -> int:
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


def when(ns: int) -> str:
    """A moment for people, in local time."""
    try:
        return f"{datetime.fromtimestamp(ns / 1e9).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns"


def lately(ns: int, now: float) -> str:
    """A moment for people, as short as it can be: of today the time alone."""
    full = when(ns)
    today = when(int(now * 1e9))
    if full[:10] == today[:10]:
        return full[11:]
    return full[5:16] if full[:4] == today[:4] else full[:10]


def took(seconds: float) -> str:
    """How long something took, for people."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def dollars(cost: float | None) -> str:
    """Dollars for people; nothing where they are not known."""
    return "" if cost is None else dollars_text(cost)


def spent(trace: Trace) -> str:
    """What a trace's model calls cost, for people; nothing where no model was called."""
    cost = trace.cost
    if not cost.unpriced:
        return dollars_text(cost.known_usd) if cost.known_usd or trace.models else ""
    return f"≥{dollars_text(cost.known_usd)}" if cost.known_usd else "not measured"


def count(number: int) -> str:
    """A number for people."""
    if number < 10_000:
        return str(number)
    return f"{number / 1e3:.1f}k" if number < 1_000_000 else f"{number / 1e6:.1f}M"


def named(value: Any) -> str:
    """A worst value of feedback, for people."""
    if value is None:
        return ""
    return {0.0: "down", 1.0: "up"}.get(value, f"{value:.2g}")
