"""Proposes prompt templates from recorded prompts: constant text, with slots for the varying parts.

A sample of the texts is grouped, each group is aligned, and the resulting templates are matched
against all texts. Unmatched texts are sampled again, so that rare prompts are found too.
"""

from __future__ import annotations

import statistics
import zlib
from collections.abc import Iterable, Mapping, Sequence

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
from ratchet.bind.similar import group_recurring, group_similar
from ratchet.bind.slot_names import is_labelled, slot_names
from ratchet.types import PromptTemplate

SAMPLE = 256
"""Texts that are grouped at a time."""

SAMPLE_CHARACTERS = 2_000_000
"""Maximum length of a sample, in characters."""

MAX_ROUNDS = 16

FEW_TEXTS = 8
"""With at most this many different texts, coincidences are likely."""

_ALIGNED = 12
"""Texts aligned first; others that do not match are added, this many at a time."""

_ALIGNED_CHARACTERS = 300_000
_REFINEMENTS = 8

_EFFORT = 3_000_000
"""How many characters are aligned in total, which takes seconds at worst."""

_SHOWN_DRAFTS = 64
"""Earlier templates compared with new ones; those that match the most texts."""

_LONG = 60
"""Characters above which a constant piece is not a coincidence, even if the rest of the text
differs."""

_EXAMPLES = 5

SUPPORT = 3
"""Number of recordings from which on a text is a prompt of its own."""

MAX_BRANCHES = 32
"""Maximum number of prompts that are distinguished after the same beginning."""


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
    speaker: str = ""
    """Name of the agent that made most of these calls; empty if unknown."""


class RefusedTexts(msgspec.Struct, frozen=True):
    """Texts of an agent for which no template is proposed."""

    speaker: str
    """The agent's name; empty if unknown."""
    texts: int
    """Number of different texts."""
    count: int
    """Number of recordings of these."""
    reason: str


class Discovery(msgspec.Struct, frozen=True):
    """Result of a discovery."""

    proposals: tuple[TemplateProposal, ...]
    """Most frequent first."""
    total: int
    """Number of recorded texts, repetitions included."""
    left_out: dict[str, int]
    """Number of these that no proposal matches, by reason."""
    refused: tuple[RefusedTexts, ...] = ()
    """Texts that no proposal matches, by agent and reason; most frequent first."""


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
        plain = plain_text(text)
        reason = unreadable(plain)
        if reason:
            left_out[reason] = left_out.get(reason, 0) + count
        else:
            counts[plain] = counts.get(plain, 0) + count
    total = sum(counts.values()) + sum(left_out.values())
    members = find_templates(counts)
    unmatched = sum(counts.values()) - sum(
        counts[text] for texts in members.values() for text in texts
    )
    if unmatched:
        left_out["like no other"] = unmatched
    proposals = [proposal_of(draft, texts_of, counts, total) for draft, texts_of in members.items()]
    return Discovery(tuple(sorted(proposals, key=rank)), total, left_out)


def plain_text(text: str) -> str:
    """A text as it is compared with templates: white space at its ends does not count."""
    return text.replace("\r\n", "\n").strip()


def unreadable(text: str) -> str:
    """Why a text can have no template; empty if it can."""
    if len(text) > MAX_TEXT:
        return "longer than can be recognised"
    return "" if text else "empty"


def find_templates(
    counts: Mapping[str, int], sample: int = SAMPLE
) -> dict[tuple[str, ...], list[str]]:
    """Find templates, and the texts that each was found in.

    Args:
        counts: Number of recordings of each text, as `plain_text` returns it.
        sample: Texts grouped at once.

    Returns:
        Texts by the constant pieces of the template; the same for the same texts in any order.
    """
    search = _Search(counts, sample)
    search.run()
    return members_of(search.drafts, counts)


def members_of(
    drafts: Iterable[tuple[str, ...]], texts: Iterable[str]
) -> dict[tuple[str, ...], list[str]]:
    """Texts by the template that matches them best, without templates that match none."""
    pieces = {str(number): draft for number, draft in enumerate(drafts)}
    recogniser = Recogniser(
        RegisteredPrompt("", version, template_of(draft)) for version, draft in pieces.items()
    )
    texts_by_pieces: dict[tuple[str, ...], list[str]] = {}
    for text in texts:
        best = recogniser.find(text)
        if best is not None:
            texts_by_pieces.setdefault(pieces[best.version], []).append(text)
    return texts_by_pieces


def rank(proposal: TemplateProposal) -> tuple[int, str]:
    """Key that sorts proposals: most frequent first."""
    return -proposal.count, proposal.template.text


class _Search:
    """Searches for templates until no new one is found."""

    def __init__(self, counts: Mapping[str, int], sample: int) -> None:
        self.counts = counts
        self._sample_size = sample
        # An order that depends on nothing but the texts, and that has nothing to do with them.
        self.left = sorted(counts, key=lambda text: (-counts[text], _digest(text), text))
        self.drafts: dict[tuple[str, ...], list[str]] = {}
        """Texts of each template found, by its constant pieces."""
        self._effort = _EFFORT

    def run(self) -> None:
        """Search; `drafts` holds the result."""
        share, late = 0.1, False
        for _ in range(MAX_ROUNDS):
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

    def _round(self, share: float, *, late: bool) -> bool:
        """Run one round; returns whether anything was found."""
        pool = _sample(self.left, self._sample_size)
        owner: list[tuple[str, ...] | None] = [None] * len(pool)
        frequent = sorted(self.drafts, key=lambda draft: -len(self.drafts[draft]))
        for draft in frequent[:_SHOWN_DRAFTS]:
            examples = _spread(self.drafts[draft], 4)
            pool += examples
            owner += [draft] * len(examples)
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
        # Some may have been generalised for the texts of another group.
        for draft in sorted(drafts & self.drafts.keys()):
            earlier = _spread(self.drafts[draft], _ALIGNED)
            both = [*earlier, *fresh]
            wider = self._aligned(both)
            # A template that loses most of its text for a few more texts belongs to another prompt.
            if (
                wider
                and self._is_trusted(wider, both, late=late)
                and constant_size(wider) >= 0.6 * constant_size(draft)
                and (swallows(draft, earlier) or not swallows(wider, both))
            ):
                freed = self.drafts.pop(draft)
                self._take(wider, [*freed, *self.left])
                return True
        pieces = self._aligned(fresh)
        if pieces is None:
            return False
        prompts = self._prompts_within(pieces, fresh)
        if len(prompts) > 1:
            learned = [self._learn(texts, set(), late=late) for texts in prompts]
            return any(learned)
        if self._is_trusted(pieces, fresh, late=late):
            return self._take(pieces, self.left)
        # A few texts of other prompts may be among those of one.
        return any(
            len(texts) < len(fresh) and self._learn(texts, set(), late=late) for texts in prompts
        )

    def _prompts_within(self, pieces: tuple[str, ...], texts: Sequence[str]) -> list[list[str]]:
        """The texts by prompt, if the template may only join prompts that share a part.

        Two or more account for most of the texts, whereas of one there may be any number.
        """
        if not swallows(pieces, texts):
            return []
        counts = [self.counts[text] for text in texts]
        groups = group_recurring(loose_text(pieces, texts), counts, SUPPORT)
        covered = sum(counts[number] for group in groups for number in group)
        if len(groups) > 1 and (len(groups) > MAX_BRANCHES or covered < 0.8 * sum(counts)):
            return []
        return [[texts[number] for number in group] for group in groups]

    def _take(self, pieces: tuple[str, ...], texts: Sequence[str]) -> bool:
        template = template_of(pieces)
        mine = [text for text in texts if recognise(template, text) is not None]
        if not mine:
            return False
        matched = set(mine)
        self.left = [text for text in self.left if text not in matched]
        self.drafts.setdefault(pieces, []).extend(mine)
        return True

    def _aligned(self, texts: list[str]) -> tuple[str, ...] | None:
        """The constant pieces of the template of these texts, or None if there are too few."""
        if len(texts) < 2:
            return None
        sample = _within(_spread(texts, _ALIGNED), _ALIGNED_CHARACTERS)
        for _ in range(_REFINEMENTS):
            self._effort -= sum(map(len, sample))
            if self._effort < 0:
                return None
            pieces = tuple(align(sample))
            template = template_of(pieces)
            if refusal(template):
                return None
            unlike = [text for text in texts if recognise(template, text) is None]
            if not unlike:
                break
            characters = _ALIGNED_CHARACTERS - sum(map(len, sample))
            sample += _within(_spread(unlike, _ALIGNED), characters)
        return pieces

    def _is_trusted(self, pieces: tuple[str, ...], texts: Sequence[str], *, late: bool) -> bool:
        sizes = [len(text) for text in texts]
        share = constant_size(pieces) / statistics.median(sizes)
        long = max(map(len, pieces)) >= _LONG
        if len(texts) < FEW_TEXTS:
            if self._are_fixed(pieces, texts) or swallows(pieces, texts):
                return False
            return share >= 0.5 or (late and long and constant_size(pieces) >= 0.1 * min(sizes))
        return share >= 0.3 or (late and long)

    def _are_fixed(self, pieces: tuple[str, ...], texts: Sequence[str]) -> bool:
        """Whether these are a few fixed prompts rather than one template with long slots."""
        if sum(self.counts[text] for text in texts) < 5 * len(texts):
            return False
        fillings = [recognise(template_of(pieces), text) or {} for text in texts]
        return any(len(value.split()) > 6 for slots in fillings for value in slots.values())

    def _keep_fixed(self) -> None:
        few = len(self.counts) <= 5
        for text in list(self.left):
            if (self.counts[text] > 1 or few) and not refusal(template_of((text,))):
                self._take((text,), [text])


def _digest(text: str) -> int:
    return zlib.crc32(text.encode(errors="surrogatepass"))


def _sample(texts: Sequence[str], count: int) -> list[str]:
    return _within(_spread(texts, count), SAMPLE_CHARACTERS)


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


def loose_text(pieces: tuple[str, ...], texts: Sequence[str]) -> list[str]:
    """The content of slots without a label in each text: it may be a prompt of its own."""
    template = template_of(pieces)
    keys = shape_of(template).slots
    loose = [key for key, before in zip(keys, pieces, strict=False) if not is_labelled(before)]
    fillings = (recognise(template, text) or {} for text in texts)
    return ["\n".join(slots.get(key, "") for key in loose) for slots in fillings]


def swallows(pieces: tuple[str, ...], texts: Sequence[str]) -> bool:
    """Whether slots without a label take up so much of the texts that these may be several
    prompts."""
    loose = loose_text(pieces, texts)
    share = sum(map(len, loose)) / sum(map(len, texts))
    return share >= 0.3 or (
        share >= 0.1 and sum(len(slot_text.split()) for slot_text in loose) >= 20 * len(texts)
    )


def constant_size(pieces: Sequence[str]) -> int:
    return sum(map(len, pieces))


def template_of(pieces: Sequence[str], names: Sequence[str] = ()) -> PromptTemplate:
    """The template of these constant pieces; slots without names get numbers."""
    escaped = [piece.replace("{", "{{").replace("}", "}}") for piece in pieces]
    names = names or [f"slot_{number}" for number in range(1, len(pieces))]
    parts = [escaped[0]]
    for name, piece in zip(names, escaped[1:], strict=True):
        parts += ("{" + name + "}", piece)
    return PromptTemplate("".join(parts))


def proposal_of(
    pieces: tuple[str, ...], texts: Sequence[str], counts: Mapping[str, int], total: int
) -> TemplateProposal:
    """The proposal of a template, with named slots.

    Args:
        pieces: Constant text before, between and after the slots.
        texts: The texts that match it.
        counts: Number of recordings of each text.
        total: Number of all recordings.
    """
    template = template_of(pieces)
    keys = shape_of(template).slots
    values: list[dict[str, int]] = [{} for _ in keys]
    for text in texts:
        slots = recognise(template, text) or {}
        for key, value_counts in zip(keys, values, strict=True):
            value = slots.get(key, "")
            value_counts[value] = value_counts.get(value, 0) + counts[text]
    examples = [
        tuple(sorted(value_counts, key=lambda v: (-value_counts[v], v))[:_EXAMPLES])
        for value_counts in values
    ]
    names = slot_names(pieces, examples)
    count = sum(counts[text] for text in texts)
    return TemplateProposal(
        template_of(pieces, names),
        tuple(
            TemplateSlot(name, slot_examples, len(value_counts))
            for name, slot_examples, value_counts in zip(names, examples, values, strict=True)
        ),
        len(texts),
        count,
        count / total,
    )
