"""What an expression stands for, and calls whose arguments are known."""

from __future__ import annotations

from dataclasses import dataclass

from ratchet.wire.looking.syntax import CodeModule, CodeScope, Invocation, Syntax

MAX_DEPTH = 18
"""Steps by which a meaning is followed."""
MOST_OVERRIDES = 24
"""Methods of derived classes that are followed."""


@dataclass(frozen=True, eq=False)
class Meaning:
    """What an expression stands for."""

    scope: CodeScope | None = None
    """Function or class."""
    instance: bool = False
    """Of that class, or of what the outside name is."""
    module: CodeModule | None = None
    outside: str = ""
    """Dotted name with the module it is imported from: `openai.OpenAI.chat`."""
    holds: tuple[CodeScope, ...] = ()
    """Classes between the brackets of its type: `RunContext[Desk]`."""


@dataclass(frozen=True, eq=False)
class CallFrame:
    """A call whose parameters are known."""

    function: CodeScope
    invocation: Invocation
    scope: CodeScope
    """Where the call stands."""
    parent: CallFrame | None

    def argument(self, name: str) -> Syntax | None:
        """What the call passes for a parameter."""
        return argument_of(self.function, self.invocation, name)


def argument_of(function: CodeScope, invocation: Invocation, name: str) -> Syntax | None:
    """What a call passes for a parameter."""
    if name in invocation.keywords:
        return invocation.keywords[name]
    parameters = function.parameters
    if parameters and parameters[0].name in ("self", "cls") and function.method_of is not None:
        parameters = parameters[1:]
    for number, parameter in enumerate(parameters):
        if parameter.name == name and not parameter.from_object and not parameter.rest:
            if number < len(invocation.arguments):
                return invocation.arguments[number]
            return None
    return None
