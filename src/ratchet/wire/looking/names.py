"""What a name or expression stands for: scopes of the repository, or dotted names from outside."""

from __future__ import annotations

from ratchet.wire.looking import registries
from ratchet.wire.looking.call_index import CallIndex
from ratchet.wire.looking.class_index import ClassIndex
from ratchet.wire.looking.meanings import MAX_DEPTH, MOST_OVERRIDES, CallFrame, Meaning, argument_of
from ratchet.wire.looking.program import Program
from ratchet.wire.looking.syntax import (
    Alternatives,
    AttributeUse,
    BinaryOperation,
    BoundValue,
    CodeModule,
    CodeScope,
    ImportedName,
    Invocation,
    ItemUse,
    NameUse,
    ScopeValue,
    SequenceLiteral,
    Syntax,
    TextValue,
    last_name,
)

CHAIN = 4
"""Calls one upon another from which on only the first is resolved."""
_WRAPPERS = (
    *("Optional", "Union", "Annotated", "Final", "ClassVar", "Iterator", "AsyncIterator"),
    *("Generator", "AsyncGenerator"),
)
"""Types that mean what stands between their brackets."""
_SESSION_STATE = "streamlit.session_state"
"""What a page of Streamlit keeps; each attribute is what the page writes to it."""
WRAPPING = frozenset(
    {
        *(
            "traceable",
            "traced",
            "wrapTraced",
            "observe",
            "track",
            "memoize",
            "memoizeOne",
            "cache",
        ),
        *(
            "unstable_cache",
            "lru_cache",
            "once",
            "partial",
            "retry",
            "throttle",
            "debounce",
            "pRetry",
        ),
    }
)
"""Functions that give back a function which calls their first argument: `traceable(answer)`."""
_HELD = {"deps", "context", "dependencies", "lifespan_context", "app_state"}
"""What a framework's context holds of the program's own: `context.deps`."""


class Names:
    """Resolves names of a program.

    Args:
        program: The program; modules that are needed are read.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.calls = CallIndex(self)
        self.classes = ClassIndex(self)
        self._meanings: dict[tuple[int, int], list[Meaning]] = {}

    # Names

    def bound(self, name: str, scope: CodeScope) -> tuple[list[BoundValue], CodeScope | None]:
        """Bindings of a name where it is used, or the function whose parameter it is."""
        here: CodeScope | None = scope
        added: list[BoundValue] = []  # to what an outer scope binds: kv.set(…), texts.append(…)
        while here is not None and here.parent is not None:
            if here.kind != "class" or here is scope:
                if any(parameter.name == name for parameter in here.parameters):
                    return [*here.bindings.get(name, []), *added], here
                held = here.bindings.get(name, [])
                if any(one.how != "added" for one in held):
                    return [*held, *added], None
                added = [*held, *added]
            here = here.parent
        return [*self.of_module(scope.module, name), *added], None

    def of_module(
        self, module: CodeModule, name: str, seen: frozenset[str] = frozenset()
    ) -> list[BoundValue]:
        """Bindings of a name at the top of a module, through its star imports."""
        name = module.exports.get(name, name)
        if name in module.scope.bindings:
            return module.scope.bindings[name]
        for star in module.scope.stars:
            path = self.program.resolve(module, star)
            if path is None or path in seen:
                continue
            origin = self.program.module(path)
            if origin is not None:
                found = self.of_module(origin, name, seen | {path})
                if found:
                    return found
        return []

    def imported(self, module: CodeModule, one: ImportedName) -> list[BoundValue] | Meaning:
        """What an import binds."""
        path = self.program.submodule(module, one)
        if path is None or (origin := self.program.module(path)) is None:
            path = self.program.resolve(module, one)
            origin = self.program.module(path) if path is not None else None
            if origin is None:
                joined = ".".join(part for part in (one.module, one.name) if part)
                return Meaning(outside=joined)
            if one.name and one.name != "*":
                return self.of_module(origin, one.name, frozenset({module.path}))
        return Meaning(module=origin)

    # Meanings

    def meanings(
        self, syntax: Syntax, scope: CodeScope, frame: CallFrame | None = None, depth: int = 0
    ) -> list[Meaning]:
        """What an expression may stand for."""
        if depth > MAX_DEPTH:
            return []
        if frame is not None:
            return self._meanings_of(syntax, scope, frame, depth)
        key = (id(syntax), id(scope))
        if key not in self._meanings:
            self._meanings[key] = []  # for a value that depends on itself
            found = self._meanings_of(syntax, scope, None, depth)
            if depth > MAX_DEPTH // 2 and not found:
                del self._meanings[key]
                return []
            self._meanings[key] = found
        return self._meanings[key]

    def _meanings_of(
        self, syntax: Syntax, scope: CodeScope, frame: CallFrame | None, depth: int
    ) -> list[Meaning]:
        match syntax:
            case ScopeValue(scope=value):
                return [Meaning(value)]
            case NameUse(name=name):
                return self._of_name(name, scope, frame, depth)
            case AttributeUse(base=base, name=name):
                found: list[Meaning] = []
                for one in self.meanings(base, scope, frame, depth + 1)[:6]:
                    if one.outside == _SESSION_STATE:
                        for bound in scope.module.attribute_writes.get(name, ())[:6]:
                            found += self.of_bound(bound, depth + 1)
                    found += self.attribute(one, name, depth + 1) if not found else []
                return found[:MOST_OVERRIDES]
            case Invocation():
                return self._of_call(syntax, scope, frame, depth)
            case Alternatives(options=options):
                return [m for one in options for m in self.meanings(one, scope, frame, depth + 1)]
            case BinaryOperation(operator="|", left=left, right=right):
                return [
                    m for one in (left, right) for m in self.meanings(one, scope, frame, depth + 1)
                ]
            case ItemUse(base=base):
                held = registries.held(self, base, scope, depth)
                if held:
                    return held
                if isinstance(base, (NameUse, AttributeUse)):
                    # Agent[Context](…): a parameter of the type. Or an item of a container.
                    return [
                        one
                        for one in self.meanings(base, scope, frame, depth + 1)
                        if not one.instance
                    ]
        return []

    def _of_name(
        self, name: str, scope: CodeScope, frame: CallFrame | None, depth: int
    ) -> list[Meaning]:
        if name in ("self", "cls", "this"):
            owner = scope.enclosing("class")
            if owner is not None:
                return [Meaning(owner, instance=name != "cls")]
        if name == "super":
            owner = scope.enclosing("class")
            return self.classes.bases(owner, depth) if owner is not None else []
        values, function = self.bound(name, scope)
        found: list[Meaning] = []
        for bound in values[:8]:
            found += self.of_bound(bound, depth + 1)
        if function is not None:
            found += self._of_parameter(function, name, frame, depth + 1)
        elif not values:
            annotation = scope.annotations.get(name)
            if annotation is not None:
                found += self._typed(annotation, scope, depth + 1)
        if not found and function is None:
            annotation = scope.annotations.get(name)
            if annotation is not None:
                found += self._typed(annotation, scope, depth + 1)
        return found

    def _of_parameter(
        self, function: CodeScope, name: str, frame: CallFrame | None, depth: int
    ) -> list[Meaning]:
        here = frame
        while here is not None:
            if here.function is function:
                given = here.argument(name)
                if given is not None:
                    return self.meanings(given, here.scope, here.parent, depth + 1)
            here = here.parent
        parameter = next(one for one in function.parameters if one.name == name)
        if parameter.annotation is not None:
            typed = self._typed(parameter.annotation, function.parent or function, depth + 1)
            if typed:
                return typed
        found: list[Meaning] = []
        for invocation, scope in self.calls.of(function)[:6]:
            given = argument_of(function, invocation, name)
            if given is not None:
                found += self.meanings(given, scope, None, depth + 2)
        if not found and parameter.default is not None:
            found = self.meanings(parameter.default, function.parent or function, None, depth + 1)
        return found

    def _typed(self, annotation: Syntax, scope: CodeScope, depth: int) -> list[Meaning]:
        match annotation:
            case ItemUse(base=base, key=key) if last_name(base) in _WRAPPERS and depth <= MAX_DEPTH:
                options = key.items if isinstance(key, SequenceLiteral) else [key]
                return [m for one in options for m in self._typed(one, scope, depth + 1)]
        holds: tuple[CodeScope, ...] = ()
        if isinstance(annotation, ItemUse) and depth <= MAX_DEPTH:
            key = annotation.key
            options = key.items if isinstance(key, SequenceLiteral) else [key]
            held = [m for one in options for m in self.meanings(one, scope, None, depth + 1)]
            holds = tuple(m.scope for m in held if m.scope is not None and m.scope.kind == "class")
        return [
            Meaning(one.scope, True, None, one.outside, holds)
            for one in self.meanings(annotation, scope, None, depth)
            if one.module is None and not one.outside.startswith("typing.")
        ]

    def of_bound(self, bound: BoundValue, depth: int) -> list[Meaning]:
        """What a binding stands for."""
        if isinstance(bound.value, ImportedName):
            found = self.imported(bound.scope.module, bound.value)
            if isinstance(found, Meaning):
                return [found]
            return (
                [m for one in found[:6] for m in self.of_bound(one, depth + 1)]
                if depth < MAX_DEPTH
                else []
            )
        if bound.how in ("added", "iterated"):
            return []
        return self.meanings(bound.value, bound.scope, None, depth + 1)

    def attribute(self, one: Meaning, name: str, depth: int = 0) -> list[Meaning]:
        """What an attribute stands for."""
        if one.outside and one.holds and name in _HELD:
            return [Meaning(held, instance=True) for held in one.holds]
        if one.outside:
            return [
                Meaning(outside=f"{one.outside}.{name}", instance=one.instance, holds=one.holds)
            ]
        if one.module is not None:
            found = [
                m
                for bound in self.of_module(one.module, name)[:6]
                for m in self.of_bound(bound, depth)
            ]
            if not found:
                package = one.module.path.removesuffix("/__init__.py").removesuffix(".py")
                for path in (f"{package}/{name}.py", f"{package}/{name}/__init__.py"):
                    below = self.program.module(path) if path in self.program.files.known else None
                    if below is not None:
                        return [Meaning(module=below)]
            return found
        if one.scope is not None and one.scope.kind == "class":
            found = []
            for bound in self.classes.attributes(one.scope, name)[:6]:
                found += self.of_bound(bound, depth + 1)
            if found and one.instance and all(m.scope and not m.instance for m in found):
                for bound in self.classes.overrides(one.scope, name):
                    found += self.of_bound(bound, depth + 1)
            if not found:
                annotation = one.scope.annotations.get(name)
                if annotation is not None:
                    found += self._typed(annotation, one.scope, depth + 1)
            if not found and not self.classes.attributes(one.scope, name):
                # What an outside base class has.
                found = [
                    Meaning(outside=f"{base.outside}.{name}", instance=True)
                    for base in self.classes.bases(one.scope, depth)
                    if base.outside
                ]
            return found
        return []

    def _of_call(
        self, call: Invocation, scope: CodeScope, frame: CallFrame | None, depth: int
    ) -> list[Meaning]:
        found: list[Meaning] = self.wrapped(call, scope, frame, depth)
        if found:
            return found
        called = self._of_chain(call, scope, frame, depth)
        if not called:
            called = self.meanings(call.function, scope, frame, depth + 1)
        for one in called[:6]:
            if one.outside:
                found.append(Meaning(outside=one.outside, instance=True))
            elif one.scope is not None and one.scope.kind == "class":
                found.append(Meaning(one.scope, instance=True))
            elif one.scope is not None:
                inner = CallFrame(one.scope, call, scope, frame)
                for value in (one.scope.returns or one.scope.yields)[:6]:
                    found += self.meanings(value, one.scope, inner, depth + 2)
                if not found and one.scope.returned_type is not None:
                    outer = one.scope.parent or one.scope
                    found += self._typed(one.scope.returned_type, outer, depth + 1)
        match call:
            case Invocation(
                function=NameUse(name="getattr"), arguments=[base, TextValue(value=name), *_]
            ):
                for one in self.meanings(base, scope, frame, depth + 1)[:6]:
                    found += self.attribute(one, name, depth + 1)
            case Invocation(function=NameUse(name="getattr"), arguments=[base, key, *_]):
                known = registries.texts_held(self, key, scope)
                for one in self.meanings(base, scope, frame, depth + 1)[:6]:
                    for name in known:
                        found += self.attribute(one, name, depth + 1)
                    if not known and one.instance and one.outside not in registries.LOADING:
                        found.append(Meaning(outside=f"{one.outside}.…", instance=one.instance))
                return found[:MOST_OVERRIDES]
            case Invocation(function=AttributeUse(base=base, name="get")) if not found:
                found += registries.held(self, base, scope, depth)
            case Invocation(function=NameUse(name="Depends"), arguments=[given, *_]):
                # FastAPI gives what the function returns, or an object of the class.
                made = Invocation(call.line, call.start, call.end, given, [], {}, [])
                return self._of_call(made, scope, frame, depth + 1)
        asked = last_name(call.function) in ("getAgent", "getAgentById")
        if asked and any(one.module.startswith("@mastra/") for one in scope.module.imports):
            # Of the instance that Mastra hands to a step or tool.
            return found or [Meaning(outside="@mastra/core/agent.Agent", instance=True)]
        return found[:12]

    def wrapped(
        self, call: Invocation, scope: CodeScope, frame: CallFrame | None = None, depth: int = 0
    ) -> list[Meaning]:
        """The functions of the repository that a call wraps in another that calls them."""
        if last_name(call.function) not in WRAPPING or not call.arguments:
            return []
        return [
            one
            for one in self.meanings(call.arguments[0], scope, frame, depth + 1)
            if one.scope is not None and one.scope.kind == "function" and not one.instance
        ]

    def _of_chain(
        self, call: Invocation, scope: CodeScope, frame: CallFrame | None, depth: int
    ) -> list[Meaning]:
        """What a long chain of calls, as of a builder from outside, stands for: as of its root."""
        steps: list[str] = []
        root: Syntax = call
        while isinstance(root, Invocation) and isinstance(root.function, AttributeUse):
            steps.append(root.function.name)
            root = root.function.base
        if len(steps) < CHAIN:
            return []
        return [
            Meaning(outside=".".join((one.outside, *reversed(steps))), instance=True)
            for one in self.meanings(root, scope, frame, depth + 1)[:6]
            if one.outside
        ]

    def outside_names(self, call: Invocation, scope: CodeScope) -> list[str]:
        """Dotted outside names of what a call calls; of a local subclass, those of its bases."""
        found: list[str] = []
        for one in self.meanings(call.function, scope):
            if one.outside:
                found.append(one.outside)
            elif one.scope is not None and one.scope.kind == "class" and not one.instance:
                found += self.classes.outside_bases(one.scope)
            elif one.scope is not None and one.scope.kind == "class":
                found += [f"{base}.__call__" for base in self.classes.outside_bases(one.scope)]
        match call.function:
            case AttributeUse(base=Invocation(function=NameUse(name="super")), name="__init__"):
                owner = scope.enclosing("class")
                if owner is not None:
                    found += self.classes.outside_bases(owner)
            case NameUse(name="super"):
                owner = scope.enclosing("class")
                if owner is not None:
                    found += self.classes.outside_bases(owner)
        return list(dict.fromkeys(found))
