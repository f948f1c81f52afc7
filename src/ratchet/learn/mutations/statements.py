"""Mutations of statements: branches, order, removal, guards."""

from __future__ import annotations

import ast
import copy
import random

from ratchet.learn.mutations.splicing import TextChange
from ratchet.learn.mutations.tree import FunctionTree

PLAIN = (ast.Assign, ast.AugAssign, ast.Expr)


def branch(tree: FunctionTree, rng: random.Random, other: FunctionTree | None) -> TextChange | None:
    """Force a branch, or swap two branches."""
    choices: list[ast.stmt | ast.expr] = [n for n in tree.statements() if isinstance(n, ast.If)]
    choices += [n for n in tree.expressions() if isinstance(n, ast.IfExp)]
    if not choices:
        return None
    node = rng.choice(choices)
    draw = rng.random()
    if isinstance(node, ast.IfExp):
        if draw < 0.4:
            new: ast.expr = ast.IfExp(node.test, node.orelse, node.body)
            return _change(node, (copy.deepcopy(new),), "its two values changed places")
        kept = rng.choice((node.body, node.orelse))
        return _change(node, (copy.deepcopy(kept),), f"it is always `{ast.unparse(kept)}`")
    assert isinstance(node, ast.If)
    if node.orelse and draw < 0.35:
        turned = ast.If(node.test, node.orelse, node.body)
        return _change(node, (copy.deepcopy(turned),), "its two branches changed places")
    if draw < 0.6:
        return _change(node, tuple(node.body), "its first branch is always taken")
    if node.orelse:
        return _change(node, tuple(node.orelse), "its second branch is always taken")
    return _change(node, (), "it is gone")


def order(tree: FunctionTree, rng: random.Random, other: FunctionTree | None) -> TextChange | None:
    """Move a simple statement below the next one."""
    pairs = []
    for node in tree.statements():
        block = tree.block(node)
        at = block.index(node)
        if isinstance(node, PLAIN) and at + 1 < len(block):
            after = block[at + 1]
            if not isinstance(after, ast.Return | ast.Break | ast.Continue | ast.Raise):
                pairs.append((node, after))
    if not pairs:
        return None
    node, after = rng.choice(pairs)
    return _swapped(tree, node, after)


def removal(
    tree: FunctionTree, rng: random.Random, other: FunctionTree | None
) -> TextChange | None:
    """Remove a simple statement, if what it sets is also set elsewhere."""
    found = []
    for node in tree.statements():
        if not isinstance(node, PLAIN):
            continue
        if isinstance(node, ast.Assign):
            before = tree.bound(node)
            names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            if not names <= before:
                continue
        found.append(node)
    if not found:
        return None
    node = rng.choice(found)
    return _change(node, (), "it is gone")


def guard(tree: FunctionTree, rng: random.Random, other: FunctionTree | None) -> TextChange | None:
    """Clamp a number after it is set, or make a statement conditional."""
    numeric = [
        n
        for n in tree.statements()
        if isinstance(n, ast.Assign | ast.AugAssign)
        and isinstance(_target(n), ast.Name)
        and tree.kind(n.value) == "number"
    ]
    plain = [n for n in tree.statements() if isinstance(n, PLAIN)]
    if numeric and (not plain or rng.random() < 0.4):
        return _bounded(tree, rng, rng.choice(numeric))
    conditional = [n for n in plain if not isinstance(n, ast.Assign) or _is_bound(tree, n)]
    if not conditional:
        return None
    node = rng.choice(conditional)
    test = condition(tree, rng, node)
    if test is None:
        return None
    new = ast.If(test, [copy.deepcopy(node)], [])
    return _change(node, (new,), f"it is done only if `{ast.unparse(test)}`")


def early(tree: FunctionTree, rng: random.Random, other: FunctionTree | None) -> TextChange | None:
    """Continue or leave a loop on a condition."""
    inner = [
        n
        for n in tree.statements()
        if isinstance(tree.above(n), ast.For | ast.While) and isinstance(n, PLAIN)
    ]
    if not inner:
        return None
    node = rng.choice(inner)
    test = condition(tree, rng, node)
    if test is None:
        return None
    leave: ast.stmt = rng.choice((ast.Continue, ast.Break))()
    name = "goes on" if isinstance(leave, ast.Continue) else "ends"
    if isinstance(tree.above(node), ast.While) and isinstance(leave, ast.Continue):
        leave, name = ast.Break(), "ends"  # the statement that ends a `while` may follow below
    new = (ast.If(test, [leave], []), node)
    return _change(node, new, f"the loop {name} before it if `{ast.unparse(test)}`")


def condition(tree: FunctionTree, rng: random.Random, place: ast.AST) -> ast.expr | None:
    """A condition on numbers in scope, or on an existing boolean."""
    numbers = tree.atoms(place)
    truths = tree.atoms(place, "truth")
    if truths and rng.random() < 0.3:
        test = rng.choice(truths)
        return ast.UnaryOp(ast.Not(), test) if rng.random() < 0.5 else test
    if not numbers:
        return None
    left = rng.choice(numbers)
    others = [n for n in numbers if ast.dump(n) != ast.dump(left)]
    right: ast.expr
    if others and rng.random() < 0.5:
        right = rng.choice(others)
    else:
        known = [n for n in tree.expressions() if isinstance(n, ast.Constant)]
        values = [n.value for n in known if type(n.value) in (int, float)]
        right = ast.Constant(rng.choice([*values, 0, 1, 2]))
    made = rng.choice((ast.Lt, ast.LtE, ast.Gt, ast.GtE))()
    return ast.Compare(left, [made], [right])


def _bounded(
    tree: FunctionTree, rng: random.Random, node: ast.Assign | ast.AugAssign
) -> TextChange | None:
    name = _target(node)
    assert isinstance(name, ast.Name)
    bounds = [n for n in tree.atoms(node) if ast.dump(n) != ast.dump(ast.Name(name.id, ast.Load()))]
    bounds += [ast.Constant(0), ast.Constant(1)]
    bound = rng.choice(bounds)
    which = rng.choice(("min", "max"))
    call = ast.Call(ast.Name(which, ast.Load()), [ast.Name(name.id, ast.Load()), bound], [])
    new = ast.Assign([ast.Name(name.id, ast.Store())], call)
    side = "more" if which == "min" else "less"
    return _change(
        node, (node, new), f"{name.id} is no {side} than `{ast.unparse(bound)}` after it"
    )


def _swapped(tree: FunctionTree, node: ast.stmt, after: ast.stmt) -> TextChange | None:
    """Swap two adjacent statements."""
    lines = tree.source.split("\n")
    assert node.end_lineno is not None
    assert after.end_lineno is not None
    if after.lineno <= node.end_lineno or any(
        lines[at].strip() for at in range(node.end_lineno, after.lineno - 1)
    ):
        return None  # on one line, or separated by comments that belong to one of them
    return TextChange(
        old=node,
        until=after,
        new=(after, node),
        description=f"`{_line(node)}` moved below `{_line(after)}`",
    )


def _is_bound(tree: FunctionTree, node: ast.Assign) -> bool:
    names = {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return names <= tree.bound(node)


def _target(node: ast.Assign | ast.AugAssign) -> ast.expr:
    return node.targets[0] if isinstance(node, ast.Assign) else node.target


def _line(node: ast.stmt) -> str:
    text = ast.unparse(node).split("\n", 1)[0]
    return text if len(text) <= 60 else text[:57] + "…"


def _change(old: ast.stmt | ast.expr, new: tuple[ast.AST, ...], what: str) -> TextChange:
    first = ast.unparse(old).split("\n", 1)[0]
    short = first if len(first) <= 60 else first[:57] + "…"
    return TextChange(old=old, new=new, description=f"`{short}` in line {old.lineno}: {what}")
