"""Where text comes from: follows an expression back to literals, files and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ratchet.wire.looking.file_paths import FilePaths
from ratchet.wire.looking.frameworks import framework_of
from ratchet.wire.looking.meanings import MOST_OVERRIDES, CallFrame, Meaning
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
    COMPUTED,
    FETCHING,
    MESSAGE_ROLES,
    PAIR_ROLES,
    READERS,
    STORES,
    SYSTEM_KEYS,
    TEMPLATES,
    UNCHANGED,
    WRITTEN,
    role_of,
)

_TEXTS = (TextValue, TextTemplate, BinaryOperation)

MAX_DEPTH = 32
FUEL = 12_000
"""Expressions followed for one argument of a call."""


@dataclass(frozen=True, eq=False)
class TextOrigin:
    """One place that text comes from."""

    kind: str
    """`text`, `file`, `outside`, `store`."""
    role: str
    path: str
    line: int = 0
    syntax: TextValue | TextTemplate | None = None
    scope: CodeScope | None = None
    """Where the text stands."""
    holder: str = ""
    """Name that it is bound to."""
    builder: CodeScope | None = None
    """The function whose result it is, or a part of it."""
    keys: tuple[str, ...] = ()
    """Of a file of data: the keys that are read; empty for the whole file."""
    joined: bool = False
    """Joined with other text in the program."""
    whole: Syntax | None = None
    """The sum that it is an operand of."""
    pieced: bool = False
    """The name that it is bound to gets text added."""
    iterated: bool = False
    """One of several that a loop goes through."""


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
        return list(self._from(_Step(syntax, scope, None, role, slot=slot, joined=slot)))

    def files(self, syntax: Syntax, scope: CodeScope, role: str) -> list[TextOrigin]:
        """Files of data that an argument is read from."""
        return list(self._file(_Step(syntax, scope, None, role), syntax))

    def _from(self, step: _Step) -> Iterator[TextOrigin]:
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
                if not step.slot or len(value.split()) > 6:
                    yield self._text(step, step.syntax)
            case TextTemplate():
                yield from self._template(step, step.syntax)
            case NameUse(name=name):
                yield from self._name(step, name)
            case AttributeUse():
                yield from self._attribute(step, step.syntax)
            case ItemUse(base=base, key=key):
                yield from self._item(step, base, key)
            case Invocation():
                yield from self._call(step, step.syntax)
            case MappingLiteral():
                yield from self._mapping(step, step.syntax)
            case SequenceLiteral(items=items):
                yield from self._sequence(step, items)
            case BinaryOperation(operator=operator, left=left, right=right):
                if operator == "+":
                    whole = step.whole or step.syntax
                    yield from self._from(step.to(left, joined=True, whole=whole))
                    yield from self._from(step.to(right, joined=True, whole=whole))
                elif operator == "%":
                    yield from self._from(step.to(left))
                elif operator == "|":
                    yield from self._from(step.to(left))
                    yield from self._from(step.to(right))
                elif operator == "/":
                    yield from self._file(step, step.syntax)
            case Alternatives(options=options):
                for one in options:
                    yield from self._from(step.to(one))
            case SpreadItem(value=value):
                yield from self._from(step.to(value))
            case ScopeValue(scope=function):
                yield from self._result(step, function, None)
            case OtherSyntax(children=children) if len(children) == 1:
                yield from self._from(step.to(children[0]))

    # Literals

    def _text(self, step: _Step, syntax: TextValue | TextTemplate) -> TextOrigin:
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

    def _template(self, step: _Step, syntax: TextTemplate) -> Iterator[TextOrigin]:
        own = "".join(part for part in syntax.parts if isinstance(part, str))
        if re.search(r"\w", own):
            yield self._text(step, syntax)
        elif len(syntax.sources) == 1:
            # Nothing but a slot: what fills it is the text.
            for part in syntax.parts:
                if isinstance(part, Syntax):
                    yield from self._from(step.to(part))
            return
        for part in syntax.parts:
            if isinstance(part, (NameUse, AttributeUse)) or (
                isinstance(part, Invocation)
                and (not part.arguments or _is_joined(part, step.scope))
            ):
                yield from self._from(step.to(part, slot=True, joined=True))

    def _mapping(self, step: _Step, syntax: MappingLiteral) -> Iterator[TextOrigin]:
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
                    yield from self._from(step.to(one, role=role))
            return
        for key, value in syntax.entries:
            name = key.value if isinstance(key, TextValue) else ""
            if key is None or name in CARRIERS:
                inner = "system" if name in SYSTEM_KEYS else step.role
                yield from self._from(step.to(value, role=inner))

    def _sequence(self, step: _Step, items: list[Syntax]) -> Iterator[TextOrigin]:
        match items:
            case [TextValue(value=name), content] if name in PAIR_ROLES:
                yield from self._from(step.to(content, role=PAIR_ROLES[name]))
                return
        for one in items:
            yield from self._from(step.to(one))

    # Names

    def _name(self, step: _Step, name: str) -> Iterator[TextOrigin]:
        values, function = self.names.bound(name, step.scope)
        if not values and function is None:
            return
        pieced = any(one.how == "added" and isinstance(one.value, _TEXTS) for one in values)
        for bound in values[:12]:
            yield from self._bound(step, bound, name, pieced=pieced)
        if function is not None:
            yield from self._parameter(step, function, name)

    def _bound(
        self, step: _Step, bound: BoundValue, name: str, *, pieced: bool = False
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
        yield from self._from(following)

    def _parameter(self, step: _Step, function: CodeScope, name: str) -> Iterator[TextOrigin]:
        frame = step.frame
        while frame is not None:
            if frame.function is function:
                given = frame.argument(name)
                if given is not None:
                    yield from self._from(
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
            yield from self._from(
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
                    yield from self._from(
                        step.to(given, scope=scope, frame=None, holder="", at=step.syntax)
                    )

    def _attribute(self, step: _Step, syntax: AttributeUse) -> Iterator[TextOrigin]:
        name = syntax.name
        if step.scope.module.language == "JavaScript":
            match syntax.base:
                case Invocation(arguments=[_, text, *_]) if last_name(syntax.base) == "prompt":
                    if name == "text":  # declared already
                        yield from self._from(step.to(text))
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

    def _record(self, step: _Step, syntax: AttributeUse) -> Iterator[TextOrigin]:
        """An attribute of an object that is written out: `texts.system`."""
        for value, scope, frame in self.tables.mappings(syntax.base, step.scope, step.frame, 0):
            one = value.get(syntax.name)
            if one is not None:
                yield from self._from(
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

    def _field(self, step: _Step, klass: CodeScope, name: str) -> Iterator[TextOrigin]:
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
                    yield from self._from(
                        step.to(given, scope=scope, frame=None, holder="", at=step.syntax)
                    )

    def _item(self, step: _Step, base: Syntax, key: Syntax) -> Iterator[TextOrigin]:
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
                    yield from self._from(
                        step.to(one, scope=scope, frame=frame, holder=holder, at=step.syntax)
                    )
        if not found:
            inner = step.to(base, keys=(wanted, *step.keys) if wanted else step.keys)
            for origin in self._from(inner):
                if origin.kind == "file":
                    yield origin

    # Calls

    def _call(self, step: _Step, call: Invocation) -> Iterator[TextOrigin]:
        name = last_name(call.function)
        role = MESSAGE_ROLES.get(name)
        if isinstance(call.function, AttributeUse) and role is None:
            role = MESSAGE_ROLES.get(last_name(call.function.base))
        if role is not None:
            yield from self._contents(step.to(step.syntax, role=role, again=True), call)
            return
        if name in ("ChatMessage", "Message", "ChatCompletionMessageParam", "MessageParam"):
            given = call.keywords.get("role") or next(iter(call.arguments), None)
            text = ""
            if isinstance(given, TextValue):
                text = given.value
            elif isinstance(given, AttributeUse):
                text = given.name.lower()
            yield from self._contents(
                step.to(step.syntax, role=role_of(text, step.role), again=True), call
            )
            return
        if name in ("field", "Field") and step.scope.kind == "class":
            given = call.keywords.get("default")
            if given is None and name == "Field" and call.arguments:
                given = call.arguments[0]
            if given is None:
                made = call.keywords.get("default_factory")
                yield from self._from(step.to(made)) if made is not None else ()
            else:
                yield from self._from(step.to(given))
            return
        if name in STORES and not self._own_functions(call, step):
            yield TextOrigin(
                "store",
                step.role,
                step.scope.module.path,
                call.line,
                holder=self._argument_text(call, step),
            )
            return
        if name in UNCHANGED or name in TEMPLATES:
            yield from self._unchanged(step, call, name)
            return
        if name == "join":
            for one in (call.function, *call.arguments):
                base = one.base if isinstance(one, AttributeUse) else one
                if isinstance(base, (SequenceLiteral, NameUse)):
                    yield from self._from(step.to(base, joined=True))
            return
        if name in READERS:
            files = list(self._file(step, call))
            if files:
                yield from files
                return
            if name in ("Template", "from_string", "render", "load", "safe_load", "loads"):
                yield from self._unchanged(step, call, name)
        if name == "get" and isinstance(call.function, AttributeUse) and call.arguments:
            yield from self._item(step, call.function.base, call.arguments[0])
            for one in call.arguments[1:]:
                yield from self._from(step.to(one))
            return
        if name == "dict" and not call.arguments:
            pairs = [(TextValue(call.line, 0, 0, key), one) for key, one in call.keywords.items()]
            mapping = MappingLiteral(call.line, call.start, call.end, [*pairs])
            yield from self._from(step.to(mapping))
            return
        if name == "getenv":
            for one in call.arguments[1:]:
                yield from self._from(step.to(one))
            return
        if name in COMPUTED:
            return
        known = self.names.meanings(call.function, step.scope, step.frame)
        if not known and isinstance(call.function, AttributeUse):
            # Of an object that is not known, but few classes have such a method.
            methods = self.names.classes.methods_named(name)
            known = [Meaning(one) for one in methods] if len(methods) <= 3 else []
        for one_ in known[:MOST_OVERRIDES]:
            if one_.scope is not None and one_.scope.kind == "function":
                if not (step.slot and FETCHING.match(name)):
                    yield from self._result(step, one_.scope, call)
            elif one_.scope is not None and not one_.instance:
                # An object of the repository that holds text: its arguments.
                for value in (*call.arguments, *call.keywords.values()):
                    if isinstance(value, (SequenceLiteral, MappingLiteral)):
                        yield from self._from(step.to(value))
            elif one_.outside and name[:1].isupper() and framework_of(one_.outside):
                # A block or part of a message, in the types of the model's client.
                for key in ("content", "text", "parts"):
                    if key in call.keywords:
                        yield from self._from(step.to(call.keywords[key]))

    def _own_functions(self, call: Invocation, step: _Step) -> bool:
        known = self.names.meanings(call.function, step.scope, step.frame)
        return any(one.scope is not None and one.scope.kind == "function" for one in known)

    def _unchanged(self, step: _Step, call: Invocation, name: str) -> Iterator[TextOrigin]:
        if isinstance(call.function, AttributeUse):
            base = call.function.base
            outside = [m for m in self.names.meanings(base, step.scope, step.frame) if m.outside]
            if not (outside and name in ("dedent", "cleandoc", "indent", "from_template", "fill")):
                yield from self._from(step.to(base))
            if name in ("format", "substitute", "safe_substitute", "format_map"):
                for one in (*call.arguments, *call.keywords.values()):
                    yield from self._from(step.to(one, slot=True, joined=True))
                return
            if name in ("replace", "replaceAll"):  # what is put into a text is a part of it
                for one in call.arguments[1:2]:
                    yield from self._from(step.to(one, slot=True, joined=True))
            if name in ("strip", "replace", "replaceAll", "lstrip", "rstrip", "partial", "trim"):
                return
        for one in (*call.arguments[:2], *(v for k, v in call.keywords.items() if k in CARRIERS)):
            yield from self._from(step.to(one))

    def _contents(self, step: _Step, call: Invocation) -> Iterator[TextOrigin]:
        given = [
            call.keywords[key]
            for key in ("content", "text", "parts", "prompt", "template", "blocks")
            if key in call.keywords
        ]
        if not given:
            given = [
                one
                for one in call.arguments
                if not isinstance(one, AttributeUse) or one.name.upper() not in ("SYSTEM", "USER")
            ]
        for one in given:
            yield from self._from(step.to(one))

    def _result(
        self, step: _Step, function: CodeScope, call: Invocation | None
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
            yield from self._from(
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

    def _file(self, step: _Step, syntax: Syntax) -> Iterator[TextOrigin]:
        """Files that an expression reads."""
        for path in self.paths.files(syntax, step.scope, step.frame):
            yield TextOrigin(
                "file", step.role, path, scope=step.scope, holder=step.holder, keys=step.keys
            )

    def _argument_text(self, call: Invocation, step: _Step) -> str:
        for one in (*call.arguments, *call.keywords.values()):
            for text in self.paths.texts(one, step.scope, step.frame, 0):
                return text
        return ""


def _is_joined(call: Invocation, scope: CodeScope) -> bool:
    """Whether a call is `pieces.join(…)`, in JavaScript."""
    return scope.module.language == "JavaScript" and last_name(call.function) == "join"


@dataclass(frozen=True, eq=False)
class _Step:
    """An expression that is followed, and how it was reached."""

    syntax: Syntax
    scope: CodeScope
    frame: CallFrame | None
    role: str
    holder: str = ""
    builder: CodeScope | None = None
    outer: CodeScope | None = None
    joined: bool = False
    slot: bool = False
    keys: tuple[str, ...] = ()
    whole: Syntax | None = None
    pieced: bool = False
    iterated: bool = False
    depth: int = 0
    seen: frozenset[int] = frozenset()

    def key(self) -> tuple[object, ...]:
        """What decides which origins are found from here."""
        calls: list[int] = []
        frame = self.frame
        while frame is not None and len(calls) < 2:
            calls.append(id(frame.invocation))
            frame = frame.parent
        holders = (id(self.scope), id(self.builder), id(self.whole), self.holder)
        return (id(self.syntax), self.role, self.slot, self.keys, *holders, *calls)

    def to(
        self, syntax: Syntax, *, at: Syntax | None = None, again: bool = False, **changes: object
    ) -> _Step:
        """The next step."""
        values: dict[str, object] = {
            "scope": self.scope,
            "frame": self.frame,
            "role": self.role,
            "holder": self.holder,
            "builder": self.builder,
            "outer": self.outer,
            "joined": self.joined,
            "slot": self.slot,
            "keys": self.keys,
            "whole": self.whole if at is None else None,
            "pieced": self.pieced and at is None,
            "iterated": self.iterated,
            **changes,
        }
        seen = self.seen if again else self.seen | {id(self.syntax)}
        return _Step(syntax, depth=self.depth + 1, seen=seen, **values)  # type: ignore[arg-type]
