"""An entry in its code, with what every way of calling it needs."""

from __future__ import annotations

import ast
import keyword
import re
from pathlib import Path

from ratchet.types import InputError
from ratchet.wire.choices import Choices
from ratchet.wire.entry.adapter import CannotCall
from ratchet.wire.entry.modules import Modules
from ratchet.wire.entry.python_file import Function, PythonFile, Scope, dotted, own_nodes
from ratchet.wire.facts import EntryPoint, RepositoryLook

_TEXTS = re.compile(
    r"question|query|prompt|message|msg|text|topic|input|request|content|task|instruction|title|goal"
)
_PLAIN = {"str", "int", "float", "bool", "bytes", "None", "list", "dict", "tuple", "set", "Any"}
_TYPING = {
    "List",
    "Dict",
    "Optional",
    "Union",
    "Tuple",
    "Sequence",
    "Mapping",
    "Iterable",
    "Literal",
}
_SERVICES = re.compile(
    r"(?:^|_)(?:client|session|db|conn|connection|pool|websocket|socket|ctx|context|config|logger|llm"
    r"|agent|model|store|server|runner|graph|app|deps|callback|on_\w+|manager|cursor|engine|bot)$"
)


class Site:
    """Where an entry stands.

    Raises:
        CannotCall: Its file cannot be read.
    """

    def __init__(
        self, look: RepositoryLook, modules: Modules, choices: Choices, entry: EntryPoint
    ) -> None:
        self.look = look
        self.modules = modules
        self.choices = choices
        self.entry = entry
        file = modules.file(entry.place.path)
        if file is None:
            raise CannotCall(f"{entry.place.path} is not Python that can be read")
        self.file: PythonFile = file
        self.name, self.node = _scope(file, entry)
        """Dotted name in the file, and the function or class; empty and None for a script."""
        owner = file.owner.get(self.node) if self.node is not None else None
        self.owner = owner if isinstance(owner, ast.ClassDef) else None

    @property
    def framework(self) -> str:
        """The entry's framework, else the look's first."""
        return self.entry.framework or next((one.name for one in self.look.frameworks), "")

    @property
    def function(self) -> Function | None:
        """The entry, if it is a function."""
        return self.node if isinstance(self.node, Function) else None

    def at(self, entry: EntryPoint) -> Site:
        """Another entry of the same repository."""
        return Site(self.look, self.modules, self.choices, entry)

    def derives(self, node: ast.ClassDef | None, *bases: str) -> bool:
        """Whether a class is derived, through the project's own, from one of these names."""
        path = self.file.path
        for _ in range(5):
            if node is None:
                return False
            names = [dotted(one) for one in node.bases]
            if any(one.rpartition(".")[2] in bases for one in names):
                return True
            found = next(
                (f for one in names if one and (f := self.modules.definition(one, path))), None
            )
            node = None
            if found is not None and isinstance(found[1], ast.ClassDef):
                path, node = found[0].path, found[1]
        return False

    def parameter(self, argument: ast.arg) -> str:
        """A parameter as the adapter declares it; its annotation only where it is plain."""
        if argument.annotation is None:
            return f"{argument.arg}: {'str' if is_text_name(argument.arg) else 'Any'}"
        names = {one.id for one in ast.walk(argument.annotation) if isinstance(one, ast.Name)}
        shown = self.file.source(argument.annotation).strip("'\"")
        return f"{argument.arg}: {shown if names <= _PLAIN and names else 'Any'}"

    def is_data(self, argument: ast.arg) -> bool:
        """Whether a task can give a parameter."""
        if argument.annotation is None:
            return not _SERVICES.search(argument.arg.lower())
        names = {
            one.id if isinstance(one, ast.Name) else one.attr
            for one in ast.walk(argument.annotation)
            if isinstance(one, ast.Name | ast.Attribute)
        } - {"typing", "t"}
        if isinstance(argument.annotation, ast.Constant):
            names = set(re.findall(r"\w+", str(argument.annotation.value)))
        return names <= _PLAIN | _TYPING

    def fields(self, argument: ast.arg) -> list[tuple[str, str, str]] | None:
        """Fields of a model or dataclass of the project that annotates a parameter.

        Each with its annotation and default as source, empty for none; None if it is no such class.
        """
        name = dotted(argument.annotation) if argument.annotation else ""
        found = self.modules.definition(name, self.file.path) if name else None
        if found is None or not isinstance(found[1], ast.ClassDef):
            return None
        node = found[1]
        modelled = self.derives(node, "BaseModel", "TypedDict", "Struct", "Schema")
        decorated = any(dotted(one).endswith("dataclass") for one in node.decorator_list)
        if not modelled and not decorated:
            return None
        fields: list[tuple[str, str, str]] = []
        for line in node.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                if line.target.id == "model_config" or line.target.id.startswith("_"):
                    continue
                default = ""
                if line.value is not None:
                    default = _default(line.value)
                shown = ast.unparse(line.annotation)
                used = {one.id for one in ast.walk(line.annotation) if isinstance(one, ast.Name)}
                fields.append((line.target.id, shown if used <= _PLAIN else "Any", default))
        return fields

    def function_name(self, taken: set[str]) -> str:
        """The adapter's function: the agent's name, made an identifier that is free."""
        name = re.sub(r"\W+", "_", self.choices.agent).strip("_").lower() or "agent"
        if not name.isidentifier() or keyword.iskeyword(name):
            name = f"agent_{name}"
        while name in taken or name == "ratchet":
            name += "_agent"
        return name


def is_text_name(name: str) -> bool:
    """Whether a name says that it holds text of a user."""
    return _TEXTS.search(name.lower()) is not None


def _default(value: ast.expr) -> str:
    """A field's default as source: a literal, that of `Field(default=…)`, or `...` for another."""
    if isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in ("Field", "field"):
        given = next((k.value for k in value.keywords if k.arg == "default"), None)
        given = given or next(iter(value.args), None)
        factory = any(k.arg == "default_factory" for k in value.keywords)
        if given is None:
            return "..." if factory else ""
        value = given
    if isinstance(value, ast.Constant) and value.value is ...:
        return ""
    try:
        ast.literal_eval(value)
    except ValueError:
        return "..."
    return ast.unparse(value)


def _scope(file: PythonFile, entry: EntryPoint) -> tuple[str, Scope | None]:
    if entry.kind in ("script", "notebook"):
        return "", None
    for name, scope in file.scopes.items():
        if scope.lineno == entry.place.line and (
            entry.kind == "route" or entry.name.endswith(scope.name)
        ):
            return name, scope
    found = file.scopes.get(entry.name)
    if found is not None:
        return entry.name, found
    held = file.holding(entry.place.line) if entry.kind == "route" else None
    return held if held is not None else (entry.name, None)


def calls(node: ast.AST) -> list[ast.Call]:
    """The calls of a function or block, in order, without those of functions inside it."""
    return [one for one in own_nodes(node) if isinstance(one, ast.Call)]


def read_files(root: Path, path: str) -> str:
    """A text file of the repository.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return (root / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None
