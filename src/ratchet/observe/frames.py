"""Frames: records as JSON, on disk and in memory until they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ratchet.observe.spool import SpoolFrame
from ratchet.types import Feedback, SpanRecord

Record = SpanRecord | Feedback
"""What leaves the process: a span, or a statement of feedback."""

FRAME_BYTES = 4 * 1024 * 1024
"""A longer batch is split."""


class _Batch(msgspec.Struct, frozen=True):
    """Content of a frame."""

    spans: list[SpanRecord] = []
    feedback: list[Feedback] = []


_decoder: msgspec.json.Decoder[_Batch | list[SpanRecord]] = msgspec.json.Decoder(
    _Batch | list[SpanRecord]
)
"""Frames of earlier versions hold a list of spans."""


def by_kind(records: Sequence[Record]) -> tuple[list[SpanRecord], list[Feedback]]:
    """Split records into spans and feedback, each in order."""
    spans = [record for record in records if isinstance(record, SpanRecord)]
    if len(spans) == len(records):
        return spans, []
    return spans, [record for record in records if isinstance(record, Feedback)]


def frame_of(record: Record) -> SpoolFrame:
    """A frame with one record."""
    return SpoolFrame(msgspec.json.encode(_Batch(*by_kind([record]))), 1)


def frames_of(records: Sequence[Record]) -> Iterator[SpoolFrame]:
    """Frames with these records, in order."""
    data = msgspec.json.encode(_Batch(*by_kind(records)))
    half = len(records) // 2
    if len(data) > FRAME_BYTES and half:
        yield from frames_of(records[:half])
        yield from frames_of(records[half:])
    elif records:
        yield SpoolFrame(data, len(records))


def records_of(frame: SpoolFrame) -> list[Record]:
    """The records of a frame; none if another version wrote it in another form."""
    try:
        batch = _decoder.decode(frame.data)
    except msgspec.MsgspecError:
        return []
    return [*batch.spans, *batch.feedback] if isinstance(batch, _Batch) else [*batch]
