"""A file of JavaScript or TypeScript with its syntax tree, and what the wiring asks of it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ratchet.types import InputError
from ratchet.wire.looking.javascript_syntax import _parser

if TYPE_CHECKING:
    from tree_sitter import Node

ENDINGS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_FUNCTIONS = ("function_declaration", "generator_function_declaration")
_VALUES = ("arrow_function", "function_expression", "function")


class Argument(NamedTuple):
    """A parameter, or a field of an object that is one."""

    name: str
    type: str
    """As declared; empty if it is not."""
    optional: bool


class FoundFunction(NamedTuple):
    """A function that can be called from outside of its file."""

    name: str
    """As it is exported; `default` for the default export."""
    arguments: tuple[Argument, ...]
    fields: bool
    """Whether the arguments are the fields of one object."""
    export_at: int | None
    """Byte where `export ` is missing; None if it is exported."""
    owner: str = ""
    """The exported class that it is a method of; empty for a function."""


class JavascriptFile:
    """One file.

    Args:
        path: Relative to the repository.
        data: Its bytes.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data

    @functools.cached_property
    def root(self) -> Node:
        """The root of its syntax tree."""
        grammar = "typescript" if self.path.endswith((".ts", ".mts", ".cts")) else "tsx"
        return _parser(grammar).parse(self.data).root_node

    def text(self, node: Node) -> str:
        """Source of a node."""
        return self.data[node.start_byte : node.end_byte].decode(errors="replace")

    def nodes(self, kind: str) -> Iterator[Node]:
        """All nodes of a kind, in order."""
        yield from self._kinds.get(kind, ())

    @functools.cached_property
    def _kinds(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.is_named:
                found.setdefault(node.type, []).append(node)
            waiting.extend(reversed(node.children))
        return found

    def imported(self) -> dict[str, tuple[str, str]]:
        """Package and exported name by local name; the name is `default` or `*` for the whole."""
        found: dict[str, tuple[str, str]] = {}
        for statement in self.nodes("import_statement"):
            source = statement.child_by_field_name("source")
            clause = next((one for one in statement.children if one.type == "import_clause"), None)
            if source is None or clause is None:
                continue
            package = self.text(source)[1:-1]
            for part in clause.children:
                if part.type == "identifier":
                    found[self.text(part)] = (package, "default")
                elif part.type == "namespace_import":
                    found[self.text(part.children[-1])] = (package, "*")
                elif part.type == "named_imports":
                    for one in part.named_children:
                        name, alias = (one.child_by_field_name(key) for key in ("name", "alias"))
                        if name is not None:
                            found[self.text(alias or name)] = (package, self.text(name))
        for call in self.nodes("variable_declarator"):
            name, value = (call.child_by_field_name(key) for key in ("name", "value"))
            if name is None or value is None or value.type != "call_expression":
                continue
            function = value.child_by_field_name("function")
            given = value.child_by_field_name("arguments")
            if function is None or self.text(function) != "require" or given is None:
                continue
            package = self.text(given)[2:-2]
            if name.type == "identifier":
                found[self.text(name)] = (package, "default")
            else:
                found |= {self.text(one): (package, self.text(one)) for one in name.named_children}
        return found

    def function(self, name: str) -> FoundFunction | None:
        """The function of a name, such as `ask` or `Agent.ask`, at the top of the file.

        Returns:
            None if there is none, or if its class is not made without arguments.
        """
        owner, _, method = name.rpartition(".")
        if owner:
            return self._method(owner, method)
        for statement in self.root.children:
            exported = statement.type == "export_statement"
            inner = statement.child_by_field_name("declaration") if exported else statement
            if inner is None and exported:
                inner = statement.child_by_field_name("value")
            if inner is None:
                continue
            default = exported and any(one.type == "default" for one in statement.children)
            for own, function in self._functions(inner):
                if own != name and not (default and name == "default"):
                    continue
                shown = "default" if default else own if exported else self._listed(own)
                at = None if shown else inner.start_byte
                arguments, fields = self._arguments(function)
                return FoundFunction(shown or own, arguments, fields, at)
        return None

    def _method(self, owner: str, name: str) -> FoundFunction | None:
        for statement in self.root.children:
            exported = statement.type == "export_statement"
            inner = statement.child_by_field_name("declaration") if exported else statement
            if inner is None or inner.type != "class_declaration":
                continue
            own, body = (inner.child_by_field_name(key) for key in ("name", "body"))
            if own is None or body is None or self.text(own) != owner:
                continue
            methods = {
                self.text(key): one
                for one in body.named_children
                if one.type == "method_definition"
                and not any(each.type in ("static", "get", "set") for each in one.children)
                and (key := one.child_by_field_name("name")) is not None
            }
            made = methods.get("constructor")
            needs = self._arguments(made)[0] if made is not None else ()
            if name not in methods or any(not one.optional for one in needs):
                return None
            default = exported and any(one.type == "default" for one in statement.children)
            shown = "default" if default else owner if exported else self._listed(owner)
            at = None if shown else inner.start_byte
            return FoundFunction(name, *self._arguments(methods[name]), at, shown or owner)
        return None

    def _functions(self, node: Node) -> Iterator[tuple[str, Node]]:
        if node.type in _FUNCTIONS:
            name = node.child_by_field_name("name")
            yield (self.text(name) if name else "default"), node
        elif node.type in ("lexical_declaration", "variable_declaration"):
            for one in node.named_children:
                name, value = (one.child_by_field_name(key) for key in ("name", "value"))
                if name is not None and value is not None and value.type in _VALUES:
                    yield self.text(name), value
        elif node.type in _VALUES:
            yield "default", node

    def _listed(self, name: str) -> str:
        """Name under which `export { … }` or CommonJS exports a function; empty if none does."""
        for one in self.nodes("export_specifier"):
            inner, alias = (one.child_by_field_name(key) for key in ("name", "alias"))
            if inner is not None and self.text(inner) == name:
                return self.text(alias or inner)
        for one in self.nodes("assignment_expression"):
            left, right = (one.child_by_field_name(key) for key in ("left", "right"))
            if left is None or right is None:
                continue
            target = self.text(left)
            if target in (f"exports.{name}", f"module.exports.{name}"):
                return name
            if target == "module.exports":
                if right.type == "identifier" and self.text(right) == name:
                    return "default"
                if right.type == "object" and name in (self.text(p) for p in right.named_children):
                    return name
        for one in self.nodes("export_statement"):
            value = one.child_by_field_name("value")
            if value is not None and self.text(value) == name:
                return "default"
        return ""

    @property
    def is_commonjs(self) -> bool:
        """Whether it exports by `module.exports`."""
        return not any(True for _ in self.nodes("export_statement")) and (
            b"module.exports" in self.data or b"require(" in self.data
        )

    def _arguments(self, function: Node) -> tuple[tuple[Argument, ...], bool]:
        listed = function.child_by_field_name("parameters")
        if listed is None:
            single = function.child_by_field_name("parameter")
            return ((Argument(self.text(single), "", False),) if single else ()), False
        parameters = [one for one in listed.named_children if one.type != "comment"]
        if len(parameters) == 1 and (pattern := _pattern(parameters[0])) is not None:
            return tuple(self._fields(pattern, parameters[0])), True
        return tuple(self._parameter(one) for one in parameters), False

    def _parameter(self, node: Node) -> Argument:
        pattern = node.child_by_field_name("pattern") or node.child_by_field_name("left") or node
        declared = node.child_by_field_name("type")
        optional = node.type in ("optional_parameter", "assignment_pattern", "rest_pattern")
        optional |= node.child_by_field_name("value") is not None
        return Argument(
            self.text(pattern), self.text(declared)[1:].strip() if declared else "", optional
        )

    def _fields(self, pattern: Node, parameter: Node) -> Iterator[Argument]:
        types: dict[str, tuple[str, bool]] = {}
        declared = parameter.child_by_field_name("type")
        shape = next((one for one in declared.named_children), None) if declared else None
        if shape is not None and shape.type in ("type_identifier",):
            shape = self._shape(self.text(shape))
        for one in shape.named_children if shape is not None else ():
            name, kind = (one.child_by_field_name(key) for key in ("name", "type"))
            if one.type == "property_signature" and name is not None:
                optional = any(each.type == "?" for each in one.children)
                types[self.text(name)] = (self.text(kind)[1:].strip() if kind else "", optional)
        for one in pattern.named_children:
            given = one.type == "object_assignment_pattern"
            name = one.child_by_field_name("left") if given else one
            if one.type == "pair_pattern":
                name = one.child_by_field_name("key")
                value = one.child_by_field_name("value")
                given = value is not None and value.type == "assignment_pattern"
            if name is None or one.type == "rest_pattern":
                continue
            kind_text, optional = types.get(self.text(name), ("", False))
            yield Argument(self.text(name), kind_text, given or optional)

    def _shape(self, name: str) -> Node | None:
        for kind, field in (("interface_declaration", "body"), ("type_alias_declaration", "value")):
            for one in self.nodes(kind):
                own = one.child_by_field_name("name")
                if own is not None and self.text(own) == name:
                    return one.child_by_field_name(field)
        return None


def _pattern(parameter: Node) -> Node | None:
    """The object pattern of a parameter; None if it is none."""
    if parameter.type == "object_pattern":
        return parameter
    inner = parameter.child_by_field_name("pattern") or parameter.child_by_field_name("left")
    return inner if inner is not None and inner.type == "object_pattern" else None


def javascript_files(root: Path, paths: list[str]) -> Iterator[JavascriptFile]:
    """Files of a repository that can be read."""
    for path in paths:
        try:
            yield JavascriptFile(path, (root / path).read_bytes())
        except OSError:
            continue


def read_file(root: Path, path: str) -> JavascriptFile:
    """One file.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return JavascriptFile(path, (root / path).read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def is_javascript(path: str) -> bool:
    """Whether a file is of JavaScript or TypeScript, by its ending."""
    return PurePosixPath(path).suffix in ENDINGS
