"""Applies a change to a function's text; everything else is preserved verbatim."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import msgspec

from ratchet.learn.mutations.tree import FunctionTree


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces one node, or several statements."""

    old: ast.AST
    until: ast.stmt | None = None
    """The last of several statements to replace, if `old` is the first."""
    new: tuple[ast.AST, ...]
    description: str
    """The change, for the candidate's reason."""


def made(tree: FunctionTree, change: TextChange) -> str | None:
    """The source with a change applied; None if it no longer has the same signature."""
    text = _spliced(tree, change)
    if text is None:
        return None
    try:
        module = ast.parse(text)
        compile(text, "<mutant>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None
    if len(module.body) != 1 or not isinstance(module.body[0], type(tree.function)):
        return None
    after = module.body[0]
    if after.name != tree.function.name or ast.dump(after.args) != ast.dump(tree.function.args):
        return None
    return text


def _spliced(tree: FunctionTree, change: TextChange) -> str | None:
    old = change.old
    lines = tree.source.split("\n")
    if isinstance(old, ast.stmt):
        return _with_statements(tree, lines, old, change.until or old, change.new)
    if not isinstance(old, ast.expr) or old.end_lineno is None or old.end_col_offset is None:
        return None
    new = change.new[0]
    assert isinstance(new, ast.expr)
    text = ast.unparse(ast.fix_missing_locations(new))
    bare = isinstance(new, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript)
    if not bare or text.startswith("-"):
        text = f"({text})"
    begin, end = old.lineno - 1, old.end_lineno - 1
    head = lines[begin].encode()[: old.col_offset].decode()
    tail = lines[end].encode()[old.end_col_offset :].decode()
    if head[-1:].isalnum():
        head += " "
    return "\n".join([*lines[:begin], head + text + tail, *lines[end + 1 :]])


def _with_statements(
    tree: FunctionTree, lines: list[str], old: ast.stmt, until: ast.stmt, new: Sequence[ast.AST]
) -> str | None:
    assert until.end_lineno is not None
    first = min([old.lineno, *(d.lineno for d in getattr(old, "decorator_list", []))])
    indent = lines[first - 1][: old.col_offset]
    beside = [s for s in tree.block(old) if s is not old and s is not until]
    if indent.strip() or any(_overlaps(s, first, until.end_lineno) for s in beside):
        return _unparsed(tree, old, new) if until is old else None  # several statements on one line
    made: list[str] = []
    for statement in new:
        text = _text(tree, statement)
        made += [indent + line if line else line for line in text.split("\n")]
    if not made and not beside:
        made = [f"{indent}pass"]
    return "\n".join([*lines[: first - 1], *made, *lines[until.end_lineno :]])


def _text(tree: FunctionTree, node: ast.AST) -> str:
    """The original text of a statement of the source, with its comments."""
    if isinstance(node, ast.stmt) and tree.above(node) is not None and node.end_lineno:
        lines = tree.source.split("\n")[node.lineno - 1 : node.end_lineno]
        indent = lines[0][: node.col_offset]
        if not indent.strip() and all(
            not line.strip() or line.startswith(indent) for line in lines
        ):
            return "\n".join(line[len(indent) :] for line in lines)
    return ast.unparse(ast.fix_missing_locations(node))


def _unparsed(tree: FunctionTree, old: ast.stmt, new: Sequence[ast.AST]) -> str:
    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
            if node is old:
                return list(new) or [ast.Pass()]
            done: ast.AST = self.generic_visit(node)
            return done

    module = ast.parse(tree.source)
    # Find the node in the fresh tree by its position.
    for fresh in ast.walk(module):
        if (
            type(fresh) is type(old)
            and isinstance(fresh, ast.stmt)
            and (fresh.lineno, fresh.col_offset) == (old.lineno, old.col_offset)
        ):
            old = fresh
            break
    changed = Replace().visit(module)
    assert isinstance(changed, ast.Module)
    return ast.unparse(ast.fix_missing_locations(changed)) + "\n"


def _overlaps(statement: ast.stmt, first: int, last: int) -> bool:
    return statement.lineno <= last and (statement.end_lineno or statement.lineno) >= first
