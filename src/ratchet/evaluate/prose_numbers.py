"""Reads the numbers of a text.

A number is written in digits, with separators, signs, a fraction, a percent sign or a unit of scale
("3.5 million"), or in English words ("forty-two"). Years, dates, ordinals, citations, exponents and
counts of steps stand in answers without being them: they are weak.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SIGNS = "-+"
_WRITTEN_ALIKE = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-")
    | dict.fromkeys("\ufe62\uff0b", "+")
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
    | dict.fromkeys("\u2044\u2215\uff0f", "/")
    | dict.fromkeys("\u2219\u22c5", "\u00b7")
    | dict.fromkeys("\u066b\uff0e", ".")
    | dict.fromkeys("\u066c\uff0c", ",")
    | {"\uff1a": ":", "\uff1b": ";", "\uff1d": "=", "\uff08": "(", "\uff09": ")"}
    | {"\uff05": "%", "\uff04": "$", "\uff3e": "^"}
)
"""ASCII equivalents of other signs, digits and marks, one character each."""

_SPACES = "\u00a0\u2009\u202f"

_DIGITS = re.compile(
    rf"(?P<sign>(?<!\w)[{_SIGNS}])?"  # a hyphen between two numbers, as in 2024-05, is not a sign
    r"(?:(?:US)?[$€£¥]\s?)?"
    r"(?P<number>"
    rf"\d{{1,3}}(?P<gap>[{_SPACES}'\u2019_])\d{{3}}(?:(?P=gap)\d{{3}})*(?!\d)(?:[.,]\d+)?"
    r"|\d{1,3}(?:\.\d{3})+,\d+(?![\d.])"
    r"|\d{1,3}(?:\.\d{3}){2,}(?![\d.])"
    r"|(?!0)\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?"
    r"|\d{1,3}(?:,\d{2})+,\d{3}(?![\d,])(?:\.\d+)?"
    r"|\d+(?:\.\d+)?|\.\d+)"
    r"(?:[eE](?P<exponent>[-+]?\d+)|\s?[x×\u00b7*]\s?10(?:\^[{\u2985(]?(?P<power>-?\d+)[}\u2986)]?|(?P<raised>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)))?"
)
_COMMA = re.compile(
    rf"(?P<sign>(?<!\w)[{_SIGNS}])?(?:[$€£¥]\s?)?"
    rf"(?P<number>[1-9]\d{{0,2}}(?:[.{_SPACES}'\u2019]\d{{3}})+(?![.\d])(?:,\d+)?|\d+(?:[.,]\d+)?)"
    r"(?:[eE](?P<exponent>[-+]?\d+)|(?P<power>(?!))(?P<raised>))?"
)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?")
SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_VULGAR = {"¼": 0.25, "½": 0.5, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3, "⅕": 0.2, "⅛": 0.125}

_AFTER_FRACTION = re.compile(r"\s?/\s?(\d{1,15})(?!\d|/|[.,]\d)")
_MIXED = re.compile(r"[ -](\d{1,9})/(\d{1,9})(?![\d/])")
_SCALE = re.compile(
    r"(?:(?P<glued>[kKMB]|bn|mn|tn)(?![\w/^²³])"
    r"|[\s-]?(?P<word>hundred|thousand|million|billion|trillion|mio|bn|mn|dozens?|lakhs?|crores?)\b)",
)
_SCALES = {
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "B": 1e9,
    "bn": 1e9,
    "mn": 1e6,
    "tn": 1e12,
    "mio": 1e6,
    "hundred": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "dozen": 12,
    "dozens": 12,
    "lakh": 1e5,
    "lakhs": 1e5,
    "crore": 1e7,
    "crores": 1e7,
}
_PERCENT = re.compile(r"\s?(?:%|percent\b|per cent\b|pct\b)")

_ONES = dict(
    zip(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ],
        range(20),
        strict=True,
    )
)
_TENS = dict(
    zip(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"],
        range(20, 100, 10),
        strict=True,
    )
)
_LARGE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "tenth": 10}
_NAMES = "|".join((*_ONES, *_TENS, "hundred", *_LARGE, "dozen"))
_WORDS = re.compile(
    rf"\b(?:(?P<minus>minus|negative)\s+)?(?:a\s+(?=hundred|thousand|million|billion|dozen|half))?"
    rf"(?P<words>(?:{_NAMES})(?:(?:\s*-\s*|\s+and\s+(?:a\s+)?|\s+)(?:{_NAMES}|half))*"
    rf"(?:\s+point(?:\s+(?:{'|'.join(_ONES)}))+)?)\b"
    r"(?:[\s-]+(?P<part>half|halves|thirds?|quarters?|fifths?|tenths?)\b)?",
    re.IGNORECASE,
)

_COUNTED = frozenset(
    [
        "step",
        "steps",
        "question",
        "problem",
        "section",
        "chapter",
        "table",
        "figure",
        "fig",
        "equation",
        "eq",
        "page",
        "part",
        "option",
        "case",
        "example",
        "item",
        "line",
        "version",
        "no",
        "number",
        "room",
        "class",
        "level",
        "method",
    ]
)
_COMPARED = frozenset(["nearest", "every", "each", "per", "among", "not", "than"])
_OVER = frozenset(
    ["for", "in", "within", "after", "over", "with", "between", "across", "from", "by"]
)
_CURRENCY = ("USD", "EUR", "GBP", "CHF", "INR", "JPY", "CAD", "AUD", "Rs")
_GLUED = ("±", "± ", "+/-", "+/- ", "^", "^{", "^-", "^{-", "^\u2985", "^\u2985-", "_", "_{", "[")
_AFTER_WEAK = re.compile(
    r"(?:st|nd|rd|th)\b|\]|:\d\d|\s*(?:decimal|significant|d\.?p\.?\b|s\.?f\.?\b|sig\.?\s?fig|digits|times\b)"
    r"|\s*%?\s+(?:confidence|CI\b)",
    re.IGNORECASE,
)
_DATES = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b|\b\d{1,2}:\d\d(?::\d\d)?\b|"
    r"\b(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.?\s+\d{1,2}(?:st|nd|rd|th)?"
    r"(?:,?\s+\d{4})?\b|\b\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?"
    r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.?(?:,?\s+\d{4})?\b|"
    r"\b(?:in|since|by|until|from|during|early|late|as of|year|mid)[\s-]+(?:1[5-9]|20)\d\d\b"
)
_JOINED = re.compile(r"\d+[-/.:]\d")
_OF_PEOPLE_OR_TIME = re.compile(
    r"\s*-?\s*(?:people|persons|guests|students|workers|children|friends|seconds?|minutes?|hours?|"
    r"days?|weeks?|months?|years?|nights?|times|trips|rounds|steps)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ProseNumber:
    """A number in a text."""

    value: float
    start: int
    end: int
    percent: bool = False
    weak: bool = False
    """Whether it is probably not an answer, such as a year, an ordinal or a step's number."""
    in_words: bool = False
    plain: bool = True
    """Whether it stands alone, and is not part of a date, a time, a tuple or an unknown
    expression."""


def numbers_in(text: str, *, decimal_comma: bool = False) -> Iterator[ProseNumber]:
    """The numbers of a text in order.

    Args:
        text: The text.
        decimal_comma: Commas are decimal, as in "1.234,50".
    """
    text = written_alike(text)
    dates = [match.span() for match in _DATES.finditer(text)]
    numbers = list(_in_digits(text, dates, _COMMA if decimal_comma else _DIGITS, decimal_comma))
    spans = [(n.start, n.end) for n in numbers]
    numbers += [n for n in _in_words(text) if not any(s < n.end and n.start < e for s, e in spans)]
    yield from sorted(numbers, key=lambda n: n.start)


def written_alike(text: str) -> str:
    """A text of the same length with ASCII signs, digits and brackets."""
    return text.translate(_WRITTEN_ALIKE)


def _in_digits(
    text: str, dates: list[tuple[int, int]], form: re.Pattern[str], decimal_comma: bool
) -> Iterator[ProseNumber]:
    at, date = 0, 0
    while (match := form.search(text, at)) is not None:
        at = max(match.end(), at + 1)
        value = _value(match, decimal_comma)
        end = match.end()
        before = text[max(0, match.start() - 40) : match.start()]
        vulgar = _VULGAR.get(text[end : end + 1])
        mixed, over = _MIXED.match(text, end), _AFTER_FRACTION.match(text, end)
        is_whole = float(value).is_integer() if math.isfinite(value) else False
        if vulgar is not None:
            value, end = value + math.copysign(vulgar, value), end + 1
        elif mixed is not None and is_whole and int(mixed[2]) > int(mixed[1]) > 0:
            value, end = value + math.copysign(int(mixed[1]) / int(mixed[2]), value), mixed.end()
        elif over is not None and int(over[1]) and not before.endswith("/"):
            value, end = value / int(over[1]), over.end()
        scale = _SCALE.match(text, end)
        if scale is not None:
            value, end = value * _SCALES[scale["glued"] or scale["word"].lower()], scale.end()
        percent = _PERCENT.match(text, end)
        end = percent.end() if percent else end
        while date < len(dates) and dates[date][1] <= match.start():
            date += 1
        in_date = date < len(dates) and dates[date][0] < match.end()
        weak = (
            in_date
            or _AFTER_WEAK.match(text, end) is not None
            or _is_named(before)
            or _is_weak_after(before)
            or (_is_over(before) and _OF_PEOPLE_OR_TIME.match(text, end) is not None)
        )
        if in_date and not match["sign"]:
            end = match.end()
            value = _value(match, decimal_comma)
        at = max(at, end)
        plain = not (in_date and _JOINED.match(text, *dates[date]))
        yield ProseNumber(value, match.start(), end, percent is not None, weak, plain=plain)
    for index, mark in enumerate(text):
        if mark in _VULGAR and not text[index - 1 : index].isdigit():
            yield ProseNumber(_VULGAR[mark], index, index + 1)


def _value(match: re.Match[str], decimal_comma: bool) -> float:
    digits = re.sub(rf"[{_SPACES}'\u2019_]", "", match["number"])
    if decimal_comma and not _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", ".")
    elif decimal_comma or re.search(r"\.\d{3},|\.\d{3}\.", digits):
        digits = digits.replace(".", "").replace(",", ".")
    elif match["gap"] and "," in digits:
        digits = digits.replace(",", ".")
    else:
        digits = digits.replace(",", "")
    power = match["exponent"] or match["power"] or match["raised"] or ""
    power = power.translate(SUPERSCRIPT)
    value = float(f"{digits}e{power}" if power else digits)
    return -value if match["sign"] == "-" else value


def _in_words(text: str) -> Iterator[ProseNumber]:
    for match in _WORDS.finditer(text):
        words = re.findall(r"[a-z]+", match["words"].lower())
        if words == ["one"] and match["part"] is None:
            continue  # a pronoun more often than a number
        value = _of_words(words)
        if value is None:
            continue
        before = text[max(0, match.start() - 40) : match.start()]
        if before.rstrip().lower().endswith("half"):  # a dozen
            value /= 2
        if match["part"]:
            value /= _PARTS[re.sub("s$", "", match["part"].lower().replace("halves", "half"))]
        weak = _is_weak_after(before)
        after = text[match.end() : match.end() + 12]
        percent = _PERCENT.match(after) is not None
        value = -value if match["minus"] else value
        yield ProseNumber(value, match.start(), match.end(), percent, weak, in_words=True)


def _is_named(before: str) -> bool:
    """Whether a number is part of a name, as in COVID-19 or CO2."""
    glued = before[-2:-1] if before.endswith("-") else before[-1:]
    return glued.isalpha() and not before.endswith(_CURRENCY)


def _is_weak_after(before: str) -> bool:
    if before.endswith(_GLUED):
        return True
    words = before.lower().split()[-5:]
    if not words or not (before[-1].isspace() or before.endswith("#")):
        return False
    last = words[-1].rstrip(".#").lstrip("(")
    if last in _COUNTED or last in _COMPARED:
        return True
    if last in ("of", "the"):
        return words[-2:-1] in (["out"], ["instead"], ["of"], ["from"])
    return last == "to" and any(word.startswith("round") for word in words)


def _is_over(before: str) -> bool:
    """Whether a preposition is before a number, as in "for 3 people"."""
    words = before.lower().split()[-3:]
    while words and words[-1] in ("the", "next", "last", "first", "all", "another"):
        words.pop()
    return bool(words) and words[-1] in _OVER


def _of_words(words: list[str]) -> float | None:
    """The number that English words name, or None, as for "seven three"."""
    total, part, last = 0.0, 0.0, 10**15
    fraction = 0.0
    if "point" in words:
        at = words.index("point")
        digits = "".join(str(_ONES[word]) for word in words[at + 1 :])
        if not digits.isdigit():
            return None
        fraction, words = float(f"0.{digits}"), words[:at]
    for word in words:
        if word == "and":
            continue
        if word == "half":
            fraction += 0.5
        elif word in _ONES or word in _TENS:
            value = _ONES[word] if word in _ONES else _TENS[word]
            if part % 100 and (word in _TENS or part % 10 or part % 100 < 20 or value > 9):
                return None
            part += value
        elif word in ("hundred", "dozen"):
            part = (part or 1) * (100 if word == "hundred" else 12)
        elif word in _LARGE:
            if _LARGE[word] >= last:
                return None
            last = _LARGE[word]
            total += ((part or (0 if fraction else 1)) + fraction) * last
            part, fraction = 0.0, 0.0
    return total + part + fraction
