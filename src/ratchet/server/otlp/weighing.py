"""Weighing: counts the messages in a protobuf body before it is parsed.

Two bytes are a message, and parsed it takes a hundred: a body within its limit could fill the
memory. So one that might hold too many is walked through, which takes no memory.
"""

from __future__ import annotations

from typing import TypeAlias

from ratchet.server.body import Content
from ratchet.server.otlp.limits import Malformed

_Message: TypeAlias = dict[int, "_Message"]
"""Messages inside a message, by field number."""

_any: _Message = {}
_pair: _Message = {2: _any}
_any |= {5: {1: _any}, 6: {1: _pair}}
_event: _Message = {3: _pair}
_link: _Message = {4: _pair}
_span: _Message = {9: _pair, 11: _event, 13: _link, 15: {}}
_resource: _Message = {1: _pair, 3: {}}
_scope_spans: _Message = {1: {3: _pair}, 2: _span}
_resource_spans: _Message = {1: _resource, 2: _scope_spans}
_request: _Message = {1: _resource_spans}

_LENGTH_DELIMITED = 2
_TAGS = bytes(number << 3 | _LENGTH_DELIMITED for number in (1, 2, 3, 4, 5, 6, 9, 11, 13, 15))
"""The first byte of each message inside another."""

_SKIPPED = {1: 8, 5: 4}
"""Bytes of a value, by its wire type."""

MAX_NESTING = 100
"""How deep messages may be nested; protobuf's own limit."""


def too_many(body: Content, limit: int) -> bool:
    """Whether a request holds more messages than `limit`, at any depth.

    Raises:
        Malformed: It is not protobuf.
    """
    # Each message begins with one of these bytes, and few others are these.
    if len(body) - len(body.translate(None, delete=_TAGS)) <= limit:
        return False
    count = 0
    # What is left to walk through: from, to, and what may be in it. Last in, first out, so that
    # there are never more of them than messages are deep.
    left = [(0, len(body), _request)]
    while left:
        at, end, inside = left.pop()
        while at < end:
            tag, at = _varint(body, at, end)
            kind = tag & 7
            if kind == _LENGTH_DELIMITED:
                length, at = _varint(body, at, end)
                if at + length > end:
                    raise Malformed("The body ends too early.")
                message = inside.get(tag >> 3)
                if message is not None:
                    count += 1
                    if count > limit:
                        return True
                    if message and length:
                        left.append((at + length, end, inside))
                        if len(left) > MAX_NESTING * 2:
                            raise Malformed("The body is nested too deeply.")
                        end, inside = at + length, message
                        continue
                at += length
            elif kind == 0:
                _, at = _varint(body, at, end)
            elif kind in _SKIPPED:
                at += _SKIPPED[kind]
            else:
                raise Malformed("The body is not an ExportTraceServiceRequest in protobuf.")
    return False


def _varint(body: Content, at: int, end: int) -> tuple[int, int]:
    """A varint, and its end."""
    number = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise Malformed("The body ends too early.")
