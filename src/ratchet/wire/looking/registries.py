"""Functions, classes and texts in tables that the code writes out, of which one is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeScope,
    ImportedName,
    Invocation,
    ItemUse,
    MappingLiteral,
    NameUse,
    ScopeValue,
    Syntax,
    TextValue,
)

if TYPE_CHECKING:
    from ratchet.wire.looking.meanings import Meaning
    from ratchet.wire.looking.names import Names

MOST = 24
"""Entries of a table that are followed."""
LOADING = ("importlib.import_module", "builtins.__import__")
"""Functions that load a module: what it holds is not known."""


def _tables(
    names: Names, syntax: Syntax, scope: CodeScope
) -> list[tuple[MappingLiteral, CodeScope]]:
    """Dict literals that a name stands for."""
    if isinstance(syntax, MappingLiteral):
        return [(syntax, scope)]
    if not isinstance(syntax, NameUse):
        return []
    bounds, _ = names.bound(syntax.name, scope)
    found = []
    for bound in bounds[:4]:
        values = [bound]
        if isinstance(bound.value, ImportedName):
            imported = names.imported(bound.scope.module, bound.value)
            values = imported[:4] if isinstance(imported, list) else []
        found += [(one.value, one.scope) for one in values if isinstance(one.value, MappingLiteral)]
    return found


def held(names: Names, base: Syntax, scope: CodeScope, depth: int) -> list[Meaning]:
    """Functions and classes in a table, whichever key is taken."""
    return [
        one
        for table, where in _tables(names, base, scope)
        for _, value in table.entries[:MOST]
        if isinstance(value, (NameUse, AttributeUse, ScopeValue))
        for one in names.meanings(value, where, None, depth + 1)
        if not one.instance
    ]


def texts_held(names: Names, syntax: Syntax, scope: CodeScope) -> list[str]:
    """Texts in a table of which one is taken, or that a name stands for."""
    match syntax:
        case ItemUse(base=base) | Invocation(function=AttributeUse(base=base, name="get")):
            return [
                value.value
                for table, _ in _tables(names, base, scope)
                for _, value in table.entries[:MOST]
                if isinstance(value, TextValue)
            ]
        case NameUse(name=name):
            bounds, _ = names.bound(name, scope)
            return [
                text
                for bound in bounds[:4]
                if isinstance(bound.value, (ItemUse, Invocation))
                for text in texts_held(names, bound.value, bound.scope)
            ]
    return []
