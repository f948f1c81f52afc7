"""Recognises generated files by the notice at their beginning."""

from __future__ import annotations

import re

_NOTICE = re.compile(
    r"@generated\b|\bauto-?generated\b"
    r"|\bgenerated\b.*\bdo not (edit|modify)|\bdo not (edit|modify)\b.*\bgenerated\b",
    re.IGNORECASE | re.DOTALL,
)


def generated_notice(text: str, comments: tuple[str, ...] = ("#",)) -> str:
    """The notice that a file is generated, from the comments in its first 20 lines; empty if none.

    Args:
        text: The file's text.
        comments: What comment lines begin with.
    """
    lines = text.splitlines()[:20]
    match = _NOTICE.search("\n".join(line for line in lines if line.lstrip().startswith(comments)))
    return match.group() if match else ""
