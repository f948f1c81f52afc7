"""Mutations of constants: numbers change by a little or a lot, booleans flip."""

from __future__ import annotations

import ast
import math
import random

from ratchet.learn.proposers.mutations.splicing import TextChange
from ratchet.learn.proposers.mutations.tree import FunctionTree

LIMIT = 1e12
"""Upper bound of numbers, so that their digits stay few."""


def nudge(tree: FunctionTree, rng: random.Random, other: FunctionTree | None) -> TextChange | None:
    """Change a number by a few per cent, an integer by one step."""
    return _moved(tree, rng, 0.15, 1)


def leap(tree: FunctionTree, rng: random.Random, other: FunctionTree | None) -> TextChange | None:
    """Scale or negate a number, or set it to 0 or 1; flip a boolean."""
    truths = [n for n in _constants(tree) if isinstance(n.value, bool)]
    if truths and rng.random() < 0.3:
        node = rng.choice(truths)
        return _becomes(node, not node.value)
    return _moved(tree, rng, 1.0, 4)


def _moved(tree: FunctionTree, rng: random.Random, spread: float, step: int) -> TextChange | None:
    nodes = [n for n in _constants(tree) if not isinstance(n.value, bool)]
    if not nodes:
        return None
    node = rng.choice(nodes)
    value = node.value
    assert isinstance(value, int | float)
    new = _number(value, spread, step, rng)
    return _becomes(node, new) if new != value and abs(new) < LIMIT else None


def _number(value: int | float, spread: float, step: int, rng: random.Random) -> int | float:
    if isinstance(value, int):
        draw = rng.random()
        if spread >= 1.0 and draw < 0.25:
            return rng.choice((0, 1, -value, 2 * value, value // 2))
        if draw < 0.15:
            return round(value + rng.gauss(0.0, spread), 3)  # an integer may become a float
        wide = max(step, round(abs(value) * spread / 3))
        return value + rng.choice((-1, 1)) * rng.randint(1, wide)
    if spread >= 1.0 and rng.random() < 0.25:
        return rng.choice((0.0, 1.0, -value, 0.5, 2.0, 0.1))
    if value == 0.0 or rng.random() < 0.25:
        return _short(value + rng.gauss(0.0, spread * (abs(value) or 0.5)))
    return _short(value * math.exp(rng.gauss(0.0, spread)))


def _short(value: float) -> float:
    """Four significant digits: the value appears in the patch."""
    return float(f"{value:.4g}")


def _constants(tree: FunctionTree) -> list[ast.Constant]:
    return [
        node
        for node in tree.expressions()
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    ]


def _becomes(node: ast.Constant, value: int | float | bool) -> TextChange:
    return TextChange(
        old=node,
        new=(ast.Constant(value),),
        description=f"{node.value!r} became {value!r} in line {node.lineno}",
    )
