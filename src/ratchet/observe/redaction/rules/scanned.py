"""A text with facts that several rules check before they search it."""

from __future__ import annotations

import string
from functools import cached_property

ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
DIGIT_SEPARATORS = b" .-()/_\t\n"
WORD_TABLE = bytes(97 if byte in ALPHANUMERIC else 32 for byte in range(256))
DIGIT_TABLE = bytes(48 if byte in b"0123456789" else 32 for byte in range(256))
KIND_TABLE = bytes(
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
    """A text, with facts about it that are computed on first use and cached."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def raw(self) -> bytes:
        """The text in UTF-8."""
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def small(self) -> str:
        """The text in lower case, with unchanged positions."""
        small = self.text.lower()
        return small if len(small) == len(self.text) else self.text.translate(_SMALL)

    @cached_property
    def _words(self) -> bytes:
        return self.raw.translate(WORD_TABLE)

    @cached_property
    def _digits(self) -> bytes:
        return self.raw.translate(DIGIT_TABLE, DIGIT_SEPARATORS)

    @cached_property
    def may_hold_account(self) -> bool:
        """Whether two letters precede two digits somewhere, as in an IBAN."""
        kinds = self.raw.translate(KIND_TABLE)
        return any(form in kinds for form in (b"aa00", b"aa-00", b"aa0-0", b"aa-0-0", b"aa--00"))

    def has_word(self, length: int) -> bool:
        """Whether the text has a word of at least this many letters and digits."""
        return b"a" * length in self._words

    def has_digits(self, count: int) -> bool:
        """Whether the text has this many digits in a row, apart from separators."""
        return b"0" * count in self._digits


_SMALL = {ord(capital): ord(capital) + 32 for capital in string.ascii_uppercase}
