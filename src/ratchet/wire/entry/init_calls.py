"""`ratchet.init()` where the program starts, never in a module that others import."""

from __future__ import annotations

import ast
import re

from ratchet.wire.changes import FileChange, LeftAlone, Piece
from ratchet.wire.choices import Choices
from ratchet.wire.entry.modules import Modules, acts_at_import, is_main_guard
from ratchet.wire.entry.python_file import Function, PythonFile, dotted, is_text
from ratchet.wire.facts import Place, RepositoryLook

_APPS = {"FastAPI", "Flask", "Starlette", "Quart", "Sanic", "Litestar", "Typer"}
_NO_PROGRAM = re.compile(
    r"(?:^|/)(?:tests?|evals?|examples?|benchmarks?)/|(?:^|/)(?:test_|conftest)"
)
_PROGRAMS = {"script", "route", "app", "program"}
_MOST = 3
_PURPOSE = "Starts tracing where the program starts."


def add_init(
    look: RepositoryLook, modules: Modules, choices: Choices
) -> tuple[list[FileChange], list[LeftAlone]]:
    """Add `ratchet.init()` to the programs that start the agent."""
    changes: list[FileChange] = []
    left: list[LeftAlone] = []
    programs = _programs(look, modules, choices)
    for path, name in programs[:_MOST]:
        file = modules.file(path)
        if file is None or _starts_tracing(file):
            continue
        piece = _place(file, name)
        if piece is None:
            why = "No place for it was found: call ratchet.init() where this program starts."
            left.append(LeftAlone("ratchet.init()", Place(path), why))
        else:
            imports = file.import_ratchet()
            changes.append(FileChange(path, _PURPOSE, pieces=(*imports, piece)))
    for path, _ in programs[_MOST:]:
        why = "It starts the agent too: call ratchet.init() there as well, if it is in use."
        left.append(LeftAlone("ratchet.init()", Place(path), why))
    if not programs:
        why = "No program that starts the agent was found: call ratchet.init() where yours starts."
        left.append(LeftAlone("ratchet.init()", choices.entry.place, why))
    return changes, left


def _programs(look: RepositoryLook, modules: Modules, choices: Choices) -> list[tuple[str, str]]:
    """Files that start the agent, each with the function that a command calls, or empty."""
    target = choices.entry.place.path
    inside = set(modules.paths)
    reaching = {
        path for path in inside if not _NO_PROGRAM.search(path) and target in modules.closure(path)
    }
    started = {
        one.place.path: one.name if one.kind not in ("script", "route") else ""
        for one in look.entries
        if "started by" in one.reason and one.place.path in reaching
    }
    if started:
        return list(started.items())
    programs = [path for path in sorted(reaching) if (f := modules.file(path)) and _is_program(f)]
    leading = {one.place.path for one in look.entries if one.kind in ("script", "route", "app")}
    certain = [
        path
        for path in programs
        if path in leading
        or ((f := modules.file(path)) and (_app(f) is not None or acts_at_import(f)))
    ]
    order = sorted(certain or programs, key=lambda one: (one.count("/"), not _usual(one), one))
    found: list[tuple[str, str]] = [(path, "") for path in order]
    if not found and "langgraph.json" in choices.entry.reason and target in inside:
        found = [(target, choices.entry.name)]
    if not found:  # nothing starts this entry; tracing is of use where another one is started
        places = {one.place.path for one in look.entries if one.kind in _PROGRAMS}
        others = {path for path in places & inside if not _NO_PROGRAM.search(path)}
        found = [(path, "") for path in sorted(others)]
    return found


def _usual(path: str) -> bool:
    name = path.rpartition("/")[2].removesuffix(".py")
    return name in ("__main__", "main", "app", "server", "run", "cli", "bot")


def _starts_tracing(file: PythonFile) -> bool:
    return any(
        isinstance(one, ast.Call) and dotted(one.func) == "ratchet.init"
        for one in ast.walk(file.tree)
    )


def _is_program(file: PythonFile) -> bool:
    body = file.tree.body
    return (
        any(is_main_guard(one) for one in body)
        or _app(file) is not None
        or acts_at_import(file) > 0
    )


def _app(file: PythonFile) -> ast.Assign | None:
    for node in file.tree.body:
        call = node.value if isinstance(node, ast.Assign) else None
        if isinstance(call, ast.Call) and dotted(call.func).rpartition(".")[2] in _APPS:
            assert isinstance(node, ast.Assign)
            return node
    return None


def _place(file: PythonFile, name: str) -> Piece | None:
    line = "ratchet.init()"
    scope = file.scopes.get(name)
    if isinstance(scope, Function):
        return _first_in(file, scope.body, line)
    app = _app(file)
    guard = next((one for one in file.tree.body if is_main_guard(one)), None)
    served = guard is not None and isinstance(guard, ast.If) and not _reloads(guard)
    if guard is not None and isinstance(guard, ast.If) and (app is None or (served and not name)):
        return _first_in(file, guard.body, line)
    if app is not None:
        lifespan = _lifespan(file, app)
        if lifespan is not None:
            return _first_in(file, lifespan.body, line)
        return file.before(app, line, above=True)
    for node in file.tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id == name:
            return file.before(node, line, above=True)
    return _before_acting(file, line)


def _first_in(file: PythonFile, body: list[ast.stmt], line: str) -> Piece | None:
    first = body[1] if is_text(body[0]) and len(body) > 1 else body[0]
    decorated = getattr(first, "decorator_list", [])
    return None if decorated else file.before(first, line, above=True)


def _reloads(guard: ast.If) -> bool:
    """Whether a server is given the app by name, and so imports it once more."""
    return any(
        isinstance(one, ast.Call)
        and dotted(one.func) == "uvicorn.run"
        and any(
            isinstance(given, ast.Constant)
            for given in [*one.args[:1], *(k.value for k in one.keywords if k.arg == "app")]
        )
        for one in ast.walk(guard)
    )


def _lifespan(file: PythonFile, app: ast.Assign) -> Function | None:
    assert isinstance(app.value, ast.Call)
    for keyword in app.value.keywords:
        if keyword.arg == "lifespan" and isinstance(keyword.value, ast.Name):
            found = file.scopes.get(keyword.value.id)
            return found if isinstance(found, Function) else None
    return None


def _before_acting(file: PythonFile, line: str) -> Piece | None:
    """Before the first statement at the top that does something."""
    for node in file.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.ClassDef | Function) or is_text(node):
            continue
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and "dotenv" in dotted(call.func):
            continue
        plain = isinstance(node, ast.Assign | ast.AnnAssign) and not any(
            isinstance(one, ast.Call) for one in ast.walk(node)
        )
        if not plain:
            return file.before(node, line, above=True)
    return None
