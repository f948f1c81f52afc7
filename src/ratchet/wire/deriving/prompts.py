"""The literals, files and fields whose text reached the model in the recorded run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from ratchet.source.literals.literal import Literal, parts_of
from ratchet.source.literals.matching import MIN_CONSTANT
from ratchet.source.literals.placeholders import with_placeholders
from ratchet.source.literals.search import LiteralFile, byte_span, read_file
from ratchet.source.literals.source_files import is_generated, is_searched, is_test, read_text
from ratchet.wire.recording.recording import ModelText, Recording

VALUE_WORDS: Final = 12
"""Words from which a literal in another one's slot is a prompt of its own, and no name or
description that is put into one."""

BESIDE_LINES: Final = 4
"""Lines between a prompt and a few words that reached the model with it, as the role of an agent
beside its goal."""

LABEL_WORDS: Final = 6
"""Words of the longest label of an input, as `Summarized search results:`."""

MIN_NAME: Final = 4
"""Characters of the shortest of them."""

_MARKUP: Final = " \t#*_`\"'-=<>|()[]{}.,"


class SentPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A text of the source that reached the model."""

    path: str
    """File, relative to the root, with forward slashes."""
    line: int
    beginning: str
    """Its first words."""
    calls: int
    """Number of model calls that sent it."""
    start: int
    end: int
    """Bytes of the whole literal in the file as it is on disk."""


@dataclass(frozen=True, eq=False)
class _Source:
    """A literal of which some text may have been sent."""

    file: LiteralFile
    literal: Literal
    forms: tuple[tuple[str, ...], ...]
    """Its constant pieces, as they stand and with each form of placeholders as slots."""
    line: int

    @property
    def says_enough(self) -> bool:
        """Whether it is more than words that stand in a prompt by chance."""
        return _says_enough(self.forms[0])

    @property
    def words(self) -> int:
        return sum(len(piece.split()) for piece in self.forms[0])

    def is_beside(self, other: _Source) -> bool:
        begin, end = other.line, other.line + other.file.lines(other.literal)
        return (
            other.file.path == self.file.path
            and begin - BESIDE_LINES <= self.line <= end + BESIDE_LINES
        )


@dataclass
class _Owners:
    """Whose constant text each part of one sent text is."""

    text: str
    spans: dict[_Source, list[tuple[int, int]]] = field(default_factory=dict)

    def add(self, source: _Source) -> None:
        """Give a source its place, unless all of it is another one's text or a value in it."""
        for form in source.forms:
            places = self._places(form)
            if places and not (source.words < VALUE_WORDS and self._in_slot(places)):
                self.spans[source] = places
                return

    def _places(self, form: Sequence[str]) -> list[tuple[int, int]]:
        taken = [
            span
            for source, spans in self.spans.items()
            if form not in source.forms
            for span in spans
        ]
        places = []
        at = 0
        for piece in form:
            begin = _whole_words(piece, self.text, at)
            while begin >= 0 and any(
                first <= begin and begin + len(piece) <= last for first, last in taken
            ):
                begin = _whole_words(piece, self.text, begin + 1)
            if begin < 0:
                return []
            at = begin + len(piece)
            places.append((begin, at))
        return places

    def _in_slot(self, places: Sequence[tuple[int, int]]) -> bool:
        begin, end = places[0][0], places[-1][1]
        return any(
            last <= begin and end <= first
            for spans in self.spans.values()
            for (_, last), (first, _) in itertools.pairwise(spans)
        )


def sent_prompts(
    root: Path, paths: Iterable[str], recording: Recording, inputs: Sequence[str]
) -> tuple[SentPrompt, ...]:
    """Find what was sent in the source: each constant piece of a literal stands in a sent text.

    Each part of a sent text belongs to the literal that says most of it. Left out are words that
    only stand in another literal's text, names and descriptions put into its slots, and what only
    labels the input beside another prompt of the same call.

    Args:
        root: The project's folder.
        paths: Its files, relative to it.
        recording: The recorded run.
        inputs: The task's input: texts of the source that only repeat it are no prompts.
    """
    calls = [
        [ModelText(role=sent.role, text=_plain(sent.text)) for sent in call.texts]
        for call in recording.calls
    ]
    texts = list(dict.fromkeys(sent.text for sent_texts in calls for sent in sent_texts))
    if not texts:
        return ()
    written = {write.path for write in recording.writes}  # its own answers, if anything
    sources: list[_Source] = []
    for path in paths:
        if path in written or not is_searched(path) or is_test(path):
            continue
        text = read_text(root / path, root)
        if text is not None and not is_generated(text):
            sources += _sources(read_file(text, path), texts, [_plain(value) for value in inputs])
    sources.sort(key=lambda source: -sum(map(len, source.forms[0])))
    owners = {text: _owners(text, sources) for text in texts}
    counts: dict[_Source, int] = {}
    for sent_texts in calls:
        for source in _prompts_of(sent_texts, owners):
            counts[source] = counts.get(source, 0) + 1
    prompts = [_prompt(source, count) for source, count in counts.items()]
    return tuple(sorted(prompts, key=lambda prompt: (prompt.path, prompt.start)))


def _sources(file: LiteralFile, texts: Sequence[str], inputs: Sequence[str]) -> Iterable[_Source]:
    """The literals of a file that stand in some text; of nested ones, the outermost."""
    kept: list[tuple[int, int]] = []
    for literal in sorted(file.literals, key=lambda literal: literal.span[0] - literal.span[1]):
        pieces = [_pieces(form) for form in (literal, *with_placeholders(literal))]
        forms = [form for form in pieces if _says_enough(form) or _is_few_words(form)] or [
            form for form in pieces if len(form) == 1 and form[0] in texts
        ]
        if not forms or any(piece in value for value in inputs for piece in forms[0]):
            continue
        begin, end = literal.span
        if any(first <= begin and end <= last for first, last in kept):
            continue
        if any(_in_order(pieces, text) for pieces in forms for text in texts):
            kept.append(literal.span)
            yield _Source(file, literal, tuple(forms), file.line(literal))


def _owners(text: str, sources: Sequence[_Source]) -> _Owners:
    owners = _Owners(text)
    for source in sources:
        if source.says_enough or text in source.forms[0]:
            owners.add(source)
    prompts = list(owners.spans)
    for source in sources:
        few_words = source not in owners.spans and _is_few_words(source.forms[0])
        if few_words and any(source.is_beside(prompt) for prompt in prompts):
            owners.add(source)
    return owners


def _prompts_of(sent_texts: Sequence[ModelText], owners: dict[str, _Owners]) -> Iterable[_Source]:
    """The prompts of one call: what tells the model something, else what labels its input."""
    placed = [(source, sent) for sent in sent_texts for source in owners[sent.text].spans]
    telling = [source for source, sent in placed if not _is_label(source, sent)]
    return dict.fromkeys(telling or [source for source, _ in placed])


def _is_label(source: _Source, sent: ModelText) -> bool:
    """Whether a text of the user's side only labels what it carries, or is a word or two."""
    if sent.role == "system":
        return False
    bare = [piece.strip(_MARKUP) for piece in source.forms[-1]]
    return not source.says_enough or all(
        not piece or (piece.endswith(":") and len(piece.split()) <= LABEL_WORDS) for piece in bare
    )


def _prompt(source: _Source, calls: int) -> SentPrompt:
    start, end = byte_span(source.file.text, source.literal.span)
    return SentPrompt(
        path=source.file.path,
        line=source.line,
        beginning=" ".join(source.forms[0])[:60],
        calls=calls,
        start=start,
        end=end,
    )


def _pieces(literal: Literal) -> tuple[str, ...]:
    pieces = (_plain(piece) for piece, _ in parts_of(literal.value))
    return tuple(piece for piece in pieces if piece)


def _says_enough(pieces: Sequence[str]) -> bool:
    size = sum(len("".join(piece.split())) for piece in pieces)
    return size >= MIN_CONSTANT and any(" " in piece for piece in pieces)


def _is_few_words(pieces: Sequence[str]) -> bool:
    """Whether it may be a name, such as an agent's role."""
    return len(pieces) == 1 and len(pieces[0]) >= MIN_NAME and pieces[0][0].isupper()


def _in_order(pieces: Sequence[str], text: str) -> bool:
    """Whether the pieces stand in a text, one after the other, and cut no word."""
    at = 0
    for piece in pieces:
        at = _whole_words(piece, text, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _whole_words(piece: str, text: str, begin: int) -> int:
    """Where a piece stands with no letter or digit beside its own; -1 if nowhere."""
    at = text.find(piece, begin)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(piece) : at + len(piece) + 1]
        cut_before = before.isalnum() and piece[0].isalnum()
        cut_after = after.isalnum() and piece[-1].isalnum()
        if not cut_before and not cut_after:
            return at
        at = text.find(piece, at + 1)
    return -1


def _plain(text: str) -> str:
    """A text without its white space's form: indentation and line ends differ in the source."""
    return " ".join(text.split())
