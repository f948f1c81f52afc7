"""Mutations of orderings: sort keys, and the sequences of loops."""

from __future__ import annotations

import ast
import copy
import random

from ratchet.learn.mutations.names import free_names
from ratchet.learn.mutations.splicing import TextChange, changed
from ratchet.learn.mutations.tree import FunctionTree

ORDERING = frozenset({"sorted", "sort", "min", "max", "nlargest", "nsmallest"})


def sort_key(
    tree: FunctionTree, rng: random.Random, donor: FunctionTree | None
) -> TextChange | None:
    """Change a sort key: add or remove an element, reverse the order, flip a sign."""
    sort_keys = [
        (keyword.value.body, keyword.value)
        for node in tree.expressions()
        if isinstance(node, ast.Call) and _name(node) in ORDERING
        for keyword in node.keywords
        if keyword.arg == "key" and isinstance(keyword.value, ast.Lambda)
    ]
    if not sort_keys:
        return None
    key, function = rng.choice(sort_keys)
    parts = list(key.elts) if isinstance(key, ast.Tuple) else [key]
    draw = rng.random()
    numbers = tree.atoms(key)
    own = {arg.arg for arg in function.args.args}
    numbers = [n for n in numbers if own & {p.id for p in ast.walk(n) if isinstance(p, ast.Name)}]
    if draw < 0.45 and numbers:
        added: ast.expr = rng.choice(numbers)
        if rng.random() < 0.5:
            added = ast.UnaryOp(ast.USub(), added)
        parts.insert(rng.randrange(len(parts) + 1), added)
    elif draw < 0.6 and len(parts) > 1:
        parts.pop(rng.randrange(len(parts)))
    elif draw < 0.75 and len(parts) > 1:
        at = rng.randrange(len(parts) - 1)
        parts[at], parts[at + 1] = parts[at + 1], parts[at]
    else:
        at = rng.randrange(len(parts))
        part = parts[at]
        if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
            parts[at] = part.operand
        elif tree.kind(part) == "number":
            parts[at] = ast.UnaryOp(ast.USub(), part)
        else:
            return None
    new = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    return changed(key, copy.deepcopy(new))


def sequence(
    tree: FunctionTree, rng: random.Random, donor: FunctionTree | None
) -> TextChange | None:
    """Sort or reverse the sequence of a loop."""
    loops = [
        node for node in ast.walk(tree.function) if isinstance(node, ast.For | ast.comprehension)
    ]
    if not loops:
        return None
    loop = rng.choice(loops)
    items = loop.iter
    if isinstance(items, ast.Call) and _name(items) in ("sorted", "reversed", "list"):
        if rng.random() < 0.5 and items.args:
            return changed(items, copy.deepcopy(items.args[0]))
        if _name(items) == "sorted":
            new = copy.deepcopy(items)
            _turn(new)
            return changed(items, new)
    iterable = copy.deepcopy(items)
    if rng.random() < 0.7:
        sorted_call = ast.Call(ast.Name("sorted", ast.Load()), [iterable], [])
        if isinstance(loop.target, ast.Name):
            key = _key(tree, rng, loop.target.id)
            if key is not None:
                sorted_call.keywords.append(ast.keyword("key", key))
        if rng.random() < 0.5:
            sorted_call.keywords.append(ast.keyword("reverse", ast.Constant(True)))
        return changed(items, sorted_call)
    turned = ast.Call(ast.Name("list", ast.Load()), [iterable], [])
    return changed(items, ast.Call(ast.Name("reversed", ast.Load()), [turned], []))


def _key(tree: FunctionTree, rng: random.Random, name: str) -> ast.Lambda | None:
    """A sort key built from a number that the loop reads from its items."""
    options = [
        node
        for node in tree.numbers()
        if isinstance(node, ast.Subscript | ast.Attribute | ast.Call) and free_names(node) == {name}
    ]
    if not options or rng.random() < 0.3:
        return None
    only = ast.arguments([], [ast.arg(name)], None, [], [], None, [])
    return ast.Lambda(only, copy.deepcopy(rng.choice(options)))


def _name(node: ast.Call) -> str:
    return str(getattr(node.func, "id", getattr(node.func, "attr", "")))


def _turn(node: ast.Call) -> None:
    for keyword in node.keywords:
        if keyword.arg == "reverse":
            node.keywords.remove(keyword)
            return
    node.keywords.append(ast.keyword("reverse", ast.Constant(True)))
