"""Reads the arithmetic expressions in a text, as in "2√3" or "10^5".

An expression whose value is not known here, such as one with a variable, is a number that is not
plain, and so is one of several that are given together: a tuple, a range, "5 feet 3 inches".
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ratchet.evaluate.prose_numbers import SUPERSCRIPT, ProseNumber, numbers_in

OPEN, CLOSE = "\u2985", "\u2986"
"""Brackets for LaTeX groups, which do not occur in prose."""

_MOST_TOKENS = 60
"""Maximum number of tokens of a computed expression."""

_MOST_BETWEEN = 40
"""Maximum number of characters between two numbers that belong together."""

_ARGUMENT = rf"\s*(?:\{{([^{{}}]*)\}}|([0-9]|[^\W\d_]|{OPEN}[^{OPEN}{CLOSE}]*{CLOSE}))"
_FORMS = (
    (
        re.compile(r"(?<![\w.,])(\d+)\s*\\[dtc]?frac\s*(?:\{(\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))"),
        lambda m: f"{OPEN}{m[1]}+{m[2] or m[3]}/{m[4] or m[5]}{CLOSE}",
    ),
    (
        re.compile(rf"\\[dtc]?frac{_ARGUMENT}{_ARGUMENT}"),
        lambda m: f"{OPEN}{OPEN}{m[1] or m[2]}{CLOSE}/{OPEN}{m[3] or m[4]}{CLOSE}{CLOSE}",
    ),
    (
        re.compile(rf"\\sqrt\s*\[([^\[\]{{}}]*)\]{_ARGUMENT}"),
        lambda m: f"{OPEN}{OPEN}{m[2] or m[3]}{CLOSE}^{OPEN}1/{OPEN}{m[1]}{CLOSE}{CLOSE}{CLOSE}",
    ),
    (re.compile(rf"\\sqrt{_ARGUMENT}"), lambda m: f"√{OPEN}{m[1] or m[2]}{CLOSE}"),
    (re.compile(r"\^\s*\{\s*(?:\\circ|°)\s*\}|\^\s*(?:\\circ\b|°)"), lambda _: "°"),
    (re.compile(r"\^\s*\{([^{}]*)\}"), lambda m: f"^{OPEN}{m[1]}{CLOSE}"),
    (
        re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname|mbox)\s*\{([^{}]*)\}"),
        lambda m: f" {m[1]} ",
    ),
)
_SIMPLE = (
    (re.compile(r"\\(?:left|right|displaystyle|bigl?|bigr)(?![a-zA-Z])\s*"), ""),
    (re.compile(r"\\times(?![a-zA-Z])"), "×"),
    (re.compile(r"\\cdot(?![a-zA-Z])"), "·"),
    (re.compile(r"\\div(?![a-zA-Z])"), "÷"),
    (re.compile(r"\\pi(?![a-zA-Z])"), "π"),
    (re.compile(r"\\(?:pm|mp)(?![a-zA-Z])"), "±"),
    (re.compile(r"\{,\}|,\\!"), ","),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"\\([%$])"), r"\1"),
    (re.compile(r"\\(?:approx|sim)(?![a-zA-Z])"), "≈"),
)
_WRITTEN = (
    (re.compile(r"(?<=[\d)\]}])( ?)\*\*\1(?=[\d(\\-])"), "^"),
    (re.compile(r"(?<=[\d)\]}])( ?)\*\1(?=[\d(\\])"), "×"),
    (re.compile(r"\bsqrt\s?(?=[\d(])"), "√"),
    (re.compile(r"(?<=[\d*×·/ ])pi\b(?!\s*(?:=|is\b|≈))"), "π"),
)

_TOKEN = re.compile(
    rf"(?P<space>[^\S\n]+)|(?P<power>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<operator>[-+×·*/÷^√π(){OPEN}{CLOSE}])"
    r"|(?P<word>(?:plus|minus|negative|times|divided by|multiplied by)\b)"
    rf"|(?P<other>\n|[^\w\s]|\w+)",
    re.IGNORECASE,
)
_WORDS = {
    "plus": "+",
    "minus": "-",
    "negative": "-",
    "times": "×",
    "divided by": "/",
    "multiplied by": "×",
}
_BEFORE_SIGN = re.compile(
    r"(?:[=:≈<>≤≥({\[,$]|\b(?:is|are|was|were|be|equals|answer|result|get|gives|gets|to|of|at))[^\S\n]*\Z",
    re.IGNORECASE,
)
_FUNCTION = re.compile(
    r"(?:\\?\b(?:log|ln|lg|sin|cos|tan|cot|sec|exp|arcsin|arccos|arctan|gcd|lcm)"
    r"(?:_\S{1,6}|\d+)?\s*|[∛∜±]\s?)[({]?$"
)
_VARIABLE_BEFORE = re.compile(r"(?:(?<![^\W_])[b-zB-HJ-Z]|\\[a-zA-Z]+|[)}])(\s?)$")
_VARIABLE_AFTER = re.compile(r"(\s?)(?:[b-zB-HJ-Z](?![^\W_])|\\[a-zA-Z])")
_LENGTHS = r"(?:feet|foot|ft|inch(?:es)?|in|yards?|yd|miles?|m|cm|mm|km|met(?:er|re)s?)"
_TIMES = r"(?:years?|months?|weeks?|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
_MASSES = r"(?:pounds?|lbs?|ounces?|oz|stones?|kg|g|kilograms?|grams?)"
_REST = r"(?:dollars?|euros?|pounds?|cents?|pence|degrees?|gallons?|quarts?|pints?|cups?|dozen)"
_UNITS = rf"(?:{_LENGTHS}|{_TIMES}|{_MASSES}|{_REST}|['\u2032\"\u2033°])"
_COMPOUND = re.compile(rf"\s?-?{_UNITS}\.?,?\s*(?:and\s+)?", re.IGNORECASE)
_TOGETHER = re.compile(
    r"[^\S\n]*|:|[.]|\s?x\s?|\s*[,;&]\s*(?:and\s+|or\s+)?(?:[$€£¥]\s?)?"
    r"|\s*%?\s*(?:[^\W\d_]+\s+)?(?:and|or|to)\s+(?:[a-z]\s*=\s*)?(?:[$€£¥]\s?)?",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[xyzni](?![^\W_])|\s?!(?!=)")


@dataclass(frozen=True)
class _Token:
    kind: str
    """An operator, "power" for one in superscript, or "number"."""
    start: int
    end: int
    spaced: bool
    """Whether white space precedes it."""
    number: ProseNumber | None = None
    exponent: int = 0
    """That of a "power"."""


def _exponent(superscript: str) -> int:
    return int(superscript.translate(SUPERSCRIPT))


class _NoValue(Exception):
    """The tokens are not an arithmetic expression."""


def plain_mathematics(text: str) -> str:
    """A text with LaTeX and programming notation converted for `expressions_in`."""
    if "\\" in text or "{,}" in text:
        for form, plain in _SIMPLE:
            text = form.sub(plain, text)
    if "\\" in text or "^" in text:
        for _ in range(8):  # from the innermost braces outwards
            before = text
            for form, replacement in _FORMS:
                text = form.sub(replacement, text)
            if text == before:
                break
    for form, plain in _WRITTEN:
        text = form.sub(plain, text)
    return text


def expressions_in(text: str, *, decimal_comma: bool = False) -> list[ProseNumber]:
    """The numbers of a text in order, each with its computed value.

    Args:
        text: The text, after `plain_mathematics`.
        decimal_comma: Commas are decimal.
    """
    numbers = list(numbers_in(text, decimal_comma=decimal_comma))
    expressions = [
        _expression(text, part)
        for run in _runs(text, numbers)
        for part in _parts(run)
        if any(token.number for token in part)
    ]
    together = set[int]()
    for at, (first, second) in enumerate(itertools.pairwise(expressions)):
        listed = text[first.start - 1 : first.start] == "["
        if (listed or not (first.weak or second.weak)) and _are_together(text, first, second):
            together |= {at, at + 1}
    return [replace(n, plain=n.plain and at not in together) for at, n in enumerate(expressions)]


def has_variable(text: str, number: ProseNumber) -> bool:
    """Whether a variable or a factorial is glued to a number, as in "2x"."""
    return _VARIABLE.match(text, number.end) is not None


def _runs(text: str, numbers: list[ProseNumber]) -> Iterator[list[_Token]]:
    """Sequences of numbers and operators with nothing else between them."""
    run: list[_Token] = []
    at, spaced = 0, False
    for number in (*numbers, None):
        for match in _TOKEN.finditer(text, at, number.start if number else len(text)):
            if match["other"]:
                yield run
                run = []
            elif not match["space"]:
                kind = "power" if match["power"] else _WORDS.get(match[0].lower(), match[0])
                exponent = _exponent(match["power"]) if match["power"] else 0
                run.append(_Token(kind, match.start(), match.end(), spaced, None, exponent))
            spaced = match["space"] is not None
        if number is not None:
            run.append(_Token("number", number.start, number.end, spaced, number))
            at, spaced = max(at, number.end), False
    yield run


def _parts(run: list[_Token]) -> Iterator[list[_Token]]:
    """Split into possible expressions; numbers need an operator between them."""
    part: list[_Token] = []
    for token in run:
        ended = bool(part) and part[-1].kind in ("number", "power", ")", CLOSE)
        if ended and (token.kind == "number" or (token.kind == "(" and token.spaced)):
            yield part
            part = []
        part.append(token)
    yield part


def _expression(text: str, part: list[_Token]) -> ProseNumber:
    """The value of a part's tokens, without dangling ones at its ends."""
    numbers = [token.number for token in part if token.number is not None]
    low, high, plain = 0, len(part), True
    while part[low].kind in ("+", "-", "×", "·", "*", "/", "÷", "^", ")", CLOSE, "power"):
        if part[low].kind in ("+", "-") and _is_sign(text, part, low):
            break
        plain = plain and not _has_operand(text, part, low)
        low += 1
    while part[high - 1].kind not in ("number", "power", "π", ")", CLOSE):
        high -= 1
        plain = plain and not _has_operand(text, part, high)
    within = _balanced(part[low:high])
    start, end = within[0].start, within[-1].end
    if _FUNCTION.search(text, max(0, start - 20), start):
        plain = False
    if len(numbers) == 1 and all(token.kind in ("number", "(", ")") for token in within):
        return replace(numbers[0], plain=numbers[0].plain and plain)
    try:
        value = _Reader(within).value()
    except (_NoValue, ArithmeticError, ValueError, TypeError):
        value, plain = numbers[0].value, False
    percent = len(numbers) == 1 and numbers[0].percent
    plain = plain and all(number.plain for number in numbers)
    expression = replace(
        numbers[0], value=value, start=start, end=end, percent=percent, plain=plain
    )
    return replace(expression, plain=plain and not has_variable(text, expression))


def _is_sign(text: str, part: list[_Token], at: int) -> bool:
    """Whether a plus or minus at the beginning is a sign, and not a dash."""
    token, following = part[at], part[at + 1 : at + 2]
    if not following or following[0].kind in ("-", "+", "×", "·", "*", "/", "÷", "^"):
        return False
    if text[token.start].isalpha():  # "minus"
        return True
    before = text[max(0, token.start - 20) : token.start]
    if not following[0].spaced:
        return not before[-1:].isalnum()
    if len(before) == token.start and not before.strip():  # a sign, if it begins no list
        return "\n" not in text.strip()
    return _BEFORE_SIGN.search(before) is not None


def _has_operand(text: str, part: list[_Token], at: int) -> bool:
    """Whether a dangling operator has an operand that is not a number, such as a variable."""
    token = part[at]
    if token.kind == "^":
        return True
    if token.kind not in ("+", "-", "×", "·", "*", "÷", "√"):
        return False
    before = _VARIABLE_BEFORE.search(text, max(0, token.start - 20), token.start)
    after = _VARIABLE_AFTER.match(text, token.end)
    spaced_after = token.end < len(text) and text[token.end].isspace()
    return (before is not None and bool(before[1]) == spaced_after) or (
        after is not None and bool(after[1]) == token.spaced
    )


def _balanced(part: list[_Token]) -> list[_Token]:
    """A part without unmatched brackets at its ends."""
    while part[0].kind == "(" and _depth(part) > 0:
        part = part[1:]
    while part[-1].kind == ")" and _depth(part) < 0:
        part = part[:-1]
    return part


def _depth(part: list[_Token]) -> int:
    return sum((token.kind == "(") - (token.kind == ")") for token in part)


def _are_together(text: str, first: ProseNumber, second: ProseNumber) -> bool:
    """Whether two consecutive numbers form a tuple, a range or a list."""
    between = text[first.end : second.start]
    if len(between) > _MOST_BETWEEN:
        return False
    compound = _COMPOUND.fullmatch(between) is not None
    if compound and (between.strip() in "'\u2032°" or _COMPOUND.match(text, second.end)):
        return True
    if first.in_words or second.in_words:
        return False
    return _TOGETHER.fullmatch(between) is not None


class _Reader:
    """Computes the value of tokens by the usual precedence of operators."""

    def __init__(self, tokens: list[_Token]) -> None:
        if len(tokens) > _MOST_TOKENS:
            raise _NoValue
        if [token.kind for token in tokens] == ["number", "-", "number"]:
            raise _NoValue  # a range as well as a difference
        several = sum(token.number is not None for token in tokens) > 1
        if several and any(token.number and token.number.percent for token in tokens):
            raise _NoValue
        self._tokens = tokens
        self._at = 0

    def value(self) -> float:
        value = self._sum()
        if self._at < len(self._tokens) or not math.isfinite(value):
            raise _NoValue
        return value

    def _next(self, *kinds: str) -> _Token | None:
        """The next token, consumed if it is of one of the kinds."""
        if self._at < len(self._tokens) and self._tokens[self._at].kind in kinds:
            self._at += 1
            return self._tokens[self._at - 1]
        return None

    def _sum(self) -> float:
        value = self._product()
        while (operator := self._next("+", "-")) is not None:
            value += self._product() if operator.kind == "+" else -self._product()
        return value

    def _product(self) -> float:
        value = self._signed()
        while True:
            if self._next("×", "·", "*"):
                value *= self._signed()
            elif self._next("/", "÷"):
                value /= self._signed()
            elif self._next("√", "π", "(", OPEN):
                self._at -= 1
                value *= self._power()
            else:
                return value

    def _signed(self) -> float:
        if self._next("-"):
            return -self._signed()
        return self._signed() if self._next("+") else self._power()

    def _power(self) -> float:
        # A sign that is glued to a number is weaker than a power: -2² is -4.
        number = self._tokens[self._at].number if self._at < len(self._tokens) else None
        sign = -1.0 if number is not None and number.value < 0 else 1.0
        value = sign * self._atom()
        raised = self._next("^", "power")
        if raised is not None:
            value = value ** (raised.exponent if raised.kind == "power" else self._signed())
        return sign * value

    def _atom(self) -> float:
        if self._next("√"):
            return math.sqrt(self._atom())
        if self._next("π"):
            return math.pi
        for opening, closing in (("(", ")"), (OPEN, CLOSE)):
            if self._next(opening):
                value = self._sum()
                if not self._next(closing):
                    raise _NoValue
                return value
        token = self._next("number")
        if token is None or token.number is None:
            raise _NoValue
        return token.number.value
