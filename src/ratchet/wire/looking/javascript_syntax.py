"""Reads JavaScript and TypeScript into scopes and expressions, by tree-sitter."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ratchet.source.literals.javascript import decode
from ratchet.wire.looking.python_syntax import Unparsable
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
    MappingLiteral,
    NameUse,
    OtherSyntax,
    Parameter,
    ScopeValue,
    SequenceLiteral,
    SpreadItem,
    Syntax,
    TextTemplate,
    TextValue,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_DEPTH = 400
MOST_ERRORS = 0.3
"""Share of a file's bytes that may not parse."""

_FUNCTIONS = {
    "function_declaration",
    "generator_function_declaration",
    "function_expression",
    "generator_function",
    "arrow_function",
    "method_definition",
}
_TRANSPARENT = {
    "parenthesized_expression",
    "await_expression",
    "as_expression",
    "satisfies_expression",
    "non_null_expression",
    "type_assertion",
}
_ADDING = {"push": 0, "unshift": 0, "set": 0, "concat": 0, "splice": 2}
"""Methods that add to what they are of, by the number of the first argument that is added."""


def read_javascript(path: str, text: str) -> CodeModule:
    """Read a file.

    Raises:
        Unparsable: Too much of it does not parse.
    """
    data = text.encode("utf-8", "surrogatepass")
    grammar = "tsx" if path.endswith((".tsx", ".jsx", ".js", ".mjs", ".cjs")) else "typescript"
    root = _parser(grammar).parse(data).root_node
    if root.has_error and _broken(root) > MOST_ERRORS * max(len(data), 1):
        raise Unparsable("does not parse as JavaScript or TypeScript")
    module = CodeModule(path, "JavaScript", text)
    _Reader(module, data).read(root)
    return module


@functools.cache
def _parser(grammar: str) -> Parser:
    import tree_sitter_typescript
    from tree_sitter import Language, Parser

    load = {
        "typescript": tree_sitter_typescript.language_typescript,
        "tsx": tree_sitter_typescript.language_tsx,
    }[grammar]
    return Parser(Language(load()))


def _broken(root: Node) -> int:
    size = 0
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error:
            size += node.end_byte - node.start_byte
        elif node.has_error:
            stack.extend(node.children)
    return size


class _Reader:
    def __init__(self, module: CodeModule, data: bytes) -> None:
        self.module = module
        self.data = data
        self.scope = CodeScope("module", "", module, None, 1, 0, len(data))
        module.scope = self.scope
        self.depth = 0

    def read(self, root: Node) -> None:
        for child in root.named_children:
            self.statement(child)

    def text(self, node: Node | None) -> str:
        if node is None:
            return ""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def place(self, node: Node) -> tuple[int, int, int]:
        return node.start_point[0] + 1, node.start_byte, node.end_byte

    # Statements

    def statement(self, node: Node) -> None:
        self.depth += 1
        if self.depth < MAX_DEPTH:
            self._statement(node)
        self.depth -= 1

    def _statement(self, node: Node) -> None:
        kind = node.type
        if kind == "import_statement":
            self.imports(node)
        elif kind == "export_statement":
            self.exports(node)
        elif kind in ("lexical_declaration", "variable_declaration"):
            for declarator in node.named_children:
                if declarator.type == "variable_declarator":
                    self.declare(declarator)
        elif kind in ("function_declaration", "generator_function_declaration"):
            made = self.function(node)
            self.bind(made.scope.name, made)
        elif kind in ("class_declaration", "abstract_class_declaration"):
            self.bind_class(node)
        elif kind == "return_statement":
            for child in node.named_children:
                self.scope.returns.append(self.expression(child))
        elif kind == "expression_statement":
            for child in node.named_children:
                self.expression(child)
        elif kind in ("for_in_statement",):
            right = node.child_by_field_name("right")
            left = node.child_by_field_name("left")
            if right is not None and left is not None:
                self.pattern(left, self.expression(right), "iterated")
            self.inside(node.child_by_field_name("body"))
        elif kind in ("interface_declaration", "type_alias_declaration", "comment"):
            return
        else:
            for child in node.named_children:
                if child.type.endswith(("_statement", "_declaration", "_clause")) or child.type in (
                    "statement_block",
                    "switch_body",
                    "switch_case",
                    "switch_default",
                ):
                    self.statement(child)
                elif child.type not in ("comment", "identifier", "type_identifier"):
                    self.expression(child)

    def inside(self, node: Node | None) -> None:
        if node is not None:
            self.statement(node)

    def imports(self, node: Node) -> None:
        source = node.child_by_field_name("source")
        origin = self.text(source)[1:-1]
        line = node.start_point[0] + 1
        found = False
        for clause in node.named_children:
            if clause.type != "import_clause":
                continue
            for part in clause.named_children:
                found = True
                if part.type == "identifier":
                    self.imported(self.text(part), ImportedName(origin, "default", line))
                elif part.type == "namespace_import":
                    bound = self.text(part.named_children[-1])
                    self.imported(bound, ImportedName(origin, "", line))
                elif part.type == "named_imports":
                    for one in part.named_children:
                        name = self.text(one.child_by_field_name("name"))
                        alias = self.text(one.child_by_field_name("alias")) or name
                        self.imported(alias, ImportedName(origin, name, line))
        if not found:
            self.module.imports.append(ImportedName(origin, "", line))

    def imported(self, bound: str, one: ImportedName) -> None:
        self.module.imports.append(one)
        self.scope.bind(bound, BoundValue(one, self.scope, line=one.line))

    def exports(self, node: Node) -> None:
        source = node.child_by_field_name("source")
        if source is not None:
            origin, line = self.text(source)[1:-1], node.start_point[0] + 1
            clauses = [c for c in node.named_children if c.type == "export_clause"]
            if not clauses:
                one = ImportedName(origin, "*", line)
                self.module.imports.append(one)
                self.scope.stars.append(one)
            for one_ in [one for clause in clauses for one in clause.named_children]:
                name = self.text(one_.child_by_field_name("name"))
                alias = self.text(one_.child_by_field_name("alias")) or name
                self.imported(alias, ImportedName(origin, name, line))
            return
        default = any(child.type == "default" for child in node.children)
        for child in node.named_children:
            if child.type == "export_clause":
                for one_ in child.named_children:
                    name = self.text(one_.child_by_field_name("name"))
                    alias = self.text(one_.child_by_field_name("alias")) or name
                    self.module.exports[alias] = name
            elif child.type.endswith("_declaration"):
                self.statement(child)
                if default:
                    self.module.exports["default"] = self.text(child.child_by_field_name("name"))
            elif default and child.type != "comment":
                value = self.expression(child)
                self.bind("default", value)

    def declare(self, node: Node) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        kind = node.child_by_field_name("type")
        if name is None:
            return
        if kind is not None and name.type == "identifier":
            self.scope.annotations[self.text(name)] = self.type_of(kind)
        if value is None:
            return
        origin = self.required(value)
        if origin:
            line = node.start_point[0] + 1
            if name.type == "identifier":
                self.imported(self.text(name), ImportedName(origin, "default", line))
            else:
                for one in name.named_children:
                    key = one.child_by_field_name("key")
                    aliased = one.child_by_field_name("value")
                    bound = self.text(aliased) or self.text(one)
                    self.imported(bound, ImportedName(origin, self.text(key) or bound, line))
            return
        made = self.expression(value)
        if isinstance(made, ScopeValue) and name.type == "identifier" and not made.scope.name:
            made.scope.name = self.text(name)
        self.pattern(name, made)

    def required(self, node: Node) -> str:
        """Module of `require("…")` or `await import("…")`."""
        while node.type in _TRANSPARENT and node.named_children:
            node = node.named_children[0]
        if node.type != "call_expression":
            return ""
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        if function is None or arguments is None or not arguments.named_children:
            return ""
        if self.text(function) not in ("require", "import"):
            return ""
        first = arguments.named_children[0]
        return self.text(first)[1:-1] if first.type == "string" else ""

    def type_of(self, node: Node) -> Syntax:
        text = self.text(node).lstrip(": ").split("<")[0].strip()
        return NameUse(*self.place(node), text)

    def bind(self, name: str, value: Syntax, how: str = "assigned") -> None:
        bound = BoundValue(value, self.scope, how, value.line)  # type: ignore[arg-type]
        self.scope.bind(name, bound)

    def pattern(self, node: Node, value: Syntax, how: str = "assigned") -> None:
        """Bind the names of a pattern."""
        place = self.place(node)
        if node.type in ("identifier", "shorthand_property_identifier_pattern"):
            self.bind(self.text(node), value, how)
        elif node.type == "object_pattern":
            for child in node.named_children:
                key = child.child_by_field_name("key") or child.child_by_field_name("left") or child
                inner = child.child_by_field_name("value") or key
                name = self.text(key)
                if name.isidentifier():
                    self.pattern(inner, AttributeUse(*place, value, name))
        elif node.type == "array_pattern":
            for child in node.named_children:
                self.pattern(child, OtherSyntax(*place, [value]))
        elif node.type == "assignment_pattern":
            left = node.child_by_field_name("left")
            if left is not None:
                self.pattern(left, value, how)
        elif node.type in ("member_expression", "subscript_expression"):
            base = node.child_by_field_name("object")
            name = self.text(node.child_by_field_name("property"))
            if base is None:
                return
            if node.type == "subscript_expression":
                index = node.child_by_field_name("index")
                key_ = self.expression(index) if index is not None else None
                self.pattern(base, MappingLiteral(*place, [(key_, value)]), "added")
                return
            owner = self.scope.enclosing("class")
            if base.type == "this" and owner is not None:
                bound = BoundValue(value, self.scope, how, place[0])  # type: ignore[arg-type]
                owner.attributes.setdefault(name, []).append(bound)
            elif self.text(node) == "module.exports":
                self.bind("default", value)
            elif self.text(base) in ("exports", "module.exports"):
                self.bind(name, value)
            else:
                bound = BoundValue(value, self.scope, how, place[0])  # type: ignore[arg-type]
                self.module.attribute_writes.setdefault(name, []).append(bound)

    # Functions and classes

    def function(self, node: Node, name: str = "") -> ScopeValue:
        place = self.place(node)
        given = node.child_by_field_name("name")
        name = name or (self.text(given) if given is not None else "")
        scope = CodeScope("function", name, self.module, self.scope, *place)
        scope.asynchronous = any(child.type == "async" for child in node.children)
        self.scope.children.append(scope)
        outer, self.scope = self.scope, scope
        parameters = node.child_by_field_name("parameters")
        single = node.child_by_field_name("parameter")
        for one in parameters.named_children if parameters is not None else []:
            self.parameter(scope, one)
        if single is not None:
            scope.parameters.append(Parameter(self.text(single), shown=self.text(single)))
        returned = node.child_by_field_name("return_type")
        if returned is not None:
            scope.returned_type = self.type_of(returned)
            scope.returned_shown = self.text(returned).lstrip(": ")
        body = node.child_by_field_name("body")
        if body is not None:
            if body.type == "statement_block":
                self.statement(body)
            else:
                scope.returns.append(self.expression(body))
        self.scope = outer
        return ScopeValue(*place, scope)

    def parameter(self, scope: CodeScope, node: Node) -> None:
        pattern = node.child_by_field_name("pattern") or node
        kind = node.child_by_field_name("type")
        annotation = self.type_of(kind) if kind is not None else None
        value = node.child_by_field_name("value")
        if pattern.type == "assignment_pattern":
            value = pattern.child_by_field_name("right")
            pattern = pattern.child_by_field_name("left") or pattern
        if pattern.type == "object_pattern":
            for child in pattern.named_children:
                key = child.child_by_field_name("left") or child.child_by_field_name("key") or child
                right = child.child_by_field_name("right")
                default = self.expression(right) if right is not None else None
                name = self.text(key)
                if name.isidentifier():
                    shown = self.text(child)
                    scope.parameters.append(Parameter(name, default, None, shown, from_object=True))
        elif pattern.type == "identifier":
            default = self.expression(value) if value is not None else None
            scope.parameters.append(
                Parameter(self.text(pattern), default, annotation, self.text(node))
            )
        elif pattern.type == "rest_pattern":
            scope.parameters.append(
                Parameter(self.text(pattern).lstrip("."), shown=self.text(node), rest=True)
            )
        else:
            scope.parameters.append(Parameter("", shown=self.text(node)))

    def bind_class(self, node: Node) -> ScopeValue:
        name = self.text(node.child_by_field_name("name"))
        scope = CodeScope("class", name, self.module, self.scope, *self.place(node))
        self.scope.children.append(scope)
        value = ScopeValue(*self.place(node), scope)
        if name:
            self.bind(name, value)
        outer, self.scope = self.scope, scope
        for child in node.named_children:
            if child.type == "class_heritage":
                for one in child.named_children:
                    base = one.child_by_field_name("value") or one
                    if base.type == "extends_clause" and base.named_children:
                        base = base.named_children[0]
                    if base.type != "implements_clause":
                        scope.bases.append(self.expression(base))
        body = node.child_by_field_name("body")
        for member in body.named_children if body is not None else []:
            key = self.text(member.child_by_field_name("name"))
            if member.type == "method_definition":
                made = self.function(member, key)
                self.field(key, made)
            elif member.type in ("public_field_definition", "field_definition"):
                given = member.child_by_field_name("value")
                kind = member.child_by_field_name("type")
                key = key or self.text(member.child_by_field_name("property"))
                if kind is not None:
                    scope.annotations[key] = self.type_of(kind)
                if given is not None:
                    self.field(key, self.expression(given))
        self.scope = outer
        return value

    def field(self, key: str, value: Syntax) -> None:
        bound = BoundValue(value, self.scope, line=value.line)
        self.scope.attributes.setdefault(key, []).append(bound)

    # Expressions

    def expression(self, node: Node) -> Syntax:
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                return OtherSyntax(*self.place(node), [])
            return self._expression(node)
        finally:
            self.depth -= 1

    def _expression(self, node: Node) -> Syntax:
        kind = node.type
        place = self.place(node)
        if kind in _TRANSPARENT:
            inner = [child for child in node.named_children if child.type != "comment"]
            return self.expression(inner[0]) if inner else OtherSyntax(*place, [])
        if kind == "string":
            return TextValue(*place, self.string(node))
        if kind == "template_string":
            return self.template(node)
        if kind in ("identifier", "this", "super", "import", "shorthand_property_identifier"):
            name = self.text(node)
            self.scope.used.add(name)
            return NameUse(*place, name)
        if kind == "member_expression":
            base = node.child_by_field_name("object")
            name = self.text(node.child_by_field_name("property"))
            self.scope.used.add(name)
            if base is not None:
                return AttributeUse(*place, self.expression(base), name)
        if kind == "subscript_expression":
            base, index = node.child_by_field_name("object"), node.child_by_field_name("index")
            if base is not None and index is not None:
                return ItemUse(*place, self.expression(base), self.expression(index))
        if kind in ("call_expression", "new_expression"):
            call = self.call(node)
            if origin := self.required(node):  # require("…")(…), require("…").name
                self.imported(self.text(node), ImportedName(origin, "default", place[0]))
                return NameUse(*place, self.text(node))
            return call
        if kind == "object":
            return self.mapping(node)
        if kind == "array":
            return SequenceLiteral(
                *place, [self.expression(c) for c in node.named_children if c.type != "comment"]
            )
        if kind == "spread_element":
            return SpreadItem(*place, self.expression(node.named_children[0]))
        if kind == "binary_expression":
            return self.binary(node)
        if kind == "ternary_expression":
            condition = node.child_by_field_name("condition")
            if condition is not None:
                self.expression(condition)
            sides = [
                node.child_by_field_name("consequence"),
                node.child_by_field_name("alternative"),
            ]
            return Alternatives(*place, [self.expression(s) for s in sides if s is not None])
        if kind in _FUNCTIONS:
            made = self.function(node)
            self.scope.used |= made.scope.used
            return made
        if kind == "class":
            return self.bind_class(node)
        if kind in ("assignment_expression", "augmented_assignment_expression"):
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is not None and right is not None:
                value = self.expression(right)
                if left.type == "member_expression":
                    self.expression(left)
                how = "added" if kind.startswith("augmented") else "assigned"
                self.pattern(left, value, how)
                return value
        children = [
            self.expression(child)
            for child in node.named_children
            if child.type not in ("comment", "property_identifier", "type_annotation")
            and not child.type.endswith("_type")
        ]
        return OtherSyntax(*place, children)

    def binary(self, node: Node) -> Syntax:
        place = self.place(node)
        operator = node.child_by_field_name("operator")
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if operator is None or left is None or right is None:
            return OtherSyntax(*place, [])
        sides = self.expression(left), self.expression(right)
        if operator.type in ("||", "??", "&&"):
            return Alternatives(*place, list(sides))
        match sides:
            case TextValue(value=first), TextValue(value=second) if operator.type == "+":
                return TextValue(*place, first + second)  # one text over several lines
        if operator.type == "+":
            return BinaryOperation(*place, "+", *sides)
        return OtherSyntax(*place, list(sides))

    def string(self, node: Node) -> str:
        return "".join(
            decode(self.text(part)) if part.type == "escape_sequence" else self.text(part)
            for part in node.named_children
        )

    def template(self, node: Node) -> Syntax:
        parts: list[str | Syntax] = []
        sources: list[str] = []
        for child in node.named_children:
            if child.type == "template_substitution":
                inner = [one for one in child.named_children if one.type != "comment"]
                if inner:
                    parts.append(self.expression(inner[0]))
                    sources.append(self.text(inner[0]))
            elif child.type == "escape_sequence":
                parts.append(decode(self.text(child)))
            else:
                parts.append(self.text(child))
        if not sources:
            return TextValue(*self.place(node), "".join(p for p in parts if isinstance(p, str)))
        return TextTemplate(*self.place(node), tuple(parts), tuple(sources))

    def mapping(self, node: Node) -> MappingLiteral:
        entries: list[tuple[Syntax | None, Syntax]] = []
        for child in node.named_children:
            place = self.place(child)
            if child.type == "pair":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                if key is None or value is None:
                    continue
                if key.type == "computed_property_name":
                    name: Syntax = self.expression(key.named_children[0])
                elif key.type == "string":
                    name = TextValue(*place, self.string(key))
                else:
                    name = TextValue(*place, self.text(key))
                made = self.expression(value)
                if isinstance(made, ScopeValue) and isinstance(name, TextValue):
                    made.scope.name = made.scope.name or name.value
                entries.append((name, made))
            elif child.type == "shorthand_property_identifier":
                text = self.text(child)
                entries.append((TextValue(*place, text), self.expression(child)))
            elif child.type == "spread_element":
                entries.append((None, self.expression(child.named_children[0])))
            elif child.type == "method_definition":
                text = self.text(child.child_by_field_name("name"))
                entries.append((TextValue(*place, text), self.function(child, text)))
        return MappingLiteral(*self.place(node), entries)

    def call(self, node: Node) -> Invocation:
        place = self.place(node)
        function = node.child_by_field_name("function") or node.child_by_field_name("constructor")
        listed = node.child_by_field_name("arguments")
        called = self.expression(function) if function is not None else OtherSyntax(*place, [])
        arguments: list[Syntax] = []
        keywords: dict[str, Syntax] = {}
        spreads: list[Syntax] = []
        if listed is not None and listed.type == "template_string":
            arguments.append(self.template(listed))
        elif listed is not None:
            for child in listed.named_children:
                if child.type == "comment":
                    continue
                made = self.expression(child)
                if isinstance(made, SpreadItem):
                    spreads.append(made.value)
                    continue
                arguments.append(made)
                if isinstance(made, MappingLiteral):
                    for key, value in made.entries:
                        if isinstance(key, TextValue):
                            keywords[key.value] = value
                        elif key is None:
                            spreads.append(value)
        made_call = Invocation(*place, called, arguments, keywords, spreads)
        self.scope.invocations.append(made_call)
        if isinstance(called, AttributeUse) and called.name in _ADDING and function is not None:
            base = function.child_by_field_name("object")
            if base is not None and base.type in ("identifier", "member_expression"):
                for value in arguments[_ADDING[called.name] :]:
                    self.pattern(base, value, "added")
        origin = self.required(node)
        if origin:
            self.module.imports.append(ImportedName(origin, "", place[0]))
        return made_call
