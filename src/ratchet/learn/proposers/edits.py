"""Parses a coach's answer: SEARCH/REPLACE blocks, fenced text, or a whole rewrite.

Models deviate from formats. A SEARCH block without an exact match is matched ignoring indentation
and blanks; a fence may be unclosed, or nested in a longer one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

BLOCK = re.compile(
    r"^[ \t]*<{5,9}[ \t]*SEARCH[^\n]*\n(.*?)^[ \t]*={5,9}[ \t]*\n(.*?)^[ \t]*>{5,9}[ \t]*REPLACE",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)

FENCE = re.compile(
    r"^([ \t]*)(`{3,}|~{3,})([\w+-]*)[^\n]*\n(.*?)(?:^\1\2[`~]*[ \t]*$|\Z)", re.M | re.S
)

TAGGED = re.compile(
    r"<(prompt|new_prompt|instructions?|template|code)>\s*\n?(.*?)\n?\s*</\1>", re.I | re.S
)

ALIKE = 0.9
"""Minimum similarity of a block to the lines that it is matched with."""


class Edit(msgspec.Struct, frozen=True):
    """One replacement."""

    search: str
    replace: str


def edits_in(answer: str) -> list[Edit]:
    """The SEARCH/REPLACE blocks of an answer, in order."""
    return [
        Edit(search.removesuffix("\n"), replace.removesuffix("\n"))
        for search, replace in BLOCK.findall(answer)
    ]


def apply_edits(text: str, edits: Sequence[Edit]) -> str | None:
    """The text with all edits applied; None if one has no match or no effect."""
    made = text
    for edit in edits:
        found = _replace(made, edit)
        if found is None:
            return None
        made = found
    return made if made != text else None


def whole_text(answer: str, languages: Sequence[str] = ()) -> str | None:
    """The complete text in an answer: its longest fenced block, or the text between tags.

    Args:
        answer: The coach's answer.
        languages: Preferred language marks of fences.
    """
    fences = [(mark.lower(), body) for _, _, mark, body in FENCE.findall(answer)]
    preferred = [body for mark, body in fences if mark in languages]
    others = [body for _, body in fences]
    tagged = [body for _, body in TAGGED.findall(answer)]
    for bodies in (preferred, others, tagged):
        filled = [str(body) for body in bodies if body.strip()]
        if filled:
            return max(filled, key=len).removesuffix("\n")
    return None


def _replace(text: str, edit: Edit) -> str | None:
    if not edit.search.strip():
        # An empty SEARCH: append.
        return f"{text.rstrip()}\n{edit.replace}\n" if edit.replace.strip() else None
    if text.count(edit.search) >= 1:
        return text.replace(edit.search, edit.replace, 1)
    stripped = edit.search.strip()
    if text.count(stripped) == 1:
        return text.replace(stripped, edit.replace.strip(), 1)
    return _replace_lines(text, edit)


def _replace_lines(text: str, edit: Edit) -> str | None:
    """Replace the lines that match the block ignoring blanks, or are most similar to it."""
    lines, wanted = text.split("\n"), edit.search.strip("\n").split("\n")
    squeezed = ["".join(line.split()) for line in lines]
    looked_for = ["".join(line.split()) for line in wanted]
    size = len(wanted)
    places = range(len(lines) - size + 1)
    at = next((i for i in places if squeezed[i : i + size] == looked_for), None)
    if at is None:
        goal = "\n".join(wanted)
        scored = [
            (SequenceMatcher(None, "\n".join(lines[i : i + size]), goal, autojunk=False).ratio(), i)
            for i in places
        ]
        best = max(scored, default=(0.0, 0))
        if best[0] < ALIKE:
            return None
        at = best[1]
    new = _indented(edit.replace.strip("\n").split("\n"), wanted[0], lines[at])
    return "\n".join([*lines[:at], *new, *lines[at + size :]])


def _indented(lines: Sequence[str], quoted: str, actual: str) -> list[str]:
    """Lines reindented by the offset of the block's first line."""
    off = _indent(actual) - _indent(quoted)
    if off >= 0:
        return [" " * off + line if line.strip() else line for line in lines]
    return [line[min(-off, _indent(line)) :] for line in lines]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
