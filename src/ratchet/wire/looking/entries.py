"""Ways into an agent: the functions, graphs, crews, routes and scripts that run it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import cast

import msgspec

from ratchet.wire.facts import EntryKind, EntryPoint, Place
from ratchet.wire.looking.agents import find_agents
from ratchet.wire.looking.apps import find_apps
from ratchet.wire.looking.files import RepositoryFiles
from ratchet.wire.looking.former_frameworks import framework_of
from ratchet.wire.looking.input_sites import InputSite
from ratchet.wire.looking.manifests import project_of
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.reach import uncalled
from ratchet.wire.looking.start_commands import StartCommand, find_start_commands
from ratchet.wire.looking.syntax import (
    AttributeUse,
    CodeScope,
    Invocation,
    NameUse,
    ScopeValue,
    TextValue,
    chain_of,
    last_name,
)

_ROUTES = {"get", "post", "put", "patch", "delete", "route", "websocket", "api_route", "all", "use"}
_PROGRAMS = {".js": "node", ".mjs": "node", ".cjs": "node", ".ts": "npx tsx", ".mts": "npx tsx"}
_COMMANDS = ("Typer", "Group", "App", "Cyclopts")
"""Classes of programs made of commands."""
MOST = 40
"""Entries of one project."""
SERVED = 0.75
"""Confidence in a tool of a server."""
_SERVING = re.compile(r"^(?:mcp|fastmcp)\.\S*MCP\.tool$")
LEADING = 0.15
"""How much more likely a function is the way in that leads to the most others, in JavaScript."""
UNCALLED = 0.3
"""How much less likely a method is the way in that the program has and never calls."""
_FLAG = re.compile(r":\s*(?:Optional\[\s*)?bool\b|=\s*(?:True|False)$")
"""Parameters that switch something: they take no task."""
_RUNS_GRAPH = re.compile(r"\bStateGraph\S*\.compile\.\w+$")
"""Calls that run a compiled graph."""
_MODELS = re.compile(r"\.(?:Base)?(?:Chat[A-Z]\w*|LLM|SimpleChatModel|CustomLLM|\w+Middleware)$")
"""Classes of models, and of middleware around them."""
_Key = tuple[str, str]
"""Path and dotted name of a function."""


def find_entries(
    names: Names,
    sites: list[InputSite],
    live: frozenset[str],
    files: RepositoryFiles,
    tools: frozenset[Place] = frozenset(),
    prompts: frozenset[str] = frozenset(),
) -> list[EntryPoint]:
    """Ways into the agent, the likeliest first.

    Args:
        names: Names of the program.
        sites: Calls that give text to a model.
        live: Files that belong to the agent.
        files: The repository's files.
        tools: Its tools; they are no ways in.
        prompts: Files with prompts. What leads to none of them only passes text on to a model.
    """
    found: dict[tuple[str, str], EntryPoint] = {}
    served = _served(names, live)
    for one in _declared(names, files):
        found.setdefault((one.place.path, one.name), one)
    reached = Counter(
        {
            key: sum(site.place.path in loaded for site in sites)
            for key in found
            for loaded in (names.program.closure([key[0]]),)
        }
    )
    called: dict[_Key, set[_Key]] = defaultdict(set)
    made: dict[_Key, _Key] = {}
    for site in sites:
        if site.what.runs:
            for one, key in _from_site(names, site, live, called):
                made[one.place.path, one.name] = key
                if one.place in served:
                    one = msgspec.structs.replace(one, confidence=SERVED)
                if one.place not in tools or one.place in served:
                    known = found.get((one.place.path, one.name))
                    better = known is not None and known.kind == one.kind
                    if known is None or (better and known.confidence < one.confidence):
                        found[one.place.path, one.name] = one
                    reached[one.place.path, one.name] += 1
    for agent in find_agents(names, sites, live):
        found.setdefault((agent.place.path, agent.name), agent)
    for one in find_apps(names, live, {site.place.path for site in sites}):
        known = found.get((one.place.path, one.name))
        if known is None or known.kind == "script":
            found[one.place.path, one.name] = one
    for command in find_start_commands(files):
        _started(names, command, found, live, {site.place.path for site in sites})
    scripts = {
        key: len(_below(key, called))
        for key, one in found.items()
        if one.kind == "function" and one.inputs and not one.place.path.endswith((".py", ".ipynb"))
    }
    for key, count in scripts.items():  # what leads to others is further out
        raised = min(0.95, found[key].confidence + LEADING * count / (max(scripts.values()) or 1))
        found[key] = msgspec.structs.replace(found[key], confidence=round(raised, 2))
    running = {
        (one.place.path, one.name.rpartition(".")[0])
        for one in found.values()
        if one.kind == "function" and one.inputs and _RUNS_GRAPH.search(one.reason.split(" at ")[0])
    }
    for key, one in found.items():
        if one.kind == "graph" and key in running:  # a method of the object runs the graph
            lower = round(one.confidence - 0.2, 2)
            found[key] = msgspec.structs.replace(one, confidence=lower)
    for key, one in found.items():
        if one.kind == "function" and uncalled(names, one.place, frozenset()):
            lower = round(one.confidence - UNCALLED, 2)
            found[key] = msgspec.structs.replace(one, confidence=lower)
    for key, one in found.items():
        plain = one.kind == "function" and one.place.path.endswith(".py")
        if plain and prompts and not prompts & names.program.closure([one.place.path]):
            lower = round(one.confidence - 0.4, 2)
            found[key] = msgspec.structs.replace(one, confidence=lower)

    def below(one: EntryPoint) -> int:
        key = one.place.path, one.name
        return len(_below(made.get(key, key), called))

    # Of those that are as likely, the outermost: it leads to the most calls, by the most functions.
    ordered = sorted(
        found.values(),
        key=lambda one: (
            -round(one.confidence, 4),
            -reached[one.place.path, one.name],
            -below(one),
            one.place,
        ),
    )
    counts = Counter[str]()
    kept = []
    for entry in ordered:
        project = project_of(files, entry.place.path)
        counts[project] += 1
        if counts[project] <= MOST:
            kept.append(entry)
    return kept


def _served(names: Names, live: frozenset[str]) -> set[Place]:
    """Tools that a server hands to any client: each is a way in."""
    return {
        Place(module.path, scope.line)
        for module in names.program.modules
        if module.path in live
        and any(one.module.split(".")[0] in ("mcp", "fastmcp") for one in module.imports)
        for scope in module.scope.walk()
        for decorator in scope.decorators
        for one in names.meanings(
            decorator.function if isinstance(decorator, Invocation) else decorator,
            scope.parent or scope,
        )
        if _SERVING.search(one.outside)
    }


def _started(
    names: Names,
    command: StartCommand,
    found: dict[tuple[str, str], EntryPoint],
    live: frozenset[str],
    calling: set[str],
) -> None:
    """Raise the confidence of an entry that a command starts, or add it."""
    key = (command.target, command.name or command.target)
    reason = f"started by {command.place}: {command.command}"
    known = found.get(key)
    if known is not None:
        found[key] = msgspec.structs.replace(
            known, confidence=0.97, reason=f"{known.reason}; {reason}"
        )
        return
    module = names.program.module(command.target) if command.target in live else None
    if module is None or not calling & names.program.closure([command.target]):
        return
    line, kind, confidence = 1, "script", 0.9
    if command.name:
        scripted = command.place.path.endswith("pyproject.toml")
        if scripted and any(path == command.target for path, _ in found):
            return  # another function of that file leads to a model; this one was not seen to
        bounds = module.scope.bindings.get(command.name)
        if not bounds:
            return  # the command names what is not there
        line = bounds[-1].line
        made = bounds[-1].value
        commands = isinstance(made, Invocation) and last_name(made.function) in _COMMANDS
        kind, confidence = "app", 0.9
        if scripted:
            kind, confidence = "program", 0.85 if commands else 0.6
    found[key] = EntryPoint(
        command.name or command.target,
        cast(EntryKind, kind),
        Place(command.target, line),
        command.command,
        (),
        "",
        next(iter(names.program.frameworks_of(module)), ""),
        confidence,
        reason,
    )


def _declared(names: Names, files: RepositoryFiles) -> Iterator[EntryPoint]:
    """Graphs that `langgraph.json` names."""
    for path in files.named("langgraph.json"):
        try:
            graphs = msgspec.json.decode((files.text(path) or "").encode(), type=dict)["graphs"]
            targets = [one if isinstance(one, str) else one["path"] for one in graphs.values()]
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, msgspec.ValidationError):
            continue
        for target in targets:
            file, _, name = target.partition(":")
            where = f"{path.rpartition('/')[0]}/{file.removeprefix('./')}".lstrip("/")
            module = names.program.module(where) if where in files.known else None
            line = 1
            if module is not None and name in module.scope.bindings:
                line = module.scope.bindings[name][-1].line
            call = f"{name}.invoke(…)"
            yield EntryPoint(
                name,
                "graph",
                Place(where, line),
                call,
                (),
                "",
                "langgraph",
                0.99,
                f"named in {path}",
            )


def _is_model(base: str) -> bool:
    """Whether a class of a framework is a model's, or of what stands around one: no agent."""
    return bool(framework_of(base)) and _MODELS.search(base) is not None


def _below(key: _Key, called: Mapping[_Key, set[_Key]]) -> set[_Key]:
    """Functions on the way from one to a model, without it."""
    found: set[_Key] = set()
    waiting = [key]
    while waiting:
        more = called.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found - {key}


def _from_site(
    names: Names, site: InputSite, live: frozenset[str], called: dict[_Key, set[_Key]]
) -> Iterator[tuple[EntryPoint, _Key]]:
    seen: set[int] = set()
    waiting: list[tuple[CodeScope, int]] = [(site.scope, 0)]
    while waiting:
        scope, depth = waiting.pop(0)
        if id(scope) in seen or scope.module.path not in live or depth > 6:
            continue
        seen.add(id(scope))
        callers = [] if scope.kind == "module" else [one for _, one in names.calls.of(scope)]
        inner = scope.name in ("", "lambda") or (
            scope.name in ("execute", "constructor") and scope.module.language == "JavaScript"
        )  # a function without a name, one that a step or tool holds, or one that makes an object
        owner = scope.method_of
        wraps = owner is not None and any(map(_is_model, names.classes.outside_bases(owner)))
        if (scope.kind == "module" or not inner or _route(scope)) and not wraps:
            entry = _entry(scope, site, depth, bool(callers))
            yield entry, _key(scope)
        if (
            scope.kind == "function"
            and scope.parent is not None
            and scope.parent.kind == "function"
        ):
            waiting.append((scope.parent, depth + 1))
        for one in callers:
            called[_key(one)].add(_key(scope))
            waiting.append((one, depth + 1))


def _key(scope: CodeScope) -> _Key:
    """Of a function within another, that of the outer one."""
    while scope.parent is not None and scope.parent.kind == "function":
        scope = scope.parent
    return scope.module.path, scope.dotted


def _entry(scope: CodeScope, site: InputSite, depth: int, called: bool) -> EntryPoint:
    route = _route(scope)
    inputs = tuple(p.shown for p in scope.parameters if p.name not in ("self", "cls") and p.shown)
    name, line = scope.dotted.removesuffix(".__init__"), scope.line
    kind: EntryKind = "function"
    call = f"{'await ' if scope.asynchronous else ''}{name}({', '.join(inputs)})"
    takes = any(not _FLAG.search(one) for one in inputs)
    confidence = 0.8 if takes and not scope.name.startswith("_") else 0.6
    if scope.kind == "module":
        kind, name, line = (
            "notebook" if scope.module.notebook else "script",
            scope.module.path,
            site.invocation.line if not depth else 1,
        )
        path = scope.module.path
        call, confidence = f"{_PROGRAMS.get(PurePosixPath(path).suffix, 'python')} {path}", 0.7
        if kind == "notebook":
            call = f"the notebook {path}"
    elif route:
        kind, name, call, confidence = "route", route, route, 0.9
    elif site.what.symbol == "compile" and (
        site.scope.name != "__init__"
        or not depth  # an object that holds its graph, or what gives one back
        or any(isinstance(one, (AttributeUse, NameUse)) for one in scope.returns)
    ):
        kind = "graph"
        call, confidence = f"{name}(…)", 0.9
    elif "kickoff" in site.what.symbol:
        kind = "crew"
    if kind in ("function", "script") and _RUNS_GRAPH.search(site.callee):
        confidence += 0.1  # what stands in the graph's nodes is further in
    if any("guardrail" in chain_of(one) for one in scope.decorators):
        confidence = 0.4
    if called and kind == "function":
        confidence -= 0.1
    nested = scope.parent is not None and scope.parent.kind == "function"
    if kind in ("function", "graph") and nested:
        confidence -= 0.3  # it can only be called from within
    reason = f"it leads to {site.callee} at {site.place}"
    return EntryPoint(
        name,
        kind,
        Place(scope.module.path, line),
        call,
        inputs,
        scope.returned_shown,
        site.framework,
        confidence,
        reason,
    )


def _route(scope: CodeScope) -> str:
    """`POST /chat`, if a function serves that; or empty."""
    for decorator in scope.decorators:
        if isinstance(decorator, Invocation) and last_name(decorator.function) in _ROUTES:
            first = next(iter(decorator.arguments), None)
            if isinstance(first, TextValue) and "." in chain_of(decorator.function):
                return f"{last_name(decorator.function).upper()} {first.value}"
    if scope.name in ("", "lambda") and scope.parent is not None:
        # app.post("/chat", async (request, response) => …)
        for call in scope.parent.invocations:
            first = next(iter(call.arguments), None)
            if (
                isinstance(call.function, AttributeUse)
                and call.function.name in _ROUTES
                and isinstance(first, TextValue)
                and first.value.startswith("/")
                and any(
                    isinstance(one, ScopeValue) and one.scope is scope for one in call.arguments
                )
            ):
                return f"{call.function.name.upper()} {first.value}"
    return ""
