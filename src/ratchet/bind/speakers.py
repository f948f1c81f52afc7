"""Discovers the prompts of a system of several agents, separately for each agent.

Agents of one system share beginnings and phrases, so their texts must not be aligned with one
another. Calls are grouped by the agent's name, then by the tools that it is offered; within such a
group `discover` tells prompts apart by their text.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ratchet.bind.align import align
from ratchet.bind.discover import (
    FEW_TEXTS,
    SAMPLE,
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
from ratchet.bind.similar import runs_of_words
from ratchet.types import PromptUse

MIN_SAMPLE = 64
"""Minimum number of texts of a group that are grouped at a time."""

MAX_COMPARED = 100
"""Maximum number of templates that each further template is compared with."""

MIN_CONSTANT_SHARE = 0.8
"""Minimum share of constant text in two texts, and minimum share of another template's constant
text in a template that stands for both."""

SOME = 0.3
"""Minimum share of constant text in a few texts."""

MAX_DIFFERING_WORDS = 6
"""Maximum number of words by which two texts may differ, such as a name or a date."""

NEARLY = 0.95
"""Share of a template's constant text that must remain when it is joined with another."""

MANY_TEXTS = 20
"""Minimum number of different texts in which unlabelled slots may take up much of the text."""

_ALIGNED = 4
"""Number of texts of each of two templates that are aligned."""

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
        tuple(
            sorted(
                _refused(groups, assigned), key=lambda refusal: (-refusal.count, refusal.speaker)
            )
        ),
    )


def speakers_of(uses: Iterable[PromptUse]) -> frozenset[str]:
    """Names of the agents that used prompts."""
    return frozenset(_without_ids(use.speaker) for use in uses) - {""}


def _without_ids(speaker: str) -> str:
    """An agent's name without the parts that differ from run to run."""
    return _ID.sub("", speaker).strip()


def _groups(readable: Mapping[tuple[str, tuple[str, ...], str], int]) -> list[_Group]:
    """The groups; named speakers first, then most frequent first."""
    by_speaker: dict[str, dict[tuple[str, ...], _Group]] = {}
    for speaker, tools, text in sorted(readable):
        groups = by_speaker.setdefault(speaker, {})
        group = groups.setdefault(tools, _Group(speaker, tools, Counter()))
        group.counts[text] = readable[speaker, tools, text]
    merged = [
        group for by_tools in by_speaker.values() for group in _merged(list(by_tools.values()))
    ]
    return sorted(merged, key=lambda group: (not group.speaker, *_frequent(group), group.speaker))


def _frequent(group: _Group) -> tuple[int, tuple[str, ...]]:
    return -group.counts.total(), group.tools


def _merged(groups: Iterable[_Group]) -> list[_Group]:
    """A speaker's groups; those that share a text are merged."""
    merged: list[_Group] = []
    home: dict[str, _Group] = {}
    for group in sorted(groups, key=_frequent):
        home_group = next((home[text] for text in group.counts if text in home), group)
        if home_group is group:
            merged.append(group)
        else:
            home_group.counts.update(group.counts)
        home.update(dict.fromkeys(group.counts, home_group))
    return merged


def _drafts(groups: Sequence[_Group]) -> list[_Draft]:
    """The templates of each group, found separately."""
    drafts: list[_Draft] = []
    unsupported: dict[str, _Group] = {}
    sample = max(SAMPLE // max(len(groups), 1), MIN_SAMPLE)
    for group in groups:
        counts: dict[str, int] = dict(group.counts)
        known_texts = _known(drafts, counts)
        # Calls without a name may be of many agents; most were recorded by the gateway, and are of
        # those that have one.
        if not group.speaker or len(known_texts) == len(counts):
            counts = {text: count for text, count in counts.items() if text not in known_texts}
        own = [_Draft(pieces, group, texts) for pieces, texts in _supported(counts, sample)]
        for text in {text for draft in own for text in draft.texts}:
            del counts[text]
        unsupported.setdefault(group.speaker, _Group(group.speaker, (), Counter())).counts.update(
            counts
        )
        drafts += own
    for group in unsupported.values():
        # One agent may be offered other tools in each call.
        drafts += [
            _Draft(pieces, group, texts)
            for pieces, texts in _supported(group.counts, sample)
            if len(texts) >= FEW_TEXTS and not swallows(pieces, texts)
        ]
    return drafts


def _known(drafts: Iterable[_Draft], texts: Iterable[str]) -> set[str]:
    """The texts that earlier templates match without a slot taking up most of them."""
    texts_by_pieces = members_of(dict.fromkeys(draft.pieces for draft in drafts), texts)
    return {
        text
        for pieces, matched in texts_by_pieces.items()
        if not swallows(pieces, matched)
        for text in matched
    }


def _supported(counts: Mapping[str, int], sample: int) -> Iterator[tuple[Pieces, list[str]]]:
    """Templates for which there are enough of these texts."""
    for pieces, texts in find_templates(counts, sample).items():
        if _carries(pieces, texts, counts):
            yield pieces, texts
        else:
            yield from (((text,), [text]) for text in texts if counts[text] >= SUPPORT)


def _carries(pieces: Pieces, texts: Sequence[str], counts: Mapping[str, int]) -> bool:
    """Whether the texts are enough for their template."""
    if len(texts) == 1:
        return counts[texts[0]] >= SUPPORT
    constant = constant_size(pieces) * len(texts) / sum(map(len, texts))
    if len(texts) < SUPPORT:
        loose = loose_text(pieces, texts)
        return (
            constant >= MIN_CONSTANT_SHARE
            and max(len(text.split()) for text in loose) <= MAX_DIFFERING_WORDS
        )
    if len(texts) < MANY_TEXTS and swallows(pieces, texts):
        return False
    return len(texts) >= FEW_TEXTS or constant >= SOME


def _distinct(drafts: Iterable[_Draft]) -> list[_Draft]:
    """The drafts; drafts of the same prompt from different groups are merged."""
    distinct: list[_Draft] = []
    for draft in sorted(drafts, key=lambda draft: (constant_size(draft.pieces), draft.pieces)):
        for place, earlier in enumerate(distinct[:MAX_COMPARED]):
            joined = _joined(earlier, draft) if earlier.group is not draft.group else None
            if joined is not None:
                distinct[place] = joined
                break
        else:
            distinct.append(draft)
    return distinct


def _joined(general: _Draft, special: _Draft) -> _Draft | None:
    """The draft of both, if they belong to the same prompt."""
    size = constant_size(special.pieces)
    if constant_size(general.pieces) < MIN_CONSTANT_SHARE * size:
        return None
    if _matches(general.pieces, special.texts[:FEW_TEXTS]):
        return general
    # Few texts of one agent with other tools each have more in common by chance.
    if general.group.speaker != special.group.speaker:
        return None
    words = _words(special.pieces)
    if len(words & _words(general.pieces)) < MIN_CONSTANT_SHARE * len(words):
        return None
    texts = [*general.texts[:_ALIGNED], *special.texts[:_ALIGNED]]
    pieces = tuple(align(texts))
    if constant_size(pieces) >= NEARLY * size and _matches(pieces, texts):
        return _Draft(pieces, general.group, texts)
    return None


@functools.lru_cache(maxsize=1024)
def _words(pieces: Pieces) -> frozenset[int]:
    return frozenset(runs_of_words("\n".join(pieces)))


def _matches(pieces: Pieces, texts: Sequence[str]) -> bool:
    template = template_of(pieces)
    return all(recognise(template, text) is not None for text in texts)


def _assigned(groups: Sequence[_Group], drafts: Sequence[_Draft]) -> dict[str, Pieces]:
    """For each text, the template that matches it best, as at the gateway."""
    texts = sorted({text for group in groups for text in group.counts})
    texts_by_pieces = members_of([draft.pieces for draft in drafts], texts)
    return {text: pieces for pieces, matched in texts_by_pieces.items() for text in matched}


def _confusable(
    groups: Sequence[_Group], drafts: Sequence[_Draft], assigned: Mapping[str, Pieces]
) -> set[Pieces]:
    """Templates with slots so large that other agents' prompts disappear in them."""
    owners: dict[Pieces, set[str]] = {}
    for draft in drafts:
        owners.setdefault(draft.pieces, set()).add(draft.group.speaker)
    confusable: set[Pieces] = set()
    for group in groups:
        theirs: dict[Pieces, list[str]] = {}
        for text in group.counts:
            pieces = assigned.get(text)
            if pieces and group.speaker and owners[pieces].isdisjoint({group.speaker, ""}):
                theirs.setdefault(pieces, []).append(text)
        confusable |= {pieces for pieces, texts in theirs.items() if swallows(pieces, texts)}
    return confusable


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
    left: dict[str, Counter[str]] = {}
    for group in groups:
        unassigned = {text: count for text, count in group.counts.items() if text not in assigned}
        if unassigned:
            left.setdefault(group.speaker, Counter()).update(unassigned)
    for speaker, counts in left.items():
        reason = _reason(len(counts), counts.total())
        yield RefusedTexts(speaker, len(counts), counts.total(), reason)


def _reason(texts: int, count: int) -> str:
    times = _TIMES.get(count, f"{count} times")
    if count == 1:
        return "sent only once, so it is unknown what varies in it"
    if texts == 1:
        return f"sent {times}, always with the same text; more calls would show what varies"
    if texts < MANY_TEXTS:
        return f"sent {times}, with different texts; more calls would show what they share"
    return f"sent {times}, with texts that have too little in common"
