"""Takes an expression out of a function, with the imports and statements that it needs."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping

from ratchet.wire.entry.adapter import CannotCall
from ratchet.wire.entry.modules import Modules, binding, is_main_guard
from ratchet.wire.entry.python_file import Function, PythonFile, dotted, own_nodes

_ASKING = {"input", "prompt", "Prompt.ask", "session.prompt", "console.input", "click.prompt"}
_ASKING |= {"typer.prompt", "st.text_input", "st.chat_input", "questionary.text"}


class Transplant:
    """What an adapter needs to say the same as a function of the project.

    Args:
        modules: The project's modules.
        file: Where the function stands.
        scope: The function, or a block of statements at the top of the file.
        free: What names stand for in the adapter that are bound otherwise in the function.
    """

    def __init__(
        self,
        modules: Modules,
        file: PythonFile,
        scope: Function | ast.If | ast.Module | None,
        free: Mapping[str, str] | None = None,
    ) -> None:
        self.modules = modules
        self.file = file
        self.scope = scope
        self.free = dict(free or {})
        self.imports: dict[str, None] = {}
        self.statements: list[str] = []
        self.used: dict[str, None] = {}
        self._carried: set[str] = set()

    def expression(self, node: ast.expr) -> str:
        """The expression's source, its names carried over.

        Raises:
            CannotCall: A name in it is bound in a way that cannot be repeated elsewhere.
        """
        bound = {
            one.id
            for one in ast.walk(node)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        bound |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one.id not in bound:
                self.name(one.id)
        renamed = _Renamed(self.free).visit(ast.parse(f"({self.file.source(node)})", mode="eval"))
        text = self.file.source(node)
        return ast.unparse(renamed) if self.free.keys() & _names(node) else text

    def name(self, name: str) -> None:
        """Carry over what binds a name."""
        if name in self._carried or name in self.free:
            return
        self._carried.add(name)
        if self.scope is not None and self._local(name):
            return
        node = binding(self.file, name)
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imported(node, name)
        elif node is not None:
            module = self.modules.name_of(self.file.path)
            self.used[self.file.path] = None
            self.imports[f"from {module} import {name}"] = None
        elif found := self.modules.definition(name, self.file.path):
            self.used[found[0].path] = None
            module = self.modules.name_of(found[0].path)
            self.imports[f"from {module} import {name}"] = None
        elif not hasattr(builtins, name):
            raise CannotCall(f"where `{name}` comes from is not known")

    def imported(self, node: ast.Import | ast.ImportFrom, name: str) -> None:
        """Carry over an import of one name."""
        alias = next(
            one
            for one in node.names
            if (one.asname or one.name if isinstance(node, ast.ImportFrom) else _top(one)) == name
        )
        shown = f" as {alias.asname}" if alias.asname else ""
        if isinstance(node, ast.Import):
            self._use(alias.name, 0)
            self.imports[f"import {alias.name}{shown}"] = None
            return
        module = node.module or ""
        path = self._use(module, node.level)
        inner = self._use(f"{module}.{alias.name}".lstrip("."), node.level)
        if node.level:
            if path is None and inner is None:
                raise CannotCall(f"the module that `{name}` is imported from is not known")
            if path is None:
                assert inner is not None
                module = self.modules.name_of(inner).rpartition(".")[0]
            else:
                module = self.modules.name_of(path)
        line = f"from {module} import {alias.name}{shown}"
        self.imports[line if module else f"import {alias.name}{shown}"] = None

    def _use(self, module: str, level: int) -> str | None:
        path = self.modules.resolve(module, level, self.file.path)
        if path:
            self.used[path] = None
        return path

    def _local(self, name: str) -> bool:
        assert self.scope is not None
        if isinstance(self.scope, Function):
            parameters = self.scope.args
            given = [*parameters.posonlyargs, *parameters.args]
            defaults: dict[str, ast.expr] = {}
            if parameters.defaults:
                named = given[-len(parameters.defaults) :]
                defaults = {a.arg: d for a, d in zip(named, parameters.defaults, strict=True)}
            for argument in [*given, *parameters.kwonlyargs]:
                if argument.arg != name:
                    continue
                if name in ("self", "cls"):
                    raise CannotCall("it needs an object that only the program makes")
                if name not in defaults:
                    raise CannotCall(f"`{name}` is a parameter that no task can give")
                self.statements.append(f"{name} = {self.expression(defaults[name])}")
                return True
        for node in own_nodes(self.scope):
            if isinstance(node, ast.Import | ast.ImportFrom) and any(
                (one.asname or one.name) == name for one in node.names
            ):
                self.imported(node, name)
                return True
            targets, value = _assignment(node)
            if value is None or name not in targets:
                continue
            if asks(value):
                raise CannotCall(f"`{name}` is asked of a person")
            if (opened := self._opening(value)) is not None:
                self._carry(opened, name)
                return True
            source = self.expression(value)
            self.statements.append(f"{name} = {source}")
            return True
        for node in own_nodes(self.scope):
            if isinstance(node, ast.withitem) and dotted(node.optional_vars) == name:
                raise CannotCall(f"`{name}` is opened by a `with` of the program")
            if isinstance(node, ast.For | ast.AsyncFor) and name in _names(node.target):
                raise CannotCall(f"`{name}` comes from a loop of the program")
        return False

    def _opening(self, value: ast.expr) -> ast.With | None:
        """The `with open(…)` whose file an assigned value reads."""
        assert self.scope is not None
        for node in own_nodes(self.scope):
            if not isinstance(node, ast.With) or len(node.items) != 1 or len(node.body) != 1:
                continue
            item = node.items[0]
            made = item.context_expr
            opens = isinstance(made, ast.Call) and dotted(made.func).rpartition(".")[2] == "open"
            if opens and item.optional_vars and dotted(item.optional_vars) in _names(value):
                return node
        return None

    def _carry(self, opened: ast.With, name: str) -> None:
        """Carry over the statement that opens a file, and what is read there as `name`."""
        item, (assigned,) = opened.items[0], opened.body
        assert item.optional_vars is not None
        assert isinstance(assigned, ast.Assign | ast.AnnAssign)
        assert assigned.value is not None
        handle = dotted(item.optional_vars)
        self._carried.add(handle)
        made, read = self.expression(item.context_expr), self.expression(assigned.value)
        self.statements += [f"with {made} as {handle}:", f"    {name} = {read}"]


def asks(value: ast.expr) -> bool:
    """Whether an expression asks a person, or reads the command line."""
    for one in ast.walk(value):
        if isinstance(one, ast.Call) and asks_itself(one):
            return True
        if isinstance(one, ast.Attribute) and one.attr == "argv":
            return True
    return False


def asks_itself(call: ast.Call) -> bool:
    """Whether a call is of a function that asks a person."""
    name = dotted(call.func)
    return name in _ASKING or ".".join(name.split(".")[-2:]) in _ASKING


def blocks(file: PythonFile) -> list[ast.If]:
    """The `if __name__ == "__main__":` blocks of a file."""
    return [one for one in file.tree.body if isinstance(one, ast.If) and is_main_guard(one)]


def _assignment(node: ast.AST) -> tuple[set[str], ast.expr | None]:
    if isinstance(node, ast.Assign):
        return {one.id for one in node.targets if isinstance(one, ast.Name)}, node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}, node.value
    return set(), None


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _top(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names:
            return ast.parse(self.names[node.id], mode="eval").body
        return node
