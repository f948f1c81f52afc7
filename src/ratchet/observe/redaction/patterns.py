"""Patterns: a project's own regular expressions, of which none can hold the process up.

Python's engine tries every way in which a pattern can match, and a careless pattern has more ways
than there are seconds. So a pattern is looked at before it is used: how many ways it has at one
place is computed from its parts, and one that has too many is refused with what to write instead.
What is left is bounded once more when it runs: it sees a text in windows, and a text on which it
takes longer than `TIME_LIMIT_S` is not stored but replaced as a whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ratchet.types import ConfigError

MOST_PATTERNS = 50
LONGEST_PATTERN = 500
MOST_WAYS = 2_000
WINDOW = 2_048
"""Characters that a pattern sees at once."""

OVERLAP = 512
"""Characters that two windows share: the longest match that is found wherever it stands."""

TIME_LIMIT_S = 0.25
"""How long all patterns together may take over one text, in seconds."""

_UNBOUNDED = 1_000
"""Ways of a repetition without an end; two of them in a row are too many."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


class PatternTimeout(Exception):
    """The patterns were not through with a text in time."""


class Patterns:
    """The regular expressions of one project.

    Args:
        named: Expressions by the name that stands in the place of what they find.

    Raises:
        ConfigError: One is no regular expression, is too long, or could take too long.
    """

    def __init__(self, named: Mapping[str, str]) -> None:
        if len(named) > MOST_PATTERNS:
            raise ConfigError(f"[redaction] has {len(named)} patterns; {MOST_PATTERNS} may be.")
        self._compiled = [(name, _checked(name, source)) for name, source in named.items()]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where they match, and the name of each.

        Raises:
            TookTooLong: They are not through with the text in time.
        """
        if not self._compiled:
            return
        until = time.perf_counter() + TIME_LIMIT_S
        for begin in range(0, max(len(text) - OVERLAP, 1), WINDOW - OVERLAP):
            window = text[begin : begin + WINDOW]
            for name, pattern in self._compiled:
                for match in pattern.finditer(window):
                    if match.end() > match.start():
                        yield begin + match.start(), begin + match.end(), name
            if time.perf_counter() > until:
                raise PatternTimeout


def _checked(name: str, source: str) -> re.Pattern[str]:
    where = f"[redaction] patterns.{name}"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: {name!r} cannot name a pattern.",
            hint="Names begin with a small letter and hold small letters, digits, - and _.",
        )
    if not 0 < len(source) <= LONGEST_PATTERN:
        raise ConfigError(f"{where} has {len(source)} characters; 1 to {LONGEST_PATTERN} may be.")
    try:
        compiled = re.compile(source)
        ways = _ways(_parsed(source))
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where} = {source!r} is no regular expression: {error}.") from None
    if ways > MOST_WAYS:
        raise ConfigError(
            f"{where} = {source!r} can match in too many ways, and might hold the process up.",
            hint=r"Give repetitions an end (\d{1,20} for \d+), or let them give nothing back"
            r" (\d++ for \d+), and do not repeat what repeats.",
        )
    return compiled


def _parsed(source: str) -> Any:
    # The only way to a pattern's parts; it has been there under this name since Python 3.11.
    return re._parser.parse(source)  # type: ignore[attr-defined]


def _ways(parsed: Any) -> float:
    """In how many ways a pattern can match at one place, at most."""
    ways = 1.0
    for operation, argument in parsed:
        ways *= _ways_of(str(operation), argument)
        if ways > MOST_WAYS:
            return ways
    return ways


def _ways_of(operation: str, argument: Any) -> float:
    if operation in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT"):
        return 1
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, inner = argument
        once = _ways(inner)
        most = min(int(most), _UNBOUNDED)
        if once == 1 and operation == "POSSESSIVE_REPEAT":
            return 1
        if once == 1:
            return float(most - min(int(least), most) + 1)
        return float(once**most) * 2 if most < 30 else float("inf")
    if operation == "BRANCH":
        return sum(_ways(branch) for branch in argument[1])
    if operation == "SUBPATTERN":
        return _ways(argument[-1])
    if operation == "ATOMIC_GROUP":
        return _ways(argument)
    if operation in ("ASSERT", "ASSERT_NOT"):
        return _ways(argument[1])
    # What refers to what was found before, and whatever a later Python brings.
    return float("inf")
