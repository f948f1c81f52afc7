"""What an agent's recorded calls say: its system prompts, and which are registered already."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ratchet.bind.discover import Discovery, discover
from ratchet.bind.recognise import Recogniser, Registered
from ratchet.observe.system_prompts import system_prompts, was_cut
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Span

PAGE = 500
NEWEST = 100
"""Versions of a registered prompt that are recognised."""


class Covered(msgspec.Struct, frozen=True):
    """A registered prompt that was found in what was recorded."""

    name: str
    version: str
    count: int
    """How often."""


class Found(msgspec.Struct, frozen=True):
    """What recorded calls hold."""

    calls: int
    """Calls that had instructions."""
    prompts: int
    """Instructions in them."""
    registered: tuple[Covered, ...]
    """The most frequent first."""
    cut: int
    """Instructions that were too long to be recorded whole."""
    discovery: Discovery
    """Of what is neither registered nor cut."""


def look_at(store: Store, agent: str, limit: int) -> Found:
    """Look at an agent's newest calls.

    Args:
        store: The store.
        agent: Name of the live agent, and of the queue whose rollouts are looked at.
        limit: Calls at most.
    """
    recogniser = registered_prompts(store, agent)
    counts: dict[str, int] = {}
    calls = 0
    for span in _spans(store, agent, limit):
        prompts = system_prompts(span.attributes)
        for prompt in prompts:
            counts[prompt] = counts.get(prompt, 0) + 1
        calls += bool(prompts)
        if calls >= limit:
            break
    covered: dict[tuple[str, str], int] = {}
    fresh: list[tuple[str, int]] = []
    cut = 0
    for text, count in counts.items():
        found = recogniser.find(text)
        if found is not None:
            key = (found.name, found.version)
            covered[key] = covered.get(key, 0) + count
        elif was_cut(text):
            cut += count
        else:
            fresh.append((text, count))
    return Found(
        calls,
        sum(counts.values()),
        tuple(
            Covered(name, version, count)
            for (name, version), count in sorted(covered.items(), key=lambda one: -one[1])
        ),
        cut,
        discover(fresh),
    )


def registered_prompts(store: Store, agent: str) -> Recogniser:
    """Recognises the registered prompts of an agent."""
    return Recogniser(
        Registered(name, version, template)
        for name in names_of(store, agent)
        for version, template in versions_of(store, name, NEWEST)
    )


def names_of(store: Store, agent: str) -> list[str]:
    """Names of an agent's prompts: those that begin with its own, and those of what is active."""
    active = active_candidate(store, agent)
    own = set(active.resources) if active else set()
    return [
        name
        for name in store.resources.names("prompt")
        if name == agent or name.startswith(f"{agent}.") or name in own
    ]


def active_candidate(store: Store, agent: str) -> Candidate | None:
    """The candidate that the agent runs with outside of rollouts."""
    activation = store.agents.active(agent)
    return store.candidates.get(activation.candidate_id) if activation else None


def versions_of(store: Store, name: str, newest: int) -> Iterator[tuple[str, PromptTemplate]]:
    """Versions of a prompt with their templates, oldest first."""
    for version, _ in store.resources.versions(name)[-newest:]:
        resource = store.resources.get(version)
        if isinstance(resource, PromptTemplate):
            yield version, resource


def _spans(store: Store, agent: str, limit: int) -> Iterator[Span]:
    """Spans of live traffic and of rollouts, in turns, newest first; a bounded number."""
    live = _live(store, agent)
    rolled = _rolled(store, agent)
    # Most spans of an agent are no model calls; so many are looked at, and no more.
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
