"""Transports: send records to a server, or write them straight into a store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ratchet.types import ConfigError, Conflict, Feedback, InputError, RatchetError, SpanRecord

if TYPE_CHECKING:
    from ratchet.client import Client
    from ratchet.store import Store

TIMEOUT_S = 10.0
"""Time-out of one request to a server, in seconds."""

RETRY_S = 0.2

STORE_TIMEOUT_S = 2.0
"""How long a locked store is retried, in seconds."""

Record = SpanRecord | Feedback
"""What leaves the process: a span, or a statement of feedback."""


class TransportUnavailable(Exception):
    """The records were not stored and can be sent again later. The text gives the reason."""

    def __init__(self, reason: str, *, refused_key: bool = False) -> None:
        super().__init__(reason)
        self.refused_key = refused_key
        """Whether retrying soon is of no use: the key has to be replaced."""


class RecordsRejected(Exception):
    """The records will never be accepted as they are. The text gives the reason."""


class RecordTransport(Protocol):
    """Stores records. Called by one thread at a time."""

    label: str
    """Name of the destination, for messages."""

    def send(self, records: Sequence[Record], /) -> None:
        """Store records; they are stored when this returns. Sending one twice is safe.

        Raises:
            TransportUnavailable: They can be sent again later.
            RecordsRejected: At least one of them will never be accepted.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class ServerRecordTransport:
    """A server, through its API.

    Args:
        url: Its address.
        key: Its key; RATCHET_KEY when left out.

    Raises:
        ConfigError: Address or key are malformed.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        from ratchet.client.address import address_of, key_of

        self.label = address_of(url).url
        self._key = key_of(key)
        self._client: Client | None = None

    def send(self, records: Sequence[Record], /) -> None:
        """Store records at the server."""
        if self._client is None:
            from ratchet.client import Client

            # It retries little more than a connection that was closed: `Delivery` backs off.
            self._client = Client(
                self.label, self._key or "", patience_s=RETRY_S, timeout_s=TIMEOUT_S
            )
        spans, feedback = by_kind(records)
        try:
            if spans:
                self._client.spans.put(spans)
            if feedback:
                self._client.feedback.add(feedback)
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


class StoreRecordTransport:
    """A store, opened when the first records are sent.

    Args:
        url: The store's URL.
        root: The project folder whose state folder is created first, if the store is in it.
    """

    def __init__(self, url: str, root: Path | None = None) -> None:
        self._url = url
        self._root = root
        self._store: Store | None = None
        # The rest of the address may hold a password.
        self.label = url if url.startswith("sqlite:") else "the store of RATCHET_STORE"

    def send(self, records: Sequence[Record], /) -> None:
        """Store records."""
        spans, feedback = by_kind(records)
        try:
            if self._store is None:
                from ratchet.observe.project_paths import prepare_state
                from ratchet.store import Store

                if self._root is not None:
                    prepare_state(self._root)
                self._store = Store.open(self._url)
            if spans:
                self._store.spans.put(spans, patience_s=STORE_TIMEOUT_S)
            if feedback:
                self._store.feedback.add(feedback, time.time())
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


def by_kind(records: Sequence[Record]) -> tuple[list[SpanRecord], list[Feedback]]:
    """Split records into spans and feedback, each in order."""
    spans = [each for each in records if isinstance(each, SpanRecord)]
    if len(spans) == len(records):
        return spans, []
    return spans, [each for each in records if isinstance(each, Feedback)]


def transport_error(error: RatchetError) -> Exception:
    """Map an error of a client or a store to one of a transport."""
    if isinstance(error, ConfigError):
        return TransportUnavailable(str(error), refused_key=True)
    if isinstance(error, (InputError, Conflict)):
        return RecordsRejected(str(error))
    return TransportUnavailable(str(error))
