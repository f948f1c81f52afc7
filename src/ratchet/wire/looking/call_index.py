"""The calls of a program, by the functions that they may be calls of."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ratchet.wire.looking.meanings import MAX_DEPTH
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeScope,
    Invocation,
    NameUse,
    chain_of,
    last_name,
)

if TYPE_CHECKING:
    from ratchet.wire.looking.names import Names

MOST_CALLS = 60
"""Calls of one name that are looked at."""


class CallIndex:
    """Finds the calls of functions.

    Args:
        names: Names of the program.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self._calls: dict[str, list[tuple[Invocation, CodeScope]]] | None = None
        self._wrapped: dict[int, list[str]] = {}
        """Names that functions have which something wraps, by the function."""

    def of(self, function: CodeScope) -> list[tuple[Invocation, CodeScope]]:
        """Calls that may be calls of a function, by its name and then by what the name means."""
        calls = self._called()
        owner = function.method_of
        name = function.name
        if owner is not None and name in ("__init__", "constructor"):
            name = owner.name
        if owner is not None and name in ("__call__", "forward"):
            return []
        wrapped = self._wrapped.get(id(function), [])
        if not name and not wrapped:
            return []
        found = []
        named = [one for each in (name, *wrapped) for one in calls.get(each, [])[:MOST_CALLS]]
        if owner is not None and name == owner.name:
            named = [*named, *calls.get("cls", [])]  # of its own class methods
        registry = _registry_of(function)
        for invocation, scope in named:
            if registry and chain_of(invocation.function) == f"{registry}.{name}":
                found.append((invocation, scope))
                continue
            if owner is not None and isinstance(invocation.function, AttributeUse):
                base = invocation.function.base
                known = self.names.meanings(base, scope, None, MAX_DEPTH - 5)
                # One of a base class may be of what is derived from it: of an interface.
                if known and not any(
                    one.scope is not None
                    and (
                        self.names.classes.derives(one.scope, owner)
                        or self.names.classes.derives(owner, one.scope)
                    )
                    for one in known
                ):
                    continue
                found.append((invocation, scope))
                continue
            for one in self.names.meanings(invocation.function, scope, None, MAX_DEPTH - 6):
                if one.scope is function or (owner is not None and one.scope is owner):
                    found.append((invocation, scope))
                    break
        return found

    def has_more(self, function: CodeScope) -> bool:
        """Whether there are calls of that name which `calls_of` leaves out."""
        return len(self._called().get(function.name, ())) > MOST_CALLS

    def _called(self) -> dict[str, list[tuple[Invocation, CodeScope]]]:
        """All calls by the last name of what they call."""
        if self._calls is None:
            self._calls = defaultdict(list)
            for module in self.names.program.modules:
                for scope in module.scope.walk():
                    for invocation in scope.invocations:
                        name = last_name(invocation.function)
                        if name:
                            self._calls[name].append((invocation, scope))
                    for name, bounds in scope.bindings.items():
                        for bound in bounds:
                            if isinstance(bound.value, Invocation):
                                self._wrap(name, bound.value, bound.scope)
        return self._calls

    def _wrap(self, name: str, made: Invocation, scope: CodeScope) -> None:
        for one in self.names.wrapped(made, scope):
            self._wrapped.setdefault(id(one.scope), []).append(name)

    def constructions(self, klass: CodeScope) -> list[tuple[Invocation, CodeScope]]:
        """Calls that construct a class."""
        stand_in = CodeScope("function", "__init__", klass.module, klass, klass.line)
        return self.of(stand_in)


def _registry_of(function: CodeScope) -> str:
    """Name of the object by which a function is called that it is registered with: `desk.add()`."""
    for decorator in function.decorators:
        called = decorator.function if isinstance(decorator, Invocation) else decorator
        if isinstance(called, AttributeUse) and isinstance(called.base, NameUse):
            return called.base.name
    return ""
