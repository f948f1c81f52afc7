"""Messages of a stream of events, whatever the pieces in which their bytes come."""

from __future__ import annotations

import pytest

from ratchet.client.events import EventMessages

STREAM = (
    ": waiting\n\n"
    'id: 1\nevent: rollouts.finished\ndata: {"at": 1}\n\n'
    "event: nothing\n\n"
    ":\nevent:spans.stored\r\ndata:one\r\ndata: two – 2\r\nid: 2\r\n\r\n"
    "data: not yet ended\n"
).encode()


@pytest.mark.parametrize("size", [1, 2, 7, len(STREAM)])
def test_messages_are_read_with_their_kind_data_and_id(size: int) -> None:
    messages = EventMessages()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [one for piece in pieces for one in messages.feed(piece)] == [
        ("rollouts.finished", '{"at": 1}', "1"),
        ("spans.stored", "one\ntwo – 2", "2"),
    ]
    assert messages.feed(b"\n") == [("", "not yet ended", "")]
