"""The prompts that stand in an agent's source, found by the texts that its model calls sent."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ratchet.bind.recognise import recognise, recognise_within, refusal
from ratchet.observe.system_prompts import leading_user_texts, system_prompts
from ratchet.ship import find_literal
from ratchet.source.files import own_files
from ratchet.source.literals.literal import Literal, parts_of
from ratchet.source.literals.placeholders import with_placeholders
from ratchet.types import InputError, PromptTemplate, Span
from ratchet.wire.deriving.prompts import sent_sources
from ratchet.wire.recording.recording import ModelText

_WORD = re.compile(r"[A-Za-z_]\w*")


def source_prompts(
    root: Path, calls: Iterable[Span], others: Sequence[PromptTemplate] = ()
) -> list[tuple[PromptTemplate, int]]:
    """The literals of a repository that model calls sent: of each text, the longest in it.

    Args:
        root: The root of a git repository, or a folder without one.
        calls: Spans of model calls.
        others: Prompts that are known; texts that consist of them are left out.

    Returns:
        Each with a slot for what is put into it, and the number of texts that it was sent in.
    """
    root = root.resolve()
    texts = [
        [
            ModelText(role=role, text=text)
            for role, sent in (
                ("system", system_prompts(call.attributes)),
                ("user", leading_user_texts(call.attributes)),
            )
            for text in sent
        ]
        for call in calls
    ]
    paths = [file.relative_to(root).as_posix() for file in own_files(root)]
    sources = sent_sources(root, paths, texts)
    literals = [source.literal for source in sorted(sources, key=lambda source: -source.size)]
    counts: Counter[PromptTemplate] = Counter()
    for sent in (sent for sent_texts in texts for sent in sent_texts):
        if any(recognise(template, sent.text) is not None for template in others):
            continue
        templates = (_template_in(sent.text, literal) for literal in literals)
        longest = next((template for template in templates if template is not None), None)
        if longest is not None:
            counts[longest] += 1
    return list(counts.items())


def as_written(root: Path, template: PromptTemplate) -> PromptTemplate | None:
    """A prompt with the slots that it has in the source, where exactly one literal is it.

    None too for a folder without git: nothing could be patched there.
    """
    return find_literal(root, template).template if (root / ".git").exists() else None


def _template_in(text: str, literal: Literal) -> PromptTemplate | None:
    """A literal as the template that a text holds to the byte; None where it does not."""
    for form in (*with_placeholders(literal), literal):
        template = _template(form)
        if template is not None and recognise_within(template, text) is not None:
            return template
    return None


def _template(literal: Literal) -> PromptTemplate | None:
    """A literal with named slots; None where it could not be recognised."""
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
