"""The classes of a program: their attributes, and what they are derived from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ratchet.wire.looking.meanings import MOST_OVERRIDES, Meaning
from ratchet.wire.looking.syntax import BoundValue, CodeScope, ScopeValue

if TYPE_CHECKING:
    from ratchet.wire.looking.names import Names


class ClassIndex:
    """Finds attributes, bases and derived classes.

    Args:
        names: Names of the program.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self._fields: dict[str, list[CodeScope]] = {}
        self._derived: dict[int, list[CodeScope]] | None = None

    def attributes(self, klass: CodeScope, name: str, depth: int = 0) -> list[BoundValue]:
        """Bindings of an attribute, in the class or its bases."""
        if name in klass.attributes:
            return klass.attributes[name]
        if depth < 6:
            for base in self.bases(klass, depth):
                if base.scope is not None and base.scope is not klass:
                    found = self.attributes(base.scope, name, depth + 1)
                    if found:
                        return found
        return []

    def overrides(self, klass: CodeScope, name: str) -> list[BoundValue]:
        """Bindings of an attribute in classes that are derived from a class."""
        found = [bound for one in self.derived(klass) for bound in one.attributes.get(name, [])[:2]]
        return found[:MOST_OVERRIDES]

    def derived(self, klass: CodeScope) -> list[CodeScope]:
        """Classes that are derived from a class, directly and indirectly."""
        if self._derived is None:
            self._derived = defaultdict(list)
            for module in self.names.program.modules:
                for scope in module.scope.walk():
                    if scope.kind == "class":
                        for base in self.bases(scope, 0):
                            if base.scope is not None and base.scope is not scope:
                                self._derived[id(base.scope)].append(scope)
        found: list[CodeScope] = []
        waiting, seen = [klass], {id(klass)}
        while waiting and len(seen) < 60:
            for one in self._derived[id(waiting.pop())]:
                if id(one) not in seen:
                    seen.add(id(one))
                    waiting.append(one)
                    found.append(one)
        return found

    def methods_named(self, name: str) -> list[CodeScope]:
        """Methods of that name, in the classes of the repository."""
        return [
            bound.value.scope
            for klass in self.having(name)
            for bound in klass.attributes.get(name, ())
            if isinstance(bound.value, ScopeValue)
        ]

    def bases(self, klass: CodeScope, depth: int) -> list[Meaning]:
        """What a class is derived from."""
        return [
            one
            for base in klass.bases
            for one in self.names.meanings(base, klass.parent or klass, None, depth + 1)
        ]

    def outside_bases(self, klass: CodeScope, depth: int = 0) -> list[str]:
        """Dotted names of the outside classes that a class is derived from."""
        found: list[str] = []
        for base in self.bases(klass, 0):
            if base.outside:
                found.append(base.outside)
            elif base.scope is not None and base.scope is not klass and depth < 6:
                found += self.outside_bases(base.scope, depth + 1)
        return found

    def derives(self, klass: CodeScope, owner: CodeScope, depth: int = 0) -> bool:
        """Whether a class is another, or is derived from it."""
        if klass is owner:
            return True
        return depth < 6 and any(
            base.scope is not None and self.derives(base.scope, owner, depth + 1)
            for base in self.bases(klass, 0)
        )

    def having(self, field: str) -> list[CodeScope]:
        """Classes of the repository that declare a field."""
        if not self._fields:
            for module in self.names.program.modules:
                for scope in module.scope.walk():
                    if scope.kind == "class":
                        for name in {*scope.annotations, *scope.attributes}:
                            self._fields.setdefault(name, []).append(scope)
        return self._fields.get(field, [])
