"""Relations between the fields of inputs and outputs that hold in good examples."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ratchet.evaluate.generation.json_paths import (
    MAX_PATHS,
    Expression,
    data_of,
    is_number,
    leaves,
    length,
    lists,
    scalar,
    total,
)
from ratchet.evaluate.generation.proposal import ProposedEvaluator

EQUAL_BY_CHANCE, ORDERED_BY_CHANCE = 0.3, 0.9
"""A relation is proposed if it holds at most so often between values of different examples: one
that always holds, whatever the agent does, says nothing."""

PRESENT = 0.8
"""Minimum share of the examples that have both sides of a relation."""

MAY_BREAK = 0.05
"""Maximum share of the examples that violate it: some outputs and some labels are wrong."""

MAX_RELATIONS = 12
"""Maximum number of relations proposed, simplest first."""

SHUFFLES = 200
"""Number of pairs of different examples used to measure chance."""

_NAME = re.compile(r"\W+")


class _Pair(NamedTuple):
    output: Any
    input: Any


class _Relation(NamedTuple):
    word: str
    """Its part of the evaluator's name."""
    words: str
    """Words between its two sides in a sentence."""
    code: str
    """Python over `left` and `right`."""
    holds: Callable[[Any, Any], bool]


def _equal(left: Any, right: Any) -> bool:
    if is_number(left) and is_number(right):
        return bool(abs(left - right) <= 0.005 + 1e-9 * max(abs(left), abs(right)))
    return type(left) is type(right) and isinstance(left, str) and left.strip() == right.strip()


def _ordered(left: Any, right: Any) -> bool:
    numbers = is_number(left) and is_number(right)
    dates = _is_date(left) and _is_date(right)
    return bool((numbers or dates) and left <= right)


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ][\d:.Z+-]+)?")


def _is_date(value: Any) -> bool:
    return isinstance(value, str) and _DATE.fullmatch(value) is not None


EQUAL_RELATION = _Relation("equals", "equals", "_equal(left, right)", _equal)
AT_MOST_RELATION = _Relation("is_at_most", "is at most", "left <= right", _ordered)

_HEAD = """import json


def _data(value):
    return json.loads(value) if isinstance(value, str) else value


def _equal(left, right):
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left.strip() == right.strip()
    return abs(left - right) <= 0.005 + 1e-9 * max(abs(left), abs(right))


"""

_BODY = '''def {name}({parameters}):
    """{words}"""
{prepare}    try:
        output = _data(output)
        left = {left}
{inside}        return {code}
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return False  # the output lacks a field, or it has another type
'''


def propose_invariants(
    examples: Sequence[tuple[Any, Any]], *, seed: int = 0
) -> list[ProposedEvaluator]:
    """Equalities and orders that hold in nearly all examples, and rarely by chance.

    Args:
        examples: Output and input of each good example.
        seed: Seed of the pairs by which chance is measured.
    """
    pairs = [_Pair(data_of(output), data_of(input)) for output, input in examples]
    pairs = [pair for pair in pairs if isinstance(pair.output, (dict, list))]
    if not pairs:
        return []
    lefts, rights = _sides(pairs)
    luck = random.Random(seed)  # noqa: S311
    holding: list[tuple[int, ProposedEvaluator]] = []
    explained: set[tuple[str, str]] = set()
    tries = [
        (left.cost + right.cost, relation, left, right)
        for relation in (EQUAL_RELATION, AT_MOST_RELATION)
        for left, right in itertools.product(lefts, rights)
        if left.code != right.code
        and not (relation is AT_MOST_RELATION and (left.cost > 1 or right.cost > 1))
    ]
    for cost, relation, left, right in sorted(tries, key=lambda attempt: attempt[0]):
        key = (relation.word, left.code)
        mirrored = (relation.word, right.code)
        if relation is EQUAL_RELATION and (key in explained or mirrored in explained):
            continue
        if _holds(pairs, relation, left, right, luck):
            if relation is EQUAL_RELATION:
                explained.add(key)
            holding.append((cost, _proposal(relation, left, right, len(pairs))))
    return [proposal for _, proposal in holding[:MAX_RELATIONS]]


def _sides(pairs: Sequence[_Pair]) -> tuple[list[Expression], list[Expression]]:
    lefts: dict[str, Expression] = {}
    rights: dict[str, Expression] = {}
    for pair in pairs[:50]:
        for reads, value in (("output", pair.output), ("input", pair.input)):
            for expression in itertools.islice(_expressions(reads, value), MAX_PATHS):
                rights.setdefault(expression.code, expression)
                if reads == "output" and expression.cost == 1:
                    lefts.setdefault(expression.code, expression)
    return list(lefts.values())[:MAX_PATHS], list(rights.values())[: 2 * MAX_PATHS]


def _expressions(reads: str, value: Any) -> Iterator[Expression]:
    for path, leaf in leaves(value):
        if is_number(leaf) or isinstance(leaf, str):
            yield scalar(reads, path)
    for path, items in lists(value):
        yield length(reads, path)
        first = items[0] if items else None
        if isinstance(first, dict):
            numeric = [key for key, field in first.items() if is_number(field)][:4]
            for key in numeric:
                yield total(reads, path, key)
            for left_key, right_key in itertools.combinations(numeric, 2):
                yield total(reads, path, left_key, right_key)


def _holds(
    pairs: Sequence[_Pair],
    relation: _Relation,
    left: Expression,
    right: Expression,
    luck: random.Random,
) -> bool:
    """Whether a relation holds in nearly every example that has both sides, and rarely holds when
    the sides are paired at random."""
    sides = []
    broken = 0
    for pair in pairs:
        try:
            both = left.of(*pair), right.of(*pair)
        except (KeyError, TypeError):
            continue
        if None in both:
            continue
        sides.append(both)
        broken += not relation.holds(*both)
        if broken > MAY_BREAK * len(pairs):
            return False
    if len(sides) < PRESENT * len(pairs) or len(sides) < 2:
        return False
    by_chance = 0
    for _ in range(SHUFFLES):
        left_at, right_at = luck.sample(range(len(sides)), 2)
        by_chance += relation.holds(sides[left_at][0], sides[right_at][1])
    limit = EQUAL_BY_CHANCE if relation is EQUAL_RELATION else ORDERED_BY_CHANCE
    return by_chance <= limit * SHUFFLES


def _proposal(
    relation: _Relation, left: Expression, right: Expression, count: int
) -> ProposedEvaluator:
    name = _NAME.sub("_", f"{left.slug}_{relation.word}_{right.slug}").strip("_").lower()[:80]
    if not name[:1].isalpha():
        name = f"field_{name}"
    words = f"{left.words} {relation.words} {right.words}."
    inside = right.reads == "output"
    source = _HEAD + _BODY.format(
        name=name,
        parameters="output" if inside else "output, input",
        words=words.replace("\\", "").replace('"', "'"),
        prepare="" if inside else f"    input = _data(input)\n    right = {right.code}\n",
        left=left.code,
        inside=f"        right = {right.code}\n" if inside else "",
        code=relation.code,
    )
    return ProposedEvaluator(
        name=name,
        why=f"{words} This is so in 95 % or more of {count} good outputs, and rarely by chance.",
        made_by="invariant",
        source=source,
    )
