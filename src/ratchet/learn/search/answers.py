"""Reads a coach's answer: the new text between its fences, the labels it doubts, or a refusal.

What stands between the fences is taken to the byte. Nothing is guessed at: where the fences do not
balance, there is no text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

import msgspec

from ratchet.learn.coach_prompts import declines
from ratchet.learn.length import longest
from ratchet.types.wording import counted

MIN_PROMPT_CHARACTERS = 8
"""Minimum length of a prompt, in characters; shorter ones count as empty."""

_LABEL = re.compile(r"^\W*LABEL\?\W+task\s+#?(\d+)\s*[:.-]\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})([^\n`]*)$")


class AnswerParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an answer."""

    text: str | None = None
    """The new text, to the byte; None if there is none."""
    problem: str = ""
    """Why there is no text, as a sentence; empty if the coach declined."""
    declined: str = ""
    """Why the coach would change nothing, in its own words."""
    said: str = ""
    """The first sentence outside the fences."""
    doubts: tuple[tuple[int, str], ...] = ()
    """Tasks whose expected answers look wrong to the coach, by number, each with the reason."""


def parts_of(answer: str, fence: str) -> AnswerParts:
    """The parts of an answer.

    Args:
        answer: What the coach said.
        fence: The fence that the text was asked for in. A shorter one is understood where it is
            the only pair.
    """
    lines = answer.split("\n")
    marks = [(n, m[1]) for n, line in enumerate(lines) if (m := _FENCE.match(line.rstrip("\r")))]
    fences = [number for number, mark in marks if len(mark) >= len(fence) and mark[0] == "`"]
    outside = answer
    text, problem = None, ""
    if len(fences) == 2 or (not fences and len(marks) == 2):
        first, last = fences or [number for number, _ in marks]
        text = "\n".join(lines[first + 1 : last])
        outside = "\n".join([*lines[:first], *lines[last + 1 :]])
    elif fences or marks:
        what = f"{counted(len(fences) or len(marks), 'line')} of {len(fence)} or more backticks"
        problem = f"The answer has {what if fences else 'several fences'}; one pair is needed."
        outside = "\n".join(lines[: (fences or [marks[0][0]])[0]])
    else:
        problem = f"The answer has no text between two lines of {fence}."
    doubts = tuple((int(number), why.strip()) for number, why in _LABEL.findall(outside))
    prose = _LABEL.sub("", outside).strip()
    if text is None and declines(prose):
        words = " ".join(prose.split())
        return AnswerParts(declined=words, doubts=doubts)
    if not answer.strip():
        problem = "The answer is empty."
    return AnswerParts(text=text, problem=problem, said=_first_sentence(prose), doubts=doubts)


def whole_answer(answer: str) -> AnswerParts:
    """The parts of an answer to a plain request, which is the new text and nothing else.

    Fences around most of it are not part of the text, nor is what stands outside of them.
    """
    lines = answer.strip().split("\n")
    marks = [number for number, line in enumerate(lines) if _FENCE.match(line.rstrip("\r"))]
    if not answer.strip():
        return AnswerParts(problem="The answer is empty.")
    if declines(answer):
        return AnswerParts(
            problem="The answer is not a prompt: it says that nothing should change."
        )
    if len(marks) not in (0, 2):
        count = counted(len(marks), "line")
        return AnswerParts(
            problem=f"The answer has {count} of backticks; one pair at most is clear."
        )
    if marks:
        fenced = "\n".join(lines[marks[0] + 1 : marks[1]])
        if len(fenced) > len(answer) / 2:
            return AnswerParts(text=fenced)
    return AnswerParts(text="\n".join(lines))


def fault_of(text: str, parent: str, source: str, answers: Iterable[str], max_growth: float) -> str:
    """Why a text is not a new version of a prompt, checked before it costs a rollout; empty if it
    may be.

    Args:
        text: The text.
        parent: The prompt that was to be rewritten.
        source: The source's own prompt, the measure of length and language.
        answers: Answers to tasks: expected ones, and those of the agent.
        max_growth: Maximum length, as a multiple of the source's.
    """
    if len(text.strip()) < MIN_PROMPT_CHARACTERS:
        return "The answer contains no prompt, or an empty one."
    if _is_answer(text, parent, answers):
        return "The coach answered a task instead of rewriting the prompt."
    language = language_changed(source, text)
    if language:
        return f"It changed the language of the prompt to {language}; keep the language."
    limit = longest(source, max_growth)
    if len(text) > limit:
        return f"It has {counted(len(text), 'character')}; at most {limit} are allowed."
    return ""


def _is_answer(text: str, parent: str, answers: Iterable[str]) -> bool:
    """Whether a text is an answer to a task: closer to one of the answers than to any prompt.

    Almost all of its words are those of one answer, and the prompt has fewer of them.
    """
    words = set(_TERMS.findall(text.lower()))
    if not words:
        return True
    in_parent = len(words & set(_TERMS.findall(parent.lower())))
    for answer in answers:
        shared = len(words & set(_TERMS.findall(answer.lower())))
        if shared >= ALMOST_ALL * len(words) and shared > in_parent:
            return True
    return _is_data(text) and not _is_data(parent)


ALMOST_ALL = 0.8
"""Share of a text's words found in an answer from which on it counts as such an answer."""

_TERMS = re.compile(r"\w+")


def _is_data(text: str) -> bool:
    """Whether a text is nothing but a JSON object or list."""
    try:
        return isinstance(msgspec.json.decode(text.strip()), (dict, list))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _first_sentence(text: str) -> str:
    lines = [" ".join(line.strip(" #*-\t").split()) for line in text.splitlines()]
    lines = [line for line in lines if line and not line.endswith(":")]  # "Here is the prompt:"
    return next((line for line in lines if len(line.split()) >= 4), " ".join(lines))[:240]


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

MIN_LANGUAGE_WORDS = 6


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
    if len(words) < MIN_LANGUAGE_WORDS:
        return None
    shares = {
        name: sum(word in common for word in words) / len(words) for name, common in _WORDS.items()
    }
    best, second = sorted(shares, key=lambda name: -shares[name])[:2]
    clear = shares[best] >= 0.12 and shares[best] >= 1.4 * shares[second]
    return best if clear else None


def language_changed(before: str, after: str) -> str:
    """The language that a text was changed to; empty if it is unchanged or cannot be detected."""
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
