"""Parses JSON that a user wrote, and reports what Python's parser would lose silently."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_TOKEN = re.compile(r'(?P<key>"(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[{}\[\]]')


class JsonReader:
    """Parses JSON texts, and reports what Python's parser ignores.

    Args:
        constant: Gives the value of `NaN`, `Infinity` and `-Infinity`, which are not JSON, or
            raises ValueError.
    """

    def __init__(self, constant: Callable[[str], Any]) -> None:
        self._constant = constant
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._seen_constant
        )
        self.twice = ""
        """A key that occurs twice in an object of the last text; Python keeps only the last
        value."""
        self.constants = 0
        """Number of such constants in the last text."""

    def parse(self, text: str) -> Any:
        """The value of a text.

        Raises:
            ValueError: It is not JSON, or an object has a key twice; the message is a clause.
            RecursionError: It is nested too deeply.
        """
        self._begin()
        try:
            value = self._decoder.decode(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error.msg} at {_place(text, error.pos)}") from None
        self.check(text)
        return value

    def parse_at(self, text: str, start: int) -> tuple[Any, int]:
        """The value that begins at a position, and where it ends; keys are not checked.

        Raises:
            json.JSONDecodeError: There is none.
            ValueError: It has a number with more digits than Python parses.
            RecursionError: It is nested too deeply.
        """
        self._begin()
        return self._decoder.raw_decode(text, start)

    def check(self, text: str, start: int = 0) -> None:
        """Refuse the last parsed text if an object in it has a duplicate key.

        Raises:
            ValueError: An object has; the message is a clause with the place.
        """
        if self.twice:
            at = _repeated_key(text, start) - start
            raise ValueError(f"the key {self.twice!r} occurs again at {_place(text[start:], at)}")

    def _begin(self) -> None:
        self.twice = ""
        self.constants = 0

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs) and not self.twice:
            keys = [key for key, _ in pairs]
            self.twice = next(key for key in fields if keys.count(key) > 1)
        return fields

    def _seen_constant(self, name: str) -> Any:
        self.constants += 1
        return self._constant(name)


def _place(text: str, position: int) -> str:
    """A position for people: its column, and its line if there are several."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}" if line > 1 else f"column {column}"


def _repeated_key(text: str, start: int) -> int:
    """Position of the first repeated key of an object in valid JSON."""
    objects: list[set[str] | None] = []
    for token in _TOKEN.finditer(text, start):
        if token[0] in "{[":
            objects.append(set() if token[0] == "{" else None)
        elif token[0] in "}]":
            objects.pop()
        elif token["key"] and objects[-1] is not None:
            key = json.loads(token["key"])
            if key in objects[-1]:
                return token.start()
            objects[-1].add(key)
    return start
