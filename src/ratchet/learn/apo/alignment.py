"""Where a placeholder stood that an edit lost: the old text and the new one, aligned word by word.

What stands on both sides of it says where it belongs. Where the edit put a few other words in its
place, it takes that place again; where the edit left it out, it comes back with the words that went
with it. Where too much is different around it, nobody can say, and nothing is put anywhere.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

WORDS_FOR_ONE = 8
"""Words and signs that may stand where a placeholder stood, at most."""

WORDS_WITH_ONE = 2
"""Words and signs beside the placeholder that may be replaced together with it, at most."""

MOST = 200
"""Characters that come back with a placeholder, at most."""

ALIKE = 0.6
"""Share of a line's words from which on another one that has them says the same."""

ANCHOR = 2
"""Words beside a place that both texts have, by which the place is known."""

FEW = 4
"""Words of a line below which that says nothing."""

_TOKEN = {
    "f-string": re.compile(r"\{\{|\}\}|\{[^{}\n]+\}|\w+|[^\w\s]"),
    "jinja2": re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\w+|[^\w\s]"),
}


class _Span(NamedTuple):
    start: int
    end: int


def put_back(text: str, old: str, name: str, engine: str) -> str:
    """An edited text with a placeholder in the place where it stood; empty where that is not plain.

    Args:
        text: The edit, without the placeholder.
        old: The text that was edited.
        name: The placeholder's.
        engine: Of the template.
    """
    was, now = _spans(old, engine), _spans(text, engine)
    before, after = ([whole[s.start : s.end] for s in spans] for whole, spans in
                     ((old, was), (text, now)))  # fmt: skip
    places = [n for n, token in enumerate(before) if _is(token, name, engine)]
    if len(places) != 1:
        return ""
    place = places[0]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if not i <= place < i_end:
            continue
        if not (
            _is_anchor(before, i - 1, after, j - 1, -1)
            or _is_anchor(before, i_end, after, j_end, 1)
        ):
            return ""
        if tag == "replace":
            start, end = now[j].start, now[j_end - 1].end
            gone = old[was[i].start : was[i_end - 1].end]
            others = [n for n in range(j, j_end) if _is_placeholder(after[n], engine)]
            if len(others) == 1:  # it was only called otherwise
                renamed = now[others[0]]
                return text[: renamed.start] + before[place] + text[renamed.end :]
            few = i_end - i <= 1 + WORDS_WITH_ONE and j_end - j <= WORDS_FOR_ONE
            if few and "\n" not in gone and "\n" not in text[start:end]:
                return text[:start] + gone + text[end:]
        if tag == "delete":
            return _inserted(text, old, now, was, (i, i_end), place, j)
        return ""
    return ""


def is_reworded(line: str, text: str) -> bool:
    """Whether some line of a text says nearly the same: to add the line would say it twice."""
    words = _words(line)
    if len(words) < FEW:
        return False
    return any(
        len(words & _words(other)) >= ALIKE * len(words) for other in text.splitlines() if other
    )


def _is_anchor(before: list[str], i: int, after: list[str], j: int, step: int) -> bool:
    """Whether both texts go on with the same words, going away from a place."""
    words = 0
    while 0 <= i < len(before) and 0 <= j < len(after) and before[i] == after[j]:
        words += before[i][0].isalnum()
        i, j = i + step, j + step
    return words >= ANCHOR


def _inserted(
    text: str,
    old: str,
    now: list[_Span],
    was: list[_Span],
    gone: tuple[int, int],
    place: int,
    at: int,
) -> str:
    """The text with what was left out: of several lines, the one that held the placeholder."""
    first, last = gone
    while "\n" in old[was[first].end : was[place].start]:
        first += 1
    while "\n" in old[was[place].end : was[last - 1].start]:
        last -= 1
    if at:  # behind the word that it stood behind, with the white space between them
        piece = old[was[first - 1].end if first else 0 : was[last - 1].end]
        position = now[at - 1].end
    else:
        piece = old[was[first].start : was[last].start if last < len(was) else len(old)]
        position = now[0].start if now else 0
    if len(piece) > MOST:
        return ""
    rest = text[position:]
    if at and re.match(r"[ \t]+[.,;:!?)]", rest):
        rest = rest.lstrip(" \t")
    return text[:position] + piece + rest


def _spans(text: str, engine: str) -> list[_Span]:
    return [_Span(*found.span()) for found in _TOKEN[engine].finditer(text)]


def _is(token: str, name: str, engine: str) -> bool:
    return _is_placeholder(token, engine) and bool(
        re.match(r"\{+-?\s*" + re.escape(name) + r"\b", token)
    )


def _is_placeholder(token: str, engine: str) -> bool:
    if engine == "jinja2":
        return token.startswith("{{") and token.endswith("}}")
    return len(token) > 2 and token.startswith("{") and token.endswith("}")


def _words(line: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"\{[^{}]*\}", " ", line.lower())))
