"""The recommendation: what the agent is, what to improve first, how, at what cost and risk."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec

from ratchet.types import InputError
from ratchet.wire.choices import Choices, RunWay
from ratchet.wire.entry import CannotCall, Modules, task_inputs, way_to_run
from ratchet.wire.facts import EntryPoint, FrameworkUse, PromptSite, RepositoryLook, SecretName
from ratchet.wire.recommending.choosing import (
    Question,
    acting_effects,
    can_be_denied,
    check_tools,
    entry_id,
    entry_question,
    entry_rank,
    make_choices,
    project_question,
    projects,
    ranked_entries,
    tools_question,
    within,
)
from ratchet.wire.recommending.costing import cost_lines
from ratchet.wire.recommending.model_names import model_names

ENOUGH = 105
"""Tasks from which on a proof is likely to be possible: 42 of them test tasks."""
_TRIED, _NEAR = 8, 0.6
"""Entries of which the first that can be called is taken, and how much less likely it may be."""
_WRAPPERS = re.compile(
    r"(?i)llm|models?/|model\.|middleware|provider|Chat(?:OpenAI|Anthropic)|/eval"
)
"""Wrappers of a model and what stands around a call: a part of the agent, not the way in."""
_TO_WRITE = (
    "Write ratchet_agent.py with one @ratchet.agent function that takes a task's input, calls the"
    " agent and returns its output; then run ratchet init again."
)
NAMED = 12
"""Prompts that the page names."""


class PageSection(msgspec.Struct, frozen=True):
    """A part of the page."""

    title: str
    lines: tuple[str, ...]


class Recommendation(msgspec.Struct, frozen=True):
    """What to do with a repository."""

    sections: tuple[PageSection, ...]
    questions: tuple[Question, ...]
    """At most three, each with its default."""
    choices: Choices | None
    """What --yes does; None when no agent was found."""


def recommend(
    look: RepositoryLook,
    project: str | None = None,
    *,
    entry: EntryPoint | None = None,
    may_run: tuple[str, ...] = (),
    workflow: bool = False,
) -> Recommendation:
    """Recommend how to wire a repository.

    Args:
        look: Its facts.
        project: Folder of the project; by default the one with most prompts.
        entry: What a task runs; by default the likeliest.
        may_run: Tools with side effects that may act in rollouts.
        workflow: Whether a CI job is wanted.

    Raises:
        InputError: The repository has no such project.
    """
    questions = [] if project else [project_question(look)]
    chosen = project or next((q.default for q in questions if q), projects(look)[0])
    if project and project != "." and not _holds(look, project):
        raise InputError(
            f"There is no agent in {project!r}.",
            hint=f"Projects with one: {', '.join(projects(look))}.",
        )
    entries = ranked_entries(look, chosen)
    if not entries:
        return Recommendation((_nothing(look, chosen),), (), None)
    modules = Modules(Path(look.root), chosen)
    passed_over = ""
    if entry is None:
        entries, passed_over = _runnable_first(look, chosen, entries, modules)
        questions.append(entry_question(entries))
    acting = acting_effects(look, chosen)
    check_tools(acting, may_run)
    if not may_run:
        questions.append(tools_question(acting))
    taken = entry or entries[0]
    choices = make_choices(look, chosen, taken, may_run=may_run, workflow=workflow)
    run: RunWay | None = choices.run
    otherwise = ""
    if taken.place.path.endswith(".py") and taken.kind != "notebook":
        run, otherwise = way_to_run(look, choices, modules)
        if run not in (choices.run, None):
            choices = make_choices(look, chosen, taken, run=run, may_run=may_run, workflow=workflow)
    sections = (
        _what_it_is(look, choices, modules, passed_over),
        _what_first(look, choices),
        _binding(choices, run, otherwise),
        _scoring(look, choices),
        _cost(look, choices),
        _risks(look, choices),
    )
    return Recommendation(
        tuple(one for one in sections if one.lines), tuple(q for q in questions if q), choices
    )


def _runnable_first(
    look: RepositoryLook, project: str, entries: list[EntryPoint], modules: Modules
) -> tuple[list[EntryPoint], str]:
    """The entries, first one of the likeliest that a task can run, and why not the likeliest."""
    least = entry_rank(entries[0]) - _NEAR
    passed_over = ""
    for index, one in enumerate(entries[:_TRIED]):
        if entry_rank(one) < least or (index and _WRAPPERS.search(entry_id(one))):
            continue
        if not one.place.path.endswith(".py"):
            break
        try:
            task_inputs(look, make_choices(look, project, one), modules)
        except CannotCall as error:
            passed_over = passed_over or (
                f"{one.name} ({one.place}) looked likelier, and no task can run it: {error}."
                f" To take it all the same: --entry {entry_id(one)}"
            )
            continue
        return [one, *(other for other in entries if other is not one)], passed_over
    return entries, ""


def _holds(look: RepositoryLook, project: str) -> bool:
    return any(within(one.path, project) for one in look.members) or any(
        within(call.place.path, project) for call in look.model_calls
    )


def _nothing(look: RepositoryLook, project: str) -> PageSection:
    if look.members:
        where = "" if project == "." else f" of {project}"
        return PageSection(
            f"No way into the agent{where} was found",
            (
                f"{_count(len(look.prompts), 'prompt')} and"
                f" {_count(len(look.model_calls), 'place')} where a model is called were found, but"
                " no function, graph or agent that a task could run.",
                "Name one with --entry PATH:NAME after adding a function that takes a task's text"
                " and returns the answer; or run the agent as a command behind the gateway:"
                " docs/any-language.md.",
            ),
        )
    looked = ", ".join(look.looked_for) or "calls of a model through a known framework"
    return PageSection(
        "No agent was found",
        (
            "No live code calls a model through a framework that is known.",
            f"Looked for: {looked}.",
            "If the agent calls a model in another way, it can be run as a command behind the"
            " gateway: docs/any-language.md.",
        ),
    )


def _frameworks(look: RepositoryLook, project: str) -> list[FrameworkUse]:
    """Those of the project, if it is one of several; all that the repository imports otherwise."""
    own = {name for one in look.members if one.path == project for name in one.frameworks}
    found = [one for one in look.frameworks if one.name in own] if len(look.members) > 1 else []
    return found or list(look.frameworks)


def _inputs(look: RepositoryLook, choices: Choices, modules: Modules) -> tuple[str, ...]:
    """What a task gives: to the function that will be written, else to the entry itself."""
    if not choices.entry.place.path.endswith(".py"):
        return choices.entry.inputs
    try:
        return task_inputs(look, choices, modules) or choices.entry.inputs
    except CannotCall:
        return choices.entry.inputs


def _what_it_is(
    look: RepositoryLook, choices: Choices, modules: Modules, passed_over: str
) -> PageSection:
    here = choices.project
    frameworks = [f"{one.name} {one.version}".strip() for one in _frameworks(look, here)]
    calls = [one for one in look.model_calls if within(one.place.path, here)]
    tools = [one for one in look.tools if within(one.place.path, here)]
    entry = choices.entry
    takes = ", ".join(_inputs(look, choices, modules))
    takes = f"takes {takes}" if takes else ""
    gives = f"returns {entry.output}" if entry.output else ""
    said = " and ".join(one for one in (takes, gives) if one)
    lines = [
        f"{choices.agent}: an agent made with {', '.join(frameworks) or 'no framework'}.",
        f"A task runs {entry.call} ({entry.place})" + (f"; it {said}." if said else "."),
        *([passed_over] if passed_over else []),
        "It has "
        + (f"{_count(len(calls), 'place')} where a model is called, " if calls else "")
        + f"{_count(len(choices.prompts), 'prompt')} and {_count(len(tools), 'tool')}.",
    ]
    lines += [
        f"Its tests: {one.command} ({_count(one.cases, 'test')})."
        for one in look.tests
        if one.project == here
    ]
    if look.tracing:
        names = ", ".join(sorted({one.name for one in look.tracing}))
        lines.append(f"It is traced already by {names}. Ratchet joins that and replaces nothing.")
    return PageSection("What this agent is", tuple(lines))


def _what_first(look: RepositoryLook, choices: Choices) -> PageSection:
    bound = [one for one in choices.prompts if one.way != "leave"]
    if not bound:
        return PageSection(
            "What to improve first",
            ("No prompt can be bound. Parameters and code can: see docs/quickstart.md.",),
        )

    def weight(index: int) -> tuple[int, int]:
        site = bound[index].prompt
        return len(site.reaches), _words(look, site)

    first = bound[max(range(len(bound)), key=weight)]
    site = first.prompt
    size = _words(look, site)
    lines = [
        f"The prompt {first.name} ({site.place}): {_count(size, 'word')}, and it reaches"
        f" {_count(max(1, len(site.reaches)), 'model call')}.",
        "Improving all prompts together is the default; failures decide where the work goes.",
    ]
    return PageSection("What to improve first", tuple(lines))


def _words(look: RepositoryLook, site: PromptSite) -> int:
    """Words of a prompt; of one that is a whole file, those of the file."""
    if site.kind == "text" and not any(part.text for part in site.parts):
        try:
            return len((Path(look.root) / site.place.path).read_text(errors="replace").split())
        except OSError:
            return 0
    return sum(len(part.text.split()) for part in site.parts)


def _binding(choices: Choices, run: RunWay | None, otherwise: str) -> PageSection:
    how = {
        "python": "Rollouts call a function in ratchet_agent.py, which calls the entry.",
        "command": "Rollouts start the program for each task, with the gateway as its model's URL.",
        "service": "Rollouts are sent to the running service.",
    }
    ways = {
        "code": "to declare in the code, with the same text",
        "file": "to improve in its file, without a change of code",
        "gateway": "to replace in the model calls, without a change of code",
        "leave": "left alone",
    }
    lines = [how[run]] if run else []
    if otherwise:
        lines.append(otherwise if run else f"{otherwise} {_TO_WRITE}")
    counts = Counter(one.way for one in choices.prompts)
    for way, number in counts.items():
        names = [one.name for one in choices.prompts if one.way == way]
        more = f", and {number - NAMED} more" if number > NAMED else ""
        lines.append(f"{_count(number, 'prompt')} {ways[way]}: {', '.join(names[:NAMED])}{more}.")
    lines += [f"{one.name}: {one.reason}" for one in choices.prompts if one.way == "leave"]
    if choices.run == "python" and any(one.way == "code" for one in choices.prompts):
        lines.append(
            "Instead: change no code, and run the agent as a command behind the gateway"
            " (docs/any-language.md). That sees system prompts only, and no single steps."
        )
    return PageSection("How it is wired", tuple(lines))


def _scoring(look: RepositoryLook, choices: Choices) -> PageSection:
    from ratchet.wire.starters import find_tasks, fitting_evaluators

    tasks = find_tasks(Path(look.root), look, choices)
    lines = []
    if tasks.tasks:
        lines.append(f"Starter tasks: {tasks.source}.")
        if not tasks.answered:
            lines.append(
                "They have no expected answers: add them, or label outputs (ratchet label)."
            )
    else:
        lines.append("No data was found that could be tasks.")
    if len(tasks.tasks) < ENOUGH:
        lines.append(
            f"A proof usually takes {ENOUGH} tasks or more; so far there are {len(tasks.tasks)}."
            " They grow from use (ratchet datasets capture) or from a coach (ratchet datasets"
            " synthesize)."
        )
    lines += [
        f"Evaluator {one.table['use']}: {one.reason}"
        for one in fitting_evaluators(look, choices, tasks)
    ]
    return PageSection("How it is scored", tuple(lines))


def _cost(look: RepositoryLook, choices: Choices) -> PageSection:
    calls = [one for one in look.model_calls if within(one.place.path, choices.project)]
    number = max(1, len({(one.place.path, one.within) for one in calls}))
    sizes = [_words(look, one.prompt) for one in choices.prompts]
    words = round(sum(sizes) / len(sizes)) if sizes else 0
    models = model_names(Path(look.root), look, choices.project)
    packages = {name for one in look.manifests for name in one.dependencies}
    return PageSection("What it costs", cost_lines(models, number, words, packages))


def _risks(look: RepositoryLook, choices: Choices) -> PageSection:
    here = choices.project
    lines = []
    acting = acting_effects(look, here)
    if acting:
        kinds = Counter(one.kind for one in acting)
        named = ", ".join(f"{kind} ({number})" for kind, number in sorted(kinds.items()))
        lines.append(f"It acts outside of itself: {named}.")
    if any(map(can_be_denied, acting)):
        but = f", but for {', '.join(choices.may_run)}" if choices.may_run else ""
        lines.append(f"What can be marked is, and does not act in rollouts{but}.")
    loose = [one for one in acting if not can_be_denied(one)]
    if loose:
        shown = ", ".join(f"{one.kind} ({one.place})" for one in loose[:3])
        more = f", and {len(loose) - 3} more" if len(loose) > 3 else ""
        lines.append(
            f"Not stopped in rollouts: {shown}{more}. Run them where that can do no harm;"
            " the plan says what can be done."
        )
    reads = {one.kind for one in look.side_effects if not one.acts and within(one.place.path, here)}
    if reads:
        lines.append(f"It needs what it reads from: {', '.join(sorted(reads))}.")
    variables = sorted({one.name for one in _secrets(look, here, "variable")})
    if variables:
        shown = ", ".join(variables[:8]) + (", …" if len(variables) > 8 else "")
        lines.append(f"It reads keys from its environment: {shown}. No value was read.")
    files = sorted({str(one.place) for one in _secrets(look, here, "file")})
    if files:
        shown = ", ".join(files[:5]) + (", …" if len(files) > 5 else "")
        lines.append(f"Files named as those of secrets were not opened: {shown}.")
    return PageSection("What is risky", tuple(lines))


def _secrets(look: RepositoryLook, project: str, kind: str) -> list[SecretName]:
    return [
        one
        for one in look.secrets
        if one.kind == kind and (within(one.place.path, project) or "/" not in one.place.path)
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
