"""Sight: a text, and what several rules want to know of it before they look closer."""

from __future__ import annotations

import string
from functools import cached_property

ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
SEPARATORS = b" .-()/_\t\n"
WORDS = bytes(97 if byte in ALPHANUMERIC else 32 for byte in range(256))
DIGITS = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
KINDS = bytes(
    48
    if byte in b"0123456789"
    else 97
    if byte in string.ascii_letters.encode()
    else 45
    if byte in b" -."
    else 32
    for byte in range(256)
)


class ScannedText:
    """A text, and facts about it that are found out when they are first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def raw(self) -> bytes:
        """As bytes."""
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def small(self) -> str:
        """In small letters, each where it is in the text."""
        small = self.text.lower()
        return small if len(small) == len(self.text) else self.text.translate(_SMALL)

    @cached_property
    def _words(self) -> bytes:
        return self.raw.translate(WORDS)

    @cached_property
    def _digits(self) -> bytes:
        return self.raw.translate(DIGITS, SEPARATORS)

    @cached_property
    def may_hold_account(self) -> bool:
        """Whether two letters stand before two digits somewhere."""
        kinds = self.raw.translate(KINDS)
        return any(form in kinds for form in (b"aa00", b"aa-00", b"aa0-0", b"aa-0-0", b"aa--00"))

    def has_word(self, length: int) -> bool:
        """Whether so many letters and digits stand in a row."""
        return b"a" * length in self._words

    def has_digits(self, count: int) -> bool:
        """Whether so many digits stand in a row, with separators between them or not."""
        return b"0" * count in self._digits


_SMALL = {ord(capital): ord(capital) + 32 for capital in string.ascii_uppercase}
