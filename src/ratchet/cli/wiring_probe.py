"""Runs a wired agent on one input, with its own prompts and with changed ones.

    python -m ratchet.cli.wiring_probe FOLDER SETTINGS < request.json

For the verification of a wiring, in a process of its own: the agent may be imported here. SETTINGS
is a `ratchet.toml` that is not in the folder yet. Standard
input holds a `ProbeRequest`, standard output a `ProbeAnswer` as JSON.
"""

from __future__ import annotations

import asyncio
import difflib
import itertools
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ratchet.autopilot import Project, open_runner
from ratchet.autopilot.agent_model import agent_model
from ratchet.autopilot.code_sandbox import repository_of
from ratchet.autopilot.config import read_config
from ratchet.autopilot.prompt_discovery import (
    NoPrompt,
    declared_in_source,
    found_in,
    input_texts,
)
from ratchet.autopilot.source_prompts import source_prompts
from ratchet.bind.discover import SUPPORT
from ratchet.bind.prompt_names import unused_name
from ratchet.bind.recognise import recognise_within
from ratchet.cli.project_server import project_server
from ratchet.observe.system_prompts import is_model_call, system_prompts
from ratchet.run import Runner
from ratchet.run.denials import allowing, described, kept_of
from ratchet.sandbox.acts import Act
from ratchet.store import Store
from ratchet.types import (
    AgentError,
    Candidate,
    Declaration,
    PromptTemplate,
    RatchetError,
    Rollout,
    Span,
    Task,
    defaults,
)

_WORDS = re.compile(r"\S+|\s+")

PROBE_QUEUE = "probe"
CHANGE = " (A check of the wiring changed this prompt: ratchet-check-7c1f-{}.)"
"""Appended to each prompt of the second rollout, with the prompt's number."""
CHANGED = re.compile(re.escape(CHANGE.encode()).replace(rb"\{\}", rb"(\d+)"))


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The wiring that the probe runs."""

    task_input: Any
    prompts: tuple[str, ...]
    """Prompts of the recorded run, if the agent's prompts are found in its calls."""


class DeniedAct(msgspec.Struct, frozen=True, kw_only=True):
    """An act that the agent tried but is not allowed to do."""

    said: str
    """Completes the sentence `It tried …`."""
    allow: str
    """The entry in [agent.allow] that would allow the act; empty if none would."""
    key: str = ""
    """The list of [agent.allow] that the entry belongs to."""


class ProbeRollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout of the probe."""

    status: str
    output: Any
    error: str
    denied: tuple[DeniedAct, ...]
    seconds: float
    """Seconds that the attempt took; for a service, including the service's start."""


class ProbeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The probe's result; if there is an error, nothing could be run."""

    own: ProbeRollout | None = None
    """The rollout with the agent's own prompts."""
    changed: ProbeRollout | None = None
    """The second rollout, with changed prompts if there are any; None if it was not run."""
    names: tuple[str, ...] = ()
    """Indexes of the changed prompts, from 0."""
    learned: tuple[str, ...] = ()
    """The names that `ratchet improve` gives the prompts, each with its place in the source."""
    started_changed_at: float = 0.0
    """When the second rollout began, in seconds since the epoch."""
    error: str = ""
    hint: str = ""


def main(arguments: list[str] | None = None) -> int:
    """Run the probe; the exit code is 1 when it could not run at all."""
    folder, settings = map(Path, arguments or sys.argv[1:])
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ProbeRequest)
    try:
        with redirect_stdout(sys.stderr):  # the agent may print while it is imported
            answer = asyncio.run(_probe(folder.resolve(), settings, request))
    except RatchetError as error:
        answer = ProbeAnswer(error=error.message, hint=error.hint or "")
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    return 1 if answer.error else 0


async def _probe(folder: Path, settings: Path, request: ProbeRequest) -> ProbeAnswer:
    project = Project(folder, read_config(settings), project_server)
    async with AsyncExitStack() as stack:
        stack.enter_context(agent_model(project, _say))
        store = stack.enter_context(project.open_store())
        agent = project.load_agent()
        queue = f"{PROBE_QUEUE}-{time.time_ns()}"  # a unique queue: no other runner claims from it
        runner = await stack.enter_async_context(
            open_runner(project, store, agent, queue, _say, take_over=False)
        )
        rollout = partial(_rollout, project, store, runner, queue, request.task_input)
        own = project.source_candidate(agent)
        first = await rollout(own)
        between = time.time()
        learned: Sequence[str] = ()
        if agent.prompts_in_calls:
            learned = _learned(project, store, agent, first.rollout)
            prompts_sent = _prompts_sent(project, first, request.prompts)
            agent.declarations = {
                name: Declaration(name, prompt, located_by="text")
                for name, prompt in prompts_sent.items()
            }
            own = project.source_candidate(agent)
            store.candidates.put(own, between)
        prompts = {
            name: resource
            for name, resource in defaults(agent.declarations).items()
            if isinstance(resource, PromptTemplate)
        }
        changed = own.derive(
            {
                name: _changed(resource, number)
                for number, (name, resource) in enumerate(prompts.items())
            },
            algorithm="probe",
        )
        # What a process keeps from run to run shows in the second, whatever its prompts.
        second = None
        if changed.id != own.id or project.config.agent.command is None:
            second = await rollout(changed, number=int(changed.id == first.rollout.candidate_id))
    return ProbeAnswer(
        own=first.shown,
        changed=second.shown if second else None,
        names=tuple(prompts),
        learned=tuple(learned),
        started_changed_at=between,
    )


class _Ended(NamedTuple):
    shown: ProbeRollout
    rollout: Rollout
    spans: Sequence[Span]


async def _rollout(
    project: Project,
    store: Store,
    runner: Runner,
    queue: str,
    task_input: Any,
    candidate: Candidate,
    *,
    number: int = 0,
) -> _Ended:
    store.candidates.put(candidate, time.time())
    rollout = Rollout.of(
        Task("recorded", task_input),
        candidate.id,
        scope=[queue, number],
        seed_parts=[0],
        queue=queue,
        purpose="check",
        max_attempts=1,
    )
    begun = time.monotonic()
    ended = (await runner.run([rollout], [candidate]))[rollout.id]
    waited_s = time.monotonic() - begun
    spans = store.spans.of(rollout.id)
    denied = [act for act in kept_of(spans) if act.end == "denied"]
    report = ProbeRollout(
        status=ended.status,
        output=ended.output,
        error=ended.error,
        denied=tuple(_denied(act, project.root) for act in denied),
        seconds=waited_s if project.config.agent.serve else ended.duration_s or 0.0,
    )
    return _Ended(report, ended, spans)


def _learned(project: Project, store: Store, agent: Any, rollout: Rollout) -> list[str]:
    """The prompts as `ratchet improve` would name them after this rollout."""
    try:
        # What one rollout alone sent might be its task: it counts as if as many tasks had sent it
        # as a prompt needs.
        rollouts = [rollout] * SUPPORT
        prompts = found_in(project, store, rollouts, _say, declared_in_source(agent))
    except (AgentError, NoPrompt):  # it has none, which the findings say
        return []
    # One rollout may have filled a literal several times.
    names: dict[str, str] = {}
    for prompt in prompts:
        shown = f"{prompt.name} ({prompt.place or 'assembled at run time'})"
        names.setdefault(prompt.place or prompt.name, shown)
    return list(names.values())


def _denied(act: Act, root: Path) -> DeniedAct:
    key, subject = allowing(act, root)
    return DeniedAct(said=described(act), allow=subject, key=key)


def _prompts_sent(
    project: Project, ended: _Ended, recorded: Sequence[str]
) -> dict[str, PromptTemplate]:
    """The prompts of a rollout by name, as `ratchet improve` finds them, but from one rollout."""
    calls = [span for span in ended.spans if is_model_call(span.attributes)]
    sent = dict.fromkeys(text for call in calls for text in system_prompts(call.attributes))
    prompts: dict[str, PromptTemplate] = {}

    def add(base: str, template: PromptTemplate) -> None:
        prompts[unused_name(base, prompts)] = template

    for text in sent:
        if text in recorded:
            add("recorded", _template(text, text))
    root = repository_of(project.root)
    known, inputs = list(prompts.values()), input_texts(project, root, ended.rollout.input)
    for prompt in source_prompts(root, calls, known, inputs=inputs).counts:
        add("recorded.user", prompt.template)
    # What varies from run to run is found again by its literals, or else by what was the same.
    for text in sent:
        if not any(recognise_within(template, text) for template in prompts.values()):
            nearest = max(recorded, key=partial(_likeness, text), default=text)
            add("recorded", _template(text, nearest))
    return prompts


def _template(text: str, recorded: str) -> PromptTemplate:
    """A system prompt of the rollout, with a slot where the recorded one differed."""
    # In words: of a time, say, some digits are the same by chance.
    words, recorded_words = _WORDS.findall(text), _WORDS.findall(recorded)
    start = _common(words, recorded_words)
    end = _common(words[start:][::-1], recorded_words[start:][::-1])
    constant = [words] if text == recorded else [words[:start], words[len(words) - end :]]
    escaped = ["".join(part).replace("{", "{{").replace("}", "}}") for part in constant]
    return PromptTemplate("{varying}".join(escaped))


def _common(words: Sequence[str], recorded_words: Sequence[str]) -> int:
    """Number of words that both begin with."""
    pairs = zip(words, recorded_words, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _likeness(text: str, recorded: str) -> float:
    return difflib.SequenceMatcher(None, text[:4_000], recorded[:4_000]).quick_ratio()


def _changed(prompt: PromptTemplate, number: int) -> PromptTemplate:
    return PromptTemplate(prompt.text.strip() + CHANGE.format(number), prompt.engine)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
