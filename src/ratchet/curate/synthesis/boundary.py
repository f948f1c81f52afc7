"""Boundary values: real inputs with one or two values at the limit of what is allowed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ratchet.curate.synthesis.sample import Sample
from ratchet.types import Task

BY_BOUNDARY = "boundary values"

UNICODE = (
    "Zoë Ångström-Müller",
    "東京タワー",
    "مرحبا بالعالم",
    "naïve café",  # decomposed
    "👩🏽‍💻 ok",
    "ﬁne ＡＢＣ１２３",  # noqa: RUF001
    "a​b",  # a space of no width
)
LONG_TEXT_REPEATS = 4
"""A long text is the longest one seen, repeated this many times."""

MAX_CHARACTERS = 20_000

ValuePath = tuple[str | int, ...]


class BoundaryValues:
    """Draws real inputs with values at the boundaries of a schema.

    Args:
        tasks: Sources of the inputs.
        schema: JSON schema of the inputs; its bounds are the boundaries.
        optional: Names of top-level fields that may be missing.
        rng: Source of randomness.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        schema: Mapping[str, Any],
        rng: random.Random,
        *,
        optional: Sequence[str] = (),
    ) -> None:
        self._samples = self._all(tasks, schema, rng, set(optional))

    async def draw(self, count: int) -> list[Sample]:
        """See `Method.draw`."""
        return list(islice(self._samples, count))

    def _all(
        self,
        tasks: Sequence[Task],
        schema: Mapping[str, Any],
        rng: random.Random,
        optional: set[str],
    ) -> Iterator[Sample]:
        changes = list(_changes(schema, (), optional))
        rng.shuffle(changes)
        for rounds in (1, 2):  # one value at a time, then two
            for number, change in enumerate(changes):
                task = tasks[rng.randrange(len(tasks))]
                some = [change]
                if rounds == 2:
                    some.append(changes[(number + 1 + rng.randrange(len(changes))) % len(changes)])
                value: Any = task.input
                for path, new in some:
                    value = _replaced(value, path, new)
                yield Sample(
                    input=value, by=BY_BOUNDARY, sources=(task.id,), metadata=task.metadata
                )


_MISSING = object()


def _changes(
    schema: Mapping[str, Any], path: ValuePath, optional: set[str]
) -> Iterator[tuple[ValuePath, Any]]:
    """Each place of an input, with a value at its boundary."""
    for variant in schema.get("anyOf", [schema]):
        if "enum" in variant:
            yield from ((path, value) for value in variant["enum"])
            continue
        kind = variant.get("type")
        if kind in ("integer", "number"):
            yield from ((path, value) for value in _numbers(variant, kind == "integer"))
        elif kind == "string":
            yield from ((path, value) for value in _texts(variant))
        elif kind == "boolean":
            yield from ((path, value) for value in (True, False))
        elif kind == "array":
            yield from ((path, _Resized(size)) for size in _sizes(variant))
            if variant.get("maxItems", 1) > 0:
                yield from _changes(variant.get("items", {}), (*path, 0), optional)
        elif kind == "object":
            required = set(variant.get("required", ()))
            for name, field in variant.get("properties", {}).items():
                if name not in required or (not path and name in optional):
                    yield (*path, name), _MISSING
                yield from _changes(field, (*path, name), optional)


class _Resized:
    """Stands for the existing list with a different number of items."""

    def __init__(self, size: int) -> None:
        self.size = size


def _numbers(schema: Mapping[str, Any], is_whole: bool) -> list[float]:
    low, high = schema.get("minimum"), schema.get("maximum")
    values: list[float] = [] if low is None else [low, low + 1]
    values += [] if high is None else [high, high - 1]
    if (low is None or low <= 0) and (high is None or high >= 0):
        values.append(0)
    if low is not None and high is not None:
        values.append((low + high) // 2 if is_whole else (low + high) / 2)
    inside = (v for v in values if (low is None or v >= low) and (high is None or v <= high))
    return list(dict.fromkeys(inside))


def _texts(schema: Mapping[str, Any]) -> list[Any]:
    low = schema.get("minLength", 0)
    longest = min(MAX_CHARACTERS, schema.get("maxLength", 200) * LONG_TEXT_REPEATS)
    values = [*UNICODE, "a" * max(1, low), "long text " * (longest // 10 + 1)]
    return values if low else ["", *values]


def _sizes(schema: Mapping[str, Any]) -> list[int]:
    high = schema.get("maxItems", 3)
    return list(dict.fromkeys([schema.get("minItems", 0), 1, high]))


def _replaced(value: Any, path: ValuePath, new: Any) -> Any:
    """The value with the part at a place replaced; unchanged if there is no such place."""
    if not path:
        if isinstance(new, _Resized):
            items = value if isinstance(value, list) else []
            return [items[at % len(items)] for at in range(new.size)] if items else []
        return new
    first, *tail = path
    if isinstance(first, int):
        if not isinstance(value, list) or first >= len(value):
            return value
        changed = [*value]
        changed[first] = _replaced(value[first], tuple(tail), new)
        return changed
    if not isinstance(value, dict):
        return value
    if not tail and new is _MISSING:
        return {key: item for key, item in value.items() if key != first}
    if first not in value and tail:
        return value
    return {**value, first: _replaced(value.get(first), tuple(tail), new)}
