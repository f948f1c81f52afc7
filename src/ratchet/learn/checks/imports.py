"""The import check: code may import only installed modules that the sandbox permits.

Early feedback for the author of a candidate, before a rollout is spent. Protection is the sandbox's
task: code that hides an import from this check still cannot reach the network.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder

from ratchet.learn.checks.check import CandidateChange, Check
from ratchet.learn.checks.shape import function_of
from ratchet.types import Code

REFUSED = frozenset(
    {
        "_ctypes", "_posixsubprocess", "_socket", "asyncio.subprocess", "cffi", "code", "ctypes",
        "ftplib", "gc", "http.client", "http.server", "imaplib", "importlib", "inspect",
        "marshal", "multiprocessing",
        "nntplib", "pickle", "poplib", "pty", "runpy", "shelve", "signal", "smtplib", "socket",
        "socketserver", "ssl", "subprocess", "telnetlib", "urllib.request", "webbrowser", "xmlrpc",
    }
)  # fmt: skip
"""Modules for processes, the network, and interpreter internals."""

CALLS = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "input"})
"""Built-in functions that run code or ask for input in ways that no check sees."""

Source = Callable[[str], str]


def imports_what_is_there(module_text: Source, is_there: Callable[[str], bool]) -> Check:
    """Make the import check.

    Args:
        module_text: Source of the module that declares a resource; empty if unknown. A candidate
            may import what it imports.
        is_there: Whether a module can be imported in the agent's environment.
    """

    async def check(change: CandidateChange) -> str:
        for name, (old, new) in change.resources.items():
            if isinstance(old, Code) and isinstance(new, Code):
                fault = import_fault(old, new, module_text(name), is_there)
                if fault:
                    return f"The code of {name!r} {fault}"
        return ""

    return check


def import_fault(old: Code, new: Code, module_text: str, is_there: Callable[[str], bool]) -> str:
    """The fault in a candidate's imports, as a predicate; empty if none."""
    try:
        allowed = _imported(ast.parse(module_text)) | _imported(function_of(old))
        known_calls = _called(ast.parse(module_text))
    except (SyntaxError, ValueError, RecursionError):
        allowed, known_calls = _imported(function_of(old)), _called(function_of(old))
    wanted = _imported(function_of(new))
    for module in sorted(wanted - allowed):
        parts = module.split(".")
        heads = {".".join(parts[: end + 1]) for end in range(len(parts))}
        if heads & REFUSED and not heads & allowed:
            return (
                f"imports {module}, which the source does not: candidates may not use the "
                "network, other processes or the interpreter's internals."
            )
        if not is_there(module):
            return f"imports {module}, which is not installed where the agent runs."
    for name in sorted((_called(function_of(new)) & CALLS) - known_calls):
        return f"calls {name}(), which the source does not."
    return ""


def installed(module: str, path: tuple[str, ...] | None = None) -> bool:
    """Whether an interpreter finds a module's outermost package; imports nothing.

    Args:
        module: Its name.
        path: What the interpreter imports from; that of this one when left out.
    """
    return _installed(module.partition(".")[0], path)


@functools.lru_cache(maxsize=512)
def _installed(head: str, path: tuple[str, ...] | None) -> bool:
    if head in sys.stdlib_module_names or (path is None and head in sys.modules):
        return True
    try:
        if path is not None:
            return PathFinder.find_spec(head, path) is not None
        return importlib.util.find_spec(head) is not None
    except (ImportError, ValueError):
        return False


def _imported(tree: ast.AST) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            modules.add(node.module)
            modules.update(
                f"{node.module}.{alias.name}"
                for alias in node.names
                if f"{node.module}.{alias.name}" in REFUSED
            )
    return modules


def _called(tree: ast.AST) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
