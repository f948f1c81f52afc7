"""Patches prompts that are known by their text, in the only literal with the baseline's prompt.

Such a literal has no name. Release commits record a fingerprint of it before and after the edit, by
which it is found again in any commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ratchet.ship.edit import PatchTarget, SourceEdit
from ratchet.ship.literal_search import result_of, search_tracked, text_of, verbatim
from ratchet.ship.source_file import TextRange
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

    def text(self, span: TextRange) -> str:
        """The text of a byte span."""
        return self.data[span[0] : span[1]].decode()


@dataclass(frozen=True)
class TextSlot:
    """A literal in a file."""

    literal: Literal
    span: TextRange
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


@dataclass(frozen=True)
class TextPrompt:
    """A prompt that is known by its text, and where to search for it."""

    name: str
    old: TemplateText
    """Of the baseline."""
    new: TemplateText
    """Of the candidate."""
    refusal: str
    """Start of the message that it cannot be patched."""
    file: str | None = None
    """The only file to search, relative to the root; None to search all files."""
    expression: tuple[str, TextRange] | None = None
    """File and byte span of the expression that declares the prompt; None if undeclared."""
    kept: bool = False
    """Whether the program is known to keep white space at both ends."""


def undeclared_prompt(
    declaration: Declaration, old: PromptTemplate, new: PromptTemplate, root: Path
) -> TextPrompt:
    """A prompt of an agent that declares none; its literal renders as the template does.

    Args:
        declaration: The prompt; its file, if it has one, confines the search.
        old: The baseline's template.
        new: The candidate's template.
        root: The folder that may be edited, resolved.

    Raises:
        ShipError: A template has logic, or the file is outside `root`.
    """
    if old.text == old.text.strip():
        # The gateway sent it without outer white space, too.
        new = msgspec.structs.replace(new, text=new.text.strip())
    try:
        before = text_of(old)
        after = text_of(new, before.slots)
    except InputError as error:
        raise ShipError(f"Prompt {declaration.name!r} cannot be patched: {error}") from None
    file = _within(declaration, root) if declaration.file else None
    refusal = f"Prompt {declaration.name!r} cannot be patched:"
    return TextPrompt(declaration.name, before, after, refusal, file)


def declared_prompt(
    name: str,
    old: PromptTemplate,
    new: PromptTemplate,
    *,
    expression: tuple[str, TextRange],
    refusal: str,
    file: str | None = None,
    keeps_ends: bool = False,
) -> TextPrompt:
    """A declared prompt whose text comes from an expression; its literal is the template itself."""
    return TextPrompt(name, verbatim(old), verbatim(new), refusal, file, expression, keeps_ends)


def literal_edit(
    prompt: TextPrompt, old: PromptTemplate, new: PromptTemplate, root: Path
) -> SourceEdit:
    """The edit of the only literal that is a prompt.

    Args:
        prompt: The prompt.
        old: The baseline's template.
        new: The candidate's template.
        root: The folder that may be edited, resolved.

    Raises:
        ShipError: No literal or several are the prompt, or the one cannot hold the new text.
    """
    name = prompt.name
    fit = _only(prompt, root)
    literal, file = fit.match.literal, fit.file
    where = f"{file.path}:{fit.line}"
    data = file.text.encode()
    try:
        if prompt.expression:
            if "\r" in old.text + new.text:
                raise Inexpressible("it has a carriage return, which reading may remove")
            own = (file.path, byte_span(file.text, literal.span)) == prompt.expression
            keeps_ends = prompt.kept or own
            _check_ends(literal.value, prompt.old.text, prompt.new.text, keeps_ends=keeps_ends)
        value = new_value(fit.match, prompt.old, prompt.new)
        edit = replacement(file.text, literal, value, file.language.read)
    except Inexpressible as error:
        raise ShipError(
            f"{where}: the candidate's text of {name!r} cannot be written there: {error}.",
            hint="Write it there by hand."
            if prompt.expression
            else "Write it there by hand, or release it at the gateway.",
        ) from None
    edited = file.text[: edit.span[0]] + edit.source + file.text[edit.span[1] :]
    result = read_file(edited, file.path)
    stop = edit.span[0] + len(edit.source)
    new_literal = next(
        parsed
        for parsed in result.literals
        if parsed.span[0] == edit.span[0]
        and parsed.span[1] <= stop
        and (form := same_form(parsed, literal)) is not None
        and canonical(form) == edit.reads
    )
    raw = next(parsed for parsed in file.literals if parsed.span == literal.span)
    target = PatchTarget(
        "prompt",
        name,
        file.path,
        None,
        file.language.name,
        fingerprint(raw),
        fingerprint(new_literal),
    )
    span = byte_span(file.text, edit.span)
    return SourceEdit(
        target=target,
        key="text",
        span=span,
        line=fit.line,
        old=data[span[0] : span[1]],
        new=edit.source.encode(),
        before=old.text,
        after=new.text,
        reads=target.after,
    )


def _check_ends(literal: str, old: str, new: str, *, keeps_ends: bool) -> None:
    """Check that the program keeps the new text's white space at both ends.

    Args:
        literal: The literal's value.
        old: The prompt as the program made it of that.
        new: The prompt to write.
        keeps_ends: Whether the program is known to strip nothing.

    Raises:
        Inexpressible: The program strips what the new text has, or may do so.
    """
    for end, cut in (("beginning", _lead), ("end", _trail)):
        if cut(new) == cut(old):
            continue
        if cut(literal) != cut(old) or not (keeps_ends or cut(old)):
            raise Inexpressible(
                f"its white space at the {end} differs, and the program may strip it"
            )


def _lead(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _trail(text: str) -> str:
    return text[len(text.rstrip()) :]


def _only(prompt: TextPrompt, root: Path) -> Fit:
    """The only literal that is the baseline's prompt."""
    if prompt.expression:
        path, span = prompt.expression
        inside = [
            fit
            for fit in search_tracked(root, prompt.old, path).fits
            if _contains(span, byte_span(fit.file.text, fit.match.literal.span))
        ]
        if len(inside) == 1:
            return inside[0]
    matches = search_tracked(root, prompt.old, prompt.file)
    if len(matches.fits) == 1:
        return matches.fits[0]
    if prompt.file:
        matches = search_tracked(root, prompt.old)
    if not matches.fits and search_tracked(root, prompt.new).fits:
        raise ShipError(
            f"Prompt {prompt.name!r}: the source already holds the candidate's text.",
            hint="The change seems to be merged; see `ratchet releases`.",
        )
    by_hand = "declare it as a literal, or write the new text by hand"
    raise ShipError(
        f"{prompt.refusal} {result_of(matches, prompt.old).sentence()}",
        hint="Exactly one literal must be the prompt; "
        f"{by_hand if prompt.expression else 'release it at the gateway instead'}.",
    )


def _contains(outer: TextRange, inner: TextRange) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _within(declaration: Declaration, root: Path) -> str:
    """The declaration's file, relative to the root."""
    path = Path(declaration.file or "").resolve()
    if not path.is_relative_to(root):
        raise ShipError(
            f"Prompt {declaration.name!r} is declared in {path}, outside the repository {root}.",
            hint="Only files in the repository can be patched.",
        )
    return path.relative_to(root).as_posix()


def fingerprint(literal: Literal) -> str:
    """A short hash of a literal's text and the sources of its slots."""
    return hashlib.sha256(canonical(literal).encode(errors="surrogatepass")).hexdigest()[:16]


def literal_at(source: TextSource, value: str) -> TextSlot | None:
    """The literal with a fingerprint; None when there is none, or more than one."""
    matching = [literal for literal in source.file.literals if fingerprint(literal) == value]
    literal = min(matching, key=lambda literal: literal.span[1] - literal.span[0], default=None)
    # An expression around a literal may have the same text.
    if literal is None or any(
        literal.span[0] < rival.span[0] or rival.span[1] < literal.span[1] for rival in matching
    ):
        return None
    span = byte_span(source.file.text, literal.span)
    return TextSlot(literal, span, source.file.line(literal), value)


def verify_literals(source: TextSource, data: bytes, edits: Sequence[SourceEdit]) -> None:
    """Check that a file holds the new literals, and that others are unchanged."""
    result = read_text_source(data, source.path)
    if (
        source.file.language.read(source.file.text)[1]
        != result.file.language.read(result.file.text)[1]
    ):
        raise ShipError(f"{source.path}: the edited file would not parse.")
    spans: list[tuple[TextRange, TextRange]] = []
    shift = 0
    for edit in sorted(edits, key=lambda edit: edit.span):
        start = edit.span[0] + shift
        shift += len(edit.new) - len(edit.old)
        spans.append((edit.span, (start, start + len(edit.new))))
    for edit, (_, (start, stop)) in zip(
        sorted(edits, key=lambda edit: edit.span), spans, strict=True
    ):
        literals = [
            literal
            for literal in result.file.literals
            if fingerprint(literal) == edit.reads
            and start == byte_span(result.file.text, literal.span)[0]
            and byte_span(result.file.text, literal.span)[1] <= stop
        ]
        if not literals:
            raise ShipError(
                f"{source.path}:{edit.line}: the edit of {edit.target.name!r} would not read back"
                " as the candidate's text.",
                hint=f"Write this there by hand: {edit.after!r}.",
            )
    if _others(source, [old for old, _ in spans]) != _others(result, [new for _, new in spans]):
        raise ShipError(f"{source.path}: the edit would change more than the prompt.")


def _others(source: TextSource, spans: Sequence[TextRange]) -> list[str]:
    """The literals outside the given byte spans."""
    texts = []
    for literal in source.file.literals:
        start, end = byte_span(source.file.text, literal.span)
        if all(end <= span[0] or start >= span[1] for span in spans):
            texts.append(canonical(literal))
    return texts


def holds_edit(
    base: TextSource,
    new_slot: TextSlot,
    target: PatchTarget,
    old: PromptTemplate,
    new: PromptTemplate,
) -> bool:
    """Whether a literal is the result of editing another commit's literal.

    Args:
        base: The file before the edit.
        new_slot: The literal after it.
        target: The literal's fingerprints.
        old: The baseline's template.
        new: The candidate's template.
    """
    slot = literal_at(base, target.before)
    return slot is not None and (
        any(_gives(base, slot, new_slot, *texts) for texts in _readings(old, new))
        or _is_part(slot.literal, new_slot.literal, old.text, new.text)
    )


def _is_part(before: Literal, after: Literal, old: str, new: str) -> bool:
    """Whether two literals are the only part in which two texts differ."""
    return (
        not (before.slots or after.slots)
        and old.count(before.value) == 1
        and old.replace(before.value, after.value) == new
    )


def _readings(
    old: PromptTemplate, new: PromptTemplate
) -> Iterator[tuple[TemplateText, TemplateText]]:
    """The templates as written in the source, for an undeclared and for a declared prompt."""
    try:
        before = text_of(old)
        yield before, text_of(new, before.slots)
    except InputError:
        pass  # with logic, which only the text of a declared prompt may have
    yield verbatim(old), verbatim(new)


def _gives(
    base: TextSource, slot: TextSlot, new_slot: TextSlot, before: TemplateText, after: TemplateText
) -> bool:
    """Whether editing a literal from one text to another results in a second literal."""
    fits = [fit.match for fit in fits_in(base.file, before)]
    fit = next((fit for fit in fits if fit.literal.span == slot.literal.span), None)
    if fit is None:
        return False
    literal = fit.literal
    form = same_form(new_slot.literal, literal)
    try:
        value = new_value(fit, before, after)
    except Inexpressible:
        return False
    return form is not None and canonical(form) == expected(literal, value)
