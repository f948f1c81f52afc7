"""Finds the prompts in an agent's source by the texts that its model calls sent."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ratchet.bind.recognise import recognise, recognise_within, refusal
from ratchet.observe.system_prompts import leading_user_texts, sent_texts, system_prompts
from ratchet.ship import find_literal
from ratchet.source.files import own_files
from ratchet.source.literals.literal import Literal, parts_of
from ratchet.source.literals.placeholders import with_placeholders
from ratchet.types import InputError, PromptTemplate, Span
from ratchet.wire.deriving.prompts import sent_sources
from ratchet.wire.deriving.text_owners import SentSource
from ratchet.wire.recording.recording import ModelText

_WORD = re.compile(r"[A-Za-z_]\w*")


class SourcePrompt(NamedTuple):
    """A literal that model calls sent."""

    template: PromptTemplate
    """The literal's template, with slots for inserted values."""
    place: str
    """As `FILE:LINE`."""


class SourcePrompts(NamedTuple):
    """The literals that model calls sent."""

    counts: dict[SourcePrompt, int]
    """The number of texts that each was sent in, without those that consist of known prompts."""
    places_in: dict[str, tuple[str, ...]]
    """By the text of a known prompt: the places of the literals that it is made of."""


def source_prompts(
    root: Path,
    calls: Iterable[Span],
    known: Sequence[PromptTemplate] = (),
    program: Collection[str] = (),
    inputs: Sequence[str] = (),
    written: Collection[str] = (),
) -> SourcePrompts:
    """The literals of a repository that model calls sent, as the gateway can replace them.

    Of each text, the longest literal in it, and those before it and behind it.

    Args:
        root: The root of a git repository, or a folder without one.
        calls: Spans of model calls.
        known: Prompts that are known.
        program: Files that the agent's command names, relative to the root: of equal literals,
            those in them count.
        inputs: Texts of the tasks' inputs: where one is the instruction, the user's text is none.
        written: Files that the agent wrote, relative to the root: what it said before is no prompt.
    """
    root = root.resolve()
    calls = list(calls)
    texts = [
        [ModelText(role=role, text=text) for role, text in sent_texts(call.attributes)]
        for call in calls
    ]
    paths = [file.relative_to(root).as_posix() for file in own_files(root)]
    sent = sent_sources(
        root, paths, texts, inputs=inputs, written_paths=written, used=(set(program),)
    )
    longest_first = sorted(sent.prompts, key=lambda source: -source.size)
    counts: Counter[SourcePrompt] = Counter()
    replaced = [
        text
        for call in calls
        for text in (*system_prompts(call.attributes), *leading_user_texts(call.attributes))
    ]
    places: dict[str, dict[str, None]] = {}
    for text in replaced:
        parts = list(_prompts_in(text, longest_first))
        whole = next((prompt for prompt in known if recognise(prompt, text) is not None), None)
        if whole is None:
            counts.update(parts)
        else:
            places.setdefault(whole.text, {}).update(dict.fromkeys(part.place for part in parts))
    return SourcePrompts(dict(counts), {text: tuple(within) for text, within in places.items()})


def _prompts_in(text: str, sources: Sequence[SentSource]) -> Iterator[SourcePrompt]:
    """The first of the literals found in a text, and the others before and after it."""
    for number, source in enumerate(sources, 1):
        template = _template_in(text, source.literal)
        place = recognise_within(template, text) if template is not None else None
        if template is not None and place is not None:
            yield SourcePrompt(template, f"{source.file.path}:{source.line}")
            yield from _prompts_in(place.before, sources[number:])
            yield from _prompts_in(place.after, sources[number:])
            return


def as_written(root: Path, template: PromptTemplate) -> tuple[PromptTemplate, tuple[str, ...]]:
    """A prompt with the slots of its literal if exactly one matches, and the places of all.

    In a folder without git nothing could be patched, so there are no places.
    """
    if not (root / ".git").exists():
        return template, ()
    search = find_literal(root, template)
    return search.template or template, tuple(map(str, search.places))


def _template_in(text: str, literal: Literal) -> PromptTemplate | None:
    """A literal as the template that a text holds byte for byte; None if it does not.

    Programs take the indentation of their source away: `textwrap.dedent`.
    """
    forms = [
        form for base in _indented_or_not(literal) for form in (*with_placeholders(base), base)
    ]
    for template in map(_template, forms):
        if template is not None and recognise_within(template, text) is not None:
            return template
    return None


def _indented_or_not(literal: Literal) -> Iterator[Literal]:
    """The literal, and without the indentation that its lines share, if they share any."""
    yield literal
    value = textwrap.dedent(literal.value)
    if value != literal.value:
        yield dataclasses.replace(literal, value=value)


def _template(literal: Literal) -> PromptTemplate | None:
    """A literal with named slots; None if it could not be recognised."""
    template_text, names = "", set[str]()
    for constant, slot in parts_of(literal.value):
        template_text += constant.replace("{", "{{").replace("}", "}}")
        if slot < 0:
            continue
        word = _WORD.search(literal.slots[slot].source)
        name = word[0] if word else "slot"
        if name in names:
            name = f"{name}_{slot + 1}"
        names.add(name)
        template_text += "{" + name + "}"
    try:
        template = PromptTemplate(template_text.strip())
    except InputError:
        return None
    return None if refusal(template) else template
