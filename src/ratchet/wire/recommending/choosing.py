"""What the wiring should do by default, and where a person has a choice."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath

import msgspec

from ratchet.types import InputError
from ratchet.wire.choices import Choices, PromptChoice, PromptWay, RunWay
from ratchet.wire.entry.javascript_file import is_javascript
from ratchet.wire.facts import BindingWay, EntryPoint, PromptSite, RepositoryLook, SideEffect

NEAR = 0.15
"""Difference of two entries' ranks below which a person is asked."""
LIKELY = 0.75
"""Rank from which an entry is likely to be one that a task can run."""
OFFERED = 5
"""Entries that a question offers."""


class Option(msgspec.Struct, frozen=True):
    """An answer to a question."""

    value: str
    label: str


class Question(msgspec.Struct, frozen=True):
    """Something that only a person knows."""

    key: str
    """`project`, `entry` or `tools`."""
    text: str
    options: tuple[Option, ...]
    default: str
    """Value that --yes takes; of `tools`, names joined by commas."""
    why: str
    several: bool = False


def projects(look: RepositoryLook) -> list[str]:
    """Folders with an agent of their own; the repository itself if it holds the only one."""
    return [member.path for member in look.members] or ["."]


def project_question(look: RepositoryLook) -> Question | None:
    """Which project, where the repository has several."""
    if len(look.members) < 2:
        return None
    entered = {
        one.path
        for one in look.members
        if any(entry_rank(entry) >= LIKELY for entry in ranked_entries(look, one.path)[:1])
    }
    found = sorted(look.members, key=lambda one: (one.path not in entered, -one.prompts, one.path))
    options = [
        Option(one.path, f"{one.path}: {', '.join(one.frameworks)}; {one.prompts} prompts")
        for one in found
    ]
    return Question(
        "project",
        f"{len(found)} projects have an agent. Which one?",
        tuple(options),
        found[0].path,
        "Each is wired on its own. The one with most prompts stands first.",
    )


def within(path: str, project: str) -> bool:
    """Whether a file belongs to a project's folder."""
    return project == "." or path == project or path.startswith(f"{project}/")


_HELD = re.compile(
    r"(?:^|_)(?:client|broker|handler|callback\w*|session|db|conn\w*|websocket|socket|engine|encoder"
    r"|manager|chan|channel|lm|llm)$"
)
"""Parameters that only a running program has a value for."""


_READS = re.compile(
    r"(?:get|list|load|read|clear|delete|reset|save)_\w*(?:history|messages?|state|sessions?|threads?)"
)
"""Names of what keeps conversations, and makes none."""


def entry_rank(entry: EntryPoint) -> float:
    """How likely an entry is the way in that tasks should take."""
    weight = {
        "crew": 0.3,
        "graph": 0.3,
        "workflow": 0.3,
        "agent": 0.1,
        "function": 0.2,
        "program": 0.2,
        "route": 0.05,
        "app": 0.0,
        "script": -0.1,
        "notebook": -0.3,
    }[entry.kind]
    name = entry.name.rpartition(".")[2].lower()
    if re.search(r"(?:^|_)(?:run|answer|ask|chat|invoke|agent|query|research|process|solve)", name):
        weight += 0.1
    if name in ("main", "cli", "setup", "init") or re.search(
        r"debug|test|demo|index|ingest|seed|compile|train|cron|setup_|benchmark|deserialize|from_dict",
        f"{entry.place.path}:{name}".lower(),
    ):
        weight -= 0.25
    if name.startswith("_") or _READS.match(name):
        weight -= 0.2
    if entry.reason.startswith("named in "):
        weight += 0.2  # the project itself says so
    required = [one for one in entry.inputs if "=" not in one]
    if entry.kind == "function" and any(_HELD.search(one.split(":")[0]) for one in required):
        weight -= 0.25
    first = entry.inputs[0] if entry.inputs else ""
    if re.search(r"(?:\b|_)state\b|\bctx\b|\bcontext\b|\bev\b|event|deps?\b", first, re.IGNORECASE):
        weight -= 0.5  # a node of a graph, or a step of a workflow
    elif entry.kind == "function":
        text = re.search(r"question|query|prompt|message|input|text|topic|task|request", first)
        weight += 0.1 if text else 0.0 if first else -0.15  # without an argument it takes no task
    return entry.confidence + weight


def _is_named_like(entry: EntryPoint, root: str) -> bool:
    """Whether an entry has the repository's own name, as `deepResearch` in `deep-research`."""
    name = re.sub(r"[^a-z0-9]", "", entry.name.rpartition(".")[2].lower())
    return len(name) > 3 and name in re.sub(r"[^a-z0-9]", "", PurePosixPath(root).name.lower())


def ranked_entries(look: RepositoryLook, project: str) -> list[EntryPoint]:
    """Entries of a project, the likeliest first."""
    found = [one for one in look.entries if within(one.place.path, project)]
    inner = [one.path for one in look.members if project == "." != one.path]

    def rank(one: EntryPoint) -> float:
        others = any(within(one.place.path, path) for path in inner)
        declared = one.reason.startswith("named in ")
        named = 0.2 * _is_named_like(one, look.root)
        return entry_rank(one) + named - (others and not declared)

    return sorted(found, key=lambda one: (-rank(one), one.place))


def entry_question(entries: list[EntryPoint]) -> Question | None:
    """Which entry, where the two likeliest are hard to tell apart."""
    near = [one for one in entries if entry_rank(entries[0]) - entry_rank(one) < NEAR]
    if len(near) < 2:
        return None
    offered = entries[:OFFERED]
    return Question(
        "entry",
        "What does one task run?",
        tuple(Option(entry_id(one), f"{one.call}  ({one.kind}, {one.place})") for one in offered),
        entry_id(offered[0]),
        f"{len(near)} ways in are about as likely. --entry names any other.",
    )


def entry_id(entry: EntryPoint) -> str:
    """How an entry is named on the command line."""
    return f"{entry.place.path}:{entry.name}"


def entry_named(look: RepositoryLook, project: str, name: str) -> EntryPoint:
    """The entry that a person named.

    Raises:
        InputError: There is none of that name, or several.
    """
    entries = ranked_entries(look, project)
    found = [one for one in entries if name in (entry_id(one), one.name, str(one.place))]
    if len(found) == 1:
        return found[0]
    offered = ", ".join(entry_id(one) for one in (found or entries)[:OFFERED]) or "none"
    raise InputError(
        f"{'Several entries are' if found else 'No entry is'} named {name!r}.",
        hint=f"Name one as PATH:NAME. Found: {offered}.",
    )


def tools_question(acting: list[SideEffect]) -> Question | None:
    """Which tools with side effects may act in rollouts."""
    by_tool: dict[str, list[SideEffect]] = {}
    for effect in acting:
        if can_be_denied(effect):
            by_tool.setdefault(effect.tool or effect.within, []).append(effect)
    if not by_tool:
        return None
    options = [
        Option(
            name,
            f"{name}: {', '.join(sorted({effect.kind for effect in effects}))}"
            f" ({effects[0].place})",
        )
        for name, effects in sorted(by_tool.items())
    ]
    return Question(
        "tools",
        "Which of these may act while Ratchet tries candidates?",
        tuple(options),
        "",
        "Rollouts run hundreds of times. What is not named is marked where that is possible, and"
        " then does not act in them.",
        several=True,
    )


def acting_effects(look: RepositoryLook, project: str) -> list[SideEffect]:
    """Calls of a project that change something outside of it."""
    return [one for one in look.side_effects if one.acts and within(one.place.path, project)]


def can_be_denied(effect: SideEffect) -> bool:
    """Whether the wiring can mark what acts, so that a rollout does not execute it.

    Not in other languages than Python, JavaScript and TypeScript, nor at the top of a module, nor
    files that a program writes outside of its tools.
    """
    python = PurePosixPath(effect.place.path).suffix == ".py"
    if not python and not is_javascript(effect.place.path):
        return False
    return bool(effect.tool or (effect.within and effect.kind != "file write"))


def check_tools(acting: list[SideEffect], names: tuple[str, ...]) -> None:
    """Refuse a name that no tool or function with side effects has.

    Raises:
        InputError: There is none of that name.
    """
    known = sorted({name for one in acting for name in (one.tool, one.within) if name})
    for name in names:
        if name not in known:
            raise InputError(
                f"No tool with side effects is named {name!r}.",
                hint=f"Found: {', '.join(known) or 'none'}.",
            )


def run_way(entry: EntryPoint) -> RunWay:
    """How rollouts run an entry."""
    if PurePosixPath(entry.place.path).suffix != ".py":
        return "service" if entry.kind in ("route", "app") else "command"
    if entry.kind in ("route", "app"):
        return "service"
    if entry.call.startswith("streamlit run "):
        return "python"  # a function fills in the page
    return "command" if entry.kind in ("script", "notebook") else "python"


def prompt_choices(look: RepositoryLook, project: str, run: RunWay) -> tuple[PromptChoice, ...]:
    """How each prompt of a project is bound, under a name of its own."""
    sites = [one for one in look.prompts if within(one.place.path, project)]
    names = _unique([_prompt_name(site) for site in sites], sites)
    return tuple(
        PromptChoice(site, name, *_prompt_way(site, run))
        for site, name in zip(sites, names, strict=True)
    )


_WAYS: dict[BindingWay, PromptWay] = {
    "codemod": "code",
    "function": "code",
    "overlay": "file",
    "gateway": "gateway",
    "adapter": "leave",
}


def _prompt_way(site: PromptSite, run: RunWay) -> tuple[PromptWay, str]:
    way = _WAYS[site.binding]
    python = PurePosixPath(site.place.path).suffix == ".py"
    if run == "command" and way == "code" and is_javascript(site.place.path):
        return way, "Wrap the literal in ratchet.prompt(…) of the npm package agent-ratchet."
    if run != "python" and not python:
        return "gateway", "The gateway finds it in the model calls and replaces it there."
    if way == "code" and not python:
        return "leave", f"{site.place.path} is no Python module; run the agent as a command."
    if way == "gateway" and run == "python":
        return "leave", "Only the gateway reaches it, and rollouts run a function."
    if way == "leave":
        return way, "It lives in a store, which an adapter must read."
    return way, site.how[:1].upper() + site.how[1:] + "."


def _prompt_name(site: PromptSite) -> str:
    if site.kind in ("yaml", "toml", "json", "text"):
        return _slug(PurePosixPath(site.place.path).stem)
    name = re.sub(r"_init$|^get_", "", _slug(site.name.rpartition(".")[2] or site.name))
    name = re.sub(r"_?(?:system_)?prompt(?:_template)?$", "", name) or name
    if not name:
        field = site.parts[0].field if site.parts else ""
        name = _slug(f"{PurePosixPath(site.place.path).stem}_{field or site.role}")
    return name


def _slug(text: str) -> str:
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()


def _unique(names: list[str], sites: list[PromptSite]) -> list[str]:
    """Names that are all different: first with the file's stem, then with a number."""
    count = Counter(names)
    longer = [
        f"{stem}_{name}"
        if count[name] > 1
        and not name.startswith(stem := _slug(PurePosixPath(site.place.path).stem))
        else name
        for name, site in zip(names, sites, strict=True)
    ]
    seen: Counter[str] = Counter()
    found = []
    for name in longer:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


_PLACE = re.compile(r"(?:python_)?(?:backend|server|app|src|api|service)(?:_python)?|agents?")
"""Names of folders that say where code is, not what it does."""


def make_choices(
    look: RepositoryLook,
    project: str,
    entry: EntryPoint,
    *,
    run: RunWay | None = None,
    may_run: tuple[str, ...] = (),
    workflow: bool = False,
) -> Choices:
    """All choices, from the three that a person may make."""
    run = run or run_way(entry)
    folders = [PurePosixPath(look.root).name, *PurePosixPath(project).parts]
    names = [name for name in map(_slug, folders) if name and not _PLACE.fullmatch(name)]
    return Choices(
        project=project,
        agent=names[-1] if names else "agent",
        entry=entry,
        run=run,
        prompts=prompt_choices(look, project, run),
        may_run=may_run,
        workflow=workflow,
    )
