"""Moves a function's text to the left margin and back; strings stay as they are."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings


def dedented(text: str) -> str:
    """A function's text, with its decorators, moved to the left margin.

    Lines inside strings keep their blanks, which are text; those of the docstring do not.

    Raises:
        SyntaxError: It does not parse.
        tokenize.TokenError: It does not end.
    """
    first = next((line for line in text.split("\n") if line.strip()), "")
    margin = first[: len(first) - len(first.lstrip())]
    if not margin:
        return text
    inside = _inside_strings(text, _docstring_lines(f"if 1:\n{text}", 1))
    lines = [
        line if number in inside else _without(line, margin)
        for number, line in enumerate(text.split("\n"), start=1)
    ]
    return "\n".join(lines)


def _without(line: str, margin: str) -> str:
    if not line.strip():
        return ""
    return line.removeprefix(margin) if line.startswith(margin) else line.lstrip()


def indented(lines: list[str], margin: str) -> list[str]:
    """The lines of a function at the left margin, moved by `margin`; the reverse of `dedented`."""
    text = "\n".join(lines) + "\n"
    inside = _inside_strings(text, _docstring_lines(text, 0))
    return [
        line if number in inside or not line.strip() else margin + line
        for number, line in enumerate(lines, start=1)
    ]


def _inside_strings(text: str, docstring: range) -> set[int]:
    """1-based lines that begin inside a string other than the docstring."""
    inside: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text, newline="\n").readline):
        # Since Python 3.12 an f-string is several tokens; its text parts span its lines.
        if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    return inside.difference(docstring)


def _docstring_lines(text: str, before: int) -> range:
    """Lines after the first of a function's docstring, with this many lines before the text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    node = tree.body[0]
    if isinstance(node, ast.If):
        node = node.body[0]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return range(0)
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is None or first.end_lineno is None:
        return range(0)
    return range(first.lineno + 1 - before, first.end_lineno + 1 - before)
