"""Looks at a repository: reads it, and runs and imports nothing of it."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from ratchet.wire.facts import (
    FrameworkUse,
    Manifest,
    ModelCallSite,
    PassedOver,
    Place,
    ProjectMember,
    PromptSite,
    RepositoryLook,
)
from ratchet.wire.looking.effects import find_effects, find_tools
from ratchet.wire.looking.entries import find_entries
from ratchet.wire.looking.files import RepositoryFiles
from ratchet.wire.looking.former_frameworks import FRAMEWORKS, RANK, SDKS, framework_of
from ratchet.wire.looking.input_sites import InputSite, input_sites
from ratchet.wire.looking.manifests import find_manifests, project_of
from ratchet.wire.looking.names import Names
from ratchet.wire.looking.program import MAX_MODULES, Program
from ratchet.wire.looking.project_tests import find_tests
from ratchet.wire.looking.prompts import PromptFinder
from ratchet.wire.looking.reach import uncalled, unreached
from ratchet.wire.looking.secret_names import find_secrets
from ratchet.wire.looking.syntax import CodeModule, last_name
from ratchet.wire.looking.task_data import find_task_data
from ratchet.wire.looking.tracing import find_tracing

_INDEXING = re.compile(
    r"from_documents|from_texts|add_documents|add_texts"
    r"|upsert(?:_(?:documents|points|vectors|records))?$|executemany|insert_many|persist"
)
_JUDGING = re.compile(
    r"^(?:azure\.ai\.evaluation|ragas|deepeval|openevals|agentevals|autoevals|langsmith\.evaluation"
    r"|langchain\.evaluation|phoenix\.evals|llama_index\.core\.evaluation|promptflow\.evals|trulens\w*"
    r"|dspy\.evaluate|pydantic_evals|inspect_ai|giskard|evaluate)(?:\.|$)"
)
"""Modules of libraries that judge what an agent said."""
_SERVERS = ("FastAPI", "Flask", "APIRouter", "Blueprint", "Starlette", "Quart", "Sanic", "FastMCP")
"""Classes of what answers requests: such a module is no script."""
_CLIENTS = SDKS - {"prompty", "instructor", "azure-ai"}
"""Clients of models alone; the others hold prompts or agents too."""
_LOADING = re.compile(
    r"splitter|[Ll]oader|[Dd]ocument|vectorstore|[Ee]mbedding|node_parser|readers?\.|\.schema\."
    r"|storage"
)
"""Parts of a framework that load, split and find documents."""
_PUSHING = {"push_prompt", "create_prompt"}
_RUNNING = {"invoke", "ainvoke", "stream", "astream", "run", "create", "FastAPI", "Flask"}
_WHOLE = re.compile(r"(?:^|/)(?:run_)?eval(?:s|uate|uation)?\.\w+$")
_VERSIONED = re.compile(r"(?:^|[-_. ])v\d+$", re.IGNORECASE)


def look(root: Path | str) -> RepositoryLook:
    """Look at a repository.

    Files of environment variables and other secrets are never opened; git is not run.

    Args:
        root: Its folder.

    Raises:
        InputError: It is no folder, or too large.
    """
    begin = time.monotonic()
    files = RepositoryFiles(Path(root))
    program = Program(files)
    for path in program.select():
        program.module(path)
    if not program.truncated:
        program.closure([module.path for module in program.modules])
    names = Names(program)
    sites = list(input_sites(names))
    dead = _dead(names, sites)
    found = PromptFinder(names).find(sites)
    prompts, left = _divided(names, found, dead)
    live_sites = [site for site in sites if site.place.path not in dead]
    used = {site.place.path for site in live_sites}
    read = frozenset(module.path for module in program.modules)
    live = read - dead.keys() if live_sites else frozenset()
    manifests = find_manifests(files)
    called = Counter(site.framework for site in live_sites if site.what.runs)
    sure = Counter(one.what.framework for one in live_sites if one.what.runs)
    frameworks = _frameworks(program, live, used, called, sure, manifests)
    tools = list(find_tools(names, live))
    given = frozenset(tool.place for tool, _ in tools)
    texts = frozenset(
        place.path
        for one in prompts
        for place in (one.place, *(one.reaches if not one.place.line else ()))
    )
    entries = tuple(find_entries(names, live_sites, live, files, given, texts))
    members = _members(files, live_sites, prompts, entries)
    return RepositoryLook(
        root=str(files.root),
        git=files.git,
        files=len(files.paths),
        languages=files.languages(),
        manifests=manifests,
        monorepo=len(members) > 1,
        members=members,
        frameworks=frameworks,
        entries=entries,
        model_calls=tuple(_model_call(site) for site in live_sites if site.what.runs),
        prompts=tuple(one for one in prompts if one.kind != "framework default"),
        prompts_left_out=left,
        framework_prompts=tuple(one for one in prompts if one.kind == "framework default"),
        tools=tuple(tool for tool, _ in tools),
        side_effects=tuple(sorted(find_effects(names, live, tools), key=lambda one: one.place)),
        secrets=tuple(find_secrets(names, files, live)),
        tests=tuple(find_tests(files, manifests)),
        tracing=tuple(find_tracing(names, files, manifests, dead, live)),
        task_data=tuple(find_task_data(files, program, dead)),
        left_out=(*files.left_out, *_beyond(program)),
        unreadable=tuple(PassedOver(path, why) for path, why in sorted(files.unreadable.items())),
        looked_for=() if live_sites else tuple(one.name for one in FRAMEWORKS),
        seconds=round(time.monotonic() - begin, 2),
    )


def _beyond(program: Program) -> list[PassedOver]:
    if not program.truncated:
        return []
    return [PassedOver(".", f"more than {MAX_MODULES:,} files of code: the others were not parsed")]


def _dead(names: Names, sites: list[InputSite]) -> dict[str, str]:
    """Files that are not the agent's, with the reason."""
    program = names.program
    dead: dict[str, str] = {}
    for module in program.modules:
        standing = program.standing(module.path)
        if standing.kind != "own":
            dead[module.path] = f"{standing.kind}: {standing.reason}"
    _revive(program, dead)
    calling = {site.place.path for site in sites}
    if not calling - dead.keys():
        # The only agent may well stand in a folder of examples.
        dead = {path: why for path, why in dead.items() if not why.startswith("example")}
    scripts = [path for path in calling - dead.keys() if not path.endswith(".ipynb")]
    for path in calling - dead.keys():
        if path.endswith(".ipynb") and scripts:
            dead[path] = "example: a notebook beside the program"
    tops = {path.split("/")[0] for path in scripts}
    for path in [one for one in scripts if "/" in one]:
        top = path.split("/")[0]
        if _VERSIONED.search(top) and len(tops) > 1:
            outer = {
                loaded
                for module in program.modules
                if not module.path.startswith(top + "/")
                for loaded in program.loads(module)
            }
            if not any(one.startswith(top + "/") for one in outer):
                for module in program.modules:
                    if module.path.startswith(top + "/"):
                        dead[module.path] = (
                            f"legacy: an older version, imported by nothing outside of {top}/"
                        )
    loaded = {path for module in program.modules for path in program.loads(module)}
    for module in program.modules:
        if module.path not in loaded and module.path not in dead and _only_pushes(module):
            dead[module.path] = "upload: a script that pushes prompts to a hub, imported by nothing"
    indexing = [
        module.path
        for module in program.modules
        if module.path not in loaded and module.path not in dead and _fills_index(module)
    ]
    if set(scripts) - set(indexing) - dead.keys():
        for path in indexing:
            dead[path] = "index: a script that fills an index, imported by nothing"
    for path, what in _only_templates(sites).items():
        held = program.module(path)
        unused = held is not None and not held.scope.guarded and path not in loaded
        if unused and path not in dead and path in scripts and len(calling - dead.keys()) > 1:
            dead[path] = f"unused: it makes a {what}, and nothing imports it"
    return dead


def _only_templates(sites: list[InputSite]) -> dict[str, str]:
    """Files whose only calls make templates of prompts, with the first of them."""
    symbols: dict[str, list[str]] = defaultdict(list)
    for site in sites:
        symbols[site.place.path].append(site.what.symbol)
    return {
        path: found[0].partition(".")[0]
        for path, found in symbols.items()
        if all("Template" in one or "Message" in one for one in found)
    }


def _revive(program: Program, dead: dict[str, str]) -> None:
    """Take back that modules are evaluations which the agent itself imports: `evaluator_agent.py`.

    And what judges the code that a model wrote: `eval/local_runner.py`. Not of one that evaluates
    the whole.
    """
    named = {
        path
        for path, why in dead.items()
        if why.startswith("evaluation: it") and not _WHOLE.search(path)
        if not _judges(program, path)
    }
    waiting = [module for module in program.modules if module.path not in dead]
    while waiting:
        for path in program.loads(waiting.pop()) & named & dead.keys():
            del dead[path]
            module = program.module(path)
            waiting += [module] if module is not None else []


def _judges(program: Program, path: str) -> bool:
    module = program.module(path)
    return module is not None and any(
        _JUDGING.search(one.module) and program.resolve(module, one) is None
        for one in module.imports
    )


def _only_pushes(module: CodeModule) -> bool:
    called = {last_name(call.function) for one in module.scope.walk() for call in one.invocations}
    return not _PUSHING.isdisjoint(called) and _RUNNING.isdisjoint(called)


def _fills_index(module: CodeModule) -> bool:
    calls = [call for scope in module.scope.walk() for call in scope.invocations]
    if any(last_name(call.function) in _SERVERS for call in calls):
        return False
    if any(_INDEXING.search(last_name(call.function)) for call in calls):
        return True
    embeds = any("embed" in name.lower() for scope in module.scope.walk() for name in scope.used)
    return embeds and re.search(r"\bINSERT\s+INTO\b", module.text, re.IGNORECASE) is not None


def _divided(
    names: Names, found: list[PromptSite], dead: dict[str, str]
) -> tuple[tuple[PromptSite, ...], tuple[PromptSite, ...]]:
    """Prompts that reach a live call, and the others with the reason."""
    kept, left = [], []
    files = frozenset(dead)
    for one in found:
        reasons = [
            dead.get(place.path, "") or unreached(names.program, place, dead)
            for place in one.reaches
        ]
        own = dead.get(one.place.path, "")
        if not own and (method := uncalled(names, one.place, files)):
            own = f"unused: no code calls {method}"
        if own or all(reasons):
            reason = own or reasons[0]
            left.append(msgspec.structs.replace(one, reason=reason))
        else:
            kept.append(one)
    return tuple(kept), tuple(left)


def _model_call(site: InputSite) -> ModelCallSite:
    return ModelCallSite(
        site.callee,
        site.framework,
        site.place,
        site.scope.dotted,
        0.95 if site.what.framework else 0.7,
        f"{site.callee} runs a model or an agent",
    )


def _frameworks(
    program: Program,
    live: frozenset[str],
    used: set[str],
    called: Counter[str],
    sure: Counter[str],
    manifests: tuple[Manifest, ...],
) -> tuple[FrameworkUse, ...]:
    """Frameworks that are used, an agent's before clients; of clients, those called most first.

    Calls of the client itself count before those of wrappers, whose client is guessed.
    """
    counts: dict[str, list[Place]] = defaultdict(list)
    for module in program.modules:
        if module.path in live:
            for name, line in program.frameworks_of(module).items():
                counts[name].append(Place(module.path, line))
    found = []
    # One that only loads and splits documents counts after all that a model is called through.
    loading = {name for name in counts if _only_loads(program, live, name)}
    first = min(RANK[one] for one in _CLIENTS)

    def order(name: str) -> tuple[bool, int, int, int, int]:
        rank = first if name in _CLIENTS else RANK[name]
        return name in loading and name not in called, rank, -sure[name], -called[name], RANK[name]

    for name in sorted(counts, key=order):
        made_elsewhere = name in called  # by a client that another module makes
        if name in SDKS and not (
            made_elsewhere or any(place.path in used for place in counts[name])
        ):
            continue
        places = sorted(counts[name])
        found.append(
            FrameworkUse(
                name,
                _version(name, manifests),
                places[0],
                len(places),
                0.95,
                f"imported at {places[0]}",
            )
        )
    return tuple(found)


def _only_loads(program: Program, live: frozenset[str], framework: str) -> bool:
    imported = [
        f"{one.module}.{one.name}"
        for module in program.modules
        if module.path in live
        for one in module.imports
        if framework_of(one.module) == framework and program.resolve(module, one) is None
    ]
    return bool(imported) and all(_LOADING.search(one) for one in imported)


def _version(name: str, manifests: tuple[Manifest, ...]) -> str:
    framework = next(one for one in FRAMEWORKS if one.name == name)
    for manifest in manifests:
        for wanted in (*framework.distributions, *framework.javascript):
            if wanted in manifest.dependencies:
                return manifest.dependencies[wanted]
    return ""


def _members(
    files: RepositoryFiles,
    sites: list[InputSite],
    prompts: tuple[PromptSite, ...],
    entries: tuple[object, ...],
) -> tuple[ProjectMember, ...]:
    found: dict[str, set[str]] = defaultdict(set)
    for site in sites:
        found[project_of(files, site.place.path)].add(site.framework)
    members = []
    for folder, frameworks in sorted(found.items()):
        own = [one for one in prompts if project_of(files, one.place.path) == folder]
        ordered = tuple(sorted(frameworks, key=lambda one: RANK.get(one, 99)))
        members.append(ProjectMember(folder, ordered, len(own)))
    return tuple(members)
