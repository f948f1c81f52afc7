"""What fills the slots of a text: more text of the program, or data."""

from __future__ import annotations

from ratchet.wire.looking.flow_steps import FlowStep
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeScope,
    Invocation,
    ItemUse,
    NameUse,
    Syntax,
    last_name,
)


def holds_text(names: Names, part: Syntax, step: FlowStep) -> bool:
    """Whether what fills a slot may be text of the program."""
    match part:
        case NameUse() | AttributeUse():
            return True
        case ItemUse():
            return not _of_loop(names, part, step.scope)
        case Invocation():
            known = not part.arguments or _is_joined(part, step.scope)
            return known or bool(names.meanings(part.function, step.scope, step.frame))
    return False


def _of_loop(names: Names, item: ItemUse, scope: CodeScope) -> bool:
    """Whether an item is of what a loop goes through: data."""
    bounds = names.bound(item.base.name, scope)[0] if isinstance(item.base, NameUse) else ()
    return any(one.how == "iterated" for one in bounds)


def _is_joined(call: Invocation, scope: CodeScope) -> bool:
    """Whether a call is `pieces.join(…)`, in JavaScript."""
    return scope.module.language == "JavaScript" and last_name(call.function) == "join"
