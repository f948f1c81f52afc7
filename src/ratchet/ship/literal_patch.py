"""Patches of prompts that are known by their text: the one literal that is the baseline's prompt.

Such a literal has no name. Release commits record a fingerprint of it before and after the edit, by
which it is found again in any commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ratchet.ship.edit import PatchTarget, SourceEdit
from ratchet.ship.literal_search import find_literal, search_tracked, text_of
from ratchet.ship.source_file import Span
from ratchet.source.literals.literal import Inexpressible, Literal
from ratchet.source.literals.matching import TemplateText
from ratchet.source.literals.search import Fit, LiteralFile, byte_span, fits_in, read_file
from ratchet.source.literals.writing import (
    canonical,
    expected,
    new_value,
    replacement,
    same_form,
)
from ratchet.types import Declaration, InputError, PromptTemplate, ShipError


@dataclass(frozen=True)
class TextSource:
    """A file of any language as bytes with its literals."""

    data: bytes
    file: LiteralFile

    @property
    def path(self) -> str:
        """Path for messages."""
        return self.file.path

    @property
    def newline(self) -> str:
        """The file's own line ending."""
        return "\r\n" if b"\r\n" in self.data else "\n"

    def text(self, span: Span) -> str:
        """The text of a byte span."""
        return self.data[span[0] : span[1]].decode()


@dataclass(frozen=True)
class TextSlot:
    """A literal in a file."""

    literal: Literal
    span: Span
    line: int
    value: str
    """Its fingerprint."""
    key: str = "text"
    problem: str = ""


def read_text_source(data: bytes, path: str) -> TextSource:
    """Read a file of any language.

    Raises:
        ShipError: It is not UTF-8.
    """
    try:
        return TextSource(data, read_file(data.decode(), path))
    except UnicodeDecodeError as error:
        raise ShipError(f"{path} is not utf-8: {error}.", hint="Save it as utf-8.") from None


def literal_edit(
    declaration: Declaration,
    old: PromptTemplate,
    new: PromptTemplate,
    root: Path,
    sources: dict[str, TextSource],
) -> SourceEdit:
    """The edit of the one literal that is a prompt.

    Args:
        declaration: The prompt; its file, if it has one, confines the search.
        old: The baseline's template.
        new: The candidate's template.
        root: The folder that may be edited, resolved.
        sources: Files read so far, by path; the literal's file is added.

    Raises:
        ShipError: No literal or several are the prompt, or the one cannot hold the new text.
    """
    name = declaration.name
    # The gateway sent it with the outer white space of what it replaced.
    new = msgspec.structs.replace(new, text=new.text.strip())
    try:
        before = text_of(old)
        after = text_of(new, before.slots)
    except InputError as error:
        raise ShipError(f"Prompt {name!r} cannot be patched: {error}") from None
    fit = _only(declaration, old, new, before, root)
    literal, file = fit.match.literal, fit.file
    where = f"{file.path}:{fit.line}"
    try:
        value = new_value(fit.match, before, after)
        edit = replacement(file.text, literal, value, file.language.read)
    except Inexpressible as error:
        raise ShipError(
            f"{where}: the candidate's text of {name!r} cannot be written there: {error}.",
            hint="Write it there by hand, or release it at the gateway.",
        ) from None
    source = sources.setdefault(file.path, TextSource(file.text.encode(), file))
    edited = file.text[: edit.span[0]] + edit.source + file.text[edit.span[1] :]
    result = read_file(edited, file.path)
    stop = edit.span[0] + len(edit.source)
    made = next(
        one
        for one in result.literals
        if one.span[0] == edit.span[0]
        and one.span[1] <= stop
        and (form := same_form(one, literal)) is not None
        and canonical(form) == edit.reads
    )
    raw = next(one for one in file.literals if one.span == literal.span)
    target = PatchTarget(
        "prompt", name, file.path, None, file.language.name, fingerprint(raw), fingerprint(made)
    )
    span = byte_span(file.text, edit.span)
    return SourceEdit(
        target=target,
        key="text",
        span=span,
        line=fit.line,
        old=source.data[span[0] : span[1]],
        new=edit.source.encode(),
        before=old.text,
        after=new.text,
        reads=target.after,
    )


def _only(
    declaration: Declaration,
    old: PromptTemplate,
    new: PromptTemplate,
    before: TemplateText,
    root: Path,
) -> Fit:
    """The one literal that is the baseline's prompt."""
    only = _within(declaration, root) if declaration.file else None
    found = search_tracked(root, before, only)
    if len(found.fits) == 1:
        return found.fits[0]
    result = find_literal(root, old)
    if not result.places and find_literal(root, new).places:
        raise ShipError(
            f"Prompt {declaration.name!r}: the source already holds the candidate's text.",
            hint="It seems to be merged; see `ratchet releases`.",
        )
    raise ShipError(
        f"Prompt {declaration.name!r} cannot be patched: {result.sentence()}",
        hint="Exactly one literal must be the prompt; release it at the gateway instead.",
    )


def _within(declaration: Declaration, root: Path) -> str:
    """The declaration's file, relative to the root."""
    path = Path(declaration.file or "").resolve()
    if not path.is_relative_to(root):
        raise ShipError(
            f"Prompt {declaration.name!r} is declared in {path}, outside the repository {root}.",
            hint="Only files of the repository are patched.",
        )
    return path.relative_to(root).as_posix()


def fingerprint(literal: Literal) -> str:
    """A short hash of a literal's text and the sources of its slots."""
    return hashlib.sha256(canonical(literal).encode(errors="surrogatepass")).hexdigest()[:16]


def literal_at(source: TextSource, value: str) -> TextSlot | None:
    """The literal with a fingerprint; None when there is none, or more than one."""
    found = [one for one in source.file.literals if fingerprint(one) == value]
    literal = min(found, key=lambda one: one.span[1] - one.span[0], default=None)
    # An expression around a literal may have the same text.
    if literal is None or any(
        literal.span[0] < one.span[0] or one.span[1] < literal.span[1] for one in found
    ):
        return None
    span = byte_span(source.file.text, literal.span)
    return TextSlot(literal, span, source.file.line(literal), value)


def verify_literals(source: TextSource, data: bytes, edits: Sequence[SourceEdit]) -> None:
    """Check that a file holds the new literals, and the same others as before."""
    result = read_text_source(data, source.path)
    if (
        source.file.language.read(source.file.text)[1]
        != result.file.language.read(result.file.text)[1]
    ):
        raise ShipError(f"{source.path}: the edited file would not parse.")
    spans: list[tuple[Span, Span]] = []
    shift = 0
    for edit in sorted(edits, key=lambda one: one.span):
        start = edit.span[0] + shift
        shift += len(edit.new) - len(edit.old)
        spans.append((edit.span, (start, start + len(edit.new))))
    for edit, (_, (start, stop)) in zip(
        sorted(edits, key=lambda one: one.span), spans, strict=True
    ):
        made = [
            one
            for one in result.file.literals
            if fingerprint(one) == edit.reads
            and start == byte_span(result.file.text, one.span)[0]
            and byte_span(result.file.text, one.span)[1] <= stop
        ]
        if not made:
            raise ShipError(
                f"{source.path}:{edit.line}: the edit of {edit.target.name!r} would not read back"
                " as the candidate's text.",
                hint=f"Write this there by hand: {edit.after!r}.",
            )
    if _others(source, [old for old, _ in spans]) != _others(result, [new for _, new in spans]):
        raise ShipError(f"{source.path}: the edit would change more than the prompt.")


def _others(source: TextSource, spans: Sequence[Span]) -> list[str]:
    """The literals outside of byte spans."""
    found = []
    for literal in source.file.literals:
        start, end = byte_span(source.file.text, literal.span)
        if all(end <= span[0] or start >= span[1] for span in spans):
            found.append(canonical(literal))
    return found


def holds_edit(
    base: TextSource, made: TextSlot, target: PatchTarget, old: PromptTemplate, new: PromptTemplate
) -> bool:
    """Whether a literal is what the edit of another commit's literal gives.

    Args:
        base: The file before the edit.
        made: The literal after it.
        target: The literal's fingerprints.
        old: The baseline's template.
        new: The candidate's template.
    """
    slot = literal_at(base, target.before)
    if slot is None:
        return False
    try:
        before = text_of(old)
        after = text_of(new, before.slots)
        fits = [fit.match for fit in fits_in(base.file, before)]
        fit = next((one for one in fits if one.literal.span == slot.literal.span), None)
        if fit is None:
            return False
        literal = fit.literal
        form = same_form(made.literal, literal)
        value = new_value(fit, before, after)
        return form is not None and canonical(form) == expected(literal, value)
    except (InputError, Inexpressible):
        return False
