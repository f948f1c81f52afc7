"""Changes to outputs, and the application of a text change inside JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec


class Material(msgspec.Struct, frozen=True):
    """An output, and the data that a change may use."""

    output: Any
    others: Sequence[Any] = ()
    """Outputs for other tasks."""
    input: Any = None


Change: TypeAlias = Callable[[Material, random.Random], Any]
"""Returns the changed output, or an equal one if there is nothing to change."""


class Changed(msgspec.Struct, frozen=True):
    """A changed output."""

    output: Any


def made(change: Change, material: Material, rng: random.Random) -> Changed | None:
    """Apply a change to an output.

    Returns:
        The changed output; None when nothing was changed.
    """
    output = change(material, rng)
    return None if same(output, material.output) else Changed(output)


def same(first: Any, second: Any) -> bool:
    """Whether two outputs are equal in value, type and order of keys."""
    return _text(first) == _text(second)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, default=str)


def parsed(output: Any) -> Any:
    """An output as a list or object, parsed if it is JSON text; None for any other output."""
    if isinstance(output, (dict, list)):
        return output
    if isinstance(output, str) and output.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(output)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, (dict, list)) else None
    return None


def like(value: Any, output: Any) -> Any:
    """A changed list or object in the form of the output it was parsed from."""
    return json.dumps(value, ensure_ascii=False) if isinstance(output, str) else value


def on_leaf(
    output: Any, change: Callable[[Any], Any], rng: random.Random, *, wants: type | tuple[type, ...]
) -> Any:
    """Change one leaf of an output: a text or number as a whole, or one field or item of JSON.

    Args:
        output: The output.
        change: Maps a leaf to its changed form; equal if there is nothing to change.
        rng: Selects among the leaves that change.
        wants: Types of leaves to change.
    """
    value = parsed(output)
    if value is None:
        return change(output) if _is(output, wants) else output
    paths = list(_leaves(value, wants))
    rng.shuffle(paths)
    for path in paths:
        before = _at(value, path)
        after = change(before)
        if not same(before, after):
            return like(_with(value, path, after), output)
    return output


def _is(value: Any, wants: type | tuple[type, ...]) -> bool:
    # To Python, True is an int.
    kinds = wants if isinstance(wants, tuple) else (wants,)
    return type(value) in kinds


def _leaves(value: Any, wants: type | tuple[type, ...], path: tuple[Any, ...] = ()) -> Any:
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        if _is(value, wants):
            yield path
        return
    for key, item in items:
        yield from _leaves(item, wants, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _with(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    if not path:
        return leaf
    key, *tail = path
    if isinstance(value, dict):
        return {k: _with(v, tuple(tail), leaf) if k == key else v for k, v in value.items()}
    return [_with(v, tuple(tail), leaf) if n == key else v for n, v in enumerate(value)]
