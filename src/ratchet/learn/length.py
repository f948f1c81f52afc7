"""The length that a rewritten prompt or function may have."""

from __future__ import annotations

MAX_TEXT_GROWTH = 4.0
"""Maximum length of a text, as a multiple of the source's own."""

ALWAYS_ALLOWED_TEXT = 4_000
"""Characters that a text may always have, so that short ones can grow."""


def longest(source: str, growth: float = MAX_TEXT_GROWTH) -> int:
    """Maximum length of a rewritten text, in characters.

    Args:
        source: The source's own text, not the parent's: repeated edits cannot grow without limit.
        growth: Maximum length, as a multiple of the source's; `ALWAYS_ALLOWED_TEXT` characters
            are allowed in any case.
    """
    return max(ALWAYS_ALLOWED_TEXT, int(growth * len(source)))
