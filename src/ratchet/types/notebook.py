"""How nouns look in a notebook: a table of their fields, as text that is never markup."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from ratchet.types.wording import counted

VALUE_LIMIT = 2_000
"""Maximum length of a value, in characters; the rest is cut off, with a note."""


def table_html(title: str, values: Mapping[str, Any]) -> str:
    """A table as HTML, self-contained; empty values are left out.

    Args:
        title: Its caption.
        values: Value by name, converted with `str`.
    """
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left;white-space:pre-wrap">{escape(_cut(str(value)))}</td></tr>'
        for name, value in values.items()
        if value not in ("", None, (), [], {})
    )
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def _cut(text: str) -> str:
    if len(text) <= VALUE_LIMIT:
        return text
    return f"{text[:VALUE_LIMIT]} … ({counted(len(text) - VALUE_LIMIT, 'more character')})"
