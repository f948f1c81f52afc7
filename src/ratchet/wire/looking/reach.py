"""Whether a function is called from code that is the agent's own."""

from __future__ import annotations

import re

from ratchet.wire.facts import Place
from ratchet.wire.looking.files import app_of_route
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.program import Program
from ratchet.wire.looking.syntax import CodeScope

_PLAIN_BASES = ("abc.", "typing.", "builtins.")
"""Where classes are from that call no method by its name."""


def unreached(program: Program, place: Place, dead: dict[str, str]) -> str:
    """Why a call is never made by the agent: only scripts or tests name its function; or empty."""
    module = program.module(place.path)
    if module is None or app_of_route(place.path) is not None:
        return ""  # Next.js calls what a route exports
    holder: CodeScope | None = None
    for scope in module.scope.walk():
        if scope.kind == "function" and any(call.line == place.line for call in scope.invocations):
            holder = scope
    while holder is not None and holder.parent is not None and holder.parent.kind == "function":
        holder = holder.parent
    if holder is None or holder.method_of is not None or holder.decorators:
        return ""
    users = [
        one.path
        for one in program.users_of(holder.name)
        if one.path != place.path or _used_within(one.scope, holder)
    ]
    if users and all(path in dead for path in users):
        return f"only {users[0]} uses {holder.name} ({dead[users[0]]})"
    return ""


def _used_within(scope: CodeScope, holder: CodeScope) -> bool:
    return any(holder.name in one.used for one in scope.walk() if one is not holder)


def uncalled(names: Names, place: Place, dead: frozenset[str]) -> str:
    """The method around a place if no code names it, though the program runs others of its class.

    Args:
        names: Names of the program.
        place: A place in a file.
        dead: Files that are not the agent's.
    """
    module = names.program.module(place.path)
    if module is None or module.language != "Python" or module.notebook:
        return ""
    holder: CodeScope | None = None
    for scope in module.scope.walk():
        if scope.method_of is not None and scope.line <= place.line:
            holder = scope if holder is None or scope.line > holder.line else holder
    if holder is None or not holder.start <= _byte(module.text, place.line) < holder.end:
        return ""
    return holder.dotted if is_uncalled(names, holder, dead) else ""


def is_uncalled(names: Names, method: CodeScope, dead: frozenset[str]) -> bool:
    """Whether no code names a method, though the program makes its class and calls others of it."""
    owner = method.method_of
    if owner is None or method.decorators or method.name.startswith("__"):
        return False
    if any(not one.startswith(_PLAIN_BASES) for one in names.classes.outside_bases(owner)):
        return False
    if method.name in names.program.quoted:
        return False
    named = re.compile(rf"\.\s*{method.name}\b")
    if any(named.search(one.text) for one in names.program.users_of(method.name)):
        return False
    live = [
        scope
        for one in (owner, *names.classes.derived(owner))
        for _, scope in names.calls.constructions(one)
        if scope.module.path not in dead
    ]
    return any(
        bound.name != method.name and bound.name in scope.used
        for made in live
        for scope in made.module.scope.walk()
        for bound in owner.children
        if bound.kind == "function" and not bound.name.startswith("__")
    )


def _byte(text: str, line: int) -> int:
    """The first byte of a line that is no space, in UTF-8."""
    lines = text.split("\n")
    before = sum(len(one.encode()) + 1 for one in lines[: line - 1])
    return before + len(lines[line - 1]) - len(lines[line - 1].lstrip())
