"""Turns a coach's text into a function with the name and signature of the one it replaces."""

from __future__ import annotations

import ast
import textwrap

from ratchet.learn.checks.shape import shape_fault
from ratchet.learn.length import longest
from ratchet.types import Code, InputError
from ratchet.types.wording import counted


class UnusableAnswer(Exception):
    """A text that cannot become a resource; the message says why, as a sentence."""


def rewritten_code(text: str, baseline: Code, max_growth: float) -> Code:
    """A function from a coach's text, with the signature of the baseline.

    Raises:
        UnusableAnswer: It does not parse, does not define the function, or changes the signature.
    """
    limit = longest(baseline.source, max_growth)
    if len(text) > limit:
        raise UnusableAnswer(
            f"The rewrite has {counted(len(text), 'character')}; at most {limit} are allowed."
        )
    dedented = textwrap.dedent(text.replace("\r\n", "\n").strip("\n"))
    try:
        tree = ast.parse(dedented)
    except SyntaxError as error:
        raise UnusableAnswer(
            f"The rewrite does not parse: {error.msg}, line {error.lineno}."
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnusableAnswer(f"The rewrite does not parse: {error}.") from None
    functions = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == baseline.function
    ]
    if not functions:
        raise UnusableAnswer(f"The rewrite does not define {baseline.function!r}.")
    node = functions[-1]
    statements = [statement for statement in tree.body if statement is not node]
    node.decorator_list = []
    source = _segment(dedented, node)
    if statements:
        source = _with_inside(source, node, statements)
    try:
        code = Code(source, baseline.function)
    except InputError as error:
        raise UnusableAnswer(error.message) from None
    fault = shape_fault(baseline, code)
    if fault:
        raise UnusableAnswer(f"The code of {baseline.function!r} {fault}")
    return code


def _segment(source: str, node: ast.stmt) -> str:
    lines = source.split("\n")
    return "\n".join(lines[node.lineno - 1 : node.end_lineno]) + "\n"


def _with_inside(
    source: str, node: ast.FunctionDef | ast.AsyncFunctionDef, statements: list[ast.stmt]
) -> str:
    """The function with the coach's imports and helpers moved to the start of its body."""
    moved = [statement for statement in statements if not _is_text(statement)]
    if not moved:
        return source
    text = textwrap.indent("\n".join(ast.unparse(statement) for statement in moved), "    ") + "\n"
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.FunctionDef | ast.AsyncFunctionDef)
    begin = body.body[1] if len(body.body) > 1 and _is_text(body.body[0]) else body.body[0]
    lines = source.splitlines(keepends=True)
    if begin.lineno == body.lineno:
        raise UnusableAnswer("The rewrite adds definitions to a one-line function.")
    return "".join([*lines[: begin.lineno - 1], text, *lines[begin.lineno - 1 :]])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
