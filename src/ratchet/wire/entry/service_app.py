"""How a service is started: its application, found in the code, and the server that runs it."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import NamedTuple

from ratchet.wire.entry.modules import Modules
from ratchet.wire.entry.python_file import PythonFile, dotted

_ASGI = frozenset({"FastAPI", "Starlette", "Quart", "Litestar"})
_WSGI = frozenset({"Flask"})


class ServiceApp(NamedTuple):
    """An application in the code."""

    path: str
    """Its file."""
    module: str
    name: str
    """Of the variable, or of the function that makes it."""
    made: bool
    """Whether a function makes it."""
    asgi: bool
    """Whether uvicorn runs it; else Flask does."""
    folders: tuple[str, ...]
    """Folders to import from, relative to the repository."""

    def command(self, python: Path, port: int) -> list[str]:
        """The command that serves it on a port of loopback."""
        run = [str(python), "-m"]
        if self.asgi:
            factory = ["--factory"] if self.made else []
            app = f"{self.module}:{self.name}"
            return [*run, "uvicorn", app, *factory, "--host", "127.0.0.1", "--port", str(port)]
        app = f"{self.module}:{self.name}{'()' if self.made else ''}"
        return [*run, "flask", "--app", app, "run", "--host", "127.0.0.1", "--port", str(port)]

    def variables(self, root: Path) -> dict[str, str]:
        """Variables that let it be imported from a copy of the repository."""
        return {"PYTHONPATH": os.pathsep.join(str(root / one) for one in self.folders)}


def find_app(modules: Modules, entry_path: str) -> ServiceApp | None:
    """The application that a route belongs to, or None.

    That is one in the route's own file, or else in a file whose imports lead to it. A variable
    comes before a function that makes one.

    Args:
        modules: Those of the project.
        entry_path: The file of the route.
    """
    found = []
    for path in modules.paths:
        file = modules.file(path)
        if file is None:
            continue
        for name, kind, made in _apps(file):
            if path == entry_path or entry_path in modules.closure(path):
                rank = (path != entry_path, made, path)
                folders = (modules.project / one for one in modules.folders([path]))
                app = ServiceApp(
                    path,
                    modules.name_of(path),
                    name,
                    made,
                    kind in _ASGI,
                    tuple(one.as_posix() for one in folders),
                )
                found.append((rank, app))
    return min(found)[1] if found else None


def _apps(file: PythonFile) -> list[tuple[str, str, bool]]:
    """Name, kind and whether it is made by a function, of each application of a file."""
    found = []
    for node in file.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            kind = _kind(node.value)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [
                (one.id, kind, False) for one in targets if kind and isinstance(one, ast.Name)
            ]
        elif isinstance(node, ast.FunctionDef) and not node.args.args:
            kinds = [_kind(one.value) for one in ast.walk(node) if isinstance(one, ast.Assign)]
            found += [(node.name, kind, True) for kind in kinds[:1] if kind]
    return found


def _kind(value: ast.expr | None) -> str:
    if not isinstance(value, ast.Call):
        return ""
    name = dotted(value.func).rpartition(".")[2]
    return name if name in _ASGI | _WSGI else ""
