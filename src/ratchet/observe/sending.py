"""Where records are sent: to a server, or straight into a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from ratchet.types import ConfigError, Conflict, InputError, RatchetError, SpanRecord

if TYPE_CHECKING:
    from ratchet.client import Client
    from ratchet.store import Store

TIMEOUT_S = 10.0
"""How long one answer of a server may take."""

RETRY_S = 0.2

STORE_TIMEOUT_S = 2.0
"""How long a store that is locked is tried."""


class TransportUnavailable(Exception):
    """Nobody took the records; they may be sent again later. The text says why."""

    def __init__(self, reason: str, *, refused_key: bool = False) -> None:
        super().__init__(reason)
        self.refused_key = refused_key
        """Whether it will not be better soon: somebody has to give another key."""


class RecordsRejected(Exception):
    """The records will never be taken as they are. The text says why."""


Item = TypeVar("Item", contravariant=True)


class RecordTransport(Protocol[Item]):
    """Takes records, or whatever is sent. Called by one thread at a time."""

    label: str
    """For people."""

    def send(self, items: Sequence[Item], /) -> None:
        """Store items; they are stored when this returns. The same may be sent again.

        Raises:
            Away: Later perhaps.
            Refused: Never.
        """
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class ServerRecordTransport:
    """A server, through its API.

    Args:
        url: Its address.
        key: Its key; that of RATCHET_KEY when left out.

    Raises:
        ConfigError: Address or key are malformed.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        from ratchet.client.address import address_of, key_of

        self.label = address_of(url).url
        self._key = key_of(key)
        self._client: Client | None = None

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Store records at the server."""
        if self._client is None:
            from ratchet.client import Client

            # It hardly asks again, but for a connection that was closed meanwhile: how long to wait
            # is decided by whoever knows what else is waiting.
            self._client = Client(
                self.label, self._key or "", patience_s=RETRY_S, timeout_s=TIMEOUT_S
            )
        try:
            self._client.spans.put(records)
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


class StoreRecordTransport:
    """A store, opened when the first records come.

    Args:
        url: The store's URL.
        root: The project's folder whose state folder is made for it, if it is kept there.
    """

    def __init__(self, url: str, root: Path | None = None) -> None:
        self._url = url
        self._root = root
        self._store: Store | None = None
        # The rest of the address may hold a password.
        self.label = url if url.startswith("sqlite:") else "the store of RATCHET_STORE"

    def send(self, records: Sequence[SpanRecord]) -> None:
        """Store records."""
        try:
            if self._store is None:
                from ratchet.observe.project_paths import prepare_state
                from ratchet.store import Store

                if self._root is not None:
                    prepare_state(self._root)
                self._store = Store.open(self._url)
            self._store.spans.put(records, patience_s=STORE_TIMEOUT_S)
        except RatchetError as error:
            raise transport_error(error) from error

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


def transport_error(error: RatchetError) -> Exception:
    """What an error of a client or a store means for what was sent."""
    if isinstance(error, ConfigError):
        return TransportUnavailable(str(error), refused_key=True)
    if isinstance(error, (InputError, Conflict)):
        return RecordsRejected(str(error))
    return TransportUnavailable(str(error))
