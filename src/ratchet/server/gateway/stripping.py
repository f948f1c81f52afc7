"""Removes from a response what only the gateway asked for, so that the agent sees the usual one."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ratchet._asgi import HeaderList
from ratchet.observe.model_apis.engine_tokens import EXTRA_CHOICE_FIELDS, EXTRA_FIELDS
from ratchet.server.gateway.sse import EVENT_LIMIT

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_choices = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_encode = msgspec.json.Encoder().encode
_NULL = msgspec.Raw(b"null")
_CHANGED = (b"content-length", b"content-encoding", b"content-md5", b"digest", b"etag")


class ResponseStripper:
    """Removes token ids and log-probabilities from one response, streamed or not.

    What it cannot read, it passes on as it is.

    Args:
        request: The client's request: what it asked for stays.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._ids = bool(request.get("return_token_ids"))
        self._logprobs = request.get("logprobs") not in (None, False)
        self._passes = self._ids and self._logprobs
        self._streams = False
        self._inflate: Any = None
        self._rest: list[bytes] = []
        self._size = 0

    def begin(self, status: int, headers: HeaderList) -> HeaderList:
        """Take the head of the response; return the headers for the client."""
        by_name = dict(headers)
        encoding = by_name.get(b"content-encoding", b"").strip().lower()
        if status >= 400 or encoding not in (b"", b"identity", b"gzip", b"deflate"):
            self._passes = True
        if self._passes:
            return headers
        if encoding in (b"gzip", b"deflate"):
            self._inflate = zlib.decompressobj(47)  # detect a gzip or zlib header
        self._streams = by_name.get(b"content-type", b"").lower().startswith(b"text/event-stream")
        return [(name, value) for name, value in headers if name not in _CHANGED]

    def feed(self, piece: bytes, last: bool) -> bytes:
        """Process the next bytes; return the bytes for the client.

        Raises:
            ValueError: It cannot be decompressed.
        """
        if self._inflate is not None:
            try:
                piece = self._inflate.decompress(piece)
            except zlib.error as error:
                raise ValueError("The response cannot be decompressed.") from error
        if self._passes:
            return piece
        self._size += len(piece)
        if self._streams:
            *lines, partial = b"".join((*self._rest, piece)).split(b"\n")
            if not last:
                self._rest, self._size = [partial], len(partial)
                return self._unless_too_long(b"".join(self._line(line) + b"\n" for line in lines))
            return b"\n".join(self._line(line) for line in (*lines, partial))
        self._rest.append(piece)
        if last:
            return self._stripped(b"".join(self._rest))
        return self._unless_too_long(b"")

    def _unless_too_long(self, ready: bytes) -> bytes:
        if self._size <= EVENT_LIMIT:
            return ready
        self._passes = True
        ready, self._rest = b"".join((ready, *self._rest)), []
        return ready

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:"):
            return line
        data = line[5:].strip()
        changed = self._stripped(data)
        return line if changed is data else b"data: " + changed

    def _stripped(self, data: bytes) -> bytes:
        try:
            response = _objects(data)
            choices = _choices(response["choices"]) if "choices" in response else []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return data
        changed = False
        if not self._ids:
            changed = _without(response, EXTRA_FIELDS)
            for choice in choices:
                changed |= _without(choice, EXTRA_CHOICE_FIELDS)
        if not self._logprobs:
            for choice in choices:
                if choice.get("logprobs", _NULL) != _NULL:
                    choice["logprobs"] = _NULL
                    changed = True
        if not changed:
            return data
        if choices:
            response["choices"] = msgspec.Raw(_encode(choices))
        return _encode(response)


def _without(fields: dict[str, msgspec.Raw], names: Sequence[str]) -> bool:
    """Remove fields; return whether there was one."""
    present = [name for name in names if name in fields]
    for name in present:
        del fields[name]
    return bool(present)
