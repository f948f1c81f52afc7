"""The oracle: whether an output is right, as far as the expected answer shows."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import Any

from ratchet.evaluate.corruptions.corruption import parsed
from ratchet.types import InputError

QUERY = re.compile(r"^\s*(?:select|with)\b", re.I)
"""The start of a SQL query."""

DATABASES = 4
"""Number of generated databases on which a damaged query is compared with the expected one."""

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"[^\W_]+(?:[.,:/-][^\W_]+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


def is_right(output: Any, expected: Any) -> bool | None:
    """Whether an output is right.

    A list of expected answers for an output that is not a list holds alternatives. A text that
    holds the expected answer among other words may be right or deny it, which only a reader can
    decide. The expected answer does not say whether the order of a list, of lines or of sentences
    matters.

    Args:
        output: The output.
        expected: The expected answer.

    Returns:
        None when the expected answer does not tell.
    """
    if expected is None:
        return None
    alternatives = expected if isinstance(expected, list) else [expected]
    if isinstance(output, list) and isinstance(expected, list):
        # A ranking is right when an accepted answer is first.
        if output == expected or (bool(output) and output[0] in expected):
            return True
        return None if _unordered(output) == _unordered(expected) else False
    answer, wanted = parsed(output), parsed(expected)
    if isinstance(wanted, dict):
        return _agrees(answer, wanted) if isinstance(answer, dict) else False
    if isinstance(wanted, list) and isinstance(answer, list):
        return _same_items(answer, wanted)
    if any(_equal(output, alternative) for alternative in alternatives):
        return True
    if isinstance(output, str):
        if any(_unordered(output) == _unordered(str(alternative)) for alternative in alternatives):
            return None
        words = _words(output)
        if any(_holds(words, _words(str(alternative))) for alternative in alternatives):
            return None
    return False


def is_identical(output: Any, expected: Any) -> bool:
    """Whether an output is exactly the expected answer, or one of several."""
    several = isinstance(expected, list) and not isinstance(output, list)
    return expected is not None and any(
        type(answer) is type(output) and answer == output
        for answer in (expected if several else [expected])
    )


def expected_output(expected: Any, outputs: Sequence[Any]) -> Any:
    """The expected answer in the outputs' type; None if its type differs."""
    kinds = [type(output) for output in outputs if output is not None]
    kind = max(set(kinds), key=kinds.count) if kinds else type(expected)
    if isinstance(expected, kind):
        return expected
    if isinstance(expected, list) and expected and isinstance(expected[0], kind):
        return expected[0]
    if kind is str and isinstance(expected, dict):
        as_text = any(isinstance(parsed(output), dict) for output in outputs)
        return json.dumps(expected, ensure_ascii=False) if as_text else None
    simple = isinstance(expected, (int, float)) and not isinstance(expected, bool)
    return f"{expected:g}" if kind is str and simple else None


def _equal(output: Any, expected: Any) -> bool:
    if isinstance(output, bool) or isinstance(expected, bool):
        return type(output) is type(expected) and output == expected
    first, second = _number(output), _number(expected)
    if first is not None and second is not None:
        return _close(first, second)
    if isinstance(output, str) and isinstance(expected, str):
        return " ".join(output.split()).casefold() == " ".join(expected.split()).casefold()
    return bool(output == expected)


def _close(first: float, second: float) -> bool:
    return abs(first - second) <= 1e-9 * max(1.0, abs(first), abs(second))


def _agrees(output: dict[str, Any], expected: dict[str, Any]) -> bool | None:
    if not output.keys() >= expected.keys():
        return False
    agreed = [_agree(output[key], value) for key, value in expected.items()]
    return False if False in agreed else None if None in agreed else True


def _agree(output: Any, expected: Any) -> bool | None:
    if isinstance(output, dict) and isinstance(expected, dict):
        return _agrees(output, expected)
    if isinstance(output, list) and isinstance(expected, list):
        return _same_items(output, expected)
    return _equal(output, expected)


def _same_items(output: list[Any], expected: list[Any]) -> bool | None:
    if len(output) == len(expected):
        agreed = [_agree(a, b) for a, b in zip(output, expected, strict=True)]
        if False not in agreed:
            return None if None in agreed else True
    return None if _unordered(output) == _unordered(expected) else False


def _unordered(value: Any) -> Any:
    """A form of a value in which neither the order of items nor that of lines or sentences shows,
    nor how a number or white space is written."""
    if isinstance(value, dict):
        return sorted((str(key), repr(_unordered(item))) for key, item in value.items())
    if isinstance(value, list):
        return sorted(repr(_unordered(item)) for item in value)
    number = None if isinstance(value, bool) else _number(value)
    if number is not None:
        return number
    if isinstance(value, str):
        parts = (" ".join(part.split()).casefold() for part in _SENTENCE.split(value))
        return sorted(part for part in parts if part)
    return value


def same_query(output: Any, expected: Any) -> bool | None:
    """Whether an output that differs from the expected query in notation is equivalent to it.

    Returns:
        False, too, where one of them is not a query; None when running them decides nothing.
    """
    if not (isinstance(output, str) and isinstance(expected, str)):
        return False
    if not (QUERY.match(output) and QUERY.match(expected)):
        return False
    from ratchet.evaluate.sql_equivalence.comparison import QueryComparison, read
    from ratchet.evaluate.sql_equivalence.schema import inferred_schema

    wanted, got = read(expected, "sqlite"), read(output, "sqlite")
    if wanted.tree is None or got.tree is None:
        return False
    try:
        schema = inferred_schema([wanted.tree, got.tree])
        compared = QueryComparison(wanted, got, 1e-9).on_generated(schema, DATABASES)
    except InputError:
        return None
    return {"equal": True, "different": False}.get(compared.verdict)


def _number(value: Any) -> float | None:
    try:
        return float(_THOUSANDS.sub("", value) if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return None


@functools.lru_cache(maxsize=64)  # many outputs are compared with one answer, and many get one text
def _words(text: str) -> list[str | float]:
    """The words of a text in small letters, and its numbers."""
    words = (word.casefold() for word in _WORD.findall(_THOUSANDS.sub("", text)))
    return [word if (number := _number(word)) is None else number for word in words]


def _holds(words: list[str | float], wanted: list[str | float]) -> bool:
    size = len(wanted)
    return bool(size) and any(
        all(map(_same_word, words[start : start + size], wanted))
        for start in range(len(words) - size + 1)
    )


def _same_word(first: str | float, second: str | float) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return _close(first, second)
    return first == second
