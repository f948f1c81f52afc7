"""Mutations of constants: numbers change by a little or a lot, booleans flip.

People write round numbers, so a wrong one is most likely mended by a round one: `near` tries the
values near by in a fixed order, each once. Random moves, rounded to few digits, cover the rest.
"""

from __future__ import annotations

import ast
import math
import random
from collections import Counter
from decimal import Decimal
from typing import TypeAlias

from ratchet.learn.mutations.splicing import TextChange
from ratchet.learn.mutations.tree import FunctionTree

MAX_NUMBER = 1e12
"""Upper bound for numbers, so that they have few digits."""

FRACTIONS = (0.5, 0.25, 0.75, 0.1, 0.9, 0.2, 0.8, 0.05, 0.95, 0.01, 0.99)
"""Typical values of shares and rates."""

SIGNIFICANT_DIGITS = (1, 2, 2, 3, 4)
"""Significant digits of a random move, drawn with equal chance."""

ROUND_VALUES_TRIED = 6
"""Number of round values of each constant that are tried in order, nearest first."""

Tried: TypeAlias = set[tuple[str, int, str]]
"""Values tried: the constant's line with the constant removed, the line's position among equal
lines, and the value. Functions derived from this one do not try the same value again."""


def near(tree: FunctionTree, rng: random.Random, tried: Tried) -> TextChange | None:
    """Set a number to the first round value nearby that was not tried; None if all were.

    Args:
        tree: The function.
        rng: Draws the constant among those with the fewest values tried.
        tried: The values tried so far; the new one is added.
    """
    places: Counter[str] = Counter()
    options: list[tuple[int, float, ast.Constant, tuple[str, int, str], int | float]] = []
    for node in _numbers(tree):
        assert isinstance(node.value, int | float)
        line = _line_without(tree, node)
        for rank, value in enumerate(neighbours(node.value)[:ROUND_VALUES_TRIED]):
            key = (line, places[line], repr(value))
            if key not in tried:
                options.append((rank, rng.random(), node, key, value))
                break
        places[line] += 1
    if not options:
        return None
    _, _, node, key, value = min(options, key=lambda option: option[:2])
    tried.add(key)
    return _becomes(node, value)


def rounded(
    tree: FunctionTree, rng: random.Random, donor: FunctionTree | None
) -> TextChange | None:
    """Set a number to any round value nearby."""
    nodes = _numbers(tree)
    if not nodes:
        return None
    node = rng.choice(nodes)
    assert isinstance(node.value, int | float)
    values = neighbours(node.value)
    return _becomes(node, rng.choice(values)) if values else None


def neighbours(value: int | float) -> list[int | float]:
    """Round values near a number, likeliest first.

    One step of its last digit, half of that and the round values on both sides; two steps; half and
    double; powers of ten; usual fractions; its opposite, 0 and 1. Those of an integer are integers.
    """
    exact = Decimal(repr(value))
    if not exact.is_finite():
        return []
    is_integer = isinstance(value, int)
    literal, shortest = exact.as_tuple(), exact.normalize().as_tuple()
    assert isinstance(literal.exponent, int)
    assert isinstance(shortest.exponent, int)
    last = Decimal(10) ** min(literal.exponent, shortest.exponent)
    step = Decimal(10) ** shortest.exponent  # of the last digit that is not 0
    steps = (last, step, step / 2, last / 2)
    around = [exact + side * distance for distance in steps for side in (-1, 1)]
    if len(shortest.digits) > 1:
        for coarse in (5 * step, 10 * step):
            around += [exact // coarse * coarse, (exact // coarse + 1) * coarse]
    around += [exact - 2 * last, exact + 2 * last, exact / 2, exact * 2, exact * 10, exact / 10]
    if not is_integer and 0 < exact < 1:
        around += [1 - exact, *(Decimal(repr(fraction)) for fraction in FRACTIONS)]
    around = [number for number in around if number * exact >= 0]
    around += [-exact, Decimal(0), Decimal(1)]
    numbers: dict[str, int | float] = {}
    for neighbour in around:
        if is_integer and neighbour != neighbour.to_integral_value():
            continue
        number = int(neighbour) if is_integer else float(neighbour)
        if number != value and abs(number) < MAX_NUMBER:
            numbers.setdefault(repr(number), number)
    return list(numbers.values())


def nudge(tree: FunctionTree, rng: random.Random, donor: FunctionTree | None) -> TextChange | None:
    """Change a number by a few per cent, an integer by one step."""
    return _moved(tree, rng, 0.15, 1)


def leap(tree: FunctionTree, rng: random.Random, donor: FunctionTree | None) -> TextChange | None:
    """Scale or negate a number, or set it to 0 or 1; flip a boolean."""
    truths = [n for n in _constants(tree) if isinstance(n.value, bool)]
    if truths and rng.random() < 0.3:
        node = rng.choice(truths)
        return _becomes(node, not node.value)
    return _moved(tree, rng, 1.0, 4)


def _moved(tree: FunctionTree, rng: random.Random, spread: float, step: int) -> TextChange | None:
    nodes = _numbers(tree)
    if not nodes:
        return None
    node = rng.choice(nodes)
    value = node.value
    assert isinstance(value, int | float)
    new = _number(value, spread, step, rng)
    return _becomes(node, new) if new != value and abs(new) < MAX_NUMBER else None


def _number(value: int | float, spread: float, step: int, rng: random.Random) -> int | float:
    if isinstance(value, int):
        draw = rng.random()
        if spread >= 1.0 and draw < 0.25:
            return rng.choice((0, 1, -value, 2 * value, value // 2))
        if draw < 0.15:
            return _short(value + rng.gauss(0.0, spread), rng)  # an integer may become a float
        wide = max(step, round(abs(value) * spread / 3))
        return value + rng.choice((-1, 1)) * rng.randint(1, wide)
    if spread >= 1.0 and rng.random() < 0.25:
        return rng.choice((0.0, 1.0, -value, 0.5, 2.0, 0.1))
    if value == 0.0 or rng.random() < 0.25:
        return _short(value + rng.gauss(0.0, spread * (abs(value) or 0.5)), rng)
    return _short(value * math.exp(rng.gauss(0.0, spread)), rng)


def _short(value: float, rng: random.Random) -> float:
    """A number with few significant digits: it appears in the patch."""
    return float(f"{value:.{rng.choice(SIGNIFICANT_DIGITS)}g}")


def _constants(tree: FunctionTree) -> list[ast.Constant]:
    return [
        node
        for node in tree.expressions()
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    ]


def _numbers(tree: FunctionTree) -> list[ast.Constant]:
    return [node for node in _constants(tree) if not isinstance(node.value, bool)]


def _line_without(tree: FunctionTree, node: ast.Constant) -> str:
    line = tree.source.split("\n")[node.lineno - 1].encode()
    return f"{line[: node.col_offset].decode()}\0{line[node.end_col_offset :].decode()}"


def _becomes(node: ast.Constant, value: int | float | bool) -> TextChange:
    return TextChange(
        old=node,
        new=ast.Constant(value),
        description=f"{node.value!r} became {value!r} in line {node.lineno}",
    )
