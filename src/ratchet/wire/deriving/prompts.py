"""The literals, files and fields whose text reached the model in the recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ratchet.source.literals.literal import Literal, parts_of
from ratchet.source.literals.matching import MIN_CONSTANT
from ratchet.source.literals.placeholders import with_placeholders
from ratchet.source.literals.search import LiteralFile, byte_span, read_file
from ratchet.source.literals.source_files import is_generated, is_searched, is_test, read_text
from ratchet.wire.recording.recording import Recording


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


def sent_prompts(
    root: Path, paths: Iterable[str], recording: Recording, inputs: Sequence[str]
) -> tuple[SentPrompt, ...]:
    """Find what was sent in the source: each constant piece of a literal stands in a sent text.

    Args:
        root: The project's folder.
        paths: Its files, relative to it.
        recording: The recorded run.
        inputs: The task's input: texts of the source that only repeat it are no prompts.
    """
    texts = [_plain(sent.text) for call in recording.calls for sent in call.texts]
    if not texts:
        return ()
    prompts = []
    written = {write.path for write in recording.writes}  # its own answers, if anything
    for path in paths:
        if path in written or not is_searched(path) or is_test(path):
            continue
        text = read_text(root / path, root)
        if text is None or is_generated(text):
            continue
        file = read_file(text, path)
        prompts += _sent_of(file, texts, [_plain(value) for value in inputs])
    return tuple(prompts)


def _sent_of(file: LiteralFile, texts: Sequence[str], inputs: Sequence[str]) -> list[SentPrompt]:
    kept: list[tuple[tuple[int, int], SentPrompt]] = []
    whole = [[text] for text in texts]
    for literal in sorted(file.literals, key=lambda literal: literal.span[0] - literal.span[1]):
        forms = [_pieces(form) for form in (literal, *with_placeholders(literal))]
        forms = [pieces for pieces in forms if _says_enough(pieces) or pieces[:1] in whole]
        if not forms:
            continue
        pieces = forms[0]
        if any(piece in value for value in inputs for piece in pieces):
            continue
        calls = sum(any(_in_order(form, text) for form in forms) for text in texts)
        start, end = literal.span
        if calls and not any(a <= start and end <= b for (a, b), _ in kept):
            beginning = " ".join(pieces)[:60]
            first, last = byte_span(file.text, literal.span)
            prompt = SentPrompt(
                path=file.path,
                line=file.line(literal),
                beginning=beginning,
                calls=calls,
                start=first,
                end=last,
            )
            kept.append((literal.span, prompt))
    return [prompt for _, prompt in sorted(kept, key=lambda pair: pair[0])]


def _says_enough(pieces: Sequence[str]) -> bool:
    """Whether constant text is no word that stands in a prompt by chance."""
    size = sum(len("".join(piece.split())) for piece in pieces)
    return size >= MIN_CONSTANT and any(" " in piece for piece in pieces)


def _pieces(literal: Literal) -> list[str]:
    pieces = [_plain(piece) for piece, _ in parts_of(literal.value)]
    return [piece for piece in pieces if piece]


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
