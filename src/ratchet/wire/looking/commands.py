"""Commands that the owner may run today, found in the repository's own files.

Each candidate says where it stands. Nothing is chosen here, and nothing is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ratchet.source.literals.source_files import is_test
from ratchet.wire.looking.inventory import CommandCandidate, Place
from ratchet.wire.looking.listing import FileListing, folder_of, line_at
from ratchet.wire.looking.programs import find_programs
from ratchet.wire.looking.projects import table
from ratchet.wire.looking.readme_commands import readme_commands
from ratchet.wire.looking.started import serves, starts_program, words_of

_TASKS = {
    "pdm": "pdm run",
    "poe": "poe",
    "hatch": "hatch run",
    "rye": "rye run",
    "pixi": "pixi run",
    "taskipy": "task",
}
"""The command that runs a task of a table `[tool.NAME]`."""
_LOCKS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
_MAKES = re.compile(
    r"(?:pre|post)?(?:build|lint|format|fmt|tests?|check|type-?check|tsc|clean|prepare|install"
    r"|publish|release|deploy|docs?|coverage|migrate|seed|generate|codegen|version|prettier|eslint"
    r"|husky|storybook|e2e|eject|knip|spell\w*)(?:$|[:_.-])"
)
"""Names of scripts that build or check something."""
_PROCESS = re.compile(r"^[\w-]+:[ \t]*(\S[^\n]*)", re.M)
_DOCKER = re.compile(r"^[ \t]*(CMD|ENTRYPOINT)[ \t]+((?:[^\n]*\\\n)*[^\n]*)", re.M | re.I)
_STATED = re.compile(
    r"""^[ \t-]*["']?(?:command|entrypoint|startCommand|start_command)["']?[ \t]*[:=][ \t]*"""
    r"""(\S[^\n]*(?:\n[ \t]+-[ \t][^\n]*)*|(?:\n[ \t]+-[ \t][^\n]*)+)""",
    re.M,
)
_STATING = re.compile(
    r"(?:docker-)?compose.*\.ya?ml|render\.ya?ml|railway\.(?:json|toml)|app\.ya?ml"
)
_CONTAINER = re.compile(r"(?:.*\.)?(?:Docker|Container)file(?:[.-].*)?$", re.I)
_TARGET = re.compile(r"^([A-Za-z][\w.-]*)[ \t]*:(?!=)[^\n]*\n((?:[ \t]+[^\n]*\n?|\n)*)", re.M)


def find_commands(listing: FileListing) -> tuple[CommandCandidate, ...]:
    """Candidates: from manifests, then READMEs, then programs; outermost first in each."""
    unique: dict[tuple[str, str], CommandCandidate] = {}
    for part in (_manifests, _process_files, readme_commands, _make_files, find_programs):
        for candidate in sorted(part(listing), key=lambda stated: stated.place.path.count("/")):
            unique.setdefault((candidate.folder, candidate.command), candidate)
    return tuple(unique.values())


def _manifests(listing: FileListing) -> Iterator[CommandCandidate]:
    for path in listing.named("langgraph.json"):
        graphs = _tables(_object(listing.text(path)).get("graphs"))
        if graphs:
            script = any(re.search(r"\.[mc]?[jt]s(?::|$)", str(graph)) for graph in graphs.values())
            command = "npx @langchain/langgraph-cli dev" if script else "langgraph dev"
            yield _named(listing, path, "graphs", command, "langgraph.json")
    for path in listing.named("pyproject.toml"):
        yield from _pyproject(listing, path)
    for path in listing.named("package.json"):
        yield from _package(listing, path)


def _pyproject(listing: FileListing, path: str) -> Iterator[CommandCandidate]:
    data, folder = table(listing.text(path) or ""), folder_of(path)
    tools = _tables(data.get("tool"))
    runner = "uv run " if listing.folder_has(folder, "uv.lock") else ""
    for scripts, prefix in (
        (_tables(data.get("project")).get("scripts"), runner),
        (_tables(tools.get("poetry")).get("scripts"), "poetry run "),
    ):
        for name, target in _tables(scripts).items():
            if _is_there(listing, folder, str(target)):
                yield _named(listing, path, name, prefix + name, "pyproject.toml script")
            else:
                listing.passed_over[f"{path}, script {name}"] = f"{target} is not in the repository"
    if "crewai" in tools:
        yield _named(listing, path, "[tool.crewai]", "crewai run", "pyproject.toml")
    for tool, prefix in _TASKS.items():
        settings = _tables(tools.get(tool))
        tasks = {**_tables(settings.get("scripts")), **_tables(settings.get("tasks"))}
        for environment in _tables(settings.get("envs")).values():
            tasks |= _tables(_tables(environment).get("scripts"))
        for name, task in tasks.items():
            parts = _tables(task)
            runs = str(parts.get("cmd") or parts.get("command") or parts.get("shell") or task)
            if starts_program(runs):
                source = f"pyproject.toml [tool.{tool}]"
                yield _named(listing, path, name, f"{prefix} {name}", source, runs)


def _is_there(listing: FileListing, folder: str, target: str) -> bool:
    """Whether `package.module:function` is in the repository."""
    module, _, function = (part.strip() for part in target.partition(":"))
    inner = "src" if folder == "." else f"{folder}/src"
    file = listing.tree(folder).find(module) or listing.tree(inner).find(module)
    if file is None:
        return False
    text = listing.text(file.relative_to(listing.root).as_posix()) or ""
    name = re.match(r"\w*", function)
    return name is not None and re.search(rf"\b{name[0]}\b", text) is not None


def _package(listing: FileListing, path: str) -> Iterator[CommandCandidate]:
    package, folder = _object(listing.text(path)), folder_of(path)
    manager = next((_LOCKS[lock] for lock in _LOCKS if listing.folder_has(folder, lock)), "npm")
    for name, runs in _tables(package.get("scripts")).items():
        if isinstance(runs, str) and not _MAKES.match(name):
            command = f"{manager} start" if name == "start" else f"{manager} run {name}"
            yield _named(listing, path, name, command, "package.json script", runs)
    binary = package.get("bin")
    files = [binary] if isinstance(binary, str) else list(_tables(binary).values())
    for file in [*files, package.get("main")]:
        own = str(file).removeprefix("./")
        if own.endswith((".js", ".mjs", ".cjs")) and listing.folder_has(folder, own):
            yield _named(listing, path, own, f"node {own}", "package.json")


def _process_files(listing: FileListing) -> Iterator[CommandCandidate]:
    """The commands that a Procfile, a Dockerfile or a hosting platform's settings start."""
    for path in listing.paths:
        name = path.rpartition("/")[2]
        stated: list[tuple[int, str]] = []
        if name == "Procfile" or name.startswith("Procfile."):
            text, name = listing.text(path) or "", "Procfile"
            stated = [(process.start(), process[1]) for process in _PROCESS.finditer(text)]
        elif _CONTAINER.match(name):
            text, name = listing.text(path) or "", "Dockerfile"
            last = {line[1].upper(): line for line in _DOCKER.finditer(text)}
            lines = [last[word] for word in ("ENTRYPOINT", "CMD") if word in last]
            if lines:
                stated = [(lines[0].start(), " ".join(words_of(line[2]) for line in lines))]
        elif _STATING.fullmatch(name):
            text = listing.text(path) or ""
            stated = [(line.start(1), words_of(line[1])) for line in _STATED.finditer(text)]
            stated = [(at, words) for at, words in stated if starts_program(words)]
        for at, words in stated:
            place = Place(path, line_at(text, at))
            yield CommandCandidate(words.strip(), folder_of(path), place, name, serves(words))


def _make_files(listing: FileListing) -> Iterator[CommandCandidate]:
    for path in listing.named("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"):
        name = path.rpartition("/")[2]
        tool = "just" if name.lower() == "justfile" else "make"
        for target in _TARGET.finditer(listing.text(path) or ""):
            if not _MAKES.match(target[1]) and starts_program(target[2]):
                yield _named(listing, path, target[1], f"{tool} {target[1]}", name, target[2])
    for path in listing.paths:
        name = path.rpartition("/")[2]
        if name.endswith(".sh") and not is_test(path) and not _MAKES.match(name):
            text = listing.text(path) or ""
            if starts_program(text):
                folder, place = folder_of(path), Place(path, 1)
                yield CommandCandidate(f"sh {name}", folder, place, "shell script", serves(text))


def _named(
    listing: FileListing, path: str, name: str, command: str, source: str, runs: str = ""
) -> CommandCandidate:
    """A candidate that a file names."""
    text = listing.text(path) or ""
    stated = re.search(rf"^[ \t]*([\"']?)({re.escape(name)})\1(?:\s*[=:]|\s*$)", text, re.M)
    place = Place(path, line_at(text, stated.start(2) if stated else max(0, text.find(name))))
    return CommandCandidate(command, folder_of(path), place, source, serves(runs or command))


def _object(text: str | None) -> dict[str, Any]:
    try:
        return _tables(json.loads(text or ""))
    except (ValueError, RecursionError):
        return {}


def _tables(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
