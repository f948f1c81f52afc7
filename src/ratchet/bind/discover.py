"""Proposes prompt templates from recorded prompts: constant text, with slots for the varying parts.

A sample of the texts is grouped, each group is aligned, and the resulting templates are matched
against all texts. Unmatched texts are sampled again, so that rare prompts are found too.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from ratchet.bind.align import align
from ratchet.bind.recognise import (
    MAX_TEXT,
    Recogniser,
    RegisteredPrompt,
    recognise,
    refusal,
    shape_of,
)
from ratchet.bind.slot_names import slot_names
from ratchet.types import PromptTemplate

SAMPLE = 256
"""Texts grouped at once."""

SAMPLE_CHARACTERS = 2_000_000
"""Maximum characters of a sample."""

ROUNDS = 16

FEW = 8
"""With at most this many different texts, coincidences are likely."""

_ALIGNED = 12
"""Texts aligned first; others that do not match are added, this many at a time."""

_ALIGNED_CHARACTERS = 300_000
_REFINEMENTS = 8

_EFFORT = 3_000_000
"""Maximum characters aligned in total, which takes seconds at worst."""

_SHOWN_DRAFTS = 64
"""Earlier templates compared with new ones; those that match the most texts."""

_LONG = 60
"""Characters above which a constant piece is no coincidence, even when the rest of the text
differs."""

_EXAMPLES = 5


class TemplateSlot(msgspec.Struct, frozen=True):
    """A slot of a proposed template."""

    name: str
    examples: tuple[str, ...]
    """Values of the slot, most frequent first."""
    different: int
    """Number of different values."""


class TemplateProposal(msgspec.Struct, frozen=True):
    """A template that recorded texts match."""

    template: PromptTemplate
    slots: tuple[TemplateSlot, ...]
    texts: int
    """Number of different texts that match."""
    count: int
    """Number of recordings of these."""
    share: float
    """Share of all recordings."""


class Discovery(msgspec.Struct, frozen=True):
    """Result of a discovery."""

    proposals: tuple[TemplateProposal, ...]
    """Most frequent first."""
    total: int
    """Number of recorded texts, repetitions included."""
    left_out: dict[str, int]
    """Number of these that no proposal matches, by reason."""


def discover(texts: Iterable[tuple[str, int]]) -> Discovery:
    """Propose templates.

    Args:
        texts: Texts with the number of recordings of each; a text may be repeated.

    Returns:
        Proposals with the texts that they match; each text is counted once.
    """
    counts: dict[str, int] = {}
    left_out: dict[str, int] = {}
    for text, count in texts:
        plain = text.replace("\r\n", "\n").strip()
        if plain and len(plain) <= MAX_TEXT:
            counts[plain] = counts.get(plain, 0) + count
        else:
            reason = "longer than can be recognised" if plain else "empty"
            left_out[reason] = left_out.get(reason, 0) + count
    total = sum(counts.values()) + sum(left_out.values())
    search = _Search(counts)
    search.run()
    members = search.members()
    recognised = {text for texts_of in members.values() for text in texts_of}
    rest = sum(count for text, count in counts.items() if text not in recognised)
    if rest:
        left_out["like no other"] = rest
    proposals = [_proposal(draft, texts_of, counts, total) for draft, texts_of in members.items()]
    proposals.sort(key=lambda proposal: (-proposal.count, proposal.template.text))
    return Discovery(tuple(proposals), total, left_out)


class _Search:
    """Searches for templates until no new one is found."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts
        self.left = sorted(counts, key=lambda text: -counts[text])
        self.drafts: dict[tuple[str, ...], list[str]] = {}
        """Texts of each template found, by its constant pieces."""
        self._effort = _EFFORT

    def run(self) -> None:
        """Search; `members` returns the result."""
        share, late = 0.1, False
        for _ in range(ROUNDS):
            if not self.left:
                break
            if self._round(share, late=late):
                continue
            if late:
                break
            # Search for rare prompts, and at the end accept templates with little constant text
            # too.
            share, late = share / 10, share < 0.005
        self._keep_fixed()

    def members(self) -> dict[tuple[str, ...], list[str]]:
        """Texts by the template that matches them best."""
        recogniser, pieces = _recogniser(self.drafts)
        found: dict[tuple[str, ...], list[str]] = {}
        for text in self.counts:
            best = recogniser.find(text)
            if best is not None:
                found.setdefault(pieces[best.version], []).append(text)
        return found

    def _round(self, share: float, *, late: bool) -> bool:
        """Run one round; whether something was found."""
        pool = _sample(self.left)
        owner: list[tuple[str, ...] | None] = [None] * len(pool)
        frequent = sorted(self.drafts, key=lambda draft: -len(self.drafts[draft]))
        for draft in frequent[:_SHOWN_DRAFTS]:
            shown = _spread(self.drafts[draft], 4)
            pool += shown
            owner += [draft] * len(shown)
        new = False
        for places in group_similar(pool, share):
            fresh = [pool[n] for n in places if owner[n] is None]
            if not fresh:
                continue
            drafts = {draft for draft in (owner[n] for n in places) if draft is not None}
            new = self._learn(fresh, drafts, late=late) or new
        return new

    def _learn(self, fresh: list[str], drafts: set[tuple[str, ...]], *, late: bool) -> bool:
        """Find the template of similar texts, or generalise an earlier one."""
        for draft in drafts:
            known = _spread(self.drafts[draft], _ALIGNED)
            wider = self._template([*known, *fresh], late=late)
            # A template that loses most of its text for a few more texts belongs to another prompt.
            if wider and _constant(wider) >= 0.6 * _constant(draft):
                freed = self.drafts.pop(draft)
                self._take(wider, [*freed, *self.left])
                return True
        found = self._template(fresh, late=late)
        return found is not None and self._take(found, self.left)

    def _take(self, pieces: tuple[str, ...], texts: Sequence[str]) -> bool:
        template = _template(pieces)
        mine = [text for text in texts if recognise(template, text) is not None]
        taken = set(mine)
        self.left = [text for text in self.left if text not in taken]
        self.drafts.setdefault(pieces, []).extend(mine)
        return bool(mine)

    def _template(self, texts: list[str], *, late: bool) -> tuple[str, ...] | None:
        """The constant pieces of the template of these texts, or None when there are none."""
        if len(texts) < 2:
            return None
        shown = _within(_spread(texts, _ALIGNED), _ALIGNED_CHARACTERS)
        for _ in range(_REFINEMENTS):
            self._effort -= sum(map(len, shown))
            if self._effort < 0:
                return None
            pieces = tuple(align(shown))
            template = _template(pieces)
            if refusal(template):
                return None
            unlike = [text for text in texts if recognise(template, text) is None]
            if not unlike:
                break
            characters = _ALIGNED_CHARACTERS - sum(map(len, shown))
            shown += _within(_spread(unlike, _ALIGNED), characters)
        return pieces if self._is_trusted(pieces, texts, late=late) else None

    def _is_trusted(self, pieces: tuple[str, ...], texts: Sequence[str], *, late: bool) -> bool:
        sizes = [len(text) for text in texts]
        share = _constant(pieces) / statistics.median(sizes)
        long = max(map(len, pieces)) >= _LONG
        if len(texts) < FEW:
            if self._are_fixed(pieces, texts):
                return False
            return share >= 0.5 or (late and long and _constant(pieces) >= 0.1 * min(sizes))
        return share >= 0.3 or (late and long)

    def _are_fixed(self, pieces: tuple[str, ...], texts: Sequence[str]) -> bool:
        """Whether these are a few fixed prompts rather than one template with long slots."""
        if sum(self.counts[text] for text in texts) < 5 * len(texts):
            return False
        fillings = [recognise(_template(pieces), text) or {} for text in texts]
        return any(len(value.split()) > 6 for slots in fillings for value in slots.values())

    def _keep_fixed(self) -> None:
        few = len(self.counts) <= 5
        for text in list(self.left):
            if (self.counts[text] > 1 or few) and not refusal(_template((text,))):
                self._take((text,), [text])


def _sample(texts: Sequence[str]) -> list[str]:
    return _within(_spread(texts, SAMPLE), SAMPLE_CHARACTERS)


def _within(texts: Sequence[str], characters: int) -> list[str]:
    """The longest prefix of texts that fits, but at least two texts."""
    selected: list[str] = []
    for text in texts:
        characters -= len(text)
        if characters < 0 and len(selected) >= 2:
            break
        selected.append(text)
    return selected


def _spread(texts: Sequence[str], count: int) -> list[str]:
    """At most `count` texts, evenly spread."""
    if len(texts) <= count:
        return list(texts)
    return [texts[number * len(texts) // count] for number in range(count)]


def _constant(pieces: Sequence[str]) -> int:
    return sum(map(len, pieces))


def _template(pieces: Sequence[str], names: Sequence[str] = ()) -> PromptTemplate:
    escaped = [piece.replace("{", "{{").replace("}", "}}") for piece in pieces]
    names = names or [f"slot_{number}" for number in range(1, len(pieces))]
    parts = [escaped[0]]
    for name, piece in zip(names, escaped[1:], strict=True):
        parts += ("{" + name + "}", piece)
    return PromptTemplate("".join(parts))


def _recogniser(
    drafts: Iterable[tuple[str, ...]],
) -> tuple[Recogniser, dict[str, tuple[str, ...]]]:
    pieces = {str(number): draft for number, draft in enumerate(drafts)}
    registered = (
        RegisteredPrompt("", version, _template(draft)) for version, draft in pieces.items()
    )
    return Recogniser(registered), pieces


def _proposal(
    pieces: tuple[str, ...], texts: Sequence[str], counts: dict[str, int], total: int
) -> TemplateProposal:
    template = _template(pieces)
    keys = shape_of(template).slots
    values: list[dict[str, int]] = [{} for _ in keys]
    for text in texts:
        slots = recognise(template, text) or {}
        for key, seen in zip(keys, values, strict=True):
            value = slots.get(key, "")
            seen[value] = seen.get(value, 0) + counts[text]
    examples = [tuple(sorted(seen, key=lambda v: -seen[v])[:_EXAMPLES]) for seen in values]
    names = slot_names(pieces, examples)
    count = sum(counts[text] for text in texts)
    return TemplateProposal(
        _template(pieces, names),
        tuple(
            TemplateSlot(name, shown, len(seen))
            for name, shown, seen in zip(names, examples, values, strict=True)
        ),
        len(texts),
        count,
        count / total,
    )


_WORD = re.compile(r"\w+")
_SHINGLE = 4
"""Consecutive words that are compared."""

_BEGINNING, _END = 3_000, 1_000
"""Words of a text that are examined."""

LEAST_SIMILARITY = 0.5
"""Weighted Jaccard similarity of their shingles that texts of a group must have."""

MAX_GROUPS = 64


def group_similar(texts: Sequence[str], least_share: float) -> list[list[int]]:
    """Group similar texts.

    Runs of words that many texts share are likely constant text and count more, by the square of
    their number; runs that few share are likely slot values.

    Args:
        texts: The texts.
        least_share: Minimum share of the texts in which a run of words must occur to count.

    Returns:
        Indices into `texts`, by group; a text similar to no other is a group of its own.
    """
    shingles = [_shingles(text) for text in texts]
    found = Counter(shingle for each in shingles for shingle in each)
    least = max(2.0, least_share * len(texts))
    weights = {shingle: n * n for shingle, n in found.items() if n >= least}
    leaders: list[tuple[set[int], int]] = []
    members: list[list[int]] = []
    alone: list[list[int]] = []
    for number, every in enumerate(shingles):
        own = {shingle for shingle in every if shingle in weights}
        total = sum(weights[shingle] for shingle in own)
        if not own:
            alone.append([number])
            continue
        best, best_likeness = -1, LEAST_SIMILARITY
        for index, (leader, leaders_total) in enumerate(leaders):
            common = sum(weights[shingle] for shingle in own & leader)
            likeness = common / (total + leaders_total - common)
            if likeness >= best_likeness:
                best, best_likeness = index, likeness
        if best >= 0:
            members[best].append(number)
        elif len(leaders) < MAX_GROUPS:
            leaders.append((own, total))
            members.append([number])
        else:
            alone.append([number])
    return members + alone


def _shingles(text: str) -> set[int]:
    words = _WORD.findall(text)
    if len(words) > _BEGINNING + _END:
        words = words[:_BEGINNING] + words[-_END:]
    if len(words) < _SHINGLE:
        return {hash(tuple(words))} if words else set()
    return {hash(run) for run in zip(*(words[n:] for n in range(_SHINGLE)), strict=False)}
