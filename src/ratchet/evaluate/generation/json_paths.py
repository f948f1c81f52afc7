"""Values inside JSON data by their paths, as numbers and texts, and as Python expressions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

JsonPath: TypeAlias = tuple[str, ...]

MAX_PATHS = 24
"""Maximum number of a value's paths that are examined, in order."""


def data_of(value: Any) -> Any:
    """The value, or the object or list that it holds as JSON text; None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        if text[:1] not in ("{", "["):
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, (dict, list)) else None


def leaves(value: Any, path: JsonPath = ()) -> Iterator[tuple[JsonPath, Any]]:
    """The scalars in nested objects, each with its path of keys; lists are left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if len(path) < 4:
                yield from leaves(inner, (*path, str(key)))
    elif not isinstance(value, list) and path:
        yield path, value


def lists(value: Any, path: JsonPath = ()) -> Iterator[tuple[JsonPath, list[Any]]]:
    """The lists in nested objects, each with its path of keys."""
    if isinstance(value, list):
        yield path, value
    elif isinstance(value, dict) and len(path) < 4:
        for key, inner in value.items():
            yield from lists(inner, (*path, str(key)))


def at(value: Any, path: JsonPath) -> Any:
    """The value at a path.

    Raises:
        KeyError, TypeError: There is none.
    """
    for key in path:
        value = value[key]
    return value


def is_number(value: Any) -> bool:
    """Whether a value is a JSON number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Expression:
    """A number or text computed from an example, with the Python that computes it.

    Args:
        code: Python over `output` and `input`.
        words: What it is, for a sentence.
        slug: What it is, as part of a name.
        of: Computes it from output and input.
        cost: Number of values that it is made of; the simplest relation is proposed.
        reads: `output` or `input`.
    """

    def __init__(
        self,
        code: str,
        words: str,
        slug: str,
        of: Callable[[Any, Any], Any],
        *,
        cost: int,
        reads: str,
    ) -> None:
        self.code = code
        self.words = words
        self.slug = slug
        self.of = of
        self.cost = cost
        self.reads = reads


def scalar(reads: str, path: JsonPath) -> Expression:
    """The value at a path."""
    return Expression(
        _code(reads, path),
        ".".join((reads, *path)),
        "_".join(path),
        lambda output, input: at(output if reads == "output" else input, path),
        cost=1,
        reads=reads,
    )


def length(reads: str, path: JsonPath) -> Expression:
    """Number of items of a list."""
    return Expression(
        f"len({_code(reads, path)})",
        f"the number of {'.'.join((reads, *path))}",
        f"count_of_{'_'.join(path) or reads}",
        lambda output, input: len(_list(output if reads == "output" else input, path)),
        cost=2,
        reads=reads,
    )


def total(reads: str, path: JsonPath, *keys: str) -> Expression:
    """Sum over a list's items, of one field or of the product of several."""
    product = " * ".join(f"item[{key!r}]" for key in keys)

    def of(output: Any, input: Any) -> float:
        items = _list(output if reads == "output" else input, path)
        added = 0.0
        for item in items:
            term = 1.0
            for key in keys:
                if not is_number(item[key]):
                    raise TypeError
                term *= item[key]
            added += term
        return added

    return Expression(
        f"sum({product} for item in {_code(reads, path)})",
        f"the sum of {' × '.join(keys)} over {'.'.join((reads, *path))}",
        f"sum_of_{'_'.join(keys)}",
        of,
        cost=2 + len(keys),
        reads=reads,
    )


def _list(value: Any, path: JsonPath) -> list[Any]:
    items = at(value, path)
    if not isinstance(items, list):
        raise TypeError
    return items


def _code(reads: str, path: JsonPath) -> str:
    return reads + "".join(f"[{key!r}]" for key in path)
