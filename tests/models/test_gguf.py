"""The header of a GGUF file: what it says, and what is refused."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.gguf_files import gguf

from ratchet.models import ModelUnavailable
from ratchet.models.gguf import read_header


def written(folder: Path, data: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return path


def test_the_header_says_what_the_model_is_and_what_a_token_takes(tmp_path: Path) -> None:
    header = read_header(written(tmp_path, gguf()))
    assert (header.name, header.context) == ("Tiny", 512)
    # 2 layers, 2 heads of 16 numbers for keys and as many for values, 2 bytes each.
    assert header.cache_bytes_per_token == 2 * 2 * (16 + 16) * 2


def test_another_format_is_refused_by_its_first_letters(tmp_path: Path) -> None:
    for data in (b"", b"GG", b"PK\x03\x04 a zip archive"):
        with pytest.raises(ModelUnavailable, match="is not a GGUF file"):
            read_header(written(tmp_path, data))


def test_a_file_that_ends_before_its_last_tensor_is_truncated(tmp_path: Path) -> None:
    whole = gguf()
    for size in (4, 30, 200, len(whole) - 64 - 32):
        with pytest.raises(ModelUnavailable, match=f"truncated: its {size} bytes"):
            read_header(written(tmp_path, whole[:size]))


def test_a_header_that_announces_millions_of_entries_is_broken(tmp_path: Path) -> None:
    data = b"GGUF" + struct.pack("<IQQ", 3, 2**40, 1) + bytes(100)
    with pytest.raises(ModelUnavailable, match="announces 1099511627776 entries"):
        read_header(written(tmp_path, data))


@given(st.integers(4, 300), st.binary(min_size=1, max_size=8))
def test_any_damage_is_read_or_refused_with_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, at: int, damage: bytes
) -> None:
    whole = gguf()
    data = whole[:at] + damage + whole[at + len(damage) :]
    path = written(tmp_path_factory.mktemp("damaged"), data)
    with contextlib.suppress(ModelUnavailable):  # no other error
        assert read_header(path).cache_bytes_per_token >= 0
