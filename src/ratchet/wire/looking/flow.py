"""Where text comes from: follows an expression back to literals, files and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ratchet.wire.looking.file_paths import FilePaths
from ratchet.wire.looking.flow_calls import through_call
from ratchet.wire.looking.flow_slots import holds_text
from ratchet.wire.looking.flow_steps import FlowStep, TextOrigin
from ratchet.wire.looking.meanings import CallFrame, Meaning
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.syntax import (
    Alternatives,
    AttributeUse,
    BinaryOperation,
    BoundValue,
    CodeScope,
    ImportedName,
    Invocation,
    ItemUse,
    MappingLiteral,
    NameUse,
    OtherSyntax,
    ScopeValue,
    SequenceLiteral,
    SpreadItem,
    Syntax,
    TextTemplate,
    TextValue,
    last_name,
    walk_syntax,
)
from ratchet.wire.looking.tables import Tables
from ratchet.wire.looking.text_words import (
    CARRIERS,
    PAIR_ROLES,
    SYSTEM_KEYS,
    WRITTEN,
    role_of,
)

_TEXTS = (TextValue, TextTemplate, BinaryOperation)

MAX_DEPTH = 32
_SLOT_WORDS = 6
_PIECES = 40
"""Texts added to one name that are followed."""
FUEL = 12_000
"""Expressions followed for one argument of a call."""


class TextFlow:
    """Follows expressions of a program.

    Args:
        names: Its names.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.program = names.program
        self.paths = FilePaths(names)
        self.tables = Tables(names)
        self.fuel = 0
        self._followed: dict[tuple[object, ...], int] = {}

    def origins(
        self, syntax: Syntax, scope: CodeScope, role: str, *, slot: bool = False
    ) -> list[TextOrigin]:
        """Where the text of an argument comes from; of one that fills a slot, if it is long."""
        self.fuel = FUEL
        self._followed = {}
        return list(self.follow(FlowStep(syntax, scope, None, role, slot=slot, joined=slot)))

    def files(self, syntax: Syntax, scope: CodeScope, role: str) -> list[TextOrigin]:
        """Files of data that an argument is read from."""
        return list(self.files_of(FlowStep(syntax, scope, None, role), syntax))

    def follow(self, step: FlowStep) -> Iterator[TextOrigin]:
        """Follow one expression."""
        if step.depth > MAX_DEPTH or self.fuel < 0 or id(step.syntax) in step.seen:
            return
        reached = step.key()
        if self._followed.get(reached, MAX_DEPTH + 1) <= step.depth:
            return  # a history that calls hand on leads to itself in many ways
        self.fuel -= 1
        self._followed[reached] = step.depth
        match step.syntax:
            case TextValue(value=value):
                # What fills a slot is data, unless it is a text of some length.
                if not step.slot or len(value.split()) > _SLOT_WORDS:
                    yield self._text(step, step.syntax)
            case TextTemplate():
                yield from self._template(step, step.syntax)
            case NameUse(name=name):
                yield from self._name(step, name)
            case AttributeUse():
                yield from self._attribute(step, step.syntax)
            case ItemUse(base=base, key=key):
                yield from self.item(step, base, key)
            case Invocation():
                yield from through_call(self, step, step.syntax)
            case MappingLiteral():
                yield from self._mapping(step, step.syntax)
            case SequenceLiteral(items=items):
                yield from self._sequence(step, items)
            case BinaryOperation(operator=operator, left=left, right=right):
                if operator == "+":
                    whole = step.whole or step.syntax
                    yield from self.follow(step.to(left, joined=True, whole=whole))
                    yield from self.follow(step.to(right, joined=True, whole=whole))
                elif operator == "%":
                    yield from self.follow(step.to(left))
                elif operator == "|":
                    yield from self.follow(step.to(left))
                    yield from self.follow(step.to(right))
                elif operator == "/":
                    yield from self.files_of(step, step.syntax)
            case Alternatives(options=options):
                for one in options:
                    yield from self.follow(step.to(one))
            case SpreadItem(value=value):
                yield from self.follow(step.to(value))
            case ScopeValue(scope=function):
                yield from self.result(step, function, None)
            case OtherSyntax(children=children) if len(children) == 1:
                yield from self.follow(step.to(children[0]))

    # Literals

    def _text(self, step: FlowStep, syntax: TextValue | TextTemplate) -> TextOrigin:
        return TextOrigin(
            "text",
            step.role,
            step.scope.module.path,
            syntax.line,
            syntax,
            step.scope,
            step.holder,
            step.builder,
            joined=step.joined,
            whole=step.whole,
            pieced=step.pieced,
            iterated=step.iterated,
        )

    def _template(self, step: FlowStep, syntax: TextTemplate) -> Iterator[TextOrigin]:
        own = "".join(part for part in syntax.parts if isinstance(part, str))
        if re.search(r"\w", own):
            if not step.slot or len(re.findall(r"[^\W\d_]+", own)) > _SLOT_WORDS:
                yield self._text(step, syntax)
        elif len(syntax.sources) == 1:
            # Nothing but a slot: what fills it is the text.
            for part in syntax.parts:
                if isinstance(part, Syntax):
                    yield from self.follow(step.to(part))
            return
        for part in syntax.parts:
            if isinstance(part, Syntax) and holds_text(self.names, part, step):
                yield from self.follow(step.to(part, slot=True, joined=True))

    def _mapping(self, step: FlowStep, syntax: MappingLiteral) -> Iterator[TextOrigin]:
        given = syntax.get("role") or syntax.get("type")
        role = step.role
        if isinstance(given, TextValue):
            role = role_of(given.value, role)
        elif isinstance(given, Alternatives):  # some models take no system message
            words = [one.value for one in given.options if isinstance(one, TextValue)]
            role = "system" if "system" in words else role
        content = [syntax.get(key) for key in ("content", "text", "parts", "input_text")]
        if any(one is not None for one in content):
            for one in content:
                if one is not None:
                    yield from self.follow(step.to(one, role=role))
            return
        for key, value in syntax.entries:
            name = key.value if isinstance(key, TextValue) else ""
            number = isinstance(key, OtherSyntax) and not key.children  # an item of a list
            if key is None or number or name in CARRIERS:
                inner = "system" if name in SYSTEM_KEYS else step.role
                yield from self.follow(step.to(value, role=inner))

    def _sequence(self, step: FlowStep, items: list[Syntax]) -> Iterator[TextOrigin]:
        match items:
            case [TextValue(value=name), content] if name in PAIR_ROLES:
                yield from self.follow(step.to(content, role=PAIR_ROLES[name]))
                return
        for one in items:
            yield from self.follow(step.to(one))

    # Names

    def _name(self, step: FlowStep, name: str) -> Iterator[TextOrigin]:
        values, function = self.names.bound(name, step.scope)
        if not values and function is None:
            return
        pieces = [one for one in values if one.how == "added" and isinstance(one.value, _TEXTS)]
        pieced = bool(pieces)
        for bound in dict.fromkeys((*values[:12], *pieces[:_PIECES])):
            yield from self._bound(step, bound, name, pieced=pieced)
        if function is not None:
            yield from self._parameter(step, function, name)

    def _bound(
        self, step: FlowStep, bound: BoundValue, name: str, *, pieced: bool = False
    ) -> Iterator[TextOrigin]:
        if isinstance(bound.value, ImportedName):
            found = self.names.imported(bound.scope.module, bound.value)
            if isinstance(found, Meaning):
                if found.outside and not found.outside.startswith("."):
                    yield TextOrigin(
                        "outside",
                        step.role,
                        bound.scope.module.path,
                        bound.line,
                        holder=found.outside,
                    )
                return
            for one in found[:8]:
                yield from self._bound(step, one, bound.value.name)
            return
        if bound.how == "iterated" and step.slot:
            return
        frame = step.frame if bound.scope.enclosing("function") else None
        joined = step.joined or (bound.how == "added" and isinstance(bound.value, _TEXTS))
        following = step.to(
            bound.value,
            scope=bound.scope,
            frame=frame,
            holder=name,
            joined=joined,
            pieced=pieced,
            iterated=step.iterated or bound.how == "iterated",
            at=step.syntax,
        )
        yield from self.follow(following)

    def _parameter(self, step: FlowStep, function: CodeScope, name: str) -> Iterator[TextOrigin]:
        frame = step.frame
        while frame is not None:
            if frame.function is function:
                given = frame.argument(name)
                if given is not None:
                    yield from self.follow(
                        step.to(
                            given,
                            scope=frame.scope,
                            frame=frame.parent,
                            builder=step.outer,
                            outer=None,
                            at=step.syntax,
                        )
                    )
                    return
                break
            frame = frame.parent
        if step.slot:
            return
        parameter = next((one for one in function.parameters if one.name == name), None)
        if parameter is None:
            return
        if parameter.default is not None:
            yield from self.follow(
                step.to(
                    parameter.default,
                    scope=function.parent or function,
                    frame=None,
                    holder=name,
                    at=step.syntax,
                )
            )
        if frame is None:
            for invocation, scope in self.names.calls.of(function)[:30]:
                given = CallFrame(function, invocation, scope, None).argument(name)
                if given is not None:
                    yield from self.follow(
                        step.to(given, scope=scope, frame=None, holder="", at=step.syntax)
                    )

    def _attribute(self, step: FlowStep, syntax: AttributeUse) -> Iterator[TextOrigin]:
        name = syntax.name
        if step.scope.module.language == "JavaScript":
            match syntax.base:
                case Invocation(arguments=[_, text, *_]) if last_name(syntax.base) == "prompt":
                    if name == "text":  # declared already
                        yield from self.follow(step.to(text))
                        return
            yield from self._record(step, syntax)
        known = self.names.meanings(syntax.base, step.scope, step.frame)
        for one in known[:6]:
            if one.module is not None:
                for bound in self.names.of_module(one.module, name)[:8]:
                    yield from self._bound(step, bound, name)
            elif one.scope is not None and one.scope.kind == "class":
                yield from self._field(step, one.scope, name)
            elif one.outside and not one.instance and name.isupper():
                yield TextOrigin(
                    "outside",
                    step.role,
                    step.scope.module.path,
                    syntax.line,
                    holder=f"{one.outside}.{name}",
                )
        if not step.slot and all(one.outside for one in known):
            classes = self._in_annotation(syntax, step.scope)
            if not classes and not known:
                classes = self.names.classes.having(name)
            if 0 < len(classes) <= 3:
                for klass in classes:
                    yield from self._field(step, klass, name)
        for module in self.program.modules:
            for bound in module.attribute_writes.get(name, ())[:4]:
                if name in WRITTEN:
                    yield from self._bound(step, bound, name)

    def _record(self, step: FlowStep, syntax: AttributeUse) -> Iterator[TextOrigin]:
        """An attribute of an object that is written out: `texts.system`."""
        for value, scope, frame in self.tables.mappings(syntax.base, step.scope, step.frame, 0):
            one = value.get(syntax.name)
            if one is not None:
                yield from self.follow(
                    step.to(one, scope=scope, frame=frame, builder=None, holder="", at=syntax)
                )

    def _in_annotation(self, syntax: AttributeUse, scope: CodeScope) -> list[CodeScope]:
        """Classes of the repository with the field, in the annotation of the chain's first name.

        `runtime.context.rules` of `runtime: Runtime[Context]` is a field of Context.
        """
        root: Syntax = syntax
        while isinstance(root, AttributeUse):
            root = root.base
        inner: CodeScope | None = scope
        while isinstance(root, NameUse) and inner is not None:
            for parameter in inner.parameters:
                if parameter.name == root.name and parameter.annotation is not None:
                    outer = inner.parent or inner
                    return [
                        one.scope
                        for part in walk_syntax(parameter.annotation)
                        if isinstance(part, (NameUse, AttributeUse))
                        for one in self.names.meanings(part, outer, None)
                        if one.scope is not None
                        and one.scope.kind == "class"
                        and syntax.name in one.scope.annotations
                    ]
            inner = inner.parent
        return []

    def _field(self, step: FlowStep, klass: CodeScope, name: str) -> Iterator[TextOrigin]:
        for bound in self.names.classes.attributes(klass, name)[:8]:
            yield from self._bound(step, bound, name)
        for bound in self.names.classes.overrides(klass, name):
            yield from self._bound(step, bound, name)
        if name in klass.annotations and "__init__" not in klass.attributes:
            for invocation, scope in self.names.calls.constructions(klass)[:40]:
                given = invocation.keywords.get(name)
                order = list(klass.annotations)
                if given is None and order.index(name) < len(invocation.arguments):
                    given = invocation.arguments[order.index(name)]
                if given is not None:
                    yield from self.follow(
                        step.to(given, scope=scope, frame=None, holder="", at=step.syntax)
                    )

    def item(self, step: FlowStep, base: Syntax, key: Syntax) -> Iterator[TextOrigin]:
        """What a key of a table holds."""
        wanted = key.value if isinstance(key, TextValue) else ""
        if isinstance(key, NameUse):
            wanted = self.paths.constant(key, step.scope, step.frame)
        found = False
        for value, scope, frame in self.tables.mappings(base, step.scope, step.frame, 0):
            for name, one in value.entries:
                if (
                    name is None
                    or not wanted
                    or (isinstance(name, TextValue) and name.value == wanted)
                ):
                    found = True
                    holder = name.value if isinstance(name, TextValue) else ""
                    yield from self.follow(
                        step.to(one, scope=scope, frame=frame, holder=holder, at=step.syntax)
                    )
        if not found and not step.slot:
            inner = step.to(base, keys=(wanted, *step.keys) if wanted else step.keys)
            for origin in self.follow(inner):
                if origin.kind == "file":
                    yield origin

    def result(
        self, step: FlowStep, function: CodeScope, call: Invocation | None
    ) -> Iterator[TextOrigin]:
        """Text that a function returns."""
        frame = CallFrame(function, call, step.scope, step.frame) if call is not None else None
        depth = 0
        above = step.frame
        while above is not None:
            if above.function is function:
                return
            above = above.parent
            depth += 1
        if depth > 6:
            return
        for value in function.returns[:12]:
            yield from self.follow(
                step.to(
                    value,
                    scope=function,
                    frame=frame,
                    builder=step.builder or function,
                    outer=step.builder,
                    holder="",
                    whole=None,
                    pieced=False,
                )
            )

    # Files

    def files_of(self, step: FlowStep, syntax: Syntax) -> Iterator[TextOrigin]:
        """Files that an expression reads."""
        for path in self.paths.files(syntax, step.scope, step.frame):
            yield TextOrigin(
                "file", step.role, path, scope=step.scope, holder=step.holder, keys=step.keys
            )
