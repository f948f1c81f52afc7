"""Reads what a safetensors file contains, and hashes it, without PyTorch.

The format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from ratchet.models.failure import ModelUnavailable

MAX_HEADER = 100_000_000
"""Bytes beyond which a header counts as broken, as the format says."""


class _Tensor(msgspec.Struct, frozen=True):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


ResultT = TypeVar("ResultT")

_header = msgspec.json.Decoder(dict[str, msgspec.Raw])
_tensor = msgspec.json.Decoder(_Tensor)


def hash_tensors(paths: Iterable[Path]) -> str:
    """SHA-256 of all tensors by name, type, shape and content, however they are split into files.

    Args:
        paths: Files in the safetensors format; together they have each name once.

    Raises:
        ModelUnavailable: A file cannot be read, is not a safetensors file, or is truncated.
    """
    tensors: dict[str, bytes] = {}
    for path in paths:
        tensors |= _digests(path)
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(msgspec.json.encode([name, tensors[name].hex()]))
    return digest.hexdigest()


def count_numbers(paths: Iterable[Path]) -> int:
    """Numbers in all tensors of these files together.

    Raises:
        ModelUnavailable: As `hash_tensors`.
    """
    return sum(
        math.prod(tensor.shape)
        for path in paths
        for tensor, _ in _tensors(path, lambda content: None).values()
    )


def _digests(path: Path) -> dict[str, bytes]:
    """A digest of each tensor in a file."""
    digests = {}
    for name, (tensor, content) in _tensors(
        path, lambda data: hashlib.sha256(data).digest()
    ).items():
        about = msgspec.json.encode([tensor.dtype, tensor.shape])
        digests[name] = hashlib.sha256(about + content).digest()
    return digests


def _tensors(
    path: Path, read: Callable[[memoryview], ResultT]
) -> dict[str, tuple[_Tensor, ResultT]]:
    """A file's header, and the bytes that are read of its tensors."""
    tensors: dict[str, tuple[_Tensor, ResultT]] = {}
    try:
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as data,
        ):
            size = int.from_bytes(data[:8], "little")
            if size > min(MAX_HEADER, len(data) - 8):
                raise _broken(path)
            for name, raw in _header.decode(bytes(data[8 : 8 + size])).items():
                if name == "__metadata__":
                    continue
                tensor = _tensor.decode(raw)
                begin, end = (8 + size + offset for offset in tensor.data_offsets)
                if not 8 + size <= begin <= end <= len(data):
                    raise _broken(path)
                with data[begin:end] as content:
                    tensors[name] = tensor, read(content)
    except OSError as error:
        raise ModelUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, msgspec.DecodeError):
        raise _broken(path) from None
    return tensors


def _broken(path: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path} is not a complete file in the safetensors format.",
        hint="Save or fetch it again.",
    )
