"""Files that are programs: they have a main guard or a server's app, or act when they run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ratchet.source.literals.source_files import is_test
from ratchet.wire.looking.frameworks import framework_of
from ratchet.wire.looking.inventory import CommandCandidate, Place
from ratchet.wire.looking.listing import FileListing, folder_of, line_at
from ratchet.wire.looking.projects import imported_modules
from ratchet.wire.looking.started import serves

_PAGES = re.compile(r"^(?:import|from)[ \t]+(streamlit|chainlit)\b", re.M)
_OF_PAGE = re.compile(r"^(?:@cl\.|(?:st|streamlit)\.|with st\.|if __name__)|^\w+\(\)", re.M)
"""Code that shows that a file that imports such a library is a page, and not part of one."""
_APPS = {
    "FastAPI": "uvicorn {module}:{name}",
    "Starlette": "uvicorn {module}:{name}",
    "Flask": "flask --app {module} run",
}
_APP = re.compile(rf"^(\w+)(?:[ \t]*:[^=\n]*)?[ \t]*=[ \t]*(?:\w+\.)?({'|'.join(_APPS)})\(", re.M)
_GUARD = re.compile(r"^if[ \t]+(?:__name__[ \t]*==|[\"']__main__[\"'][ \t]*==)", re.M)
_STATEMENT = re.compile(r"^(?:[A-Za-z_][\w.]*\(|(?:for|while|with|async|await)\s|try:)", re.M)
_ACTING = (ast.While, ast.For, ast.With, ast.AsyncWith, ast.Try)


def find_programs(listing: FileListing) -> Iterator[CommandCandidate]:
    """Programs in Python and Go; those that import a framework first."""
    programs: list[tuple[bool, CommandCandidate]] = []
    modules = {
        path: imported_modules(listing, path) for path in listing.paths if path.endswith(".py")
    }
    imported = {part for names in modules.values() for name in names for part in name.split(".")}
    for path in listing.paths:
        if is_test(path) or path.rpartition("/")[2] in ("setup.py", "conftest.py"):
            continue
        if path in modules:
            frameless = not any(map(framework_of, modules[path]))
            programs += [(frameless, program) for program in _python(listing, path, imported)]
        elif path.endswith(".go"):
            programs += [(False, program) for program in _go(listing, path)]
    yield from (program for _, program in sorted(programs, key=lambda ranked: ranked[0]))


def _python(listing: FileListing, path: str, imported: set[str]) -> Iterator[CommandCandidate]:
    text = listing.text(path) or ""
    folder, name = folder_of(path), path.rpartition("/")[2]
    if (page := _PAGES.search(text)) and _OF_PAGE.search(text):
        yield CommandCandidate(f"{page[1]} run {path}", ".", Place(path, 1), page[1], True)
        return
    top, module = _importable(listing, path)
    app, guard = _APP.search(text), _GUARD.search(text)
    if app:
        command = _APPS[app[2]].format(module=module, name=app[1])
        yield CommandCandidate(command, top, Place(path, line_at(text, app.start())), app[2], True)
    if name == "__main__.py":
        command = f"python -m {module.removesuffix('.__main__')}"
        yield CommandCandidate(command, top, Place(path, 1), "package", serves(text))
    elif name == "manage.py" and "django" in text:
        yield CommandCandidate("python manage.py runserver", folder, Place(path, 1), "Django", True)
    elif guard:
        inner = path if top == "." else path.removeprefix(f"{top}/")
        relative = re.search(r"^[ \t]*from[ \t]+\.", text, re.M)
        command = f"python -m {module}" if relative else f"python {inner}"
        place = Place(path, line_at(text, guard.start()))
        yield CommandCandidate(command, top, place, "__main__ guard", serves(text))
    elif not app and name.removesuffix(".py") not in imported and (line := _acts(text)):
        yield CommandCandidate(f"python {name}", folder, Place(path, line), "script", serves(text))


def _acts(text: str) -> int:
    """Line of a module's last statement, if it does anything when it is run; else 0."""
    if not _STATEMENT.search(text):
        return 0
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return 0
    last = body[-1] if body else None
    calls = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call | ast.Await)
    return last.lineno if last is not None and (calls or isinstance(last, _ACTING)) else 0


def _importable(listing: FileListing, path: str) -> tuple[str, str]:
    """The folder from which a file's module is imported, and its dotted name."""
    folder, parts = folder_of(path), [path.rpartition("/")[2].removesuffix(".py")]
    while folder != "." and listing.folder_has(folder, "__init__.py"):
        if not folder.rpartition("/")[2].isidentifier():
            break
        parts.insert(0, folder.rpartition("/")[2])
        folder = folder_of(folder)
    return folder, ".".join(parts)


def _go(listing: FileListing, path: str) -> Iterator[CommandCandidate]:
    text = listing.text(path) or ""
    main = re.search(r"^func main\(\)", text, re.M)
    if main and re.search(r"^package main\b", text, re.M):
        folder = module = folder_of(path)
        while module != "." and not listing.folder_has(module, "go.mod"):
            module = folder_of(module)
        inner = folder if module == "." else folder.removeprefix(module).lstrip("/")
        command = f"go run ./{inner}".replace("./.", ".").removesuffix("/") if inner else "go run ."
        place = Place(path, line_at(text, main.start()))
        yield CommandCandidate(command, module, place, "func main", serves(text))
