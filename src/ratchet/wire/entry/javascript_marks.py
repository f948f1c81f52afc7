"""Marks what acts in JavaScript and TypeScript: `ratchet.tool(…, { sideEffects: true })`.

A function is wrapped where it stands: what a tool executes, what a name is given, and one that is
declared at the top of its file, which becomes a constant. A method of a class is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ratchet.types import InputError
from ratchet.wire.changes import FileChange, LeftAlone, Piece
from ratchet.wire.choices import Choices
from ratchet.wire.entry.javascript_browser import BrowserFiles
from ratchet.wire.entry.javascript_file import JavascriptFile
from ratchet.wire.entry.package_import import PackageImport, is_module, package_dependency
from ratchet.wire.facts import RepositoryLook, SideEffect

if TYPE_CHECKING:
    from tree_sitter import Node

_VALUES = ("arrow_function", "function_expression", "generator_function")
_DECLARED = ("function_declaration", "generator_function_declaration")
_HOLDERS = (*_VALUES, *_DECLARED, "method_definition")
_RUN = ("execute", "func", "fn", "handler", "invoke")
"""Keys of an object under which a tool's function stands."""
_HAND = (
    " Run it where it can do no harm, or wrap it in tool(…, { sideEffects: true }) of the package"
    " agent-ratchet."
)


class JavascriptMarks:
    """Pieces of each file, and what could not be marked.

    Args:
        root: The repository.
        look: Its facts.
        choices: What was decided.
        files: Its files, by path.
    """

    def __init__(
        self, root: Path, look: RepositoryLook, choices: Choices, files: dict[str, JavascriptFile]
    ) -> None:
        self._root = root
        self._look = look
        self._choices = choices
        self._files = files
        self._browser = BrowserFiles(root)
        self._packages: dict[str, PackageImport | str] = {}
        self._pieces: dict[str, dict[Piece, None]] = {}
        self._left: dict[tuple[str, str], LeftAlone] = {}
        places = [*(one.place for one in look.entries), *(one.place for one in look.model_calls)]
        self._leading = {(one.path, one.line) for one in places}
        self._models = {(one.place.path, one.place.line) for one in look.model_calls}
        self.open: list[SideEffect] = []
        """What acts in these files and cannot be marked."""
        self.marked: list[SideEffect] = []
        """What was not marked before, and is."""

    def mark(self, reached: Collection[str]) -> None:
        """Mark what acts in some files."""
        for effect in self._look.side_effects:
            if not effect.acts or effect.place.path not in reached:
                continue
            if {effect.tool, effect.within, effect.what} & set(self._choices.may_run):
                continue
            why = self._mark(effect)
            if why:
                self.open.append(effect)
                name = effect.tool or effect.within or effect.what
                what = f"{name} ({effect.kind})"
                self._left.setdefault(
                    (effect.place.path, name), LeftAlone(what, effect.place, why + _HAND)
                )

    def changes(self) -> tuple[list[FileChange], list[LeftAlone]]:
        """One change for each file, the manifests, and what is not marked."""
        purpose = "Marks what acts, so that it does not act in a rollout."
        changes = []
        for path, pieces in sorted(self._pieces.items()):
            package = self._packages[path]
            assert isinstance(package, PackageImport)
            changes.append(FileChange(path, purpose, (*package.pieces(), *pieces)))
        manifests, notes = package_dependency(self._root, list(self._pieces))
        return [*changes, *manifests], [*self._left.values(), *notes]

    def _mark(self, effect: SideEffect) -> str:
        """Mark a call; returns why it stays as it is, or nothing."""
        path = effect.place.path
        if (path, effect.place.line) in self._models:
            return ""  # what it sends is the model's
        file = self._files.get(path)
        if file is None:
            return "Its file cannot be read."
        if path not in self._packages:
            try:
                self._browser.refuse(path)
                self._packages[path] = PackageImport(file, module=is_module(self._root, path))
            except InputError as error:
                self._packages[path] = error.message
        package = self._packages[path]
        if isinstance(package, str):
            return package
        if is_marked(file, package, effect.place.line):
            return ""
        if self.stays_inside(effect):
            return f"{effect.within or path} writes it in rollouts too."
        found = _function(file, effect)
        if found is None:
            return "It acts in a method, or where the file is loaded."
        function, name = found
        first, last = function.start_point[0] + 1, function.end_point[0] + 1
        if not effect.tool and any(
            place == path and first <= line <= last for place, line in self._leading
        ):
            return f"{name} also runs the model."
        why = self._wrap(file, package, function, effect.tool or name)
        if not why:
            self.marked.append(effect)
        return why

    def stays_inside(self, effect: SideEffect) -> bool:
        """Whether no tool leads to it, and it only writes files, or deletes those it wrote."""
        if effect.tool or effect.kind not in ("file write", "delete"):
            return False
        return effect.kind == "file write" or any(
            one.kind == "file write"
            and (one.place.path, one.within) == (effect.place.path, effect.within)
            for one in self._look.side_effects
        )

    def _wrap(self, file: JavascriptFile, package: PackageImport, function: Node, name: str) -> str:
        start, end = function.start_byte, function.end_byte
        if start < package.usable_from:
            return "It stands above the import of the package."
        untyped = "<(...given: any[]) => any>" if _loses_types(file, function) else ""
        opening = f"{package.name}.tool{untyped}("
        last = ""
        if function.type in _DECLARED:
            why = _not_constant(file, function, name)
            if why:
                return why
            opening, last = f"const {name} = {opening}", ";"
        if function.type == "method_definition":
            made = _as_value(file, function)
            if made is None:
                return "It is a method of a class, or a getter."
            head, rest = made
            pieces = [Piece(start, rest, f"{head}{opening}{_function_word(function)}")]
        elif function.type == "shorthand_property_identifier":
            pieces = [Piece(start, start, f"{file.text(function)}: {opening}")]
        else:
            pieces = [Piece(start, start, opening)]
        shown = json.dumps(name, ensure_ascii=False)
        pieces.append(Piece(end, end, f", {{ name: {shown}, sideEffects: true }}){last}"))
        self._pieces.setdefault(file.path, {}).update(dict.fromkeys(pieces))
        return ""


def is_marked(file: JavascriptFile, package: PackageImport, line: int) -> bool:
    """Whether a line stands in a call of the package's `tool` that says it has side effects."""
    for call in file.nodes("call_expression"):
        inside = call.start_point[0] < line <= call.end_point[0] + 1
        if not inside or not package.declares(call, "tool"):
            continue
        given = call.child_by_field_name("arguments")
        last = given.named_children[-1] if given is not None and given.named_children else None
        if last is not None and re.search(r"\bsideEffects\s*:\s*true\b", file.text(last)):
            return True
    return False


def marked_names(path: str, data: bytes) -> set[str]:
    """Names of the tools that a file marks as having side effects."""
    file = JavascriptFile(path, data)
    try:
        package = PackageImport(file, module=True)
    except InputError:
        return set()
    calls = (one for one in file.nodes("call_expression") if package.declares(one, "tool"))
    texts = [file.text(one.named_children[-1])[-500:] for one in calls]
    return {
        name
        for text in texts
        if re.search(r"\bsideEffects\s*:\s*true\b", text)
        for name in re.findall(r"""\bname\s*:\s*["']([^"']+)["']""", text)
    }


def _function(file: JavascriptFile, effect: SideEffect) -> tuple[Node, str] | None:
    """The function to wrap for an effect, with its name."""
    row = effect.place.line - 1
    holding = [
        one
        for kind in _HOLDERS
        for one in file.nodes(kind)
        if one.start_point[0] <= row <= one.end_point[0]
    ]
    holding.sort(key=lambda one: one.end_byte - one.start_byte)
    if effect.kind == "named action":  # its place is where the function begins
        holding = [one for one in holding if one.start_point[0] == row] or holding
    for one in holding:
        name = _name(file, one)
        if effect.tool and _is_tool(file, one):
            return one, effect.tool
        if not effect.tool and (one.type in _DECLARED or _is_named(one)):
            return one, name
        if not effect.tool and one.type == "method_definition":
            return None
    if effect.tool:
        return _given(file, effect, holding)
    return None


def _given(
    file: JavascriptFile, effect: SideEffect, holding: list[Node]
) -> tuple[Node, str] | None:
    """The place where a declared function is given to a tool by its name."""
    names = {_name(file, one) for one in holding} - {""}
    for pair in file.nodes("pair"):
        key, value = (pair.child_by_field_name(one) for one in ("key", "value"))
        if key is None or value is None or file.text(key).strip("'\"") not in _RUN:
            continue
        if value.type == "identifier" and file.text(value) in names:
            return value, effect.tool
    for call in file.nodes("call_expression"):
        called, given = (call.child_by_field_name(one) for one in ("function", "arguments"))
        first = given.named_children[0] if given is not None and given.named_children else None
        named = first is not None and first.type == "identifier" and file.text(first) in names
        if called is not None and file.text(called).split(".")[-1] == "tool" and named:
            assert first is not None
            return first, effect.tool
    for one in file.nodes("shorthand_property_identifier"):
        if file.text(one) in _RUN and file.text(one) in names:
            return one, effect.tool
    return None


def _not_constant(file: JavascriptFile, function: Node, name: str) -> str:
    """Why a declared function cannot become a constant; empty if it can."""
    statement = function
    if statement.parent is not None and statement.parent.type == "export_statement":
        statement = statement.parent
        if any(one.type == "default" for one in statement.children):
            return f"{name} is the default export of its file."
    if statement.parent != file.root:
        return f"{name} is declared inside another function."
    if any(
        file.text(one.child_by_field_name("name") or one) == name
        for one in file.nodes("function_signature")
    ):
        return f"{name} has several signatures."
    for one in file.nodes("identifier"):
        if file.text(one) == name and one.start_byte < statement.start_byte and _runs_at_once(one):
            return f"{name} is used above its line."
    return ""


def _runs_at_once(node: Node) -> bool:
    """Whether an expression is evaluated when its file is loaded."""
    above: Node | None = node
    while above is not None:
        if above.type in _HOLDERS:
            return False
        above = above.parent
    return True


def _is_tool(file: JavascriptFile, function: Node) -> bool:
    """Whether a function is what a tool executes: under such a key, or the first argument."""
    parent = function.parent
    if parent is None:
        return False
    if function.type == "method_definition":
        key = function.child_by_field_name("name")
        return parent.type == "object" and key is not None and file.text(key) in _RUN
    if parent.type == "pair":
        key = parent.child_by_field_name("key")
        return key is not None and file.text(key).strip("'\"") in _RUN
    if parent.type == "arguments" and parent.parent is not None:
        called = parent.parent.child_by_field_name("function")
        first = parent.named_children[0] == function
        return first and called is not None and file.text(called).split(".")[-1] == "tool"
    return False


def _loses_types(file: JavascriptFile, function: Node) -> bool:
    """Whether TypeScript would not tell a function's parameters through another call.

    So it is where LangChain takes it: its overloads and conditional types infer it where it stands.
    """
    parent = function.parent
    if parent is None or not file.path.endswith((".ts", ".tsx", ".mts", ".cts")):
        return False
    key = parent.child_by_field_name("key")
    return parent.type == "arguments" or (key is not None and file.text(key) == "func")


def _is_named(function: Node) -> bool:
    return function.parent is not None and function.parent.type == "variable_declarator"


def _name(file: JavascriptFile, function: Node) -> str:
    given = function.child_by_field_name("name")
    if given is None and function.parent is not None:
        given = function.parent.child_by_field_name("name")
        if given is None:
            given = function.parent.child_by_field_name("key")
    return file.text(given) if given is not None else ""


def _as_value(file: JavascriptFile, method: Node) -> tuple[str, int] | None:
    """How a method of an object begins as a key with a value, and where its parameters do."""
    key = method.child_by_field_name("name")
    parameters = method.child_by_field_name("parameters")
    words = {one.type for one in method.children}
    if key is None or parameters is None or words & {"get", "set", "static"}:
        return None
    if method.parent is None or method.parent.type != "object":
        return None
    first = method.child_by_field_name("type_parameters") or parameters
    return f"{file.text(key)}: ", first.start_byte


def _function_word(method: Node) -> str:
    words = {one.type for one in method.children}
    return f"{'async ' if 'async' in words else ''}function{'*' if '*' in words else ''} "
