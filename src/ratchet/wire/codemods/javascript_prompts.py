"""Wraps prompts in JavaScript and TypeScript in `ratchet.prompt(…)`, in place.

A literal stays as it is: `ratchet.prompt("name", "…").text` is the same text, and so is `.template`
of one with slots that the code fills itself. A template with slots becomes a template with named
ones, which `.format({ … })` fills with the same expressions. Each is read where the literal was:
what a function reads, each call reads anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ratchet.source.javascript_prompts import text_at
from ratchet.source.literals.javascript import decode
from ratchet.types import InputError, PromptTemplate
from ratchet.wire.changes import Piece, apply_pieces
from ratchet.wire.codemods.fstring_template import Refused
from ratchet.wire.codemods.javascript_file import JavascriptFile
from ratchet.wire.codemods.package_import import PackageImport

if TYPE_CHECKING:
    from tree_sitter import Node

_FIELD = re.compile(r"\{[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[[^\[\]{}]+\])*\}")
"""A placeholder that Python and the npm package read the same way."""
_VARIABLE = re.compile(r"[A-Za-z_$][\w$]*(?:\??\.[A-Za-z_$][\w$]*)*")
_TYPES = {
    "literal_type": "It is a type, not a text.",
    "type_alias_declaration": "It is part of a type, not a text.",
    "interface_declaration": "It is part of a type, not a text.",
    "type_annotation": "It is part of a type, not a text.",
    "enum_declaration": "It is a member of an enum, whose values must be constants.",
    "jsx_attribute": "It is a JSX attribute, not a text for a model.",
    "import_statement": "It is the name of a module.",
    "decorator": "It is an argument of a decorator: assign the text to a variable first.",
}


class JavascriptPromptEdits:
    """Changes to a JavaScript or TypeScript file.

    Args:
        file: The file as it is.
        package: How the file imports the npm package.
    """

    def __init__(self, file: JavascriptFile, package: PackageImport) -> None:
        self._file = file
        self._package = package
        self._pieces: list[Piece] = []
        self._taken: list[tuple[int, int]] = []
        self.bound: list[str] = []
        """Names of the prompts that these changes declare."""
        self.at_import = False
        """Whether a call reads each of them where it is declared."""

    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, including the import."""
        return (*self._package.pieces(), *self._pieces)

    def bind(self, name: str, start: int, end: int) -> str:
        """Declare the prompt at these bytes. Returns why it could not; empty if it did."""
        before = list(self._pieces), list(self._taken)
        try:
            self._declare(name, start, end)
            edited = apply_pieces(self._file.data, self.pieces())
            if JavascriptFile(self._file.path, edited).root.has_error:
                raise Refused("With a call in its place, the file would not parse.")
        except Refused as left:
            self._pieces, self._taken = before
            return str(left)
        self.bound.append(name)
        return ""

    def _declare(self, name: str, start: int, end: int) -> None:
        node = self._node(start, end)
        self._refuse(node, start, end)
        opening = f'{self._package.name}.prompt("{name}", '
        if node.type == "template_string" and any(
            child.type == "template_substitution" for child in node.named_children
        ):
            text, fields = self._template(node)
            _check_template(text)
            filled = ", ".join(f"{key}: `${{{source}}}`" for key, source in fields.items())
            self._pieces.append(Piece(start, end, f"{opening}{text}).format({{ {filled} }})"))
        else:
            value = text_at(self._file.path, self._file.data, (start, end))
            if value is None:
                raise Refused("It is not a literal, or contains half of a surrogate pair.")
            plain = "" if _is_template(value) else ', { engine: "plain" }'
            # The code fills the slots that it has.
            read = "text" if plain or not re.search(r"[{}]", value) else "template"
            self._pieces += [Piece(start, start, opening), Piece(end, end, f"{plain}).{read}")]
        self._taken.append((start, end))

    def _node(self, start: int, end: int) -> Node:
        """The expression at these bytes."""
        node = self._file.root.descendant_for_byte_range(start, end)
        while node is not None and (node.start_byte, node.end_byte) == (start, end):
            if node.type in ("string", "template_string", "binary_expression"):
                return node
            node = node.parent
        raise Refused("It consists of several pieces: write it as one literal first.")

    def _refuse(self, node: Node, start: int, end: int) -> None:
        """Raise Refused where a call cannot replace the literal."""
        if start < self._package.usable_from:
            raise Refused("It is above the import of the package.")
        if any(first < end and start < last for first, last in self._taken):
            raise Refused(
                "It is already declared as part of another prompt, or contains one that is."
            )
        parent = node.parent
        if parent is None:
            raise Refused("It stands alone.")
        if parent.type == "call_expression" and node.type == "template_string":
            raise Refused("It is a tagged template: use an untagged one.")
        key = parent.child_by_field_name("key") or parent.child_by_field_name("name")
        if parent.type in ("pair", "public_field_definition", "method_definition") and key == node:
            raise Refused("It is a key, not a text.")
        if parent.type == "as_expression" and self._file.text(parent).endswith("as const"):
            raise Refused("Its type allows only this exact text: widen the type first.")
        if parent.type == "expression_statement":
            raise Refused("It is a directive, or a text that nothing uses.")
        above: Node | None = parent
        while above is not None:
            if above.type in _TYPES:
                raise Refused(_TYPES[above.type])
            if above.type == "call_expression" and self._package.declares(above, "prompt"):
                raise Refused("It is already declared.")
            above = above.parent

    def _template(self, node: Node) -> tuple[str, dict[str, str]]:
        """The literal with named slots, and each slot's expression."""
        data, template = self._file.data, "`"
        fields: dict[str, str] = {}
        names: dict[str, str] = {}
        at = node.start_byte + 1
        for child in node.named_children:
            template += _doubled(data[at : child.start_byte].decode())
            at = child.end_byte
            source = self._file.text(child)
            if child.type == "template_substitution":
                inner = [part for part in child.named_children if part.type != "comment"]
                if len(inner) != 1:
                    raise Refused("A slot contains a comment: move the comment out first.")
                if inner[0].type in (
                    "assignment_expression",
                    "yield_expression",
                    "sequence_expression",
                ):
                    raise Refused("A slot assigns or yields: move that out of the text first.")
                if re.search(r"(?<!\\)(?:\\\\)*\$$", template):
                    template = f"{template[:-1]}\\$"  # a dollar before a brace would open a slot
                expression = self._file.text(inner[0])
                name = names.get(expression) or _slot_name(inner[0], expression, fields)
                fields[name] = expression
                if _VARIABLE.fullmatch(expression):
                    names[expression] = name
                else:
                    names.clear()  # it may change what the same variable holds
                template += f"{{{name}}}"
            elif child.type == "escape_sequence":
                twice = decode(source) in ("{", "}")
                template += source * 2 if twice else source
            else:
                template += _doubled(source)
        return f"{template}{_doubled(data[at : node.end_byte - 1].decode())}`", fields


def _doubled(source: str) -> str:
    """Text of a template literal with its braces doubled."""
    return re.sub(r"[{}]", r"\g<0>\g<0>", source)


def _slot_name(node: Node, source: str, fields: dict[str, str]) -> str:
    """A name for a slot, taken from the expression that it shows."""
    while node.type in ("await_expression", "parenthesized_expression", "non_null_expression"):
        node = node.named_children[0]
    reference = source if _VARIABLE.fullmatch(source) else ""
    if node.type == "call_expression":
        function = node.child_by_field_name("function")
        reference = (function.text or b"").decode() if function is not None else ""
    base = "_".join(re.findall(r"[A-Za-z_]\w*", reference)[-2:]) or "slot"
    numbers = (base if number == 1 else f"{base}_{number}" for number in range(1, len(fields) + 2))
    return next(name for name in numbers if name not in fields)


def _is_template(text: str) -> bool:
    """Whether Python and JavaScript read a text as the same template."""
    try:
        PromptTemplate(text)
    except InputError:
        return False
    unescaped = re.sub(r"\{\{|\}\}", "", text)
    return not re.search(r"[{}]", _FIELD.sub("", unescaped))


def _check_template(literal: str) -> None:
    """Raise Refused for a literal that does not read back as a template."""
    text = text_at("written.ts", literal.encode(), (0, len(literal.encode())))
    if text is None or not _is_template(text):
        raise Refused("Its text is not a valid template with these slots.")
