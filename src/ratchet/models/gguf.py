"""Reads a GGUF file's header: what the model is, where its tensors are, whether it is complete.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import msgspec

from ratchet.models.failure import ModelUnavailable

MAGIC, VERSIONS = b"GGUF", (2, 3)

MAX_ENTRIES = 1_000_000
"""Metadata entries or tensors beyond which a header counts as broken."""

MAX_DIMENSIONS = 4
"""Dimensions that a tensor can have (`GGML_MAX_DIMS`)."""

ALIGNMENT = 32
"""Bytes to which tensors are aligned, unless the metadata says otherwise."""

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?",
    10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip


class GgufHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What the header of a GGUF file says about the model."""

    name: str
    """Name given by the model's makers; empty if absent."""
    context: int
    """Tokens of context that the model was trained for; 0 if absent."""
    cache_bytes_per_token: int
    """Bytes that a token of a conversation takes in the key-value cache, at 16 bits per number."""
    template: str
    """How messages and tools become a prompt, as Jinja; empty if absent."""


class GgufTensor(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tensor is in a GGUF file."""

    shape: tuple[int, ...]
    """As in PyTorch: the last dimension is contiguous."""
    type: int
    """Number of its ggml type."""
    offset: int
    """Position of its first byte in the file."""


class GgufContents(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a GGUF file says except the numbers in its tensors."""

    about: dict[str, Any]
    """Metadata by key, such as `llama.block_count`; arrays are lists."""
    tensors: dict[str, GgufTensor]
    """Tensors by name, such as `blk.0.attn_q.weight`."""


def read_header(path: Path) -> GgufHeader:
    """Read the header of a GGUF file, and check that its tensors lie within the file.

    Raises:
        ModelUnavailable: The file cannot be read, is of another format or version, or is truncated.
    """
    return _header(_parse(path, arrays=False).about)


def read_contents(path: Path) -> GgufContents:
    """Read all metadata, including the vocabulary, and where each tensor is.

    Raises:
        ModelUnavailable: As `read_header`.
    """
    return _parse(path, arrays=True)


def _parse(path: Path, *, arrays: bool) -> GgufContents:
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ModelUnavailable(
                    f"{path} is not a GGUF file: it does not begin with the letters GGUF.",
                    hint="Name a model in llama.cpp's format (GGUF), or convert this one to it.",
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _read(path, data, arrays)
    except OSError as error:
        raise ModelUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    except (struct.error, EOFError):
        raise _truncated(path) from None


def _read(path: Path, data: mmap.mmap, arrays: bool) -> GgufContents:
    cursor = _Cursor(data, len(MAGIC), arrays)
    version = cursor.number("<I")
    if version not in VERSIONS:
        raise ModelUnavailable(
            f"{path} has version {version} of GGUF; only versions 2 and 3, little-endian, can be "
            "read.",
            hint="Convert it with the tools of a newer llama.cpp.",
        )
    tensors, entries = cursor.number("<Q"), cursor.number("<Q")
    if max(tensors, entries) > MAX_ENTRIES:
        raise ModelUnavailable(
            f"The header of {path} is broken: it announces {max(tensors, entries)} entries.",
            hint="Fetch the file again.",
        )
    about: dict[str, Any] = {}
    for _ in range(entries):
        key = cursor.text()
        about[key] = cursor.value(cursor.number("<I"), path)
    infos: dict[str, tuple[tuple[int, ...], int, int]] = {}
    for _ in range(tensors):
        name, dimensions = cursor.text(), cursor.number("<I")
        if dimensions > MAX_DIMENSIONS:
            raise EOFError
        shape = tuple(cursor.number("<Q") for _ in range(dimensions))[::-1]
        infos[name] = shape, cursor.number("<I"), cursor.number("<Q")
    # Only where the last tensor begins is known here; whoever reads it knows where it ends.
    if cursor.at + max((offset for *_, offset in infos.values()), default=0) >= len(data):
        raise _truncated(path)
    alignment = about.get("general.alignment")
    step = alignment if isinstance(alignment, int) and alignment > 0 else ALIGNMENT
    begin = -(-cursor.at // step) * step
    return GgufContents(
        about=about,
        tensors={
            name: GgufTensor(shape=shape, type=kind, offset=begin + offset)
            for name, (shape, kind, offset) in infos.items()
        },
    )


def _header(about: dict[str, Any]) -> GgufHeader:
    kind = about.get("general.architecture", "")

    def count(key: str, default: int = 0) -> int:
        value = about.get(f"{kind}.{key}")
        return value if isinstance(value, int) else default

    heads = count("attention.head_count", 1) or 1
    width = count("embedding_length") // heads
    per_layer = count("attention.head_count_kv", heads) * (
        count("attention.key_length", width) + count("attention.value_length", width)
    )

    def text(key: str) -> str:
        value = about.get(key)
        return value if isinstance(value, str) else ""

    return GgufHeader(
        name=text("general.name"),
        context=count("context_length"),
        cache_bytes_per_token=2 * count("block_count") * per_layer,
        template=text("tokenizer.chat_template"),
    )


def _truncated(path: Path) -> ModelUnavailable:
    return ModelUnavailable(
        f"{path} is truncated: its {path.stat().st_size} bytes end before its last tensor begins.",
        hint="Fetch the file again.",
    )


class _Cursor:
    """Reads the header's values, one after another."""

    def __init__(self, data: mmap.mmap, at: int, arrays: bool) -> None:
        self._data = data
        self._arrays = arrays
        self.at = at

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self) -> str:
        size = self.number("<Q")
        begin = self.at
        self.skip(size)
        return self._data[begin : self.at].decode("utf-8", "replace")

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._data):
            raise EOFError

    def value(self, kind: int, path: Path) -> Any:
        """A value of the metadata; an array, such as the vocabulary, is skipped unless wanted."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            kind, count = self.number("<I"), self.number("<Q")
            if kind in _SCALARS:
                form, begin = _SCALARS[kind], self.at
                self.skip(count * struct.calcsize(form))
                if not self._arrays:
                    return None
                return list(struct.unpack_from(f"<{count}{form[1]}", self._data, begin))
            if kind == _STRING:
                texts = []
                for _ in range(count):
                    if self._arrays:
                        texts.append(self.text())
                    else:
                        self.skip(self.number("<Q"))
                return texts if self._arrays else None
        raise ModelUnavailable(
            f"The header of {path} is broken: it has a value of the unknown type {kind}.",
            hint="Fetch the file again.",
        )
