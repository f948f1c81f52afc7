"""Mutations of operators: comparisons and arithmetic."""

from __future__ import annotations

import ast
import copy
import random

from ratchet.learn.mutations.splicing import TextChange, changed
from ratchet.learn.mutations.tree import FunctionTree

COMPARISON_REPLACEMENTS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.LtE, ast.Gt, ast.GtE),
    ast.LtE: (ast.Lt, ast.Lt, ast.GtE, ast.Gt),
    ast.Gt: (ast.GtE, ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.Gt, ast.LtE, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
"""Replacements for a comparison; a likelier one appears twice."""

ARITHMETIC_REPLACEMENTS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult),
    ast.Mult: (ast.Add, ast.Div, ast.Sub),
    ast.Div: (ast.Mult, ast.Sub, ast.FloorDiv),
    ast.FloorDiv: (ast.Div, ast.Mod, ast.Sub),
    ast.Mod: (ast.FloorDiv, ast.Sub),
    ast.Pow: (ast.Mult,),
}


def comparison(
    tree: FunctionTree, rng: random.Random, donor: FunctionTree | None
) -> TextChange | None:
    """Change a comparison, such as `<` to `<=`."""
    nodes = [n for n in tree.expressions() if isinstance(n, ast.Compare)]
    if not nodes:
        return None
    node = rng.choice(nodes)
    new = copy.deepcopy(node)
    at = rng.randrange(len(new.ops))
    new.ops[at] = rng.choice(COMPARISON_REPLACEMENTS[type(new.ops[at])])()
    return changed(node, new)


def arithmetic(
    tree: FunctionTree, rng: random.Random, donor: FunctionTree | None
) -> TextChange | None:
    """Change an arithmetic operator, swap operands, or drop one."""
    nodes: list[ast.expr] = [
        n
        for n in tree.numbers()
        if isinstance(n, ast.BinOp) and type(n.op) in ARITHMETIC_REPLACEMENTS
    ]
    if not nodes:
        return None
    node = rng.choice(nodes)
    assert isinstance(node, ast.BinOp)
    draw = rng.random()
    if draw < 0.55:
        new: ast.expr = copy.deepcopy(node)
        assert isinstance(new, ast.BinOp)
        new.op = rng.choice(ARITHMETIC_REPLACEMENTS[type(node.op)])()
    elif draw < 0.75 and not isinstance(node.op, ast.Add | ast.Mult):
        new = ast.BinOp(copy.deepcopy(node.right), node.op, copy.deepcopy(node.left))
    else:
        new = copy.deepcopy(rng.choice((node.left, node.right)))
    return changed(node, new)
