"""The literals, files and fields whose text reached the model in the recorded run."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from ratchet.source.literals.literal import parts_of
from ratchet.source.literals.placeholders import with_placeholders
from ratchet.source.literals.search import LiteralFile, byte_span, read_file
from ratchet.source.literals.source_files import is_generated, is_searched, is_test, read_text
from ratchet.types.scripts import has_several_words
from ratchet.wire.deriving.text_owners import (
    SentSource,
    heads,
    in_order,
    is_few_words,
    owned,
    pieces_of,
    plain,
    says_enough,
)
from ratchet.wire.recording.recording import ModelText, Recording

MIN_EXAMPLES = 2
"""Examples in a conversation from which on its user messages are tasks. A single one may be a
greeting, or rules that the model is said to have understood."""


class SentPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A text in the source that reached the model."""

    path: str
    """File, relative to the root, with forward slashes."""
    line: int
    beginning: str
    """Its first words, with … for each value."""
    calls: int
    """Number of model calls that sent it."""
    start: int
    end: int
    """Byte span of the whole literal in the file as it is on disk."""


class SentTexts(NamedTuple):
    """Where the source holds the texts that model calls sent."""

    prompts: dict[SentSource, int]
    """The texts, each with its number of calls."""
    question: SentSource | None
    """The longest data file in the first user message."""


def sent_prompts(
    root: Path, paths: Iterable[str], recording: Recording, inputs: Sequence[str]
) -> tuple[tuple[SentPrompt, ...], str]:
    """Find what was sent in the source: each constant piece of a literal must occur in a sent text.

    Left out are words that only stand in another literal's text, names and descriptions put into
    its slots, further lines of a prompt that is put together, the input that begins a conversation,
    and copies in files that did not run.

    Args:
        root: The project's folder.
        paths: Its files, relative to it.
        recording: The recorded run.
        inputs: The task's input, or the path of a file with it: its texts are no prompts.

    Returns:
        The prompts, and where the first user's question is written, as `FILE:LINE`.
    """
    ran = {frame.file for call in recording.calls for frame in call.stack}
    sent = sent_sources(
        root,
        paths,
        [call.texts for call in recording.calls if not call.is_embedding],
        inputs=inputs,
        embedded=[
            plain(sent.text) for call in recording.calls if call.is_embedding for sent in call.texts
        ],
        written_paths={write.path for write in recording.writes},  # its own answers, if anything
        used=(set(recording.data_files_read), ran.union(recording.modules_loaded)),
    )
    prompts = [_prompt(source, count) for source, count in sent.prompts.items()]
    question = f"{sent.question.file.path}:{sent.question.line}" if sent.question else ""
    return tuple(sorted(prompts, key=lambda prompt: (prompt.path, prompt.start))), question


def sent_sources(
    root: Path,
    paths: Iterable[str],
    calls: Sequence[Sequence[ModelText]],
    *,
    inputs: Sequence[str] = (),
    embedded: Sequence[str] = (),
    written_paths: Collection[str] = (),
    used: Sequence[set[str]] = (),
) -> SentTexts:
    """The literals whose texts model calls sent.

    Args:
        root: The project's folder.
        paths: Its files, relative to it.
        calls: The texts of each call.
        inputs: The task's input; what a file says that it names is no prompt.
        embedded: Texts that were embedded: a file all in one of them is a document to search.
        written_paths: Files that the run wrote.
        used: Files that the run used, each way by itself: of equal literals, those in them count.
    """
    named = {os.path.relpath(root / value, root) for value in inputs}
    documents = {path: text for path in named if (text := read_text(root / path, root))}
    calls = [
        [ModelText(role=sent.role, text=plain(sent.text)) for sent in sent_texts]
        for sent_texts in calls
    ]
    texts = list(dict.fromkeys(sent.text for sent_texts in calls for sent in sent_texts))
    if not texts:
        return SentTexts({}, None)
    given = {plain(value) for value in (*inputs, *documents.values())}
    sources: list[SentSource] = []
    for path in paths:
        if path in written_paths or path in documents or not is_searched(path) or is_test(path):
            continue
        text = read_text(root / path, root)
        content = plain(text) if text and embedded else ""
        if not text or is_generated(text) or (content and any(content in all for all in embedded)):
            continue
        sources += _sources(read_file(text, path), texts, given)
    for files in used:
        sources = _without_copies(sources, files)
    wholes = ["\n".join(source.forms[0]) for source in sources]
    alone = {
        source.file.path
        for source in sources
        if sum(in_order(source.forms[0], whole) for whole in wholes) == 1
    }
    sources = _without_copies(sources, alone)
    sources.sort(key=lambda source: -source.size)
    made_of = {text: owned(text, sources) for text in texts}
    owners = {text: made.owners for text, made in made_of.items()}
    asked = [sent.text for sent_texts in calls for sent in sent_texts if sent.role == "user"]
    data = {value for text in {*asked} for value in made_of[text].values}
    data.update(source for sent_texts in calls for source in _inputs(sent_texts, owners, given))
    data.update(source for text in _shown(calls) for source in owners[text] if not source.slots)
    # What instructs one agent may be told to the others, too.
    told = {sent.text for sent_texts in calls for sent in sent_texts if sent.role == "system"}
    data -= {source for text in told for source in owners[text] if source.forms[0] == (text,)}
    owners = {
        text: tuple(source for source in sources_of if source not in data)
        for text, sources_of in owners.items()
    }
    begun = {source for text in texts for source in heads(owners[text])}
    prompts = (source for sent_texts in calls for source in _prompts_of(sent_texts, owners))
    counts = Counter(source for source in prompts if source in begun)
    firsts = [source for source in data if any(in_order(form, asked[0]) for form in source.forms)]
    firsts.sort(key=lambda source: (-source.size, source.file.path, source.line))
    return SentTexts(dict(counts), next(iter(firsts), None))


def _sources(
    file: LiteralFile, texts: Sequence[str], inputs: Collection[str]
) -> Iterable[SentSource]:
    """The literals of a file that occur in a sent text; of nested literals, the outermost."""
    spans: list[tuple[int, int]] = []
    for literal in sorted(file.literals, key=lambda literal: literal.span[0] - literal.span[1]):
        literals = (literal, *with_placeholders(literal))
        pieces = [pieces_of(form) for form in literals]
        forms = [form for form in pieces if says_enough(form) or is_few_words(form)] or [
            form for form in pieces if len(form) == 1 and form[0] in texts
        ]
        if not forms:
            continue
        begin, end = literal.span
        if any(first <= begin and end <= last for first, last in spans):
            continue
        is_sent = any(in_order(form, text) for form in forms for text in texts)
        if is_sent and not any(all(piece in value for piece in forms[0]) for value in inputs):
            spans.append(literal.span)
            slots = max(len(parts_of(form.value)) - 1 for form in literals)
            yield SentSource(file, literal, tuple(forms), file.line(literal), slots)


def _without_copies(sources: Sequence[SentSource], used: set[str]) -> list[SentSource]:
    """Drop the literals of unused files that equal one in a file that the run used."""
    running = {form for source in sources if source.file.path in used for form in source.forms}
    return [
        source for source in sources if source.file.path in used or running.isdisjoint(source.forms)
    ]


def _prompts_of(
    sent_texts: Sequence[ModelText], owners: Mapping[str, Sequence[SentSource]]
) -> Iterable[SentSource]:
    """The prompts of a call: texts that instruct the model; else the few words there are."""
    sent_texts = [sent for sent in sent_texts if sent.role in ("system", "user")]
    placed = [(source, sent) for sent in sent_texts for source in owners[sent.text]]
    telling = [
        source
        for source, sent in placed
        if (sent.role == "system" or any(says_enough(own.forms[-1]) for own in owners[sent.text]))
        and not source.is_labels_in(sent.text)
    ]
    return dict.fromkeys(telling or [source for source, _ in placed])


def _inputs(
    sent_texts: Sequence[ModelText],
    owners: Mapping[str, Sequence[SentSource]],
    given: Collection[str],
) -> Iterable[SentSource]:
    """The first user message of a conversation with instructions, which is its input.

    Where the task's own input is the instruction, or stands in it, the user's text is none.
    """
    system = [sent.text for sent in sent_texts if sent.role == "system" and sent.text not in given]
    sentences = [value for value in given if has_several_words(value)]
    if system and not any(value in text for text in system for value in sentences):
        first = next((sent.text for sent in sent_texts if sent.role == "user"), None)
        if first is not None:
            yield from (source for source in owners[first] if source.forms[0] == (first,))


def _shown(calls: Sequence[Sequence[ModelText]]) -> set[str]:
    """The user messages of conversations in which several examples show the model what to answer.

    An example is a user's text with an answer that no call had asked for.
    """
    conversations = [tuple(sent.text for sent in sent_texts) for sent_texts in calls]
    asked = set(conversations)
    instructed: set[tuple[str, ...]] = set()
    for sent_texts, conversation in zip(calls, conversations, strict=True):
        examples = sum(
            before.role == "user" and sent.role == "assistant" and conversation[:index] not in asked
            for index, (before, sent) in enumerate(itertools.pairwise(sent_texts), 1)
        )
        if examples >= MIN_EXAMPLES:
            instructed.add(_instructions(sent_texts))
    return {
        sent.text
        for sent_texts in calls
        if _instructions(sent_texts) in instructed - {()}
        for sent in sent_texts
        if sent.role == "user"
    }


def _instructions(sent_texts: Sequence[ModelText]) -> tuple[str, ...]:
    return tuple(sent.text for sent in sent_texts if sent.role == "system")


def _prompt(source: SentSource, calls: int) -> SentPrompt:
    start, end = byte_span(source.file.text, source.literal.span)
    text = " … ".join(source.forms[0])
    return SentPrompt(
        path=source.file.path,
        line=source.line,
        beginning=text[:60] + "…" * (len(text) > 60),
        calls=calls,
        start=start,
        end=end,
    )
