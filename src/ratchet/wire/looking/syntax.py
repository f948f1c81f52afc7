"""What programs of all languages are read into: expressions and scopes, with their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True, eq=False)
class Syntax:
    """An expression."""

    line: int
    start: int
    end: int
    """Bytes of the file's UTF-8 text."""


@dataclass(slots=True, eq=False)
class TextValue(Syntax):
    """A string literal."""

    value: str


@dataclass(slots=True, eq=False)
class TextTemplate(Syntax):
    """A string with slots."""

    parts: tuple[str | Syntax, ...]
    sources: tuple[str, ...]
    """Source of each slot."""


@dataclass(slots=True, eq=False)
class NameUse(Syntax):
    """A name."""

    name: str


@dataclass(slots=True, eq=False)
class AttributeUse(Syntax):
    """`base.name`."""

    base: Syntax
    name: str


@dataclass(slots=True, eq=False)
class ItemUse(Syntax):
    """`base[key]`."""

    base: Syntax
    key: Syntax


@dataclass(slots=True, eq=False)
class Invocation(Syntax):
    """A call. An object literal among JavaScript's arguments counts as keywords."""

    function: Syntax
    arguments: list[Syntax]
    keywords: dict[str, Syntax]
    spreads: list[Syntax]


@dataclass(slots=True, eq=False)
class MappingLiteral(Syntax):
    """A dict or an object; the key of a spread is None."""

    entries: list[tuple[Syntax | None, Syntax]]

    def get(self, key: str) -> Syntax | None:
        """The value of a constant key."""
        for name, value in self.entries:
            if isinstance(name, TextValue) and name.value == key:
                return value
        return None


@dataclass(slots=True, eq=False)
class SequenceLiteral(Syntax):
    """A list, tuple, set or array."""

    items: list[Syntax]


@dataclass(slots=True, eq=False)
class BinaryOperation(Syntax):
    """Two operands joined by `+`, `|`, `%` or `/`."""

    operator: str
    left: Syntax
    right: Syntax


@dataclass(slots=True, eq=False)
class Alternatives(Syntax):
    """One of several expressions."""

    options: list[Syntax]


@dataclass(slots=True, eq=False)
class ScopeValue(Syntax):
    """A function or class as a value."""

    scope: CodeScope


@dataclass(slots=True, eq=False)
class SpreadItem(Syntax):
    """`*items` or `...items`."""

    value: Syntax


@dataclass(slots=True, eq=False)
class OtherSyntax(Syntax):
    """Any other expression."""

    children: list[Syntax]


@dataclass(slots=True, eq=False)
class ImportedName:
    """What an import binds."""

    module: str
    """As it is written, with the dots of a relative import."""
    name: str
    """Name in that module; empty for the module itself, `*` for all."""
    line: int


@dataclass(slots=True, eq=False)
class BoundValue:
    """One binding of a name."""

    value: Syntax | ImportedName
    scope: CodeScope
    """Where the value is to be read."""
    how: Literal["assigned", "added", "item", "iterated"] = "assigned"
    """Added: by `append`, `+=`. Iterated: the value's items are bound."""
    line: int = 0


@dataclass(slots=True, eq=False)
class Parameter:
    """A parameter of a function."""

    name: str
    default: Syntax | None = None
    annotation: Syntax | None = None
    shown: str = ""
    """As it is declared."""
    from_object: bool = False
    """Taken out of an object argument (JavaScript)."""
    rest: bool = False


@dataclass(slots=True, eq=False)
class CodeScope:
    """A module, class or function."""

    kind: Literal["module", "class", "function"]
    name: str
    module: CodeModule
    parent: CodeScope | None
    line: int
    start: int = 0
    end: int = 0
    bindings: dict[str, list[BoundValue]] = field(default_factory=dict)
    stars: list[ImportedName] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    returns: list[Syntax] = field(default_factory=list)
    yields: list[Syntax] = field(default_factory=list)
    returned_type: Syntax | None = None
    returned_shown: str = ""
    decorators: list[Syntax] = field(default_factory=list)
    bases: list[Syntax] = field(default_factory=list)
    docstring: TextValue | None = None
    annotations: dict[str, Syntax] = field(default_factory=dict)
    attributes: dict[str, list[BoundValue]] = field(default_factory=dict)
    """Of a class: in its body, and `self.name = …` in its methods."""
    invocations: list[Invocation] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Names and attributes that this scope reads, nested functions left out."""
    children: list[CodeScope] = field(default_factory=list)
    asynchronous: bool = False
    guarded: bool = False
    """Of a module: it has an `if __name__ == "__main__"`."""
    in_guard: set[int] = field(default_factory=set)
    """Lines of calls and of bound values within that guard."""

    def bind(self, name: str, bound: BoundValue) -> None:
        """Add a binding."""
        self.bindings.setdefault(name, []).append(bound)

    def walk(self) -> Iterator[CodeScope]:
        """This scope and all within it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def enclosing(self, kind: str) -> CodeScope | None:
        """The nearest scope of a kind, from this one outward."""
        scope: CodeScope | None = self
        while scope is not None and scope.kind != kind:
            scope = scope.parent
        return scope

    @property
    def method_of(self) -> CodeScope | None:
        """The class that this function is a method of."""
        parent = self.parent
        return parent if self.kind == "function" and parent and parent.kind == "class" else None

    @property
    def dotted(self) -> str:
        """Name with those of enclosing classes and functions; empty for a module."""
        names: list[str] = []
        scope: CodeScope | None = self
        while scope is not None and scope.kind != "module":
            names.append(scope.name)
            scope = scope.parent
        return ".".join(reversed(names))


@dataclass(slots=True, eq=False)
class CodeModule:
    """A file of source."""

    path: str
    language: Literal["Python", "JavaScript"]
    text: str
    scope: CodeScope = field(init=False)
    notebook: bool = False
    imports: list[ImportedName] = field(default_factory=list)
    """All of them, at any depth."""
    attribute_writes: dict[str, list[BoundValue]] = field(default_factory=dict)
    """`anything.name = value`, by name."""
    exports: dict[str, str] = field(default_factory=dict)
    """Local name by exported name (JavaScript)."""


def walk_syntax(syntax: Syntax) -> Iterator[Syntax]:
    """An expression and all within it; bodies of functions are left out."""
    stack = [syntax]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(children_of(one))


def children_of(syntax: Syntax) -> list[Syntax]:
    """Direct parts of an expression."""
    match syntax:
        case TextTemplate(parts=parts):
            return [part for part in parts if isinstance(part, Syntax)]
        case AttributeUse(base=base):
            return [base]
        case ItemUse(base=base, key=key):
            return [base, key]
        case Invocation():
            return [
                syntax.function,
                *syntax.arguments,
                *syntax.keywords.values(),
                *syntax.spreads,
            ]
        case MappingLiteral(entries=entries):
            return [one for pair in entries for one in pair if one is not None]
        case SequenceLiteral(items=items):
            return items
        case BinaryOperation(left=left, right=right):
            return [left, right]
        case Alternatives(options=options):
            return options
        case SpreadItem(value=value):
            return [value]
        case OtherSyntax(children=children):
            return children
    return []


def static_text(syntax: Syntax) -> str:
    """Constant text of a string; `{…}` stands for each slot."""
    if isinstance(syntax, TextValue):
        return syntax.value
    if isinstance(syntax, TextTemplate):
        return "".join(part if isinstance(part, str) else "{…}" for part in syntax.parts)
    return ""


def chain_of(syntax: Syntax) -> str:
    """Dotted text of names, attributes and calls: `client.chat.completions.create`."""
    names: list[str] = []
    while True:
        match syntax:
            case AttributeUse(base=base, name=name):
                names.append(name)
                syntax = base
            case Invocation(function=function):
                syntax = function
            case ItemUse(base=base):
                syntax = base
            case NameUse(name=name):
                names.append(name)
                return ".".join(reversed(names))
            case _:
                return ".".join(reversed(names))


def last_name(syntax: Syntax) -> str:
    """Last name of what is called."""
    match syntax:
        case NameUse(name=name) | AttributeUse(name=name):
            return name
        case ItemUse(base=base):
            return last_name(base)
        case Invocation(function=function):
            return last_name(function)
    return ""
