"""One step of the wiring of a program in JavaScript or TypeScript: runner, clients, tools.

Its model calls are led to the gateway. A runner reads the task and calls the exported function.
What acts is marked, so that it does not act in a rollout.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from ratchet.wire.changes import Changes, FileChange, LeftAlone, Piece, StepChanges
from ratchet.wire.choices import Choices
from ratchet.wire.entry.adapter import CannotCall
from ratchet.wire.entry.commands import model_variables
from ratchet.wire.entry.javascript_clients import lead_clients
from ratchet.wire.entry.javascript_file import (
    Argument,
    FoundFunction,
    JavascriptFile,
    is_javascript,
    javascript_files,
    read_file,
)
from ratchet.wire.entry.javascript_import_graph import ImportGraph
from ratchet.wire.entry.javascript_marks import JavascriptMarks
from ratchet.wire.entry.javascript_runners import (
    FIRST_LINE,
    RUNNER,
    agent_runner,
    filled,
    graph_runner,
    route_runner,
    web_route,
)
from ratchet.wire.facts import Place, RepositoryLook
from ratchet.wire.looking.files import RepositoryFiles
from ratchet.wire.project_files.package_json import in_package_json

_NAMES = ("ratchet_agent.mjs", "ratchet_run.mjs")
_TSX = "^4.19.0"
_TEXT = re.compile(
    r"question|query|prompt|message|input|text|topic|task|request|content|subject|goal", re.I
)
_TYPED = (".ts", ".tsx", ".mts", ".cts", ".jsx")

_SCRIPT = """\
FIRST_LINE
// Written by ratchet init; change it as you like.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const { input } = JSON.parse(readFileSync(0, "utf8"));
const text = typeof input === "string" ? input : JSON.stringify(input);
const done = spawnSync(process.execPath, [ARGUMENTS], {
  GIVEN,
  stdio: ["pipe", "inherit", "inherit"],
});
process.exit(done.status ?? 1);
"""


def wire_javascript_entry(root: Path, look: RepositoryLook, choices: Choices) -> StepChanges:
    """Have rollouts run a program in JavaScript or TypeScript, with its model calls at the gateway.

    Args:
        root: Folder of the repository.
        look: What was found in it.
        choices: What was decided.

    Returns:
        A runner, pieces where clients are made and in `package.json`, what was left alone, and
        `[agent]`.
    """
    root = root.resolve()
    files = list(javascript_files(root, program_paths(root, look, choices.project)))
    changes: list[FileChange] = []
    left: list[LeftAlone] = []
    for file in files:
        change, others = lead_clients(file)
        changes += [change] if change else []
        left += others
    config: dict[str, Any] = {}
    try:
        config, made, because = _run(root, look, choices, files)
        changes += made
        left += because
    except CannotCall as error:
        why = (
            f"It cannot be run for a task: {error}. Write a program that reads the task's JSON from"
            " standard input and prints the result; name it as [agent] command."
        )
        left.append(LeftAlone(choices.entry.name, choices.entry.place, why))
    used = ImportGraph(files).reached(choices.entry.place.path)
    if choices.run == "command":
        marks = JavascriptMarks(root, look, choices, {one.path: one for one in files})
        marks.mark(used)
        marked, open_ = marks.changes()
        changes += marked
        left += open_
    else:
        left += _acting(look, choices, used)
    joined = Changes.combined([Changes((one,)) for one in changes])
    return StepChanges(Changes(joined.files, tuple(left)), {"agent": config} if config else {})


def _run(
    root: Path, look: RepositoryLook, choices: Choices, files: list[JavascriptFile]
) -> tuple[dict[str, Any], list[FileChange], list[LeftAlone]]:
    entry = choices.entry
    texts = [file.data.decode(errors="replace") for file in files]
    if entry.kind in ("route", "app"):
        return {"url": _service_url(choices, texts), "name": choices.agent}, [], []
    file = read_file(root, entry.place.path)
    project = PurePosixPath(choices.project)
    name = _free(root, project)
    inner = PurePosixPath(file.path).relative_to(project)
    command, made, left = _node(root, choices, inner.suffix in _TYPED)
    config = {"command": f"{command} {name}", "name": choices.agent, **model_variables(look, texts)}
    path = (project / name).as_posix()
    if (root / path).exists():
        return config, made, left
    if entry.kind == "agent":
        content = agent_runner(files, file, entry, inner, _environment_file(root, project))
    elif entry.kind == "graph" and file.function(entry.name) is None:
        content = graph_runner(file, entry, inner, _environment_file(root, project))
    elif web_route(file.path) and entry.name in ("POST", "PUT"):
        content = route_runner(file, entry, inner, _environment_file(root, project))
    elif entry.kind == "script":
        content = _script(file, inner, command)
    else:
        function = file.function(entry.name)
        if function is None:
            raise CannotCall(
                f"{entry.name} is no function of {file.path}, and no method of a class that is made"
                " without arguments"
            )
        if function.export_at is not None:
            if file.is_commonjs:
                raise CannotCall(f"{file.path} does not export {function.owner or entry.name}")
            piece = Piece(function.export_at, function.export_at, "export ")
            made.append(FileChange(file.path, f"Exports {entry.name} for the runner.", (piece,)))
        content = _runner(function, inner, texts, _environment_file(root, project))
    made.append(FileChange(path, "Runs the agent for a task.", content=content))
    return config, made, left


def _runner(
    function: FoundFunction, inner: PurePosixPath, texts: list[str], environment: str
) -> str:
    arguments = function.arguments
    if not arguments:
        raise CannotCall(f"{function.name} takes no input")
    main = next((one for one in arguments if _TEXT.search(one.name)), arguments[0])
    if not main.name.isidentifier():
        raise CannotCall(f"the parameter of {function.name} has no name")
    values, call = "", "input"
    if function.fields or len(arguments) > 1:
        defaults = [_default(one, texts) for one in arguments if one != main and not one.optional]
        shown = ", ".join(one for one in defaults if one)
        whole = f'typeof input === "object" && input !== null ? input : {{ {main.name}: input }}'
        values = f"const values = {{ {shown + ', ' if shown else ''}...({whole}) }};"
        call = "values"
        if not function.fields:
            named = [one.name for one in arguments if one.name.isidentifier()]
            call = ", ".join(f"values.{name}" for name in named)
    return filled(
        RUNNER,
        ENVIRONMENT=environment,
        VALUES=values,
        PATH=json.dumps(f"./{inner}"),
        RUN=_callee(function),
        CALL=call,
    )


def _callee(function: FoundFunction) -> str:
    """The function, in a module that may be of either kind."""
    name = function.owner or function.name
    found = f"module.{name} ?? module.default?.{name}"
    if not function.owner:
        return found
    return f"((agent) => agent.{function.name}.bind(agent))(new ({found})())"


def _default(argument: Argument, texts: list[str]) -> str:
    """A required argument with the value that the program itself falls back to."""
    name = re.escape(argument.name)
    for pattern in (rf"\b{name}\s*=\s*(\d+(?:\.\d+)?)\b", rf"\b{name}\s*:\s*(\d+(?:\.\d+)?)\b"):
        for text in texts:
            if found := re.search(pattern, text):
                return f"{argument.name}: {found.group(1)}"
    for text in texts:  # const breadth = parseInt(…) || 4
        if found := re.search(rf"\b{name}\s*=[^;=]*?(?:\|\||\?\?)\s*(\d+)\b", text, re.DOTALL):
            return f"{argument.name}: {found.group(1)}"
    if not argument.type:
        return ""  # JavaScript calls it with undefined
    if argument.type == "boolean":
        return f"{argument.name}: false"
    if argument.type.endswith("[]") or argument.type.startswith("Array<"):
        return f"{argument.name}: []"
    raise CannotCall(
        f"its argument {argument.name} is required, and the program has no value for it"
    )


def _script(file: JavascriptFile, inner: PurePosixPath, command: str) -> str:
    loader = [f'"{part}"' for part in command.split()[1:]]
    text = file.data.decode(errors="replace")
    shown = ", ".join([*loader, json.dumps(str(inner))])
    if "process.argv" in text or re.search(r"\b(?:yargs|commander|minimist|parseArgs)\b", text):
        return filled(_SCRIPT, ARGUMENTS=f"{shown}, text", GIVEN='input: ""')
    if re.search(r"process\.stdin|readline|prompts?\(|inquirer|readFileSync\(0", text):
        given = "input: `${text}\\n`"
        return filled(_SCRIPT, ARGUMENTS=shown, GIVEN=given)
    raise CannotCall(f"{inner} takes no input: no arguments, and nothing that a person types")


def _node(
    root: Path, choices: Choices, typed: bool
) -> tuple[str, list[FileChange], list[LeftAlone]]:
    """The command that runs a module of the project, and what it needs."""
    if not typed:
        return "node", [], []
    folder = PurePosixPath(choices.project)
    places = [one for one in (folder, *folder.parents) if (root / one / "package.json").is_file()]
    if not places:
        raise CannotCall("there is no package.json, so nothing that runs TypeScript")
    texts = {one: (root / one / "package.json").read_bytes() for one in places}
    if any(b'"tsx"' in text for text in texts.values()):
        return "node --import tsx", [], []
    if any((root / one / lock).is_file() for one in places for lock in ("bun.lock", "bun.lockb")):
        return "bun", [], []
    path = (places[0] / "package.json").as_posix()
    piece = in_package_json(texts[places[0]], "devDependencies", "tsx", _TSX)
    if piece is None:
        raise CannotCall(f"nothing runs TypeScript, and {path} cannot be read")
    lock = next(
        ((name, update) for name, update in _LOCKS.items() if (root / places[0] / name).is_file()),
        None,
    )
    left = []
    if lock is not None:
        why = f"Lock files are not edited. Update it: {lock[1]}"
        left.append(LeftAlone(lock[0], Place((places[0] / lock[0]).as_posix()), why))
    change = FileChange(path, "tsx runs the runner, which imports TypeScript.", (piece,))
    return "node --import tsx", [change], left


_LOCKS = {
    "package-lock.json": "npm install",
    "pnpm-lock.yaml": "pnpm install",
    "yarn.lock": "yarn install",
}


def _environment_file(root: Path, project: PurePosixPath) -> str:
    """Lines that read the file which the project's own scripts name by `--env-file`."""
    manifest = root / project / "package.json"
    if not manifest.is_file():
        return ""
    found = re.search(r"--env-file(?:-if-exists)?[= ]([\w./-]+)", manifest.read_text("utf-8"))
    if found is None:
        return ""
    name = json.dumps(found.group(1))
    return (
        "\n// As the project's own scripts do; what is set already stays.\n"
        f"if (existsSync({name})) process.loadEnvFile?.({name});\n"
    )


def _free(root: Path, project: PurePosixPath) -> str:
    for name in _NAMES:
        file = root / project / name
        if not file.exists() or file.read_text("utf-8", "replace").startswith(FIRST_LINE):
            return name
    raise CannotCall(f"{' and '.join(_NAMES)} exist already")


def _service_url(choices: Choices, texts: list[str]) -> str:
    method, _, path = choices.entry.name.partition(" ")
    if choices.entry.kind != "route" or method not in ("POST", "PUT", "ROUTE"):
        raise CannotCall(f"{choices.entry.name} is no route that takes a POST")
    for text in texts:
        found = re.search(
            r"\b(?:PORT|port)\b[^;\n]{0,30}?(?:\|\||\?\?|=|:)\s*['\"]?(\d{4,5})\b", text
        )
        found = found or re.search(r"\.listen\(\s*(\d{4,5})\b", text)
        if found:
            return f"http://127.0.0.1:{found.group(1)}{path}"
    return f"http://127.0.0.1:3000{path}"


def _acting(look: RepositoryLook, choices: Choices, reached: set[str]) -> list[LeftAlone]:
    """Tools of a service, which is one process for live calls and rollouts: they are not marked."""
    why = (
        "It would act in rollouts: run them where it can do no harm, or wrap it in"
        " tool(…, { sideEffects: true }) of the npm package agent-ratchet."
    )
    found: dict[str, LeftAlone] = {}
    for one in look.side_effects:
        name = one.tool or one.within or one.what
        if one.acts and one.place.path in reached and name not in choices.may_run:
            found.setdefault(name, LeftAlone(f"{name} ({one.kind})", one.place, why))
    return list(found.values())


def program_paths(root: Path, look: RepositoryLook, project: str) -> list[str]:
    """The project's own files of JavaScript and TypeScript that are not tests."""
    prefix = "" if project == "." else f"{project}/"
    passed = {one.path.rstrip("/") for one in look.left_out}
    return [
        path
        for path in RepositoryFiles(root).paths
        if path.startswith(prefix)
        and is_javascript(path)
        and not path.endswith(".d.ts")
        and not re.search(
            r"(?:^|/)(?:node_modules|dist|build|tests?|__tests__)/|\.(?:test|spec)\.", path
        )
        and not any(path == one or path.startswith(f"{one}/") for one in passed)
    ]
