"""Marks of redaction in recorded prompts, replaced by what the agent's own source has there.

A prompt of the source may hold an address or a number of its owner's, which is redacted in what is
recorded of a call. With a mark in it, the prompt would never be found in what the agent sends. A
value that only a user gave is not in the source, and stays redacted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ratchet.observe.redaction import MARK_START, Redactor
from ratchet.source.files import own_files
from ratchet.types import Span

MAX_BYTES = 200_000
"""Size of the largest file that is searched."""

CONTEXT = 24
"""Characters before and after a value that have to agree, as far as there are so many."""

_MARK = re.compile(rf"{re.escape(MARK_START)}[^\]\s]{{1,60}}\]")
_PROMPTS = ("gen_ai.system_instructions", "gen_ai.input.messages")


class _OwnValue(NamedTuple):
    """A text of the source that redaction removes, with the rest of its line."""

    before: str
    text: str
    after: str


def with_own_values(spans: Iterable[Span], root: Path, redactor: Redactor) -> list[Span]:
    """The spans, with the marks in their prompts replaced where the source has that very place.

    Args:
        spans: Recorded spans.
        root: The root of the agent's repository.
        redactor: What redacted them.
    """
    spans = list(spans)
    marked = [key for span in spans for key in _PROMPTS if _is_marked(span.attributes.get(key))]
    if not marked:
        return spans
    own: defaultdict[str, list[_OwnValue]] = defaultdict(list)
    for file in own_files(root):
        for mark, value in _removed_from(file, redactor):
            own[mark].append(value)

    def restored(value: Any) -> Any:
        if isinstance(value, str):
            return _restored(value, own)
        if isinstance(value, list):
            return [restored(part) for part in value]
        if isinstance(value, dict):
            return {key: restored(part) for key, part in value.items()}
        return value

    def with_prompts(span: Span) -> Span:
        changed = {
            key: restored(_parsed(span.attributes[key]))
            for key in _PROMPTS
            if _is_marked(span.attributes.get(key))
        }
        attributes = {**span.attributes, **changed}
        return msgspec.structs.replace(span, attributes=attributes) if changed else span

    return [with_prompts(span) for span in spans]


def _is_marked(value: Any) -> bool:
    return MARK_START in (value if isinstance(value, str) else repr(value))


def _parsed(value: Any) -> Any:
    """The messages of an attribute, which may be JSON text."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, RecursionError):
        return value


def _removed_from(file: Path, redactor: Redactor) -> Iterator[tuple[str, _OwnValue]]:
    """What redaction removes from a file, by its mark."""
    try:
        text = file.read_text() if file.stat().st_size <= MAX_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return
    for mark, values in redactor.removed(text).items():
        for value in values - {mark}:
            for found in re.finditer(re.escape(value), text):
                line = text.rfind("\n", 0, found.start()) + 1
                end = text.find("\n", found.end())
                before = text[line : found.start()].rpartition("}")[2]
                after = text[found.end() : end if end >= 0 else len(text)].partition("{")[0]
                yield mark, _OwnValue(before, value, after)


def _restored(text: str, own: dict[str, list[_OwnValue]]) -> str:
    """A recorded text with the marks replaced for which the source has one value."""
    pieces, last = [], 0
    marks = list(_MARK.finditer(text))
    for number, mark in enumerate(marks):
        following = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        before = text[last : mark.start()].rpartition("\n")[2]
        after = text[mark.end() : following].partition("\n")[0]
        values = {
            value.text
            for value in own.get(mark[0], ())
            if _agree(value.before[::-1], before[::-1]) and _agree(value.after, after)
        }
        pieces += [text[last : mark.start()], values.pop() if len(values) == 1 else mark[0]]
        last = mark.end()
    return "".join([*pieces, text[last:]])


def _agree(left: str, right: str) -> bool:
    size = min(len(left), len(right), CONTEXT)
    return left[:size] == right[:size]
