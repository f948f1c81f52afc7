"""Dict literals that an expression may be: constants, parameters, items of a list of them."""

from __future__ import annotations

from collections.abc import Iterator

from ratchet.wire.looking.meanings import CallFrame, Meaning
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    Alternatives,
    AttributeUse,
    BoundValue,
    CodeScope,
    ImportedName,
    Invocation,
    ItemUse,
    MappingLiteral,
    NameUse,
    SequenceLiteral,
    Syntax,
    TextValue,
)


class Tables:
    """Follows expressions to dict literals.

    Args:
        names: Names of the program.
    """

    def __init__(self, names: Names) -> None:
        self.names = names

    def mappings(
        self, syntax: Syntax, scope: CodeScope, frame: CallFrame | None, depth: int
    ) -> Iterator[tuple[MappingLiteral, CodeScope, CallFrame | None]]:
        """Dict literals that an expression may be."""
        if depth > 6:
            return
        match syntax:
            case MappingLiteral():
                yield syntax, scope, frame
            case SequenceLiteral(items=items):
                for item in items[:40]:
                    if isinstance(item, (MappingLiteral, NameUse)):
                        yield from self.mappings(item, scope, frame, depth + 1)
            case NameUse(name=name):
                bounds, function = self.names.bound(name, scope)
                for bound in bounds[:8]:
                    yield from self._bound_mappings(bound, depth)
                if function is not None:
                    for given, here, outer in self._given(function, name, frame):
                        yield from self.mappings(given, here, outer, depth + 1)
            case AttributeUse(base=base, name=name):
                for one in self.names.meanings(base, scope, frame):
                    if one.module is not None:
                        for bound in self.names.of_module(one.module, name):
                            yield from self._bound_mappings(bound, depth)
                    elif one.scope is not None:
                        for bound in self.names.classes.attributes(one.scope, name):
                            yield from self._bound_mappings(bound, depth)
            case Alternatives(options=options):
                for one_of in options:
                    yield from self.mappings(one_of, scope, frame, depth + 1)
            case Invocation(function=called):
                for one in self.names.meanings(called, scope, frame)[:6]:
                    if one.scope is not None and one.scope.kind == "function":
                        inner_frame = CallFrame(one.scope, syntax, scope, frame)
                        for result in one.scope.returns[:6]:
                            yield from self.mappings(result, one.scope, inner_frame, depth + 1)
            case ItemUse(base=base, key=TextValue(value=key)):
                for value, inner, where in self.mappings(base, scope, frame, depth + 1):
                    one_ = value.get(key)
                    if one_ is not None:
                        yield from self.mappings(one_, inner, where, depth + 1)

    def _given(
        self, function: CodeScope, name: str, frame: CallFrame | None
    ) -> Iterator[tuple[Syntax, CodeScope, CallFrame | None]]:
        """What calls pass for a parameter: the call that is followed, else all of them."""
        while frame is not None:
            if frame.function is function:
                given = frame.argument(name)
                if given is not None:
                    yield given, frame.scope, frame.parent
                return
            frame = frame.parent
        for invocation, scope in self.names.calls.of(function)[:12]:
            given = CallFrame(function, invocation, scope, None).argument(name)
            if given is not None:
                yield given, scope, None

    def _bound_mappings(
        self, bound: BoundValue, depth: int
    ) -> Iterator[tuple[MappingLiteral, CodeScope, CallFrame | None]]:
        if isinstance(bound.value, ImportedName):
            found = self.names.imported(bound.scope.module, bound.value)
            if not isinstance(found, Meaning):
                for one in found[:6]:
                    yield from self._bound_mappings(one, depth + 1)
        else:
            yield from self.mappings(bound.value, bound.scope, None, depth + 1)
