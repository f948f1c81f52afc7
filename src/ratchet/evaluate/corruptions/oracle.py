"""The oracle: whether an output is right, as far as the expected answer tells."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ratchet.evaluate.corruptions.corruption import parsed

_WORD = re.compile(r"[^\W_]+(?:[.,:/-][^\W_]+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


def is_right(output: Any, expected: Any) -> bool | None:
    """Whether an output is right.

    A list of expected answers for an output that is no list holds alternatives. A text that holds
    the expected answer among other words may be right or deny it, which only reading tells.

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
        return output == expected or (bool(output) and output[0] in expected)
    known, wanted = parsed(output), parsed(expected)
    if isinstance(wanted, dict):
        return isinstance(known, dict) and _agrees(known, wanted)
    if any(_equal(output, one) for one in alternatives):
        return True
    if isinstance(output, str):
        words = _words(output)
        if any(_holds(words, _words(str(one))) for one in alternatives):
            return None
    return False


def is_identical(output: Any, expected: Any) -> bool:
    """Whether an output is the expected answer, or one of several, to the letter."""
    several = isinstance(expected, list) and not isinstance(output, list)
    return expected is not None and any(
        type(one) is type(output) and one == output for one in (expected if several else [expected])
    )


def expected_output(expected: Any, outputs: Sequence[Any]) -> Any:
    """The expected answer in the type of the outputs; None if it has another."""
    kinds = [type(one) for one in outputs if one is not None]
    kind = max(set(kinds), key=kinds.count) if kinds else type(expected)
    if isinstance(expected, kind):
        return expected
    if isinstance(expected, list) and expected and isinstance(expected[0], kind):
        return expected[0]
    if kind is str and isinstance(expected, dict):
        as_text = any(isinstance(parsed(one), dict) for one in outputs)
        return json.dumps(expected, ensure_ascii=False) if as_text else None
    simple = isinstance(expected, (int, float)) and not isinstance(expected, bool)
    return f"{expected:g}" if kind is str and simple else None


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return type(one) is type(other) and one == other
    first, second = _number(one), _number(other)
    if first is not None and second is not None:
        return abs(first - second) <= 1e-9 * max(1.0, abs(first), abs(second))
    if isinstance(one, str) and isinstance(other, str):
        return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()
    return bool(one == other)


def _agrees(output: dict[str, Any], expected: dict[str, Any]) -> bool:
    return output.keys() >= expected.keys() and all(
        _agrees(output[key], value)
        if isinstance(value, dict) and isinstance(output[key], dict)
        else _equal(output[key], value)
        for key, value in expected.items()
    )


def _number(value: Any) -> float | None:
    try:
        return float(_THOUSANDS.sub("", value) if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return None


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_THOUSANDS.sub("", text))]


def _holds(words: list[str], wanted: list[str]) -> bool:
    size = len(wanted)
    return bool(size) and any(
        all(_equal(a, b) for a, b in zip(words[start : start + size], wanted, strict=True))
        for start in range(len(words) - size + 1)
    )
