"""Applies a change to a function's text; everything else is kept verbatim."""

from __future__ import annotations

import ast

import msgspec

from ratchet.learn.mutations.tree import FunctionTree


class TextChange(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces one expression."""

    old: ast.expr
    new: ast.expr
    description: str
    """The change, for the candidate's reason."""


def changed(old: ast.expr, new: ast.expr) -> TextChange:
    """The replacement of an expression by another."""
    before, after = (ast.unparse(ast.fix_missing_locations(node)) for node in (old, new))
    return TextChange(
        old=old, new=new, description=f"`{before}` became `{after}` in line {old.lineno}"
    )


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
    old, new = change.old, change.new
    lines = tree.source.split("\n")
    if old.end_lineno is None or old.end_col_offset is None:
        return None
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
