"""Translates one answer on its way to the client, streamed or not."""

from __future__ import annotations

import zlib
from typing import Any

from ratchet._asgi import HeaderList
from ratchet.observe.model_apis.bounded_json import decoded, mapping
from ratchet.server.gateway.recording import ANSWER_LIMIT
from ratchet.server.gateway.sse import EventStreamParser
from ratchet.server.gateway.translation import (
    EventTranslator,
    Translation,
    json_bytes,
    refused_settings,
)

EVENT_STREAM = "text/event-stream"

_ABOUT_BODY = (
    *(b"content-type", b"content-length", b"content-encoding", b"content-md5", b"digest", b"etag"),
)


class RefusedSettings(Exception):
    """The upstream's model refuses settings that a translated request may leave out.

    Args:
        names: The settings.
    """

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


class AnswerTranslator:
    """Translates the bytes of one answer.

    Args:
        translation: The call.
        created: Time of the answer in Unix seconds.
    """

    def __init__(self, translation: Translation, created: int) -> None:
        self.translation = translation
        self._created = created
        self._status = 0
        self._events: EventTranslator | None = None
        self._parser = EventStreamParser()
        self._pieces: list[bytes] = []
        self._size = 0
        self._ended = False
        self._inflate: Any = None

    @property
    def content_type(self) -> str:
        """Content type of what the client gets, after `begin`."""
        return EVENT_STREAM if self.streams else "application/json"

    @property
    def streams(self) -> bool:
        """Whether the client gets a stream, or the whole answer at the end; known after `begin`."""
        return self._events is not None

    def begin(self, status: int, headers: HeaderList) -> HeaderList:
        """Take the head of the answer; return the headers for the client."""
        self._status = status
        by_name = dict(headers)
        kind = by_name.get(b"content-type", b"")
        if by_name.get(b"content-encoding", b"").strip().lower() in (b"gzip", b"deflate"):
            self._inflate = zlib.decompressobj(47)  # though it was asked for none
        if status < 400 and kind.lower().startswith(EVENT_STREAM.encode()):
            self._events = self.translation.events(self._created)
        kept = [(name, value) for name, value in headers if name not in _ABOUT_BODY]
        return [*kept, (b"content-type", self.content_type.encode())]

    def feed(self, piece: bytes, last: bool) -> bytes:
        """Process the next bytes; return the bytes for the client.

        Raises:
            ValueError: The upstream's answer cannot be read.
            RefusedSettings: It is an error that the same request would not get without some.
        """
        if self._inflate is not None:
            try:
                piece = self._inflate.decompress(piece, ANSWER_LIMIT)
            except zlib.error:
                raise ValueError("it cannot be decompressed") from None
            if self._inflate.unconsumed_tail:
                raise ValueError(f"it is longer than {ANSWER_LIMIT} bytes")
        if self._events is not None:
            return self._stream(self._events, piece, last)
        self._size += len(piece)
        if self._size > ANSWER_LIMIT:
            raise ValueError(f"it is longer than {ANSWER_LIMIT} bytes")
        self._pieces.append(piece)
        return self._whole(b"".join(self._pieces)) if last else b""

    def _whole(self, content: bytes) -> bytes:
        body: Any
        try:
            body = decoded(content)
        except ValueError:
            if self._status < 400:
                raise ValueError("it is not JSON") from None
            body = content.decode("utf-8", "replace")
        if self._status == 400:
            names = refused_settings(self.translation.request, body)
            if names:
                raise RefusedSettings(names)
        if self._status >= 400:
            return json_bytes(self.translation.error(body, self._status))
        return json_bytes(self.translation.answer(mapping(body), self._created))

    def _stream(self, translator: EventTranslator, piece: bytes, last: bool) -> bytes:
        events = []
        for data in self._parser.feed(piece):
            if data == b"[DONE]":
                events.extend(self._end(translator))
            else:
                try:
                    event = decoded(data)
                except ValueError:
                    raise ValueError("an event of its stream is not JSON") from None
                events.extend(translator.add(mapping(event)))
        if self._parser.skipped:
            raise ValueError("an event of its stream is too long")
        if last:
            events.extend(self._end(translator))
        written = b"".join(map(self._written, events))
        if last and not self.translation.named_events:
            written += b"data: [DONE]\n\n"
        return written

    def _end(self, translator: EventTranslator) -> list[dict[str, Any]]:
        if self._ended:
            return []
        self._ended = True
        return translator.end()

    def _written(self, event: dict[str, Any]) -> bytes:
        name = f"event: {event['type']}\n" if self.translation.named_events else ""
        return b"%bdata: %b\n\n" % (name.encode(), json_bytes(event))
