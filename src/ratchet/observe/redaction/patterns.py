"""A project's own regular expressions, guarded against catastrophic backtracking.

Python's engine tries every way in which a pattern can match, and a careless pattern has
exponentially many. So the number of ways at one position is computed from the parsed pattern, and a
pattern with too many is refused with advice. Matching is bounded too: a pattern sees a text in
windows, and a text that takes longer than `TIME_LIMIT_S` is replaced as a whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ratchet.types import ConfigError

MAX_PATTERNS = 50
MAX_PATTERN_LENGTH = 500
MAX_WAYS = 2_000
WINDOW = 2_048
"""Characters of a window."""

WINDOW_OVERLAP = 512
"""Characters that two windows share: a match up to this length is always found."""

TIME_LIMIT_S = 0.25
"""Time limit for all patterns on one text, in seconds."""

_UNBOUNDED = 1_000
"""Ways assumed for an unbounded repetition; two in a row exceed MAX_WAYS."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")


class PatternTimeout(Exception):
    """The patterns exceeded the time limit on a text."""


class Patterns:
    """The regular expressions of one project.

    Args:
        sources: Expressions by the name that their marks show.

    Raises:
        ConfigError: One is not a regular expression, is too long, or may backtrack too much.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        if len(sources) > MAX_PATTERNS:
            raise ConfigError(
                f"[redaction] has {len(sources)} patterns; at most {MAX_PATTERNS} are allowed."
            )
        self._compiled = [(name, _checked(name, source)) for name, source in sources.items()]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and name of each match.

        Raises:
            PatternTimeout: The time limit is exceeded.
        """
        if not self._compiled:
            return
        until = time.perf_counter() + TIME_LIMIT_S
        for begin in range(0, max(len(text) - WINDOW_OVERLAP, 1), WINDOW - WINDOW_OVERLAP):
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
            f"{where}: {name!r} is not a valid name for a pattern.",
            hint="Begin with a lowercase letter; use only lowercase letters, digits, - and _.",
        )
    if not 0 < len(source) <= MAX_PATTERN_LENGTH:
        raise ConfigError(
            f"{where} has {len(source)} characters; 1 to {MAX_PATTERN_LENGTH} are allowed."
        )
    try:
        compiled = re.compile(source)
        ways = _ways(_parsed(source))
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where} = {source!r} is not a regular expression: {error}.") from None
    if ways > MAX_WAYS:
        raise ConfigError(
            f"{where} = {source!r} can match in too many ways, which could take a very long time.",
            hint=r"Bound repetitions (\d{1,20} for \d+) or make them possessive (\d++ for \d+),"
            r" and do not nest them.",
        )
    return compiled


def _parsed(source: str) -> Any:
    # The only access to a parsed pattern; under this name since Python 3.11.
    return re._parser.parse(source)  # type: ignore[attr-defined]


def _ways(parsed: Any) -> float:
    """Upper bound on the number of ways in which a pattern can match at one position."""
    ways = 1.0
    for operation, argument in parsed:
        ways *= _ways_of(str(operation), argument)
        if ways > MAX_WAYS:
            return ways
    return ways


def _ways_of(operation: str, argument: Any) -> float:
    if operation in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT"):
        return 1
    if operation in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        minimum, most, inner = argument
        once = _ways(inner)
        most = min(int(most), _UNBOUNDED)
        if once == 1 and operation == "POSSESSIVE_REPEAT":
            return 1
        if once == 1:
            return float(most - min(int(minimum), most) + 1)
        return float(once**most) * 2 if most < 30 else float("inf")
    if operation == "BRANCH":
        return sum(_ways(branch) for branch in argument[1])
    if operation == "SUBPATTERN":
        return _ways(argument[-1])
    if operation == "ATOMIC_GROUP":
        return _ways(argument)
    if operation in ("ASSERT", "ASSERT_NOT"):
        return _ways(argument[1])
    # Back-references, and operations of later versions of Python.
    return float("inf")
