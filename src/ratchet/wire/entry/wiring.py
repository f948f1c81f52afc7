"""One step of the wiring: the adapter, `ratchet.init()`, and the tools that act."""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from ratchet.wire.changes import Changes, FileChange, LeftAlone, StepChanges
from ratchet.wire.choices import Choices, RunWay
from ratchet.wire.entry.adapter import AgentAdapter, CannotCall, adapter_source
from ratchet.wire.entry.calling import adapter_of
from ratchet.wire.entry.commands import command_source, model_variables, service_url
from ratchet.wire.entry.init_calls import add_init
from ratchet.wire.entry.javascript import wire_javascript_entry
from ratchet.wire.entry.javascript_file import is_javascript
from ratchet.wire.entry.modules import Modules, acts_at_import
from ratchet.wire.entry.pages import call_page
from ratchet.wire.entry.python_file import dotted
from ratchet.wire.entry.service_app import find_app
from ratchet.wire.entry.side_effects import Marks
from ratchet.wire.entry.site import Site
from ratchet.wire.facts import RepositoryLook

_NAMES = ("ratchet_agent.py", "ratchet_entry.py", "run_for_ratchet.py")


def wire_entry(root: Path, look: RepositoryLook, choices: Choices) -> StepChanges:
    """Have rollouts run the agent, tracing start with it, and nothing act in rollouts.

    Args:
        root: Folder of the repository.
        look: What was found in it.
        choices: What was decided.

    Returns:
        New files and pieces of files, what was left alone with the reason, and `[agent]`.
    """
    if is_javascript(choices.entry.place.path):
        return wire_javascript_entry(root, look, choices)
    modules = Modules(root, choices.project)
    files: list[FileChange] = []
    left: list[LeftAlone] = []
    config: dict[str, Any] = {}
    used = [choices.entry.place.path]
    ways = dict.fromkeys([choices.run, *_OTHERS[choices.run]])
    reasons: list[LeftAlone] = []
    if choices.entry.kind == "notebook":
        ways = {}
        reasons = [LeftAlone(choices.entry.name, choices.entry.place, _NOTEBOOK)]
    for way in ways:
        try:
            config, made, imported = _run(way, look, modules, choices)
        except CannotCall as error:
            said = f"It cannot be run as a {_SHOWN[way]}: {error}."
            said += f" {_LINES[way]}" if way == choices.run else ""
            reasons.append(LeftAlone(choices.entry.name, choices.entry.place, said))
            continue
        files += made
        used += imported
        break
    left += reasons
    marks = Marks(look, modules, choices)
    marks.mark(set(_reached(modules, used)))
    programs, without = add_init(look, modules, choices)
    files += [*marks.changes(), *programs]
    left += [*marks.left, *without]
    changes = Changes.combined([Changes((one,)) for one in files])
    return StepChanges(Changes(changes.files, tuple(left)), {"agent": config} if config else {})


def task_inputs(look: RepositoryLook, choices: Choices, modules: Modules) -> tuple[str, ...]:
    """What a task gives to the function that will call the entry, as it is declared.

    That of a command or a service is not known: none.

    Args:
        look: What was found in the repository.
        choices: What was decided.
        modules: Those of the project; reading them takes the most of the time.

    Raises:
        CannotCall: The entry cannot be run in the way that was chosen; the message says why.
    """
    site = Site(look, modules, choices, choices.entry)
    if choices.run == "service":
        service_url(site)
    elif choices.run == "command":
        command_source(site)
    else:
        return _adapter(modules, site).parameters
    return ()


def way_to_run(
    look: RepositoryLook, choices: Choices, modules: Modules
) -> tuple[RunWay | None, str]:
    """The first way in which the entry can be run, if any, and why not as was chosen."""
    why = ""
    for way in (choices.run, *_OTHERS[choices.run]):
        try:
            task_inputs(look, msgspec.structs.replace(choices, run=way), modules)
        except CannotCall as error:
            why = why or f"{choices.entry.name} cannot be called as a {_SHOWN[way]}: {error}."
            continue
        return way, why
    return None, why


_SHOWN: dict[RunWay, str] = {"python": "function", "command": "command", "service": "service"}
_OTHERS: dict[RunWay, tuple[RunWay, ...]] = {
    "python": ("command", "service"),
    "command": ("python",),
    "service": ("python",),
}
_NOTEBOOK = (
    "No task can run a notebook. Move the cells that make the agent into a module, with a function"
    " that takes a task's text and returns the answer; then run ratchet init again."
)
_LINES: dict[RunWay, str] = {
    "python": "Write ratchet_agent.py with one @ratchet.agent function that takes a task's input,"
    " calls the agent and returns its output.",
    "command": "Write a program that reads the task's JSON from standard input and prints the"
    " output; name it as [agent] command.",
    "service": 'Give the service a POST route that takes {"input": …} and returns the output; name'
    " it as [agent] url.",
}


def _run(
    way: RunWay, look: RepositoryLook, modules: Modules, choices: Choices
) -> tuple[dict[str, Any], list[FileChange], list[str]]:
    """Tables of `[agent]`, new files, and the project's files that they import."""
    project = PurePosixPath(choices.project)
    if not choices.entry.place.path.endswith(".py"):
        if way != "command":
            raise CannotCall(f"{choices.entry.place.path} is not Python")
        raise CannotCall("how a program in another language takes its input is not known")
    site = Site(look, modules, choices, choices.entry)
    if way == "service":
        url = service_url(site)
        app = find_app(modules, site.file.path)  # what else it imports runs, too
        return {"url": url, "name": choices.agent}, [], [app.path] if app else []
    if way == "command":
        texts = [file.data.decode(errors="replace") for file in _files(modules, site)]
        path = _free(modules, project, command=True)
        content = None if path[1] else command_source(site)
        config = {
            "command": f"python {PurePosixPath(path[0]).name}",
            "name": choices.agent,
            **model_variables(look, texts),
        }
        made = FileChange(path[0], "Gives a task to the program.", content=content)
        return config, [made] if content else [], [site.file.path]
    path = _free(modules, project)
    adapter = _adapter(modules, site)
    used = [*adapter.used, *adapter.runs]
    folders = modules.folders(used)
    name = path[1] or adapter.name
    config = {"entry": f"{PurePosixPath(path[0]).stem}:{name}"}
    if folders != ["."]:
        config["path"] = folders
    if path[1]:
        return config, [], used
    adapter = _with_environment(modules, site, adapter)
    content = adapter_source(adapter, _local(modules, folders))
    return (
        config,
        [FileChange(path[0], "Runs the agent for a task.", content=content)],
        used,
    )


def _adapter(modules: Modules, site: Site) -> AgentAdapter:
    """The function that calls the entry, else one that uses the page that leads to it.

    Raises:
        CannotCall: There is neither; the message is that of the function.
    """
    try:
        adapter = adapter_of(site)
        _refuse_acting_imports(modules, adapter)
    except CannotCall as error:
        try:
            return call_page(site)
        except CannotCall:
            raise error from None
    return adapter


def _refuse_acting_imports(modules: Modules, adapter: AgentAdapter) -> None:
    for path in adapter.used:
        if not all(part.isidentifier() for part in modules.name_of(path).split(".")):
            name = PurePosixPath(path).name
            raise CannotCall(
                f"no import statement can name {name}; give it a name of letters, digits and"
                " underscores that begins with a letter"
            )
    for path in _reached(modules, list(adapter.used)):
        file = modules.file(path)
        line = acts_at_import(file) if file else 0
        if line:
            raise CannotCall(
                f"importing {path} runs it; put what stands at line {line} below"
                ' `if __name__ == "__main__":`'
            )


def _files(modules: Modules, site: Site) -> list[Any]:
    found = (modules.file(one) for one in modules.closure(site.file.path))
    return [one for one in found if one is not None]


def _free(modules: Modules, project: PurePosixPath, *, command: bool = False) -> tuple[str, str]:
    """A path for the new file, and the function of an adapter that is there already, or empty."""
    names = ("ratchet_command.py", "ratchet_task.py") if command else _NAMES
    for name in names:
        path = (project / name).as_posix()
        if not (modules.root / path).exists():
            return path, ""
        file = modules.file(path)
        if file is None:
            continue
        if command and '"""Gives one task of Ratchet' in file.data.decode(errors="replace"):
            return path, "program"
        for found, function in file.functions():
            if any(dotted(one) == "ratchet.agent" for one in function.decorator_list):
                return path, found
    raise CannotCall(f"{' and '.join(names)} exist already")


def _reached(modules: Modules, used: list[str]) -> list[str]:
    """The files that an adapter's imports lead to."""
    return list(dict.fromkeys(one for path in used for one in modules.closure(path)))


def _local(modules: Modules, folders: list[str]) -> frozenset[str]:
    names = set()
    for folder in folders:
        at = modules.root / modules.project / folder
        names |= {one.stem for one in at.glob("*.py")}
        names |= {one.name for one in at.iterdir() if one.is_dir()}
    return frozenset(names)


def _with_environment(modules: Modules, site: Site, adapter: AgentAdapter) -> AgentAdapter:
    """Read `.env` before the project's imports, where only its programs do that."""
    if any(_reads_environment(modules, one) for one in _reached(modules, list(adapter.used))):
        return adapter
    programs = [
        one
        for one in modules.paths
        if _reads_environment(modules, one) and site.file.path in modules.closure(one)
    ]
    if not programs:
        return adapter
    imports = ("from dotenv import load_dotenv", *adapter.imports)
    return msgspec.structs.replace(adapter, imports=imports, early=("load_dotenv()",))


def _reads_environment(modules: Modules, path: str) -> bool:
    file = modules.file(path)
    return file is not None and any(
        isinstance(one, ast.Call) and dotted(one.func).rpartition(".")[2] == "load_dotenv"
        for one in ast.walk(file.tree)
    )
