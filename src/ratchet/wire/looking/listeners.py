"""Functions that a client calls with what answers: listeners of bots and apps."""

from __future__ import annotations

from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeScope,
    Invocation,
    NameUse,
    ScopeValue,
    Syntax,
    chain_of,
    last_name,
)

_LISTENING = frozenset(
    {
        *("on", "message", "event", "command", "action", "hears", "shortcut", "view"),
        *("callbackQuery", "options", "function"),
    }
)
"""Methods of JavaScript's clients that take a listener."""


def passed_by_client(call: Invocation, scope: CodeScope, names: Names) -> list[str]:
    """Outside names of what a listener's own parameter stands for: `say` of `@app.message()`.

    Args:
        call: A call of the parameter or of a method of it.
        scope: Where it stands.
        names: Names of the program.
    """
    root: Syntax = call.function
    while isinstance(root, (AttributeUse, Invocation)):
        root = root.base if isinstance(root, AttributeUse) else root.function
    if not isinstance(root, NameUse):
        return []
    _, function = names.bound(root.name, scope)
    if function is None or function.method_of is not None:
        return []
    return [
        f"{one.outside}.{chain_of(call.function)}"
        for registered in _registering(function)
        for one in names.meanings(registered, function.parent or function)
        if one.outside and one.instance
    ]


def _registering(function: CodeScope) -> list[Syntax]:
    """What a function is registered with: its decorators, or the call that it is given to."""
    found = [one.function if isinstance(one, Invocation) else one for one in function.decorators]
    if function.parent is not None and function.module.language == "JavaScript":
        found += [
            call.function
            for call in function.parent.invocations
            if last_name(call.function) in _LISTENING
            and any(isinstance(one, ScopeValue) and one.scope is function for one in call.arguments)
        ]
    return [one for one in found if isinstance(one, AttributeUse)]
