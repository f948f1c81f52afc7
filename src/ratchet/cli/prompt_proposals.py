"""System prompts in an agent's recorded calls: which are registered, and proposals for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.padding import Padding
from rich.text import Text

from ratchet.bind.discover import Discovery, TemplateProposal
from ratchet.bind.prompt_names import proposal_names
from ratchet.bind.recognise import Recogniser, RegisteredPrompt
from ratchet.bind.speakers import discover_by_speaker, speakers_of
from ratchet.cli.console import one_line, out, short, table
from ratchet.observe.prompt_uses import RecordedCalls
from ratchet.observe.system_prompts import was_cut
from ratchet.store import Store
from ratchet.types import Candidate, InputError, PromptTemplate, PromptUse, Resource, Span
from ratchet.types.wording import counted

PAGE = 500
NEWEST_VERSIONS = 100
"""Number of a registered prompt's newest versions that are recognised."""


class RegisteredPromptCount(msgspec.Struct, frozen=True):
    """A registered prompt that was found in recorded calls."""

    name: str
    version: str
    count: int
    """Number of occurrences."""


class RecordedPrompts(msgspec.Struct, frozen=True):
    """System prompts in recorded calls."""

    calls: int
    """Calls with instructions."""
    prompts: int
    """Instructions in those calls."""
    registered: tuple[RegisteredPromptCount, ...]
    """Most frequent first."""
    cut: int
    """Instructions that were truncated when recorded."""
    discovery: Discovery
    """Templates proposed from instructions that are neither registered nor truncated."""
    speakers: frozenset[str]
    """Names of the agents that made the calls."""


def recorded_prompts(store: Store, agent: str, limit: int) -> RecordedPrompts:
    """Read the prompts in an agent's newest calls.

    Args:
        store: The store.
        agent: Name of the live agent, and of the queue whose rollouts are read.
        limit: Maximum number of calls.
    """
    recogniser = registered_prompts(store, agent)
    calls = RecordedCalls()
    read = 0
    for span in _spans(store, agent, limit):
        read += calls.add(span)
        if read >= limit:
            break
    covered: dict[tuple[str, str], int] = {}
    fresh: list[PromptUse] = []
    cut = 0
    uses = calls.uses()
    for use in uses:
        prompt = recogniser.find(use.text)
        if prompt is not None:
            key = (prompt.name, prompt.version)
            covered[key] = covered.get(key, 0) + use.count
        elif was_cut(use.text):
            cut += use.count
        else:
            fresh.append(use)
    return RecordedPrompts(
        len(calls),
        sum(use.count for use in uses),
        tuple(
            RegisteredPromptCount(name, version, count)
            for (name, version), count in sorted(covered.items(), key=lambda tally: -tally[1])
        ),
        cut,
        discover_by_speaker(fresh),
        speakers_of(uses),
    )


def registered_prompts(store: Store, agent: str) -> Recogniser:
    """A recogniser of the agent's registered prompts."""
    return Recogniser(
        RegisteredPrompt(name, version, template)
        for name in prompt_names(store, agent)
        for version, template in prompt_versions(store, name, NEWEST_VERSIONS)
    )


def prompt_names(store: Store, agent: str) -> list[str]:
    """Names of an agent's prompts: those prefixed with its name, and its active candidate's."""
    active = active_candidate(store, agent)
    own = set(active.resources) if active else set()
    return [
        name
        for name in store.resources.names("prompt")
        if name == agent or name.startswith(f"{agent}.") or name in own
    ]


def active_candidate(store: Store, agent: str) -> Candidate | None:
    """The candidate active in the agent's live traffic."""
    activation = store.agents.active(agent)
    return store.candidates.get(activation.candidate_id) if activation else None


def prompt_versions(store: Store, name: str, newest: int) -> Iterator[tuple[str, PromptTemplate]]:
    """Newest versions of a prompt with their templates, oldest first."""
    for version, _ in store.resources.versions(name)[-newest:]:
        resource = store.resources.get(version)
        if isinstance(resource, PromptTemplate):
            yield version, resource


def _spans(store: Store, agent: str, limit: int) -> Iterator[Span]:
    """Spans of live traffic and of rollouts, alternating, newest first; a bounded number."""
    live = _live(store, agent)
    rolled = _rolled(store, agent)
    # Most spans are not model calls, so the number of spans read is bounded too.
    left = 50 * limit
    ended: set[Iterator[Span]] = set()
    while len(ended) < 2 and left > 0:
        for source in (live, rolled):
            for _ in range(PAGE):
                span = next(source, None)
                if span is None:
                    ended.add(source)
                    break
                left -= 1
                yield span


def _live(store: Store, agent: str) -> Iterator[Span]:
    cursor = None
    while True:
        spans, cursor = store.spans.live(agent, limit=PAGE, cursor=cursor)
        yield from spans
        if cursor is None:
            return


def _rolled(store: Store, agent: str) -> Iterator[Span]:
    cursor = None
    while True:
        rollouts, cursor = store.rollouts.list(queue=agent, limit=PAGE, cursor=cursor)
        for rollout in rollouts:
            yield from store.spans.of(rollout.id)
        if cursor is None:
            return


SHOWN_LINES = 30
SHOWN_REFUSED = 20


def named_proposals(
    store: Store,
    agent: str,
    proposals: Sequence[TemplateProposal],
    speakers: frozenset[str],
    requested: Sequence[str],
) -> list[tuple[str, TemplateProposal]]:
    """The proposals with their names: the requested names first, then generated free ones.

    Args:
        store: The store.
        agent: Name of the live agent.
        proposals: The proposals.
        speakers: Names of the agents that were recorded.
        requested: Names for the first proposals.

    Raises:
        InputError: A requested name is malformed, repeated, or taken by another kind of resource.
    """
    taken_names = store.resources.names()
    reserved = set(taken_names) - set(store.resources.names("prompt"))
    for number, name in enumerate(requested):
        if not name or not all(c.isalnum() or c in "_-." for c in name):
            raise InputError(
                f"{name!r} is not a valid prompt name.",
                hint="Use letters, digits, '_', '-' and '.'.",
            )
        if name in requested[:number] or name in reserved:
            what = "is given twice" if name in requested[:number] else "belongs to another resource"
            raise InputError(f"The name {name!r} {what}.", hint="Choose another name.")
    further = proposals[len(requested) :]
    names = proposal_names(further, speakers, agent, {*taken_names, *requested})
    return list(zip([*requested, *names], proposals, strict=False))


def register_proposals(
    store: Store, agent: str, proposals: Sequence[tuple[str, TemplateProposal]]
) -> Candidate:
    """Store the proposals, and a candidate that adds them to the active one."""
    active = active_candidate(store, agent)
    resources: dict[str, Resource] = dict(active.resources) if active else {}
    resources |= {name: proposal.template for name, proposal in proposals}
    candidate = Candidate.of(
        resources,
        parents=(active.id,) if active else (),
        algorithm="discover",
        reason=f"The recorded prompts of the agent {agent}.",
    )
    store.candidates.put(candidate)
    return candidate


def for_machines(
    agent: str,
    recorded: RecordedPrompts,
    proposals: Sequence[tuple[str, TemplateProposal]],
    candidate: Candidate | None,
) -> dict[str, Any]:
    """The result of `prompts discover` as JSON."""
    versions = candidate.versions() if candidate else {}
    return {
        "agent": agent,
        "calls": recorded.calls,
        "prompts": recorded.prompts,
        "registered": recorded.registered,
        "cut": recorded.cut,
        "left_out": recorded.discovery.left_out,
        "refused": recorded.discovery.refused,
        "proposals": [
            {
                "name": name,
                "speaker": proposal.speaker,
                "version": versions.get(name, ""),
                "template": proposal.template.text,
                "slots": proposal.slots,
                "texts": proposal.texts,
                "count": proposal.count,
                "share": proposal.share,
            }
            for name, proposal in proposals
        ],
        "candidate": candidate.id if candidate else "",
    }


def print_recorded_prompts(agent: str, recorded: RecordedPrompts, rare: int) -> None:
    """Print the proposals, and which prompts need none."""
    if not recorded.prompts:
        out.print(
            f"There is no recorded call of {agent} with a system prompt. Let the agent call its "
            "model through the gateway, with the base URL "
            f"http://HOST:PORT/gateway/{agent}/openai/v1",
            markup=False,
        )
        return
    out.print(
        f"{counted(recorded.prompts, 'prompt')} in {counted(recorded.calls, 'call')} of {agent}.",
        markup=False,
    )
    for prompt in recorded.registered:
        out.print(
            f"  Registered as {prompt.name} {short(prompt.version)}: {prompt.count}.", markup=False
        )
    for reason, count in recorded.discovery.left_out.items():
        out.print(f"  Skipped {count}: {reason}.", markup=False)
    for texts in recorded.discovery.refused[:SHOWN_REFUSED]:
        speaker = f" of {texts.speaker}" if texts.speaker else ""
        out.print(f"  Refused {texts.count}{speaker}: {texts.reason}.", markup=False)
    if len(recorded.discovery.refused) > SHOWN_REFUSED:
        out.print(
            f"  … and {counted(len(recorded.discovery.refused) - SHOWN_REFUSED, 'more agent')}."
        )
    if recorded.cut:
        out.print(f"  Truncated when recorded: {recorded.cut}.")
    if rare:
        out.print(f"  Not shown: {counted(rare, 'rare proposal')}; --least 0 shows all.")
    out.print()


def print_proposal(number: int, name: str, proposal: TemplateProposal) -> None:
    """Print a proposal with its slots and their values."""
    times = f"{proposal.count} times" if proposal.count != 1 else "once"
    texts = f"{proposal.texts} different texts" if proposal.texts != 1 else "always the same text"
    out.print(
        f"[bold]{number}. {name}[/]  {proposal.share:.0%} of them, {times}, {texts}",
        highlight=False,
    )
    lines = highlighted(proposal.template).split("\n")
    text = Text("\n").join(lines[:SHOWN_LINES])
    if len(lines) > SHOWN_LINES:
        text += Text(f"\n… {counted(len(lines) - SHOWN_LINES, 'more line')}", style="dim")
    out.print(Padding(text, (0, 0, 1, 4), expand=False))
    if proposal.slots:
        rows = table("slot", "values", "such as", right=("values",))
        for slot in proposal.slots:
            examples = ", ".join(repr(one_line(example, 40)) for example in slot.examples[:3])
            rows.add_row(Text(slot.name, "cyan"), str(slot.different), Text(examples))
        out.print(Padding(rows, (0, 0, 1, 4), expand=False))


def highlighted(template: PromptTemplate) -> Text:
    """A template's text with its slots highlighted."""
    text = Text(template.text)
    if template.engine == "plain":
        return text
    pattern = r"\{\{.*?\}\}" if template.engine == "jinja2" else r"(?<!\{)(?:\{\{)*\{(?!\{)[^{}]*\}"
    text.highlight_regex(pattern, "bold cyan")
    return text
