"""System messages that are written out as literals, with those beside them."""

from __future__ import annotations

from collections.abc import Iterator

from ratchet.wire.looking.syntax import (
    CodeScope,
    MappingLiteral,
    SequenceLiteral,
    Syntax,
    TextValue,
    walk_syntax,
)


def system_messages(scope: CodeScope) -> Iterator[MappingLiteral]:
    """Literals of system messages in a scope, with the others of their list."""
    roots: list[Syntax] = [*scope.returns]
    for call in scope.invocations:
        roots += [*call.arguments, *call.keywords.values()]
    for bounds in scope.bindings.values():
        roots += [one.value for one in bounds if isinstance(one.value, Syntax)]
    seen: set[int] = set()
    for root in roots:
        for one in walk_syntax(root):
            if isinstance(one, MappingLiteral) and id(one) not in seen:
                seen.add(id(one))
                if _is_message(one, "system", "developer"):
                    yield one
            if isinstance(one, SequenceLiteral) and any(
                _is_message(item, "system", "developer") for item in one.items
            ):
                others = [item for item in one.items if _is_message(item, "user")]
                for item in others:
                    assert isinstance(item, MappingLiteral)
                    if id(item) not in seen:
                        seen.add(id(item))
                        yield item


def _is_message(syntax: Syntax, *roles: str) -> bool:
    if not isinstance(syntax, MappingLiteral) or syntax.get("content") is None:
        return False
    role = syntax.get("role")
    return isinstance(role, TextValue) and role.value in roles
