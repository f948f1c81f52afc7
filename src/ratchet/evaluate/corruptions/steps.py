"""Damage to the steps of a rollout: a wrong tool or argument, an extra or a missing call."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from ratchet.observe.dialects import names
from ratchet.types import Span

StepDamage: TypeAlias = Callable[[Sequence[Span], random.Random], list[Span]]
"""Returns the damaged steps, or equal ones if there is nothing to damage."""


def wrong_tool(spans: Sequence[Span], rng: random.Random) -> list[Span]:
    """Redirect a call to another tool."""
    return _one(
        spans,
        rng,
        lambda span: msgspec.structs.replace(
            span,
            name=f"{span.name}_other",
            attributes={**span.attributes, names.TOOL_NAME: f"{_tool(span)}_other"},
        ),
    )


def wrong_argument(spans: Sequence[Span], rng: random.Random) -> list[Span]:
    """Change an argument of a call."""

    def changed(span: Span) -> Span:
        for key in (names.TOOL_ARGUMENTS, names.INPUT):
            value = span.attributes.get(key)
            arguments = json.loads(value) if isinstance(value, str) and value[:1] == "{" else value
            if isinstance(arguments, dict) and arguments:
                name = rng.choice(list(arguments))
                altered = {**arguments, name: _other(arguments[name])}
                text = json.dumps(altered) if isinstance(value, str) else altered
                return msgspec.structs.replace(span, attributes={**span.attributes, key: text})
        return span

    return _one(spans, rng, changed)


def extra_call(spans: Sequence[Span], rng: random.Random) -> list[Span]:
    """Repeat a call."""
    calls = [span for span in spans if _tool(span)]
    if not calls:
        return list(spans)
    again = rng.choice(calls)
    return [*spans, msgspec.structs.replace(again, span_id=f"{rng.getrandbits(64):016x}")]


def missing_call(spans: Sequence[Span], rng: random.Random) -> list[Span]:
    """Drop a call."""
    calls = [span for span in spans if _tool(span)]
    gone = rng.choice(calls) if calls else None
    return [span for span in spans if span is not gone]


STEP_DAMAGES: Mapping[str, StepDamage] = {
    "wrong tool": wrong_tool,
    "wrong argument": wrong_argument,
    "extra call": extra_call,
    "missing call": missing_call,
}
"""Kinds of damage to steps by name."""


def _tool(span: Span) -> str:
    return str(span.attributes.get(names.TOOL_NAME) or "")


def _one(spans: Sequence[Span], rng: random.Random, change: Callable[[Span], Span]) -> list[Span]:
    calls = [number for number, span in enumerate(spans) if _tool(span)]
    damaged = list(spans)
    if calls:
        number = rng.choice(calls)
        damaged[number] = change(damaged[number])
    return damaged


def _other(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return f"{value} (other)"
