"""Discovers the prompts of a system of several agents: each agent's by itself.

Agents of one system share beginnings and phrases, so their texts must not be aligned with one
another. Calls are grouped by the agent's name, then by the tools that it is offered; within such a
group `discover` tells prompts apart by their text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ratchet.bind.align import align
from ratchet.bind.discover import (
    FEW,
    SUPPORT,
    Discovery,
    RefusedTexts,
    TemplateProposal,
    constant_size,
    find_templates,
    loose_text,
    members_of,
    plain_text,
    proposal_of,
    rank,
    swallows,
    template_of,
    unreadable,
)
from ratchet.bind.recognise import recognise
from ratchet.types import PromptUse

MAX_TOOL_SETS = 64
"""With more different sets of tools under one name, these say nothing about who speaks."""

SAME = 0.8
"""Share of constant text from which on two texts, or two templates, are of one prompt."""

MANY = 20
"""Different texts from which on a template may have any slots."""

_ID = re.compile(r"(?:^|[\W_]+)(?=[0-9a-fA-F-]*\d)[0-9a-fA-F][0-9a-fA-F-]{5,}(?=$|[\W_])")
"""An identifier in an agent's name, such as a UUID or a number of six digits."""

_TIMES = {1: "once", 2: "twice"}

Pieces = tuple[str, ...]


class _Group(msgspec.Struct):
    """Texts of one speaker."""

    speaker: str
    tools: tuple[str, ...]
    counts: Counter[str]


class _Draft(msgspec.Struct):
    """A template with enough support."""

    pieces: Pieces
    group: _Group
    texts: list[str]


def discover_by_speaker(uses: Iterable[PromptUse]) -> Discovery:
    """Propose the prompt templates of each agent.

    A text that is always the same needs `SUPPORT` calls. Different texts need two calls if nearly
    all of the text is constant, and more the less is.

    Args:
        uses: Recorded prompts.

    Returns:
        Proposals with the texts that they match, and why other texts have none; the same for the
        same uses in any order.
    """
    left_out: Counter[str] = Counter()
    readable: Counter[tuple[str, tuple[str, ...], str]] = Counter()
    for use in uses:
        text = plain_text(use.text)
        reason = unreadable(text)
        if reason:
            left_out[reason] += use.count
        else:
            readable[_without_ids(use.speaker), tuple(sorted(use.tools)), text] += use.count
    groups = _groups(readable)
    drafts = _distinct(_drafts(groups))
    assigned = _assigned(groups, drafts)
    confusable = _confusable(groups, drafts, assigned)
    while confusable:
        drafts = [draft for draft in drafts if draft.pieces not in confusable]
        assigned = _assigned(groups, drafts)
        confusable = _confusable(groups, drafts, assigned)
    total = readable.total() + left_out.total()
    return Discovery(
        tuple(sorted(_proposals(groups, assigned, total), key=rank)),
        total,
        dict(sorted(left_out.items())),
        tuple(sorted(_refused(groups, assigned), key=lambda one: (-one.count, one.speaker))),
    )


def speakers_of(uses: Iterable[PromptUse]) -> frozenset[str]:
    """Names of the agents that used prompts."""
    return frozenset(_without_ids(use.speaker) for use in uses) - {""}


def _without_ids(speaker: str) -> str:
    """An agent's name without what differs from run to run."""
    return _ID.sub("", speaker).strip()


def _groups(readable: Mapping[tuple[str, tuple[str, ...], str], int]) -> list[_Group]:
    """The groups, named speakers first, and the most frequent first."""
    by_speaker: dict[str, dict[tuple[str, ...], _Group]] = {}
    for speaker, tools, text in sorted(readable):
        groups = by_speaker.setdefault(speaker, {})
        group = groups.setdefault(tools, _Group(speaker, tools, Counter()))
        group.counts[text] = readable[speaker, tools, text]
    merged = [group for found in by_speaker.values() for group in _merged(list(found.values()))]
    return sorted(merged, key=lambda group: (not group.speaker, *_frequent(group), group.speaker))


def _frequent(group: _Group) -> tuple[int, tuple[str, ...]]:
    return -group.counts.total(), group.tools


def _merged(groups: list[_Group]) -> list[_Group]:
    """One speaker's groups; those whose prompt is the same with other tools are one."""
    merged: list[_Group] = []
    for group in sorted(groups, key=_frequent):
        any_tools = len(groups) > MAX_TOOL_SETS
        same = (other for other in merged if any_tools or _is_same(other, group))
        other = next(same, None)
        if other is None:
            merged.append(group)
        else:
            other.counts.update(group.counts)
    return merged


def _is_same(group: _Group, other: _Group) -> bool:
    if not group.counts.keys().isdisjoint(other.counts):
        return True
    texts = [min(one.counts, key=lambda text: (-one.counts[text], text)) for one in (group, other)]
    return constant_size(align(texts)) >= SAME * max(map(len, texts))


def _drafts(groups: Sequence[_Group]) -> list[_Draft]:
    drafts: list[_Draft] = []
    rest: dict[str, _Group] = {}
    for group in groups:
        # Most calls without a name were recorded by the gateway, of agents that are known by now.
        known = set() if group.speaker else _matched(drafts, group.counts)
        counts = {text: count for text, count in group.counts.items() if text not in known}
        own = [_Draft(pieces, group, texts) for pieces, texts in _supported(counts)]
        drafts += own
        matched = _matched(own, counts)
        left = rest.setdefault(group.speaker, _Group(group.speaker, (), Counter()))
        left.counts.update({text: n for text, n in counts.items() if text not in matched})
    for group in rest.values():
        # One agent with other tools in each call: many texts outweigh the tools.
        drafts += [
            _Draft(pieces, group, texts)
            for pieces, texts in _supported(group.counts)
            if len(texts) >= FEW and not swallows(pieces, texts)
        ]
    return drafts


def _matched(drafts: Iterable[_Draft], texts: Iterable[str]) -> set[str]:
    found = members_of([draft.pieces for draft in drafts], texts)
    return {text for matched in found.values() for text in matched}


def _supported(counts: Mapping[str, int]) -> Iterator[tuple[Pieces, list[str]]]:
    """Templates that these texts can carry."""
    for pieces, texts in find_templates(counts).items():
        if _carries(pieces, texts, counts):
            yield pieces, texts
        else:
            yield from (((text,), [text]) for text in texts if counts[text] >= SUPPORT)


def _carries(pieces: Pieces, texts: Sequence[str], counts: Mapping[str, int]) -> bool:
    """Whether the texts are enough for their template."""
    if len(texts) == 1:
        return counts[texts[0]] >= SUPPORT
    size = sum(map(len, texts))
    constant = constant_size(pieces) * len(texts) / size
    if len(texts) < FEW:
        least = SAME if len(texts) < SUPPORT else 0.3
        return constant >= least and not swallows(pieces, texts)
    return len(texts) >= MANY or sum(map(len, loose_text(pieces, texts))) <= size / 2


def _distinct(drafts: Sequence[_Draft]) -> list[_Draft]:
    """The drafts, without those of other groups that a hardly more general one stands for."""
    kept: list[_Draft] = []
    for draft in sorted(drafts, key=lambda one: (constant_size(one.pieces), one.pieces)):
        size = constant_size(draft.pieces)
        if not any(
            other.group is not draft.group
            and constant_size(other.pieces) >= SAME * size
            and _matches(other.pieces, draft.texts)
            for other in kept
        ):
            kept.append(draft)
    return kept


def _matches(pieces: Pieces, texts: Sequence[str]) -> bool:
    template = template_of(pieces)
    return all(recognise(template, text) is not None for text in texts[:FEW])


def _assigned(groups: Sequence[_Group], drafts: Sequence[_Draft]) -> dict[str, Pieces]:
    """The template that matches each text best, as the gateway will find it."""
    texts = sorted({text for group in groups for text in group.counts})
    found = members_of([draft.pieces for draft in drafts], texts)
    return {text: pieces for pieces, matched in found.items() for text in matched}


def _confusable(
    groups: Sequence[_Group], drafts: Sequence[_Draft], assigned: Mapping[str, Pieces]
) -> set[Pieces]:
    """Templates in whose slots the prompts of other agents disappear."""
    owners: dict[Pieces, set[str]] = {}
    for draft in drafts:
        owners.setdefault(draft.pieces, set()).add(draft.group.speaker)
    found: set[Pieces] = set()
    for group in groups:
        theirs: dict[Pieces, list[str]] = {}
        for text in group.counts:
            pieces = assigned.get(text)
            if pieces and group.speaker and owners[pieces].isdisjoint({group.speaker, ""}):
                theirs.setdefault(pieces, []).append(text)
        found |= {pieces for pieces, texts in theirs.items() if swallows(pieces, texts)}
    return found


def _proposals(
    groups: Sequence[_Group], assigned: Mapping[str, Pieces], total: int
) -> Iterator[TemplateProposal]:
    counts: Counter[str] = Counter()
    speakers: dict[Pieces, Counter[str]] = {}
    for group in groups:
        counts.update(group.counts)
        for text, count in group.counts.items():
            if text in assigned:
                speakers.setdefault(assigned[text], Counter())[group.speaker] += count
    members: dict[Pieces, list[str]] = {}
    for text, pieces in assigned.items():
        members.setdefault(pieces, []).append(text)
    for pieces, texts in members.items():
        spoken = speakers[pieces]
        speaker = min(spoken, key=lambda name: (not name, -spoken[name], name))
        proposal = proposal_of(pieces, texts, counts, total)
        yield msgspec.structs.replace(proposal, speaker=speaker)


def _refused(groups: Sequence[_Group], assigned: Mapping[str, Pieces]) -> Iterator[RefusedTexts]:
    for group in groups:
        left = {text: count for text, count in group.counts.items() if text not in assigned}
        if left:
            count = sum(left.values())
            yield RefusedTexts(group.speaker, len(left), count, _reason(len(left), count))


def _reason(texts: int, count: int) -> str:
    times = _TIMES.get(count, f"{count} times")
    if count == 1:
        return "seen once: record more calls"
    if texts == 1:
        return f"seen {times}, always with the same text: record more calls"
    if texts < MANY:
        return f"seen {times}, with different texts: record more calls"
    return f"seen {times}, with texts that have too little in common"
