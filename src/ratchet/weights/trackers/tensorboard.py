"""Curves as TensorBoard's event files, which are written without TensorBoard.

The format is TFRecord (https://www.tensorflow.org/tutorials/load_data/tfrecord) of messages of
type `Event` (tensorboard/compat/proto/event.proto).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from ratchet.types import InputError
from ratchet.weights.trackers import RunCurves

VERSION = b"brain.Event:2"


def write(curves: RunCurves, folder: str) -> str:
    """Write curves into a folder of their own below TensorBoard's log folder.

    An earlier file of theirs is replaced.

    Raises:
        InputError: The folder cannot be written.
    """
    place = Path(folder, curves.name)
    content = event_file(curves.points, curves.changed_at)
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / "events.out.tfevents.0.ratchet").write_bytes(content)
    except OSError as error:
        raise InputError(f"{place} cannot be written: {error.strerror}.") from None
    return f"written for TensorBoard: {place}"


def event_file(events: Iterable[tuple[int, Mapping[str, float]]], wall_time: float) -> bytes:
    """The content of an event file.

    Args:
        events: Steps, from 0 on, with numbers by their tags.
        wall_time: Seconds since the epoch, of all events.
    """
    head = struct.pack("<Bd", 1 << 3 | 1, wall_time)
    records = [_record(head + _bytes(3, VERSION))]
    for step, numbers in events:
        values = b"".join(
            _bytes(1, _bytes(1, tag.encode()) + _number(number)) for tag, number in numbers.items()
        )
        records.append(_record(head + bytes([2 << 3]) + _varint(step) + _bytes(5, values)))
    return b"".join(records)


def crc32c(content: bytes) -> int:
    """The checksum of RFC 3720, with the polynomial of Castagnoli."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
        table.append(byte)
    return tuple(table)


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _checksum(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _bytes(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(content)) + content


def _number(number: float) -> bytes:
    """Field 2 of a value, a 32-bit float; values beyond its range become infinite."""
    try:
        return struct.pack("<Bf", 2 << 3 | 5, number)
    except OverflowError:
        return struct.pack("<Bf", 2 << 3 | 5, math.copysign(math.inf, number))


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
