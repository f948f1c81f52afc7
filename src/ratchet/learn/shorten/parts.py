"""Splits a prompt into parts that may be left out: paragraphs, list items, sentences.

What belongs together stays whole: a fence, an XML element, a table, a Jinja2 block, a placeholder.
The parts of a prompt, one after the other, are the prompt to the byte.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ratchet.learn.demonstrations import CHARACTERS_A_TOKEN
from ratchet.types import InputError, PromptTemplate

TextRange = tuple[int, int]


class PromptPart(NamedTuple):
    """A part of a prompt."""

    text: str
    after: str
    """The white space after it."""
    fixed: bool
    """Whether it must stay: it has a placeholder, a Jinja2 statement, or a tag around other parts.
    """

    @property
    def tokens(self) -> int:
        """Estimated number of tokens."""
        return tokens_in(self.text + self.after)


def tokens_in(text: str) -> int:
    """Estimated number of tokens of a text."""
    return math.ceil(len(text) / CHARACTERS_A_TOKEN)


def split_prompt(template: PromptTemplate) -> list[PromptPart]:
    """The parts of a prompt, in order."""
    text = template.text
    whole, tags = _whole_spans(template)
    edges = (edge for span in (*whole, *tags) for edge in _line_edges(text, span))
    closed = [*whole, *_slots(template)]
    cuts = {
        cut for cut in (*_cuts(text), *edges) if not any(start < cut < end for start, end in closed)
    }
    parts: list[PromptPart] = []
    for start, end in pairwise(sorted({0, *cuts, len(text)})):
        piece = text[start:end]
        kept = piece.rstrip()
        if not kept and parts:  # white space alone belongs to what stands before it
            parts[-1] = parts[-1]._replace(after=parts[-1].after + piece)
            continue
        is_tag = any(start <= left and right <= end for left, right in tags)
        parts.append(PromptPart(kept, piece[len(kept) :], is_tag or _is_needed(kept, template)))
    return parts


def joined(parts: Sequence[PromptPart], left_out: Collection[int] = ()) -> str:
    """A prompt without some of its parts; the widest white space at each gap is kept.

    Args:
        parts: All of its parts.
        left_out: Numbers of those that are left out.
    """
    pieces: list[str] = []
    gap = ""
    for number, part in enumerate(parts):
        if number not in left_out:
            pieces += [gap, part.text] if pieces else [part.text]
            gap = part.after
        elif pieces:
            gap = max(gap, part.after, key=lambda space: (space.count("\n"), len(space)))
    return "".join(pieces) + (parts[-1].after if pieces else "")


def _is_needed(text: str, template: PromptTemplate) -> bool:
    if template.engine == "plain":
        return False
    if template.engine == "jinja2" and "{%" in text:
        return True
    try:
        return bool(PromptTemplate(text, template.engine).placeholders)
    except InputError:
        return True


# What stays whole.

_FENCE = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,})[^\n]*\n(?:.*\n)*?[ \t]*(?P=mark)[ \t]*$", re.M)
_TABLE = re.compile(r"^[ \t]*\|.*\n(?:[ \t]*\|.*(?:\n|\Z))+", re.MULTILINE)
_TAG = re.compile(r"^[ \t]*<(?P<name>[A-Za-z][\w.-]*)(?:\s[^<>\n]*)?>", re.MULTILINE)
_FIELD = re.compile(r"\{\{|\}\}|\{(?:[^{}]|\{[^{}]*\})*\}")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_STATEMENT = re.compile(r"\{%[-+]?\s*(?P<name>\w+)(?P<rest>.*?)%\}", re.DOTALL)


def _whole_spans(template: PromptTemplate) -> tuple[list[TextRange], list[TextRange]]:
    """Elements that stay whole, and the tags of elements too large for that."""
    text = template.text
    whole = [match.span() for match in (*_FENCE.finditer(text), *_TABLE.finditer(text))]
    whole += _blocks(text) if template.engine == "jinja2" else []
    tags: list[TextRange] = []
    for opening, closing in _elements(text):
        if closing[1] - opening[0] > len(text) / 2:
            tags += [opening, closing]
        else:
            whole.append((opening[0], closing[1]))
    return whole, tags


def _elements(text: str) -> Iterator[tuple[TextRange, TextRange]]:
    """The opening and the closing tag of each XML element that begins a line."""
    for match in _TAG.finditer(text):
        name, depth = re.escape(match["name"]), 0
        for tag in re.finditer(rf"<(?P<close>/?){name}(?:\s[^<>\n]*)?>", text[match.start() :]):
            depth += -1 if tag["close"] else 1
            if not depth:
                start = match.start() + tag.start()
                yield match.span(), (start, match.start() + tag.end())
                break


def _blocks(text: str) -> Iterator[TextRange]:
    """Each outermost Jinja2 block, from its statement to its end."""
    begun: list[tuple[str, int]] = []
    for match in _STATEMENT.finditer(text):
        name = match["name"]
        if begun and name == f"end{begun[-1][0]}":
            _, start = begun.pop()
            if not begun:
                yield start, match.end()
        elif re.search(rf"\{{%[-+]?\s*end{name}\b", text[match.end() :]):
            begun.append((name, match.start()))


def _slots(template: PromptTemplate) -> list[TextRange]:
    """Placeholders and, in Jinja2, statements and comments: nothing is cut inside them."""
    if template.engine == "plain":
        return []
    pattern = _JINJA if template.engine == "jinja2" else _FIELD
    return [match.span() for match in pattern.finditer(template.text)]


def _line_edges(text: str, span: TextRange) -> Iterator[int]:
    """The start of a span's first line, and of the line after its last."""
    yield text.rfind("\n", 0, span[0] + 1) + 1 if span[0] else 0
    after = re.compile(r"\s*").match(text, span[1])
    yield after.end() if after else span[1]


# Where parts end.

_ITEM = r"[ \t]*(?:[-*+\u2022\u2013]|\(?\d{1,3}[.)]|\(?[a-z]\))[ \t]+\S"
_HEADING = r"[ \t]*\#{1,6}[ \t]"
_BEGINS = re.compile(rf"(?:{_ITEM}|{_HEADING})")
_OPEN, _CLOSE = "\"'(\\[*_`\u201c\u2018", "\"')\\]*_`\u201d\u2019"
_SENTENCE = re.compile(
    rf"[.!?\u2026][{_CLOSE}]*(?P<space>[ \t]+|[ \t]*\n[ \t]*)(?=[{_OPEN}]*[^\W_a-z]|[{{<])"
    r"|[\u3002\uff01\uff1f]"
)
"""The end of a sentence that is followed by another; in Chinese and Japanese, of any sentence."""


def _cuts(text: str) -> Iterator[int]:
    """Where parts may begin: after blank lines, at list items and headings, after sentences."""
    longest = max(map(len, text.split("\n")))
    start = 0
    in_item = False
    for paragraph in re.split(r"(\n[ \t]*\n\s*)", text):
        yield start
        lines = paragraph.split("\n")
        begin, block = start, start
        for number, line in enumerate(lines):
            is_new = bool(_BEGINS.match(line))
            after_heading = number > 0 and re.match(_HEADING, lines[number - 1]) is not None
            if is_new or after_heading or (number and _is_deliberate(lines[number - 1 :], longest)):
                if not in_item:
                    yield from _sentences(text, block, begin)
                yield begin
                block, in_item = begin, is_new
            begin += len(line) + 1
        if not in_item:
            yield from _sentences(text, block, start + len(paragraph))
        in_item = False
        start += len(paragraph)


def _is_deliberate(lines: Sequence[str], longest: int) -> bool:
    """Whether a line break is not wrapping: the next word would have fitted on the first line."""
    before, after = lines[0], lines[1]
    goes_on = before.rstrip().endswith(",") or after[:1].isspace() or after[:1].islower()
    if not before.strip() or not after.strip() or goes_on:
        return False
    return len(before.rstrip()) + 1 + len(after.split()[0]) <= longest


def _sentences(text: str, start: int, end: int) -> Iterator[int]:
    """Where sentences begin after others in a piece of the text."""
    for match in _SENTENCE.finditer(text, start, end):
        word = text[max(start, match.start() - MAX_SHORT_LENGTH) : match.start()].split()
        if not (match["space"] and _is_short((word or [""])[-1].lstrip(_OPEN))):
            yield match.end()


MAX_SHORT_LENGTH = 12
"""Characters before a period in which an abbreviation is looked for."""


def _is_short(word: str) -> bool:
    """Whether a period may end an abbreviation or a number: "e.g. John", "Dr. Doe", "1. Answer"."""
    return "." in word or word.isdigit() or (len(word) <= 3 and word.istitle())
