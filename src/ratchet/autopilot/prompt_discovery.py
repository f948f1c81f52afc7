"""Finds the prompts of an agent in any language: in its source, and in its model calls."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.autopilot.code_sandbox import repository_of
from ratchet.autopilot.discovery_run import run_unchanged
from ratchet.autopilot.failed_rollout import require_success
from ratchet.autopilot.own_values import with_own_values
from ratchet.autopilot.project import Project
from ratchet.autopilot.recorded_prompts import FoundPrompts, each_call_once, find_prompts
from ratchet.autopilot.runner import Say
from ratchet.autopilot.source_prompts import SourcePrompts, as_written, source_prompts
from ratchet.bind.prompt_names import unused_name, without_number
from ratchet.bind.recognise import recognise_within, shape_of
from ratchet.bind.recorded_time import free_times
from ratchet.observe.system_prompts import is_model_call, system_prompts
from ratchet.run.denials import kept_of
from ratchet.run.program import AnyAgent, source_files
from ratchet.source.javascript_prompts import declared_prompts
from ratchet.store import Store
from ratchet.types import (
    AgentError,
    Dataset,
    Declaration,
    InputError,
    Model,
    PromptTemplate,
    Rollout,
    content_hash,
)
from ratchet.types.wording import counted

MAX_TASKS_RUN = 24

KEY = "prompts"

_PLACE = re.compile(r"(.*?):(\d+)")


class NoPrompt(InputError):
    """The agent's model calls were seen, and none was made with a prompt that can be told apart."""


class FoundPrompt(msgspec.Struct, frozen=True):
    """A prompt of the agent, as stored."""

    name: str
    template: PromptTemplate
    count: int
    """Number of model calls that it was seen in."""
    place: str = ""
    """Place in the source, as `FILE:LINE`, or those of its parts; empty if it has none."""

    def __str__(self) -> str:
        place = f"{self.place}, " if self.place else ""
        return f"{self.name} ({place}{counted(self.count, 'call')})"


def recall_prompts(store: Store, agent: AnyAgent, dataset: Dataset) -> bool:
    """Give the agent the prompts discovered earlier; return whether there were any."""
    body = store.journal.get(_identity(agent, dataset), KEY)
    if body is None:
        return False
    _declare(agent, msgspec.convert(body, tuple[FoundPrompt, ...]), declared_in_source(agent))
    return True


async def discover_prompts(
    project: Project, store: Store, agent: AnyAgent, dataset: Dataset, say: Say
) -> None:
    """Discover the agent's prompts by running it on some train tasks, and give it these.

    What was found is journaled: the same source and tasks always have the same prompts. Those that
    the source declares with the npm package are its prompts in any case; of the others, those that
    consist of them are left out.

    Args:
        project: The project.
        store: Its store.
        agent: The agent; its declarations are set.
        dataset: The tasks.
        say: Called with a sentence before rollouts are spent.

    Raises:
        AgentError: The agent fails on all of these tasks, or calls no model through the gateway;
            another try runs them again.
        NoPrompt: It has no prompt that can be distinguished from the rest.
    """
    if recall_prompts(store, agent, dataset):
        return
    declared = declared_in_source(agent)
    tasks = dataset.split("train")[:MAX_TASKS_RUN]
    say(
        f"Running the agent on {counted(len(tasks), 'train task')}, to see its prompts; this is "
        "done once, and not from the budget…"
    )
    identity = _identity(agent, dataset)
    failures = len(store.journal.read(identity))  # what failed then runs again now
    ended = await run_unchanged(
        project, store, agent, tasks, queue=identity, scope=[identity, failures], say=say
    )
    try:
        prompts = found_in(project, store, ended, say, declared)
    except AgentError as error:
        key = f"failed/{failures + 1:03d}"
        store.journal.append(identity, key, error.message, time.time())
        raise
    descriptions = [f"{name} (in the source)" for name in declared]
    descriptions += map(str, prompts)
    say(f"Its prompts: {', '.join(descriptions)}.")
    store.journal.append(identity, KEY, msgspec.to_builtins(prompts), time.time())
    _declare(agent, prompts, declared)


def declared_in_source(agent: AnyAgent) -> dict[str, Declaration]:
    """The prompts that the source of a program declares with the npm package, by name."""
    root = Path(agent.spec.root).resolve()
    files = source_files(root, agent.spec.path)
    return {
        prompt.name: Declaration(
            prompt.name, prompt.template, str(prompt.file), prompt.line, located_by="text"
        )
        for prompt in declared_prompts(root, files)
    }


def unrecognised(store: Store, rollout_ids: Sequence[str]) -> str:
    """A sentence on model calls without a discovered prompt; empty if there are none.

    Args:
        store: The store.
        rollout_ids: Rollouts of the agent with its own prompts.
    """
    spans = [
        span for id in rollout_ids for span in each_call_once(store.spans.of(id), by_gateway=True)
    ]
    prompted = [span for span in spans if system_prompts(span.attributes)]
    missed = sum("ratchet.prompt.name" not in span.attributes for span in prompted)
    if not missed:
        return ""
    calls = counted(len(prompted), "model call")
    if missed == len(prompted):
        return (
            f"None of these prompts was found in the agent's {calls} on val tasks, so a change of a"
            " prompt may not reach the model. See what was sent: ratchet traces"
        )
    return f"{missed} of {calls} had none of these prompts; what they send stays as it is."


def _identity(agent: AnyAgent, dataset: Dataset) -> str:
    return content_hash(["prompts", agent.spec.entry, agent.source_version(), dataset.version])


def _declare(
    agent: AnyAgent, prompts: Sequence[FoundPrompt], declared: Mapping[str, Declaration]
) -> None:
    models = {
        name: declaration
        for name, declaration in agent.declarations.items()
        if isinstance(declaration.resource, Model)
    }
    agent.declarations = (
        models
        | {
            prompt.name: Declaration(prompt.name, prompt.template, located_by="text")
            for prompt in prompts
        }
        | dict(declared)
    )


def _consists_of(template: PromptTemplate, declared: Mapping[str, Declaration]) -> bool:
    """Whether at least half of a seen prompt is text of prompts in the source."""
    left = " ".join(shape_of(template).pieces)
    size = len("".join(left.split()))
    for declaration in declared.values():
        if isinstance(declaration.resource, PromptTemplate):
            pieces = [piece.strip() for piece in shape_of(declaration.resource).pieces]
            if all(piece in left for piece in pieces):
                for piece in pieces:
                    left = left.replace(piece, " ", 1) if piece else left
    return 2 * len("".join(left.split())) <= size


def _program_files(project: Project, root: Path) -> set[str]:
    """The repository's files that the agent's command names, relative to its root."""
    agent = project.config.agent
    words = shlex.split(agent.command or agent.serve or "")
    files = (project.root / word for word in words)
    return {file.relative_to(root).as_posix() for file in files if file.is_relative_to(root)}


def found_in(
    project: Project,
    store: Store,
    rollouts: Sequence[Rollout],
    say: Say,
    declared: Mapping[str, Declaration],
) -> tuple[FoundPrompt, ...]:
    """The prompts that rollouts of an agent were made with.

    Args:
        project: The project.
        store: Its store.
        rollouts: They have ended.
        say: Told what is left out.
        declared: Prompts that the source declares.

    Raises:
        AgentError: All failed, or none called a model.
        NoPrompt: None has a recognisable prompt.
    """
    require_success(rollouts, store)
    root = repository_of(project.root)
    recorded_spans = [
        span
        for rollout in rollouts
        for span in each_call_once(store.spans.of(rollout.id), by_gateway=False)
    ]
    spans = with_own_values(recorded_spans, root, project.redactor())
    calls = [span for span in spans if is_model_call(span.attributes)]
    if not calls and not declared:
        raise AgentError(_no_call(project, len(rollouts)), hint=_how_to_reach(project))
    recorded = find_prompts(spans, project.agent_name)
    times = [span.start_ns / 1e9 for span in calls]
    prompts = _written(project, recorded, times)
    # Instructions may also stand in the user's message, or in a text that a library puts together.
    # What varies little there may be the task: only a text of the source is a prompt.
    known = [prompt.template for prompt in prompts]
    program = _program_files(project, root)
    given = [rollout.input for rollout in rollouts]
    inputs = [text for value in given for text in input_texts(project, root, value)]
    copied = (act.subject for act in kept_of(spans) if act.end == "copied")
    own_output = {os.path.relpath(path, root) for path in copied}
    in_source = source_prompts(root, calls, known, program, inputs, own_output)
    prompts = [_placed(project, prompt, in_source) for prompt in prompts]
    texts = {text for call in calls for text in system_prompts(call.attributes)}
    for prompt, count in in_source.counts.items():
        in_system = any(recognise_within(prompt.template, text) for text in texts)
        name = f"{project.agent_name}.{'system' if in_system else 'user'}"
        template, _ = as_written(root, prompt.template)
        prompts.append(FoundPrompt(name, template, count, _shown(project, prompt.place)))
    if declared and not prompts:
        return ()
    if not prompts and not texts:
        raise NoPrompt(
            f"There is no prompt to improve: the agent's {counted(len(calls), 'model call')} had no"
            " system message, and no text from its source.",
            hint="Give the agent instructions: in a system message, or in a text of its source.",
        )
    if not prompts:
        raise NoPrompt(
            f"The agent's {counted(len(calls), 'model call')} sent no text from its source, and "
            f"no repeated system message. {' '.join(recorded.refused)}".rstrip(),
            hint="Add tasks, so that constant text can be distinguished from the task, or register "
            "the prompt's template yourself: docs/gateway.md.",
        )
    if not all(any(recognise_within(p.template, text) for p in prompts) for text in texts):
        for sentence in recorded.refused:
            say(f"Left unchanged: {sentence}")
    return tuple(
        prompt
        for prompt in _numbered(prompts)
        if prompt.name not in declared
        and not (declared and _consists_of(prompt.template, declared))
    )


def _numbered(prompts: Sequence[FoundPrompt]) -> list[FoundPrompt]:
    """The prompts in the order of the source, numbered in it where several have the same name.

    Their numbers do not depend on how often each was sent.
    """
    numbered: list[FoundPrompt] = []
    for prompt in sorted(prompts, key=lambda prompt: _position(prompt.place)):
        name = unused_name(without_number(prompt.name), [earlier.name for earlier in numbered])
        numbered.append(msgspec.structs.replace(prompt, name=name))
    return numbered


def _position(place: str) -> tuple[bool, str, int]:
    first = _PLACE.match(place)
    return (False, first[1], int(first[2])) if first else (True, "", 0)


def input_texts(project: Project, root: Path, task_input: Any) -> list[str]:
    """The texts of a task's input and of its fields, and the files among them, from a root."""
    texts = texts_in(task_input)
    files = [text for text in texts if os.path.isfile(project.root / text)]
    return [*texts, *(os.path.relpath(project.root / file, root) for file in files)]


def texts_in(task_input: Any) -> list[str]:
    """The texts of a task's input and of its fields."""
    if isinstance(task_input, Mapping):
        return [text for value in task_input.values() for text in texts_in(value)]
    return [] if task_input is None else [str(task_input)]


def _written(project: Project, recorded: FoundPrompts, times: Sequence[float]) -> list[FoundPrompt]:
    """The prompts; each with its slots from the source, if exactly one literal matches it.

    What was the same in all recorded calls may be an expression there, and differ in use.
    """
    prompts = []
    for (name, template), proposal in zip(
        recorded.prompts.items(), recorded.discovery.proposals, strict=True
    ):
        timeless = free_times(template, min(times), max(times))
        template, places = as_written(repository_of(project.root), timeless)
        place = " and ".join(_shown(project, place) for place in places)
        prompts.append(FoundPrompt(name, template, proposal.count, place))
    return prompts


def _placed(project: Project, prompt: FoundPrompt, in_source: SourcePrompts) -> FoundPrompt:
    """A prompt with the places of its parts if it is no literal as a whole."""
    places = in_source.places_in.get(prompt.template.text, ())
    if prompt.place or not places:
        return prompt
    shown = " + ".join(_shown(project, place) for place in sorted(places, key=_position))
    return msgspec.structs.replace(prompt, place=shown)


def _shown(project: Project, place: str) -> str:
    """A place in the repository, relative to the project's folder."""
    return os.path.relpath(repository_of(project.root) / place, project.root) if place else ""


def _no_call(project: Project, rollouts: int) -> str:
    section = project.config.agent
    what = "agent" if section.entry else "command" if section.command else "service"
    return (
        f"No prompt was seen: the {what} made no model call through the gateway in "
        f"{counted(rollouts, 'rollout')}."
    )


def _how_to_reach(project: Project) -> str:
    if not project.config.agent.runs_already:
        return (
            "The gateway's base URL is in OPENAI_BASE_URL and ANTHROPIC_BASE_URL. Where the agent"
            " reads another variable, name it:\n\n[agent]\nmodel_base_url ="
            ' "LLM_BASE_URL"\n\nWhere an agent in Python has the address in its code, name its'
            ' host:\n\n[agent]\nmodel_hosts = ["api.groq.com"]\n'
        )
    return (
        "Let its model client use the base URL in the header x-ratchet-openai-base-url, or pass"
        " the header x-ratchet-rollout on to its model calls; see docs/any-language.md."
    )
