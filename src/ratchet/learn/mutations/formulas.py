"""Mutations of formulas: a number becomes an expression or another number in scope."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable

from ratchet.learn.mutations.names import free_names
from ratchet.learn.mutations.splicing import TextChange, changed
from ratchet.learn.mutations.tree import FunctionTree

Template = Callable[[ast.expr, ast.expr, ast.expr, random.Random], ast.expr]


def _binary(kind: type[ast.operator]) -> Template:
    return lambda x, y, c, rng: ast.BinOp(x, kind(), y)


def _called(name: str) -> Template:
    return lambda x, y, c, rng: ast.Call(ast.Name(name, ast.Load()), [x, y], [])


def _one_plus(node: ast.expr) -> ast.expr:
    return ast.BinOp(ast.Constant(1), ast.Add(), ast.Call(ast.Name("abs", ast.Load()), [node], []))


TEMPLATES: tuple[Template, ...] = (
    lambda x, y, c, rng: ast.BinOp(x, ast.Mult(), c),
    lambda x, y, c, rng: ast.BinOp(x, ast.Add(), c),
    lambda x, y, c, rng: ast.BinOp(x, ast.Add(), ast.BinOp(c, ast.Mult(), y)),
    lambda x, y, c, rng: ast.BinOp(x, ast.Sub(), ast.BinOp(c, ast.Mult(), y)),
    lambda x, y, c, rng: ast.BinOp(x, ast.Mult(), y),
    lambda x, y, c, rng: ast.BinOp(x, ast.Div(), _one_plus(y)),
    lambda x, y, c, rng: ast.BinOp(x, ast.Div(), _one_plus(ast.BinOp(c, ast.Mult(), y))),
    _binary(ast.Add),
    _binary(ast.Sub),
    _called("min"),
    _called("max"),
    lambda x, y, c, rng: ast.BinOp(ast.Call(ast.Name("abs", ast.Load()), [x], []), ast.Pow(), c),
    lambda x, y, c, rng: ast.BinOp(x, ast.Pow(), ast.Constant(2)),
    lambda x, y, c, rng: ast.Call(ast.Name("abs", ast.Load()), [x], []),
    lambda x, y, c, rng: ast.UnaryOp(ast.USub(), x),
)


def formula(
    tree: FunctionTree, rng: random.Random, donor: FunctionTree | None
) -> TextChange | None:
    """Combine a number with others in scope: `x` becomes `x + c * y`."""
    nodes = _places(tree)
    if not nodes:
        return None
    node = rng.choice(nodes)
    y = _atom(tree, rng, node)
    if y is None:
        return None
    c = ast.Constant(rng.choice((0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 1.5, 2.0, 3.0)))
    return changed(node, rng.choice(TEMPLATES)(copy.deepcopy(node), y, c, rng))


def key(tree: FunctionTree, rng: random.Random, donor: FunctionTree | None) -> TextChange | None:
    """Change `x["key"]` to a key of the task inputs' objects with a value of the same kind."""
    nodes = [n for n in tree.expressions() if isinstance(n, ast.Subscript)]
    options = [
        (node, sibling)
        for node in nodes
        for sibling, kind in tree.siblings(node)
        if kind == tree.kind(node) or tree.kind(node) == "other"
    ]
    return changed(*rng.choice(options)) if options else None


def graft(tree: FunctionTree, rng: random.Random, donor: FunctionTree | None) -> TextChange | None:
    """Replace a number with a longer expression from this function or the other."""
    nodes = _places(tree)
    if not nodes:
        return None
    node = rng.choice(nodes)
    bound = tree.bound(node)
    giver = donor if donor is not None and rng.random() < 0.7 else tree
    options = [
        expression
        for expression in giver.numbers()
        if isinstance(expression, ast.BinOp | ast.IfExp | ast.Call)
        and free_names(expression) <= bound
        and ast.dump(expression) != ast.dump(node)
        and not (giver is tree and _within(node, expression))
    ]
    return changed(node, copy.deepcopy(rng.choice(options))) if options else None


def _places(tree: FunctionTree) -> list[ast.expr]:
    """Numbers that may become formulas: those outside indices and ranges."""
    places = []
    for node in tree.numbers():
        above = tree.above(node)
        indexes = isinstance(above, ast.Subscript | ast.Slice)
        counts = isinstance(above, ast.Call) and getattr(above.func, "id", "") == "range"
        if not indexes and not counts:
            places.append(node)
    return places


def _atom(tree: FunctionTree, rng: random.Random, place: ast.expr) -> ast.expr | None:
    atoms = tree.atoms(place)
    lists = tree.atoms(place, "list") + tree.atoms(place, "text")
    if lists and (not atoms or rng.random() < 0.15):
        return ast.Call(ast.Name("len", ast.Load()), [rng.choice(lists)], [])
    return rng.choice(atoms) if atoms else None


def _within(node: ast.AST, root: ast.AST) -> bool:
    return any(part is node for part in ast.walk(root))
