"""Transports: send records to a server, or append them to the spool of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ratchet.observe.frames import Record, by_kind, frames_of
from ratchet.observe.spool import SharedSpool
from ratchet.types import ConfigError, Conflict, InputError, RatchetError

if TYPE_CHECKING:
    from ratchet.client import Client

TIMEOUT_S = 10.0
"""Time-out of one request to a server, in seconds."""

RETRY_S = 0.2


class TransportUnavailable(Exception):
    """The records were not stored and can be sent again later. The text gives the reason."""

    def __init__(self, reason: str, *, refused_key: bool = False) -> None:
        super().__init__(reason)
        self.refused_key = refused_key
        """Whether retrying soon is of no use, because the key must be replaced."""


class RecordsRejected(Exception):
    """The records will never be accepted as they are. The text gives the reason."""


class RecordTransport(Protocol):
    """Stores records. Called by one thread at a time."""

    label: str
    """Name of the destination, for messages."""

    def send(self, records: Sequence[Record], /) -> None:
        """Store records; when this returns, they are stored. Sending a record twice is safe.

        Raises:
            TransportUnavailable: They can be sent again later.
            RecordsRejected: At least one of them will never be accepted.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class ServerRecordTransport:
    """Stores records on a server, through its API.

    Args:
        url: Its address.
        key: Its key; RATCHET_KEY when left out.

    Raises:
        ConfigError: The address or the key is malformed.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        from ratchet.client.address import address_of, key_of

        self.label = address_of(url).url
        self._key = key_of(key)
        self._client: Client | None = None

    def send(self, records: Sequence[Record], /) -> None:
        """Store records on the server."""
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


class SpoolRecordTransport:
    """The spool of a store on this machine, from which the tool takes them into the store.

    Args:
        spool: The spool.
    """

    label = "the spool"

    def __init__(self, spool: SharedSpool) -> None:
        self._spool = spool

    def send(self, records: Sequence[Record], /) -> None:
        """Append records to the spool."""
        for frame in frames_of(records):
            self._spool.append(frame)

    def close(self) -> None:
        """Close the segment."""
        self._spool.close()


def transport_error(error: RatchetError) -> Exception:
    """Map an error of a client or a store to one of a transport."""
    if isinstance(error, ConfigError):
        return TransportUnavailable(str(error), refused_key=True)
    if isinstance(error, (InputError, Conflict)):
        return RecordsRejected(str(error))
    return TransportUnavailable(str(error))
