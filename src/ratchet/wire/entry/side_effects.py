"""Marks what acts, so that it never acts in a rollout: `@ratchet.tool(side_effects=True)`."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Collection, Iterator

from ratchet.wire.changes import FileChange, LeftAlone, Piece
from ratchet.wire.choices import Choices
from ratchet.wire.entry.modules import Modules
from ratchet.wire.entry.python_file import Function, PythonFile, dotted
from ratchet.wire.facts import Place, RepositoryLook, SideEffect, ToolSite

_METHODS = ("_run", "_arun", "run", "execute", "forward", "invoke", "call", "acall", "__call__")
_ALONE = {"file write"}
"""Kinds that only tools are marked for: what a program writes into its own folder may be needed."""
_SETTING_UP = re.compile(r"(?:^|\.)(?:[A-Z]\w*|get_or_create\w*|create_collection)$")


class Marks:
    """Pieces of each file, and what could not be marked."""

    def __init__(self, look: RepositoryLook, modules: Modules, choices: Choices) -> None:
        self.look = look
        self.modules = modules
        self.choices = choices
        self.pieces: dict[str, dict[Piece, None]] = defaultdict(dict)
        self._left: dict[LeftAlone, tuple[str, str]] = {}
        self.marked: set[tuple[str, str]] = set()
        """Path and dotted name of each function that is marked, or was already."""
        places = [*(one.place for one in look.entries), *(one.place for one in look.model_calls)]
        self._leading = {(one.path, one.line) for one in places}

    def mark(self, reached: Collection[str]) -> None:
        """Mark the tools that act, and in `reached` files the other functions that act."""
        for effect in self.look.side_effects:
            if not effect.acts or not self._inside(effect.place):
                continue
            if {effect.tool, effect.within} & set(self.choices.may_run):
                continue
            tool = self._tool(effect)
            if tool is not None:
                self._mark_tool(tool, effect)
            elif effect.place.path in reached:
                self._mark_holder(effect)

    def changes(self) -> list[FileChange]:
        """One change for each file."""
        purpose = "Marks what acts, so that it does not act in a rollout."
        return [
            FileChange(path, purpose, pieces=tuple(pieces))
            for path, pieces in sorted(self.pieces.items())
        ]

    @property
    def left(self) -> list[LeftAlone]:
        """What is not marked, without what stands in a function that is."""
        return [one for one, holder in self._left.items() if holder not in self.marked]

    def _inside(self, place: Place) -> bool:
        project = self.choices.project
        return project == "." or place.path.startswith(f"{project}/")

    def _tool(self, effect: SideEffect) -> ToolSite | None:
        named = [one for one in self.look.tools if one.name == effect.tool and effect.tool]
        near = [one for one in named if one.place.path == effect.place.path]
        before = [one for one in near if one.place.line <= effect.place.line]
        return before[-1] if before else next(iter(near or named), None)

    def _mark_tool(self, tool: ToolSite, effect: SideEffect) -> None:
        file = self.modules.file(tool.place.path)
        if file is None:
            self._leave(tool.name, tool.place, "Its file is not Python that can be read.")
            return
        for name, scope in file.scopes.items():
            if scope.lineno != tool.place.line:
                continue
            if isinstance(scope, ast.ClassDef):
                methods = list(_methods(file, name))
                for method, node in methods:
                    self._decorate(file, method, node, shown=_tool_name(scope))
                if not methods:
                    self._mark_holder(effect)
            else:
                self._decorate(file, name, scope)
            return
        self._leave(
            tool.name,
            tool.place,
            "It is no `def`: make it one, with @ratchet.tool(side_effects=True).",
        )

    def _mark_holder(self, effect: SideEffect) -> None:
        place = effect.place
        file = self.modules.file(place.path)
        held = file.holding(place.line) if file else None
        if file is None or held is None:
            self._leave(
                effect.what, place, "It acts when the module is imported: move it into a function."
            )
            return
        name, function = held
        if effect.kind in _ALONE and not effect.tool:
            why = f"{name} writes it in rollouts too."
            if not effect.what.startswith("output_file"):
                why += " If it must not, put @ratchet.tool(side_effects=True) above the function."
            if (place.path, name) not in self._left.values():
                self._leave(effect.what, place, why, name)
        elif effect.kind == "database write" and _SETTING_UP.search(effect.what):
            why = f"{name} sets up a client; what it does is not marked."
            if (place.path, name) not in self._left.values():
                self._leave(effect.what, place, why, name)
        elif self._leads_to_model(file, function):
            self._wrap(file, name, effect)
        else:
            self._decorate(file, name, function)

    def _leads_to_model(self, file: PythonFile, function: Function) -> bool:
        last = function.end_lineno or function.lineno
        return any(
            path == file.path and function.lineno <= line <= last for path, line in self._leading
        )

    def _decorate(
        self, file: PythonFile, name: str, function: Function, *, shown: str = ""
    ) -> None:
        if (file.path, name) in self.marked:
            return
        given = [one for one in function.decorator_list if dotted(one) == "ratchet.tool"]
        if given:
            self.marked.add((file.path, name))
            if not any("side_effects" in ast.unparse(one) for one in given):
                why = "It acts and is marked without: add side_effects=True to its @ratchet.tool."
                self._leave(name, Place(file.path, function.lineno), why)
            return
        named = f'name="{shown}", ' if shown else ""
        piece = file.before(function, f"@ratchet.tool({named}side_effects=True)")
        if piece is None:
            why = "Its `def` shares its line: put it on a line of its own."
            self._leave(name, Place(file.path, function.lineno), why)
            return
        self.marked.add((file.path, name))
        self._add(file, [piece])

    def _wrap(self, file: PythonFile, name: str, effect: SideEffect) -> None:
        """Mark the call alone, as the function around it leads to the model."""
        wanted = effect.what.partition("(")[0].rpartition(".")[2]
        calls = [
            one
            for one in ast.walk(file.tree)
            if isinstance(one, ast.Call)
            and one.lineno <= effect.place.line <= (one.end_lineno or one.lineno)
        ]
        if any(dotted(one.func) == "ratchet.tool" for one in calls):
            return
        acting = [one for one in calls if dotted(one.func).rpartition(".")[2] == wanted]
        exact = [one for one in acting if one.lineno == effect.place.line] or acting
        if not exact:
            why = f"{name} also runs the model: move the call into a marked function of its own."
            self._leave(effect.what, effect.place, why)
            return
        function = exact[-1].func
        start, end = file.start(function), file.end(function)
        shown = f'name="{wanted}", '
        opening = Piece(start, start, f"ratchet.tool({shown}side_effects=True)(")
        self._add(file, [opening, Piece(end, end, ")")])

    def _add(self, file: PythonFile, pieces: list[Piece]) -> None:
        self.pieces[file.path].update(dict.fromkeys([*file.import_ratchet(), *pieces]))

    def _leave(self, what: str, place: Place, why: str, holder: str = "") -> None:
        self._left[LeftAlone(what, place, why)] = place.path, holder


def _methods(file: PythonFile, class_name: str) -> Iterator[tuple[str, Function]]:
    for method in _METHODS:
        found = file.scopes.get(f"{class_name}.{method}")
        if isinstance(found, Function) and not any(
            dotted(one).endswith("abstractmethod") for one in found.decorator_list
        ):
            yield f"{class_name}.{method}", found


def _tool_name(scope: ast.ClassDef) -> str:
    """The name that a tool's class gives, else that of the class."""
    for node in scope.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = any(isinstance(one, ast.Name) and one.id == "name" for one in targets)
            if named and re.fullmatch(r"[\w .-]+", str(node.value.value)):
                return str(node.value.value)
    return scope.name
