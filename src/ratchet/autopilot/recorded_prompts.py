"""Finds the prompts of an agent, or of a system of several agents, in its recorded calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ratchet.bind.discover import Discovery
from ratchet.bind.prompt_names import proposal_names
from ratchet.bind.speakers import discover_by_speaker, speakers_of
from ratchet.observe.prompt_uses import RecordedCalls
from ratchet.observe.system_prompts import sent_texts, was_cut
from ratchet.store.usage import GATEWAY
from ratchet.types import PromptTemplate, Span


class FoundPrompts(msgspec.Struct, frozen=True):
    """The prompts that recorded calls were made with."""

    prompts: dict[str, PromptTemplate]
    """By name, such as `support.triage_agent.system`; most frequent first."""
    refused: tuple[str, ...]
    """Why other texts are not prompts, as sentences for people."""
    calls: int
    """Calls with a system prompt."""
    discovery: Discovery
    """The discovery; its proposals are in the order of `prompts`."""


def find_prompts(spans: Iterable[Span], agent: str) -> FoundPrompts:
    """Find the prompts in the spans of rollouts or of live traffic.

    Args:
        spans: All spans of their traces, in any order: the agents around the calls tell who speaks.
        agent: Name of the system, the first part of each prompt's name.

    Returns:
        The prompts; the same for the same spans in any order.
    """
    calls = RecordedCalls(spans)
    uses = calls.uses()
    uncut = [use for use in uses if not was_cut(use.text)]
    discovery = discover_by_speaker(uncut)
    speakers = speakers_of(uses)
    names = proposal_names(discovery.proposals, speakers, agent)
    refused = []
    for refusal in discovery.refused:
        who = f" of {refusal.speaker or 'an agent without a name'}" if len(speakers) > 1 else ""
        refused.append(f"{_number(refusal.count)}{who}: {refusal.reason}.")
    refused += [f"{_number(count)}: {reason}." for reason, count in discovery.left_out.items()]
    cut = sum(use.count for use in uses) - sum(use.count for use in uncut)
    if cut:
        refused.append(f"{_number(cut)}: truncated when recorded.")
    return FoundPrompts(
        {
            name: proposal.template
            for name, proposal in zip(names, discovery.proposals, strict=True)
        },
        tuple(refused),
        len(calls),
        discovery,
    )


def each_call_once(spans: Sequence[Span], *, by_gateway: bool) -> list[Span]:
    """The spans of a rollout, with one record of a call that both its client and the gateway have.

    Args:
        spans: All of the rollout's.
        by_gateway: Whose record stays: the gateway's knows the prompts that were replaced; the
            client's, which agent is around it.
    """
    texts = {span.span_id: set(sent_texts(span.attributes)) for span in spans}
    of_stayers = {
        text
        for span in spans
        if (GATEWAY in span.attributes) is by_gateway
        for text in texts[span.span_id]
    }
    return [
        span
        for span in spans
        if (GATEWAY in span.attributes) is by_gateway
        or not texts[span.span_id]
        or not texts[span.span_id] <= of_stayers
    ]


def _number(prompts: int) -> str:
    return f"{prompts} prompt{'s' * (prompts != 1)}"
