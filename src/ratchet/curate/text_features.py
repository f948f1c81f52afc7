"""Extracts what distinguishes a text from a similar one: numbers, negations, names and words."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from ratchet.types.scripts import CHINESE_JAPANESE


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LETTER = rf"(?![{CHINESE_JAPANESE}])[^\W_]"
_WORD = re.compile(rf"[{CHINESE_JAPANESE}]|(?:{_LETTER})+(?:['’](?:{_LETTER})+)*")  # noqa: RUF001
"""A run of letters and digits; in Chinese and Japanese, which have no spaces, one character."""

_NUMBER = re.compile(
    r"(?:(?<![\w.,\]])[-+−*/^=<>×÷]{1,2})?[$€£¥]?(?<![^\W_])[^\W_]*\d[^\W_]*"
    r"(?:[.,:/+\-−*^=<>×÷]{1,2}\d[^\W_]*)*\s?%?"
    r"|(?<!\S)\S{1,64}@\S{1,200}|\b\w{1,20}://\S{1,2000}"
)
_OPERATOR = re.compile(r"(?<=[\d)])\s*([-+−*/^=<>×÷]{1,2})\s*(?=[\d(])")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|`([^`\n]{1,200})`|«([^»\n]{1,200})»"
    r"|(?<!\w)'([^'\n]{1,200})'(?!\w)|‘([^’\n]{1,200})’"  # noqa: RUF001 - quotation marks
)
_SENTENCE_END = re.compile(r"[.!?:;…\n]\W*$|^\W*$")

_NEGATIONS = _words(
    """
    not no never none nothing nobody nowhere neither nor without cannot cant dont doesnt didnt
    isnt arent wasnt werent wont wouldnt shouldnt couldnt mustnt hasnt havent hadnt aint except
    unless nicht kein keine keinen keiner keinem nie niemals ohne ne pas jamais sans rien nunca
    sin nada non mai senza não nao nem sem не нет без 不 没 無 无 非
    """
)
_CONTRASTS = _words(
    """
    before after enable disable enabled disabled buy sell open close opened closed add remove
    added removed increase decrease increased decreased minimum maximum min max highest lowest
    start stop begin end inside outside earliest latest oldest newest import export install
    uninstall lock unlock allow deny accept reject include exclude encrypt decrypt upload download
    ascending descending smaller larger shorter longer cheaper yes true false when where who whose
    why
    """
)
"""Words that say what is asked; all texts of a group must share them."""

OPPOSITES = _words(
    """
    above below over under on off in out left right up down all any some only more less most least
    first last early late with always a i
    """
)
"""Words that may be added to a text, but not exchanged for one another."""

_NUMBER_WORDS = {
    **{
        word: str(number)
        for number, word in enumerate(
            (
                *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
                *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
                *("seventeen", "eighteen", "nineteen", "twenty"),
            )
        )
        if word != "one"  # mostly a pronoun
    },
    **{
        word: word
        for word in _words(
            """
            thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen
            half double twice third fourth fifth sixth seventh eighth ninth tenth
            """
        )
    },
}

_FILLERS = _words(
    """
    a an the this that these those is are was were be been am do does did has have had will would
    can could shall should may might must to of for at by from as and or so then than too very
    just also really i me my mine we us our you your he him his she her it its they them their
    what which how whom there here if please pls much lot lots kindly thanks thank cheers hi hello
    hey dear
    greetings regards best ok okay well sorry um uh like want need know tell show give let lets
    get im ive id ill were theres whats hows advance question quick help asking ask wondering
    wonder could'd able
    """
)


class TextFeatures(NamedTuple):
    """The compared features of a text."""

    facts: str
    """Numbers, negations and contrasts, in order; equal in all texts of a group."""
    names: frozenset[str]
    """Words that are capitalised within a sentence, and what is quoted."""
    openings: frozenset[str]
    """Capitalised words at the beginning of a sentence, which may be names."""
    words: tuple[str, ...]
    """The words that are neither facts nor fillers, in order."""
    plain: str
    """Normalised text, of which 4-grams are taken."""


def content_words(text: str) -> tuple[str, ...]:
    """The content words of a text, in order."""
    return read_text(text).words


def read_text(text: str) -> TextFeatures:
    composed = _OPERATOR.sub(r"\1", unicodedata.normalize("NFKC", text))
    openings: set[str] = set()
    names = {
        quoted.casefold() for groups in _QUOTED.findall(composed) for quoted in groups if quoted
    }
    facts: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _NUMBER.finditer(composed):
        spans.append(match.span())
        facts.append(re.sub(r"(?<=\d),(?=\d{3}\b)|\s", "", match[0].casefold()).rstrip(".,:;!?"))
    blanked = _NUMBER.sub(lambda number: " " * len(number[0]), composed)
    shouted = _is_shouted(blanked)
    words: list[str] = []
    order: list[tuple[int, str]] = [
        (begin, fact) for (begin, _), fact in zip(spans, facts, strict=True)
    ]
    for match in _WORD.finditer(blanked):
        spelling = match[0]
        word = spelling.casefold().replace("’", "'")  # noqa: RUF001
        bare = word.replace("'", "")
        if word.endswith("n't") or bare in _NEGATIONS:
            order.append((match.start(), "¬"))
            continue
        if bare in _NUMBER_WORDS:
            order.append((match.start(), _NUMBER_WORDS[bare]))
            continue
        if bare in _CONTRASTS or (
            len(bare) == 1 and _is_symbol(spelling, blanked, match.start(), shouted)
        ):
            order.append((match.start(), bare))
            continue
        word = word.removesuffix("'s")
        if bare in _FILLERS or word in _FILLERS:
            # In capitals a letter may be an article, a pronoun or a letter.
            if shouted and len(bare) == 1:
                words.append(word)
            continue
        if not shouted and spelling[0].isupper():
            (openings if _opens(blanked, match.start()) else names).add(word)
        words.append(word)
    plain = " ".join(_WORD.findall(composed.casefold()))
    return TextFeatures(
        "\0".join(fact for _, fact in sorted(order)),
        frozenset(names),
        frozenset(openings),
        tuple(words),
        plain,
    )


def _is_symbol(letter: str, text: str, at: int, shouted: bool) -> bool:
    """Whether a single letter is a name, such as an option's, and not the article or a pronoun."""
    if letter in "aAiI":
        return letter == "A" and not shouted and not _opens(text, at)
    return letter.isascii()


def _opens(text: str, at: int) -> bool:
    """Whether a sentence begins at a position."""
    return _SENTENCE_END.search(text[max(0, at - 40) : at]) is not None


def _is_shouted(text: str) -> bool:
    """Whether capitals mean nothing, since most words have them."""
    words = _WORD.findall(text)
    capitalised = [word for word in words if word[0].isupper()]
    return 2 * len(capitalised) > len(words) + 2
