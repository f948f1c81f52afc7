"""What a function's source does: its syntax without comments, layout and docstring."""

from __future__ import annotations

import ast
import functools
import warnings

from ratchet.types import Code


def same_behaviour(one: Code, other: Code) -> bool:
    """Whether two sources differ in nothing that runs: comments, layout and docstring may differ.

    A description of a tool is such a docstring: another one needs no sandbox.
    """
    return one.source == other.source or _behaviour(one.source) == _behaviour(other.source)


def docstring_of(code: Code) -> str:
    """The docstring that a source gives its function, cleaned; empty when it has none."""
    return _docstring(code.source)


@functools.lru_cache(maxsize=1024)
def _behaviour(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as invalid escapes, in the user's own strings
        node = ast.parse(source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    if ast.get_docstring(node, clean=False) is not None:
        # A body of a docstring alone does what `pass` does.
        node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(node)


@functools.lru_cache(maxsize=1024)
def _docstring(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        node = ast.parse(source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return ast.get_docstring(node) or ""
