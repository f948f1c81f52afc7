"""TensorBoard's event files."""

from __future__ import annotations

import struct

from ratchet.weights.trackers.tensorboard import crc32c, event_file


def test_the_checksum_is_that_of_the_standards_examples() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def test_a_file_has_a_record_of_its_version_and_one_for_each_step() -> None:
    content = event_file([(300, {"loss": 0.5})], 2.0)
    (length,) = struct.unpack("<Q", content[:8])
    time = b"\x09" + struct.pack("<d", 2.0)
    assert content[12 : 12 + length] == time + b"\x1a\x0dbrain.Event:2"
    value = b"\x0a\x04loss\x15" + struct.pack("<f", 0.5)
    summary = b"\x2a" + bytes([len(value) + 2]) + b"\x0a" + bytes([len(value)]) + value
    # The step 300 is a varint of two bytes.
    assert content[16 + length + 12 : -4] == time + b"\x10\xac\x02" + summary
