"""Opens a user's text file as UTF-8, and detects and reports any other encoding.

Nothing is replaced: bytes that are not text in the file's encoding come through as bytes that are
not UTF-8, so that a reader refuses the line that holds them, and only that.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

_PIECE = 1024 * 1024
_HEAD = 256 * 1024
_SAMPLE = 64 * 1024
"""Bytes of lines with non-ASCII characters from which an encoding is detected."""

_LINES = 100_000
"""Lines with non-ASCII characters that decide whether a file is damaged UTF-8."""

_CONTEXT = 1000
"""Bytes of a long line kept before such a character, as context for detection."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, with marks that begin with another mark first."""

_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
_UNDECODED = re.compile("[\udc80-\udcff]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


_KNOWN = [
    *(f"cp{number}" for number in range(1250, 1259)),
    *("cp932", "cp949", "gb18030", "big5", "euc_jp", "koi8_r", "mac_roman"),
]
"""Encodings that are tried: what Windows, the Mac and older Unix write. Of 62 files with one
sentence each, 60 are detected correctly with these, and 57 with all that Python has."""

_USUAL = "cp1252"
"""Taken where several encodings are equally likely: what Windows writes in the languages whose
texts are too short to distinguish them."""


_UNPACKING = (EOFError, zlib.error, gzip.BadGzipFile)


class Broken(OSError):
    """Compressed data cannot be decompressed to its end."""


class Encoding(NamedTuple):
    """The encoding of a file's text."""

    name: str
    """Python's name of the encoding."""
    mark: int = 0
    """Length of its byte order mark, in bytes."""

    @property
    def note(self) -> str:
        """A sentence for the user; empty for UTF-8, which is expected."""
        if self.name == "utf-8":
            return ""
        if self.name.startswith("utf-"):
            return f"The file is read as {self.name.upper()}."
        return (
            f"The file is not UTF-8; from its text, it is read as {self.name}. If that is wrong, "
            "convert it: iconv -f ENCODING -t UTF-8 FILE > OTHER."
        )


class TextFile(NamedTuple):
    """An open file."""

    stream: BinaryIO
    """Its text in UTF-8, without a byte order mark."""
    encoding: Encoding
    head: bytes
    """What the stream begins with."""

    def lines(self) -> io.TextIOWrapper:
        """The stream as text with its line ends; undecoded bytes are lone surrogates."""
        return io.TextIOWrapper(self.stream, "utf-8", errors="surrogateescape", newline="")


@contextmanager
def open_text(path: Path) -> Iterator[TextFile]:
    """Open a text file; a `.gz` file is decompressed.

    Raises:
        Broken: Compressed data ends too early.
        OSError: It cannot be opened or read.
    """
    try:
        with _opened(path) as file:
            encoding = encoding_of(file)
        with _utf8(path, encoding) as stream:
            head = stream.read(_HEAD)
        with _utf8(path, encoding) as stream:
            yield TextFile(stream, encoding, head)
    except _UNPACKING as error:
        why = f"the compressed data ends too early or is broken: {error}"
        raise Broken(why) from None


def read_text(path: Path) -> tuple[str, Encoding]:
    """The whole text of a small file, with undecoded bytes as lone surrogates.

    Raises:
        OSError: As for `open_text`.
    """
    with open_text(path) as file:
        return file.stream.read().decode("utf-8", "surrogateescape"), file.encoding


def is_undecoded(text: str) -> bool:
    """Whether the text has undecodable bytes."""
    return not text.isascii() and _UNDECODED.search(text) is not None


def encoding_of(file: BinaryIO) -> Encoding:
    """The encoding of a stream that can be read again.

    A mark decides, then zero bytes, then whether it is UTF-8. Otherwise a detector decides, unless
    half of the lines with non-ASCII characters are UTF-8, or nearly all such bytes: that file is
    UTF-8, and damaged in places.
    """
    head = next(_pieces(file), b"")
    for mark, name in _MARKS:
        if head.startswith(mark):
            return Encoding(name, len(mark))
    if name := _by_zeros(head):
        return Encoding(name)
    file.seek(0)
    if _is_utf8(file):
        return Encoding("utf-8")
    file.seek(0)
    return Encoding(_judged(file, head))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """A stream in pieces, up to any damage to compressed data; the next reader gets the error."""
    try:
        while piece := file.read(_PIECE):
            yield piece
    except _UNPACKING:
        return


def _is_utf8(file: BinaryIO) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in _pieces(file):
            decoder.decode(piece)
    except UnicodeDecodeError:
        return False
    return not decoder.getstate()[0]


def _judged(file: BinaryIO, head: bytes) -> str:
    """The encoding of data that is not entirely UTF-8."""
    valid = invalid = 0  # bytes of UTF-8, and others
    fine = broken = 0  # lines with the former only, and with the latter
    sample: list[bytes] = []
    size = 0
    for piece in _pieces(file):
        if b"\0" in piece:
            return "utf-8"  # no text: its lines are refused
        for line in () if piece.isascii() else piece.split(b"\n"):
            if line.isascii():
                continue
            multibyte = sum(map(len, _MULTIBYTE.findall(line)))
            wrong = len(_NOT_ASCII.findall(line)) - multibyte
            valid, invalid = valid + multibyte, invalid + wrong
            fine, broken = fine + (wrong == 0), broken + (wrong > 0)
            if size < _SAMPLE:
                sample.append(_around(line))
                size += len(sample[-1])
        if fine + broken > _LINES:
            break
    if fine >= broken or valid > 9 * invalid:
        return "utf-8"
    # The measured way: all of a small file, with the ASCII around its texts.
    is_small = len(head) <= _SAMPLE
    return _detected(head if is_small else b"\n".join(sample)[: 2 * _SAMPLE])


def _around(line: bytes) -> bytes:
    """A line; of a long line, what surrounds its first byte that is not ASCII."""
    first = _NOT_ASCII.search(line)
    assert first is not None
    begin = max(first.start() - _CONTEXT, 0)
    return line[begin : begin + _SAMPLE]


def _by_zeros(head: bytes) -> str:
    """UTF-16 or UTF-32 without a byte order mark: high bytes of ASCII characters are zero."""
    head = head[: min(len(head) // 4 * 4, 64 * 1024)] or head[:2]
    zeros = [head[place::4].count(0) for place in range(4)]
    units = len(head) / 4
    if zeros[3] == units and zeros[2] > units / 2:
        return "utf-32-le"
    if zeros[0] == units and zeros[1] > units / 2:
        return "utf-32-be"
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    for name, high in (("utf-16-le", odd), ("utf-16-be", even)):
        ends = head.decode(name, "replace").count("\n")
        # Texts between may have none: the start of the file or its line ends decide.
        begins = head[:2].decode(name, "replace").isascii()
        if high and (begins or (ends and 2 * ends >= head.count(b"\n"))):
            return name
    return ""


def _detected(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    matches = list(from_bytes(sample, cp_isolation=_KNOWN))
    if not matches:
        return "utf-8"  # no text: each of its lines is refused
    best = matches[0]
    equal = [
        name
        for match in matches
        if (match.chaos, match.coherence) == (best.chaos, best.coherence)
        for name in match.could_be_from_charset
    ]
    return _USUAL if _USUAL in equal else best.encoding


def _broken(error: UnicodeError) -> tuple[str, int]:
    """Replace undecodable text with a byte that is not UTF-8."""
    assert isinstance(error, UnicodeDecodeError)
    return "\udcff", error.end


_BROKEN = "ratchet-broken"
codecs.register_error(_BROKEN, _broken)


class _Recoded(io.RawIOBase):
    """The UTF-8 of a stream in another encoding."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(_BROKEN)
        self._ready = b""
        self._ended = False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill a buffer; 0 at the end."""
        view = memoryview(cast(bytearray, buffer))
        while not self._ready and not self._ended:
            piece = self._file.read(_PIECE)
            self._ended = not piece
            text = self._decoder.decode(piece, self._ended)
            self._ready = text.encode("utf-8", "surrogateescape")
        count = min(len(view), len(self._ready))
        view[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


@contextmanager
def _utf8(path: Path, encoding: Encoding) -> Iterator[BinaryIO]:
    with _opened(path) as file:
        file.seek(encoding.mark)
        if encoding.name == "utf-8":
            yield file
        else:
            yield cast(BinaryIO, io.BufferedReader(_Recoded(file, encoding.name)))


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")
