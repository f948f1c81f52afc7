"""Commands that start a program, as a repository's own files state them."""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from collections.abc import Iterator

import msgspec

from ratchet.wire.facts import Place
from ratchet.wire.looking.files import RepositoryFiles

_DOCKER = re.compile(r"^[ \t]*(?:CMD|ENTRYPOINT)[ \t]+((?:[^\n]*\\\n)*[^\n]*)", re.M | re.I)
_COMPOSE = re.compile(
    r"^[ \t]+(?:command|entrypoint):[ \t]*([^\n]*(?:\n[ \t]+-[ \t][^\n]*)*)", re.M
)
_PROCESS = re.compile(r"^[\w-]+:[ \t]*(\S[^\n]*)", re.M)
_FILE = re.compile(r"(?:^|[\s'\"=])((?:[\w.@-]+/)*[\w.-]+\.(?:py|[mc]?[jt]sx?))(?=$|[\s'\",;\]])")
_APP = re.compile(r"(?:^|[\s'\"=])([A-Za-z_][\w.]*):([A-Za-z_]\w*)(?:\(\))?(?=$|[\s'\",;\]])")
_MODULE = re.compile(r"\bpython[\d.]*['\",\s]+(?:-\w['\",\s]+)*?-m['\",\s]+([A-Za-z_][\w.]*)")
MAX_COMMAND = 1000
"""Characters of a command that are read."""


class StartCommand(msgspec.Struct, frozen=True):
    """A command and the code that it starts."""

    command: str
    place: Place
    target: str
    """File, relative to the repository."""
    name: str
    """Function or app in it; empty for the file itself."""


def find_start_commands(files: RepositoryFiles) -> Iterator[StartCommand]:
    """Commands whose target is a file of the repository; others are left out."""
    for path in files.named("pyproject.toml"):
        yield from _scripts(files, path)
    for path in files.starting():
        text = files.text(path) or ""
        name = path.rpartition("/")[2].lower()
        pattern = (
            _PROCESS if name.startswith("procfile") else _COMPOSE if "compose" in name else _DOCKER
        )
        for found in pattern.finditer(text):
            place = Place(path, text.count("\n", 0, found.start(1)) + 1)
            yield from _started(files, found[1], place)


def _scripts(files: RepositoryFiles, path: str) -> Iterator[StartCommand]:
    """`[project.scripts]` of a pyproject.toml, and Poetry's."""
    text = files.text(path) or ""
    try:
        data = tomllib.loads(text)
        tables = (
            data.get("project", {}).get("scripts", {}),
            data.get("tool", {}).get("poetry", {}).get("scripts", {}),
        )
        pairs = [(name, one) for table in tables for name, one in table.items()]
    except (tomllib.TOMLDecodeError, AttributeError):
        return
    for name, one in pairs:
        module, _, function = str(one).partition(":")
        target = _module(files, module, path.rpartition("/")[0])
        if target is not None:
            stated = re.search(rf"^[\"']?{re.escape(name)}[\"']?\s*=", text, re.M)
            line = text.count("\n", 0, stated.start()) + 1 if stated else 1
            yield StartCommand(name, Place(path, line), target, function.partition("[")[0].strip())


def _started(files: RepositoryFiles, given: str, place: Place) -> Iterator[StartCommand]:
    folder = place.path.rpartition("/")[0]
    command = _shown(given)
    for app in _APP.finditer(command):
        target = _module(files, app[1], folder)
        if target is not None:
            yield StartCommand(command, place, target, app[2])
            return
    module = _MODULE.search(command)
    if module:
        target = _module(files, module[1], folder) or _module(
            files, module[1] + ".__main__", folder
        )
        if target is not None:
            yield StartCommand(command, place, target, "")
            return
    for file in _FILE.finditer(command):
        path = file[1].removeprefix("/").removeprefix("app/").removeprefix("./")
        for base in (folder, ""):
            target = posixpath.normpath(posixpath.join(base, path))
            if target in files.known:
                yield StartCommand(command, place, target, "")
                return


def _shown(given: str) -> str:
    """One line of a command that is a list, or goes over several lines."""
    text = given.replace("\\\n", " ").strip()
    try:
        listed = json.loads(text)
        if isinstance(listed, list):
            text = " ".join(map(str, listed))
    except ValueError:
        text = re.sub(r"^\s*-\s+", "", text, flags=re.M)
    return " ".join(text.split())[:MAX_COMMAND]


def _module(files: RepositoryFiles, dotted: str, folder: str) -> str | None:
    """File of a module, from the folder of the file that names it outward."""
    inner = dotted.replace(".", "/")
    while True:
        for root in ("", "src", "app", "backend"):
            base = posixpath.join(folder, root, inner)
            for path in (f"{base}.py", f"{base}/__init__.py"):
                if path in files.known:
                    return path
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
