"""Parses a coach's answer: extracts the prompt and decides whether it may be evaluated."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable

import msgspec

from ratchet.learn.apo.placeholders import mended
from ratchet.learn.coach_prompts import declines
from ratchet.learn.length import longest
from ratchet.types import PromptTemplate

LEAST = 8
"""Minimum characters of a prompt; shorter ones count as empty."""

DECLINED = "The coach sees nothing to change."

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
    r"|as an ai\b|unfortunately,? i\b|i apologi[sz]e|i must decline)",
    re.IGNORECASE,
)


class EditAnswer(msgspec.Struct, frozen=True):
    """The result of parsing an answer."""

    template: PromptTemplate | None = None
    """The prompt to evaluate."""
    problem: str = ""
    """The fault, to be sent to the coach for repair; empty if there is a template."""
    final: bool = False
    """Whether a retry is pointless: the coach refused, or changed nothing."""
    unchanged: bool = False
    """Whether it is the prompt as it was."""
    declined: bool = False
    """Whether the coach answered that nothing should change."""


def read_answer(text: str, parent: PromptTemplate, source: PromptTemplate) -> EditAnswer:
    """The prompt in an answer, validated and repaired.

    Args:
        text: The answer.
        parent: The template to edit.
        source: The source's own template, the reference for language and length.
    """
    answer = text.strip()
    if not answer:
        return EditAnswer(problem="The answer is empty.")
    if declines(answer):
        return EditAnswer(problem=DECLINED, final=True, declined=True)
    if _REFUSAL.match(answer) and not _FENCE.search(answer) and len(answer) < 1_200:
        return EditAnswer(problem=f"The coach refused: {answer[:120]}", final=True)
    prompt = extracted(answer, parent)
    if len(prompt) < LEAST:
        return EditAnswer(problem="The answer has no prompt in it, or an emptied one.")
    if prompt.strip() == parent.text.strip():
        return EditAnswer(problem="The prompt is unchanged.", final=True, unchanged=True)
    other = language_changed(source.text, prompt)
    if other:
        return EditAnswer(
            problem=f"It changed the language of the prompt to {other}; it must stay."
        )
    limit = longest(source.text)
    if len(prompt) > limit:
        return EditAnswer(
            problem=f"It is {len(prompt)} characters long; {limit} are allowed. Keep what matters."
        )
    template, problem = mended(prompt, parent)
    if template is None:
        return EditAnswer(problem=problem)
    if template.text.strip() == parent.text.strip():
        return EditAnswer(problem="The prompt is unchanged.", final=True, unchanged=True)
    return EditAnswer(template=template)


def extracted(text: str, parent: PromptTemplate) -> str:
    """The prompt without its surroundings: fences, tags, introduction, closing remarks."""
    text = text.strip()
    tagged = _TAG.search(text)
    if tagged and not _is_part(tagged[0], parent):
        return _unquoted(tagged[2])
    fences = list(_FENCE.finditer(text))
    if fences and not _is_part("```", parent):
        # A prompt may contain fences itself: then use the outermost pair.
        whole = text[fences[0].start() : fences[-1].end()]
        if len(fences) > 1 and _INTRODUCTION.sub("", text).startswith(fences[0][0].lstrip()[:3]):
            inner = whole.split("\n", 1)[1].rsplit("\n", 1)[0]
            return max((inner, *(f[2] for f in fences)), key=_covers(parent))
        return max((f[2] for f in fences), key=len).strip("\n")
    if not fences and (cut := _OPEN.search(text)) and not _is_part("```", parent):
        return cut[2].strip("\n")  # the answer was truncated before its closing fence
    bare = _AFTERWORD.sub("", _INTRODUCTION.sub("", text))
    return _unquoted(bare.strip())


def _covers(parent: PromptTemplate) -> Callable[[str], tuple[int, int]]:
    """Sort key: number of placeholders present, then length."""

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


_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "English": "the of and to is in that you are for with if not this be or it an your must",
        "German": "der die das und ist nicht ein eine mit auf sie den dem zu wenn auch du für",
        "French": "le la les et est une des que pour dans vous pas sur avec du qui au ou si votre",
        "Spanish": "el la los las y es un una que para en con por no del al se su cada debe si",
        "Italian": "il lo gli e è una che per non con del della di se sono deve come un devi nel",
        "Portuguese": "o os as e é uma que para não com do da em se por deve como um você seu",
        "Dutch": "de het een en is niet dat voor met van op je als zijn moet ook geen bij te aan",
        "Polish": "i w nie na to jest się z do że jak jeśli musi dla ale oraz lub przez po od",
        "Swedish": "och att det är en som på inte för med av till den om du ett har eller ska kan",
        "Turkish": "ve bir bu için ile de da değil ne olarak en çok gibi her daha sonra eğer ya mi",
    }.items()
}
_LETTERS = re.compile(r"[^\W\d_]+")

_TOGETHER = {"HIRAGANA": "JAPANESE", "KATAKANA": "JAPANESE", "CJK": "JAPANESE"}
"""Scripts that are mixed in one text. Chinese counts as Japanese: both differ from all the
others."""

ENOUGH = 6
"""Minimum number of words to detect a language."""


def language(text: str) -> str | None:
    """The language or script of a text; None if it is too short or mixed."""
    words = _LETTERS.findall(text.lower())
    letters = Counter(_script(letter) for word in words for letter in word)
    total = letters.total()
    if not total:
        return None
    script, most = letters.most_common(1)[0]
    if script != "LATIN":
        return script.title() if most > 0.5 * total else None
    if len(words) < ENOUGH:
        return None
    shares = {
        name: sum(word in common for word in words) / len(words) for name, common in _WORDS.items()
    }
    best, second = sorted(shares, key=lambda name: -shares[name])[:2]
    clear = shares[best] >= 0.12 and shares[best] >= 1.4 * shares[second]
    return best if clear else None


def language_changed(before: str, after: str) -> str:
    """The language that a text was changed to; empty if unchanged or undetectable."""
    old, new = language(before), language(after)
    if old is None and new is not None and new not in _WORDS and _is_latin(before):
        old = "Latin"
    if old is None or new is None or old == new:
        return ""
    return "Chinese or Japanese" if new == "Japanese" else new


def _is_latin(text: str) -> bool:
    letters = [_script(letter) for word in _LETTERS.findall(text) for letter in word]
    return bool(letters) and letters.count("LATIN") > 0.8 * len(letters)


def _script(letter: str) -> str:
    script = unicodedata.name(letter, "UNKNOWN").split(" ", 1)[0]
    return _TOGETHER.get(script, script)
