"""Reads what a coach answered: the prompt in it, and whether it may be tried at all."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from ratchet.learn.apo.language import changed
from ratchet.learn.apo.placeholders import mended
from ratchet.types import PromptTemplate

GROWTH = 3.0
"""How many times its parent's length an edit may have."""

ROOM = 1_500
"""Characters that an edit may have more than its parent in any case."""

MOST = 24_000
"""Characters that an edit has at most, unless the source's own prompt has more."""

LEAST = 8
"""Characters below which a prompt counts as emptied."""

_FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE
)
_OPEN = re.compile(r"^[ \t]*(`{3,})[^\n`]*\n(.*)\Z", re.DOTALL | re.MULTILINE)
_TAG = re.compile(
    r"<((?:new|improved|revised|updated|rewritten|final)?[_ -]?(?:prompt|instructions?|template))>"
    r"\s*(.*?)\s*</\1>",
    re.DOTALL | re.IGNORECASE,
)
_INTRODUCTION = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay|ok|absolutely|great|thank you|thanks)\b[^\n]{0,160}\n+"
    r"|(?:\W*(?:here(?:'s| is| are)|below is|this is|i(?:'ve| have)|the following is)\b[^\n]{0,200}"
    r":?\W*\n+)"
    r"|(?:\W*(?:new|improved|revised|updated|rewritten|final|edited)\s+(?:prompt|version|template)"
    r"\b[^\n]{0,40}:?\W*\n+))+",
    re.IGNORECASE,
)
_AFTERWORD = re.compile(
    r"\n+(?:\W*(?:let me know|i hope|this (?:version|prompt|revision|edit)|these changes|"
    r"the (?:changes|edits|main changes)|changes made|explanation|rationale|notes? on|"
    r"key changes|what (?:i|was) changed|would you like|feel free)\b.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_REFUSAL = re.compile(
    r"\A\W*(?:i(?:'m| am) (?:sorry|unable|not able)|sorry,|i (?:can(?:no|')t|cannot|won't|will not)"
    r"|as an ai\b|unfortunately,? i\b|i apologi[sz]e|i must decline|no changes? (?:is|are) needed)",
    re.IGNORECASE,
)


class Answer(msgspec.Struct, frozen=True):
    """What an answer comes to."""

    template: PromptTemplate | None = None
    """The prompt that may be tried."""
    problem: str = ""
    """What is wrong, for the coach that is asked to mend it; empty when there is a template."""
    final: bool = False
    """Whether asking again for the same would help nobody: it refused, or changed nothing."""


def read_answer(text: str, parent: PromptTemplate, source: PromptTemplate) -> Answer:
    """The prompt in an answer, checked and mended.

    Args:
        text: The answer.
        parent: The template that was to be edited.
        source: The source's own, whose language and length are the measure.
    """
    said = text.strip()
    if not said:
        return Answer(problem="The answer is empty.")
    if _REFUSAL.match(said) and not _FENCE.search(said) and len(said) < 1_200:
        return Answer(problem=f"The coach refused: {said[:120]}", final=True)
    prompt = extracted(said, parent)
    if len(prompt) < LEAST:
        return Answer(problem="The answer has no prompt in it, or an emptied one.")
    if prompt.strip() == parent.text.strip():
        return Answer(problem="The prompt is unchanged.", final=True)
    other = changed(source.text, prompt)
    if other:
        return Answer(problem=f"It changed the language of the prompt to {other}; it must stay.")
    limit = longest(parent, source)
    if len(prompt) > limit:
        return Answer(
            problem=f"It is {len(prompt)} characters long; {limit} are allowed. Keep what matters."
        )
    template, problem = mended(prompt, parent)
    if template is None:
        return Answer(problem=problem)
    if template.text.strip() == parent.text.strip():
        return Answer(problem="The prompt is unchanged.", final=True)
    return Answer(template=template)


def longest(parent: PromptTemplate, source: PromptTemplate) -> int:
    """Characters that an edit of a template may have."""
    own = len(parent.text)
    return min(max(int(own * GROWTH), own + ROOM), max(MOST, 2 * len(source.text)))


def extracted(text: str, parent: PromptTemplate) -> str:
    """The prompt without what stands around it: fences, tags, an introduction, an afterword."""
    text = text.strip()
    tagged = _TAG.search(text)
    if tagged and not _is_part(tagged[0], parent):
        return _unquoted(tagged[2])
    fences = list(_FENCE.finditer(text))
    if fences and not _is_part("```", parent):
        # A prompt may hold fences of its own: then the outermost pair is meant.
        whole = text[fences[0].start() : fences[-1].end()]
        if len(fences) > 1 and _INTRODUCTION.sub("", text).startswith(fences[0][0].lstrip()[:3]):
            inner = whole.split("\n", 1)[1].rsplit("\n", 1)[0]
            return max((inner, *(f[2] for f in fences)), key=_covers(parent))
        return max((f[2] for f in fences), key=len).strip("\n")
    if not fences and (cut := _OPEN.search(text)) and not _is_part("```", parent):
        return cut[2].strip("\n")  # the answer ended before its fence was closed
    bare = _AFTERWORD.sub("", _INTRODUCTION.sub("", text))
    return _unquoted(bare.strip())


def _covers(parent: PromptTemplate) -> Callable[[str], tuple[int, int]]:
    """Sorts by how many placeholders are there, then by length."""

    def rank(text: str) -> tuple[int, int]:
        return (sum(name in text for name in parent.placeholders), len(text))

    return rank


def _is_part(mark: str, parent: PromptTemplate) -> bool:
    return mark in parent.text


def _unquoted(text: str) -> str:
    for quote in ('"""', "'''", '"', "“"):
        end = "”" if quote == "“" else quote
        if len(text) > 2 * len(quote) and text.startswith(quote) and text.endswith(end):
            inner = text[len(quote) : -len(end)]
            if quote not in inner:
                return inner.strip("\n")
    return text
