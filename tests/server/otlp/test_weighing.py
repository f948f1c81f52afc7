"""Bodies of more messages than memory can hold are found out before they are parsed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ratchet.server.otlp import messages as otlp_messages
from ratchet.server.otlp.limits import MAX_MESSAGES, Malformed, TooMany
from ratchet.server.otlp.messages import decode_json, decode_protobuf
from ratchet.server.otlp.weighing import too_many
from tests.server.otlp.requests import as_json, pairs, request, span


def messages(message: object) -> int:
    """How many messages are inside of one."""
    count = 0
    for field, value in message.ListFields():  # type: ignore[attr-defined]
        if field.message_type is not None:
            inner = value if field.is_repeated else [value]
            count += sum(1 + messages(each) for each in inner)
    return count


MADE = request(
    span(
        {"a": "b", "list": ["x", [1, {"k": [None, {}]}]], "map": {"c": {"d": 1.5}}},
        parent_span_id=b"12345678",
        status={"code": 1, "message": "fine"},
        events=[{"name": "e", "time_unix_nano": 1, "attributes": pairs({"f": True})}],
        links=[{"trace_id": b"t" * 16, "span_id": b"s" * 8, "attributes": pairs({"g": 1})}],
    ),
    *(span({"text": "\n\x12*2" * 10}) for _ in range(20)),
    service__name="bot",
)


def test_every_message_counts_and_nothing_else() -> None:
    body, count = MADE.SerializeToString(), messages(MADE)
    assert count > 80
    assert not too_many(body, count)
    assert too_many(body, count - 1)


@given(st.binary(max_size=60))
def test_any_bytes_are_weighed(body: bytes) -> None:
    assume(not any(byte & 7 in (3, 4) for byte in body))  # groups are no part of OTLP
    try:
        too_many(body, 0)
    except Malformed:
        with pytest.raises(Malformed):
            decode_protobuf(body)


def test_a_body_of_millions_of_empty_messages_is_refused_unparsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = b"\x12\x02\x4a\x00"  # a span with an attribute

    class Unparsed:
        @staticmethod
        def FromString(_: bytes) -> None:
            raise AssertionError("it was parsed")

    monkeypatch.setattr(otlp_messages, "ExportTraceServiceRequest", Unparsed)
    monkeypatch.setattr(otlp_messages, "MAX_MESSAGES", 300_000)
    scope = part * 300_001
    body = _field(0x0A, _field(0x12, scope))
    with pytest.raises(TooMany):
        decode_protobuf(body)


def test_a_large_body_of_ordinary_spans_is_not_refused() -> None:
    text = 'Several lines\nof "ordinary" text, *2 and 22.\n' * 1000
    made = request(*(span({f"a{number}": text for number in range(20)}) for _ in range(10)))
    assert len(made.SerializeToString()) > 8_000_000
    for decoded in (decode_protobuf(made.SerializeToString()), decode_json(as_json(made))):
        assert len(decoded.resource_spans[0].scope_spans[0].spans) == 10


def test_a_body_of_millions_of_objects_is_refused() -> None:
    with pytest.raises(TooMany):
        decode_json(b'{"resourceSpans":[' + b"{}," * MAX_MESSAGES + b"{}]}")


def _field(tag: int, content: bytes) -> bytes:
    length, found = len(content), bytearray([tag])
    while length > 0x7F:
        found.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes((*found, length)) + content
