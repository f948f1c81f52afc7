"""Commands that may be the one that the owner runs today, as the repository's own files state them.

Each candidate says where it stands. Nothing is chosen here, and nothing is run.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
from collections.abc import Iterator
from typing import Any

from ratchet.source.literals.source_files import is_test
from ratchet.wire.looking.inventory import CommandCandidate, Place, UsedFramework
from ratchet.wire.looking.listing import FileListing, folder_of, line_at
from ratchet.wire.looking.projects import table
from ratchet.wire.looking.readme_commands import readme_commands
from ratchet.wire.looking.started import serves, starts_program, words_of

_RUNNERS = {
    "pdm": "pdm run",
    "poe": "poe",
    "hatch": "hatch run",
    "rye": "rye run",
    "pixi": "pixi run",
    "taskipy": "task",
    "poetry": "",
}
"""How a script of a `[tool.NAME]` table is run."""
_NO_START = re.compile(
    r"^(?:pre|post)?(?:build|lint|format|fmt|test|tests|check|type-?check|typecheck|tsc|clean|prepare"
    r"|install|publish|release|deploy|docs?|coverage|migrate|seed|generate|codegen|version|prettier"
    r"|eslint|husky|storybook|e2e|eject|knip|spell\w*)(?:$|[:_-])"
)
"""Scripts whose name says that they make or check something."""
_PROCESS = re.compile(r"^([\w-]+):[ \t]*(\S[^\n]*)", re.M)
_DOCKER = re.compile(r"^[ \t]*(CMD|ENTRYPOINT)[ \t]+((?:[^\n]*\\\n)*[^\n]*)", re.M | re.I)
_STATED = re.compile(
    r"""^[ \t-]*["']?(?:command|entrypoint|startCommand|start_command)["']?[ \t]*[:=][ \t]*"""
    r"""(\S[^\n]*(?:\n[ \t]+-[ \t][^\n]*)*|(?:\n[ \t]+-[ \t][^\n]*)+)""",
    re.M,
)
_STATING = re.compile(
    r"(?:docker-)?compose[^/]*\.ya?ml|render\.ya?ml|railway\.(?:json|toml)|nixpacks\.toml|app\.ya?ml"
)
_TARGET = re.compile(
    r"^([A-Za-z][\w.-]*)[ \t]*:(?!=)[^\n]*\n((?:(?:[ \t]+[^\n]*)?\n?)*?)(?=^\S|\Z)", re.M
)
_WEB = {
    "streamlit": "streamlit run {file}",
    "chainlit": "chainlit run {file}",
}
"""Libraries whose programs have a launcher of their own."""
_APPS = {
    "FastAPI": "uvicorn {module}:{name}",
    "Starlette": "uvicorn {module}:{name}",
    "Quart": "hypercorn {module}:{name}",
    "Flask": "flask --app {module} run",
}
"""Classes of apps that a server starts."""


def find_commands(
    listing: FileListing, frameworks: tuple[UsedFramework, ...]
) -> tuple[CommandCandidate, ...]:
    """Candidates: what manifests state, then READMEs, then programs; outermost first in each."""
    imported = {framework.place.path for framework in frameworks if framework.imported}
    parts = (
        _manifests(listing),
        _process_files(listing),
        readme_commands(listing),
        _make_files(listing),
        _programs(listing, imported),
    )
    unique: dict[tuple[str, str], CommandCandidate] = {}
    for part in parts:
        for candidate in sorted(part, key=lambda stated: stated.place.path.count("/")):
            unique.setdefault((candidate.folder, candidate.command), candidate)
    return tuple(unique.values())


def _manifests(listing: FileListing) -> Iterator[CommandCandidate]:
    for path in listing.named("langgraph.json"):
        text = listing.text(path) or ""
        graphs = _object(text).get("graphs")
        if isinstance(graphs, dict) and graphs:
            script = any(
                str(target).split(":")[0].endswith(("ts", "js")) for target in graphs.values()
            )
            command = "npx @langchain/langgraph-cli dev" if script else "langgraph dev"
            yield _made(command, path, text, '"graphs"', "langgraph.json")
    for path in listing.named("pyproject.toml"):
        yield from _pyproject(listing, path)
    for path in listing.named("setup.cfg"):
        yield from _setup_cfg(listing, path)
    for path in listing.named("package.json"):
        yield from _package(listing, path)
    for path in listing.named("Cargo.toml"):
        if listing.folder_has(folder_of(path), "src/main.rs"):
            yield _made("cargo run", path, listing.text(path) or "", "[package]", "Cargo.toml")


def _pyproject(listing: FileListing, path: str) -> Iterator[CommandCandidate]:
    text = listing.text(path) or ""
    data, folder = table(text), folder_of(path)
    tools = _tables(data.get("tool"))
    prefix = "uv run " if listing.folder_has(folder, "uv.lock") else ""
    stated = [
        (name, target, prefix + name)
        for name, target in _tables(data.get("project")).get("scripts", {}).items()
    ]
    poetry = _tables(tools.get("poetry")).get("scripts", {})
    stated += [(name, target, f"poetry run {name}") for name, target in _tables(poetry).items()]
    for name, target, command in stated:
        if _is_there(listing, folder, str(target)):
            yield _made(command, path, text, name, "pyproject.toml script")
        else:
            listing.passed_over[f"{path}, script {name}"] = f"{target} is not in the repository"
    if "crewai" in tools:
        yield _made("crewai run", path, text, "[tool.crewai]", "pyproject.toml")
    for tool, runner in _RUNNERS.items():
        settings = _tables(tools.get(tool))
        tasks = {**_tables(settings.get("scripts")), **_tables(settings.get("tasks"))}
        for environment in _tables(settings.get("envs")).values():
            tasks |= _tables(_tables(environment).get("scripts"))
        for name, task in tasks.items() if runner else ():
            inner = _tables(task)
            runs = str(inner.get("cmd") or inner.get("command") or inner.get("shell") or task)
            if starts_program(runs):
                source = f"pyproject.toml [tool.{tool}]"
                yield _made(f"{runner} {name}", path, text, name, source, runs)


def _setup_cfg(listing: FileListing, path: str) -> Iterator[CommandCandidate]:
    text = listing.text(path) or ""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
        lines = parser.get("options.entry_points", "console_scripts", fallback="").splitlines()
    except configparser.Error:
        return
    for line in lines:
        name, _, target = (part.strip() for part in line.partition("="))
        if name and _is_there(listing, folder_of(path), target):
            yield _made(name, path, text, name, "setup.cfg script")


def _is_there(listing: FileListing, folder: str, target: str) -> bool:
    """Whether `package.module:function` is in the repository."""
    module, _, function = target.partition(":")
    tree = listing.tree(folder)
    file = tree.find(module.strip())
    if file is None and (beside := listing.root / folder / "src").is_dir():
        file = listing.tree(beside.relative_to(listing.root).as_posix()).find(module.strip())
    name = function.partition(".")[0].partition("[")[0].strip()
    if file is None or not name:
        return file is not None
    text = listing.text(file.relative_to(listing.root).as_posix()) or ""
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _package(listing: FileListing, path: str) -> Iterator[CommandCandidate]:
    text, folder = listing.text(path) or "", folder_of(path)
    package = _object(text)
    locks = (
        ("pnpm-lock.yaml", "pnpm"),
        ("yarn.lock", "yarn"),
        ("bun.lock", "bun"),
        ("bun.lockb", "bun"),
    )
    manager = next((name for lock, name in locks if listing.folder_has(folder, lock)), "npm")
    for name, runs in _tables(package.get("scripts")).items():
        if isinstance(runs, str) and not _NO_START.match(name):
            command = f"{manager} {name}" if name == "start" else f"{manager} run {name}"
            yield _made(command, path, text, f'"{name}"', "package.json script", runs)
    binary = package.get("bin")
    files = [binary] if isinstance(binary, str) else list(_tables(binary).values())
    for file in [*files, package.get("main")]:
        own = str(file).removeprefix("./")
        if own.endswith((".js", ".mjs", ".cjs")) and listing.folder_has(folder, own):
            yield _made(f"node {own}", path, text, own, "package.json")


def _process_files(listing: FileListing) -> Iterator[CommandCandidate]:
    for path in listing.paths:
        name = path.rpartition("/")[2]
        if re.match(r"Procfile(?:\..*)?$", name):
            text = listing.text(path) or ""
            for process in _PROCESS.finditer(text):
                yield _stated(process[2], path, line_at(text, process.start()), "Procfile")
        elif re.match(r"(?:.*\.)?(?:Docker|Container)file(?:[.-].*)?$", name, re.I):
            text = listing.text(path) or ""
            stated = list(_DOCKER.finditer(text))
            start = [one for one in stated if one[1].upper() == "ENTRYPOINT"][-1:]
            rest = [one for one in stated if one[1].upper() == "CMD"][-1:]
            if start or rest:
                words = " ".join(words_of(one[2]) for one in (*start, *rest))
                yield _stated(words, path, line_at(text, (start or rest)[0].start()), "Dockerfile")
        elif _STATING.fullmatch(name):
            text = listing.text(path) or ""
            for stated_here in _STATED.finditer(text):
                line = line_at(text, stated_here.start(1))
                if starts_program(words_of(stated_here[1])):
                    yield _stated(words_of(stated_here[1]), path, line, name)


def _make_files(listing: FileListing) -> Iterator[CommandCandidate]:
    for path in listing.named("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"):
        text = listing.text(path) or ""
        tool = "just" if path.lower().endswith("justfile") else "make"
        for target in _TARGET.finditer(text):
            if not _NO_START.match(target[1]) and starts_program(target[2]):
                yield _made(
                    f"{tool} {target[1]}", path, text, target[1], path.rpartition("/")[2], target[2]
                )
    for path in listing.paths:
        if (
            path.endswith(".sh")
            and not is_test(path)
            and not _NO_START.match(path.rpartition("/")[2])
        ):
            text = listing.text(path) or ""
            if starts_program(text):
                yield CommandCandidate(
                    f"sh {path.rpartition('/')[2]}",
                    folder_of(path),
                    Place(path),
                    "shell script",
                    serves(text),
                )


def _programs(listing: FileListing, imported: set[str]) -> Iterator[CommandCandidate]:
    """Files that are programs: with a guard, an app, or statements that call something."""
    programs = []
    for path in listing.paths:
        if is_test(path) or path.rpartition("/")[2] in ("setup.py", "conftest.py"):
            continue
        if path.endswith(".py"):
            programs += [(path not in imported, path, stated) for stated in _python(listing, path)]
        elif path.endswith(".go"):
            text = listing.text(path) or ""
            main = re.search(r"^func main\(\)", text, re.M)
            if main and re.search(r"^package main\b", text, re.M):
                folder = folder_of(path)
                module = next(
                    (own for own in _above(folder) if listing.folder_has(own, "go.mod")), folder
                )
                inner = folder.removeprefix(module).lstrip("/") if module != "." else folder
                command = f"go run ./{inner}" if inner not in ("", ".") else "go run ."
                place = Place(path, line_at(text, main.start()))
                stated = CommandCandidate(command, module, place, "func main", serves(text))
                programs.append((False, path, stated))
    yield from (stated for _, _, stated in sorted(programs, key=lambda program: program[:2]))


def _python(listing: FileListing, path: str) -> Iterator[CommandCandidate]:
    text = listing.text(path) or ""
    if "__main__" not in text and "(" not in text:
        return
    guard = re.search(r"^if[ \t]+(?:__name__[ \t]*==|[\"']__main__[\"'][ \t]*==)", text, re.M)
    folder, name = folder_of(path), path.rpartition("/")[2]
    for library, command in _WEB.items():
        if re.search(rf"^(?:import|from)[ \t]+{library}\b", text, re.M) and _is_page(text):
            place = Place(path, 1)
            yield CommandCandidate(command.format(file=path), ".", place, library, True)
            return
    apps = re.search(
        rf"^(\w+)(?:[ \t]*:[^=\n]*)?[ \t]*=[ \t]*(?:\w+\.)?({'|'.join(_APPS)})\(", text, re.M
    )
    top, module = _importable(listing, path)
    if apps:
        command = _APPS[apps[2]].format(module=module, name=apps[1])
        yield CommandCandidate(
            command, top, Place(path, line_at(text, apps.start())), apps[2], True
        )
    if name == "__main__.py":
        package = module.removesuffix(".__main__")
        yield CommandCandidate(f"python -m {package}", top, Place(path, 1), "package", serves(text))
    elif name == "manage.py" and "django" in text:
        yield CommandCandidate("python manage.py runserver", folder, Place(path, 1), "Django", True)
    elif guard:
        relative = re.search(r"^[ \t]*from[ \t]+\.", text, re.M)
        command = (
            f"python -m {module}"
            if relative
            else f"python {path.removeprefix(top).lstrip('/') if top != '.' else path}"
        )
        place = Place(path, line_at(text, guard.start()))
        yield CommandCandidate(command, top, place, "__main__ guard", serves(text))
    elif not apps and (line := _first_call(text)):
        yield CommandCandidate(f"python {name}", folder, Place(path, line), "script", serves(text))


def _is_page(text: str) -> bool:
    """Whether a file of a launched library is a program by itself, and not part of one."""
    return (
        re.search(r"^(?:@cl\.|(?:st|streamlit)\.|with st\.|if __name__)|^\w+\(\)", text, re.M)
        is not None
    )


def _first_call(text: str) -> int:
    """Line of the first statement of a module that calls something for its effect; 0 if none."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return 0
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = ast.unparse(statement.value.func)
            if not re.search(
                r"(?:^|\.)(?:load_dotenv|filterwarnings|basicConfig|append|insert|setdefault|update|add_\w+|include_\w+|mount|set_\w+|register\w*|getLogger|setLevel|add|configure|init|rebuild|model_rebuild|apply|parse_args|install|instrument\w*)$",
                called,
            ):
                return statement.lineno
        elif isinstance(statement, ast.While):
            return statement.lineno
    return 0


def _importable(listing: FileListing, path: str) -> tuple[str, str]:
    """The folder that a file's module is imported from, and its dotted name."""
    folder, parts = folder_of(path), [path.rpartition("/")[2].removesuffix(".py")]
    while folder != "." and listing.folder_has(folder, "__init__.py"):
        folder, _, name = folder.rpartition("/")
        folder = folder or "."
        parts.insert(0, name)
    return folder, ".".join(parts)


def _above(folder: str) -> Iterator[str]:
    while folder != ".":
        yield folder
        folder = folder_of(folder)
    yield "."


def _made(
    command: str, path: str, text: str, stated: str, source: str, runs: str = ""
) -> CommandCandidate:
    """A candidate that stands where a manifest states a name."""
    words = re.search(rf"^[ \t]*[\"']?{re.escape(stated.strip(chr(34)))}\b", text, re.M)
    at = words.start() if words else max(0, text.find(stated))
    line = line_at(text, at + len(text[at:]) - len(text[at:].lstrip()))
    return CommandCandidate(
        command, folder_of(path), Place(path, line), source, serves(runs or command)
    )


def _stated(command: str, path: str, line: int, source: str) -> CommandCandidate:
    return CommandCandidate(
        command.strip(), folder_of(path), Place(path, line), source, serves(command)
    )


def _object(text: str) -> dict[str, Any]:
    try:
        return _tables(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _tables(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
