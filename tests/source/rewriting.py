"""Finds a template's literal in a source and writes another template into it."""

from __future__ import annotations

from ratchet.bind.recognise import shape_of
from ratchet.source.literals.matching import TemplateText
from ratchet.source.literals.search import Fit, fits_in, read_file
from ratchet.source.literals.writing import new_value, replacement
from ratchet.types import PromptTemplate


def template(text: str, known: tuple[str, ...] = ()) -> TemplateText:
    shape = shape_of(PromptTemplate(text))
    return TemplateText.of(shape.pieces, shape.slots, known)


def find(path: str, source: str, text: str) -> list[Fit]:
    """The literals of a source that are a template."""
    return fits_in(read_file(source, path), template(text))


def rewrite(path: str, source: str, old: str, new: str) -> str:
    """The source with the one literal of a template rewritten; all else is as it was."""
    (fit,) = find(path, source, old)
    before = template(old)
    value = new_value(fit.match, before, template(new, before.slots))
    edit = replacement(source, fit.match.literal, value, fit.file.language.read)
    return source[: edit.span[0]] + edit.source + source[edit.span[1] :]
