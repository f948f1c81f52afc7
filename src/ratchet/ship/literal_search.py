"""Finds a prompt in the source by its text."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec

from ratchet.bind.recognise import shape_of
from ratchet.bind.slot_names import slot_names
from ratchet.ship.repository import Repository
from ratchet.source.literals.literal import FIRST_MARK, Literal
from ratchet.source.literals.matching import TemplateText, is_slot
from ratchet.source.literals.search import Fit, Found, byte_span, search
from ratchet.types import InputError, PromptTemplate


class LiteralPlace(msgspec.Struct, frozen=True):
    """A literal whose text is a prompt."""

    file: str
    """Relative to the searched folder, with forward slashes."""
    line: int
    """1-based."""
    language: str
    span: tuple[int, int]
    """In bytes, with the quotes, end excluded."""
    slots: dict[str, str]
    """How each slot is written there: `{"date": "${today}"}`. Constant text that comes from an
    expression stands for itself."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class LiteralSearch(msgspec.Struct, frozen=True):
    """The result of `find_literal`."""

    places: tuple[LiteralPlace, ...]
    """The matching literals."""
    copies: tuple[LiteralPlace, ...]
    """Matching literals in tests. They are not patched, and do not prevent a patch."""
    nearest: str
    """If none matches, the place of the most similar literal and its first difference."""
    template: PromptTemplate | None = None
    """Where exactly one literal fits: the prompt with a slot for each of its expressions, also for
    those that never varied."""
    generated: tuple[LiteralPlace, ...] = ()
    """Matching literals in generated files. They are not patched, and do not prevent a patch."""

    @property
    def patchable(self) -> bool:
        """Whether exactly one literal matches, so that a release can patch it."""
        return len(self.places) == 1

    def sentence(self, what: str = "the prompt") -> str:
        """The result as a sentence for a person.

        Args:
            what: What was looked for.
        """
        capital = what[:1].upper() + what[1:]
        if self.patchable:
            place = self.places[0]
            return f"{capital} is in {place}, in {_article(place.language)}."
        if self.places:
            listed = ", ".join(map(str, self.places))
            return f"{capital} is in {len(self.places)} places in the source: {listed}."
        for place_kind, places in (
            ("tests", self.copies),
            ("generated files", self.generated),
        ):
            if places:
                listed = ", ".join(map(str, places))
                return f"No literal in the source is {what}, except in {place_kind}: {listed}."
        nearest = f"; {self.nearest}" if self.nearest else ""
        return f"No literal in the source is {what}{nearest}."


def find_literal(root: Path, template: PromptTemplate) -> LiteralSearch:
    """Find the literals of a repository whose text is a template.

    The files are those that git tracks, without installed packages, build output, generated files
    and files with secrets.

    Args:
        root: A folder of a git repository; the search is confined to it.
        template: The prompt, such as one discovered in model calls.

    Raises:
        ShipError: The folder is in no usable git repository.
    """
    root = root.resolve()
    try:
        text = text_of(template)
    except InputError as error:
        Repository.open(root)
        return LiteralSearch((), (), str(error).rstrip("."))
    return result_of(search_tracked(root, text), text)


def result_of(matches: Found, text: TemplateText) -> LiteralSearch:
    """The result of a search for a text, in a form that a person can read."""
    return LiteralSearch(
        tuple(_place(fit, text) for fit in matches.fits),
        tuple(_place(fit, text) for fit in matches.copies),
        _nearest(matches),
        _as_written(matches.fits[0], text) if len(matches.fits) == 1 else None,
        tuple(_place(fit, text) for fit in matches.generated),
    )


def _as_written(fit: Fit, template: TemplateText) -> PromptTemplate:
    """The template with a slot for each expression of the literal."""
    core = template.text.strip()
    start = template.text.index(core)
    pieces, names, values = [template.text[:start]], [], []
    end = 0
    for unit in fit.match.units:
        pieces[-1] += core[end : unit.template[0]]
        end = unit.template[1]
        part = core[slice(*unit.template)]
        names.append(template.name(part) if len(part) == 1 else "")
        values.append(["" if any(map(is_slot, part)) else part])
        pieces.append("")
    pieces[-1] += core[end:] + template.text[start + len(core) :]
    used_names = set(names)
    for number, name in enumerate(slot_names(pieces, values)):
        if not names[number]:
            free = (name if n == 1 else f"{name}_{n}" for n in range(1, len(names) + 2))
            names[number] = next(free_name for free_name in free if free_name not in used_names)
            used_names.add(names[number])
    constants = [piece.replace("{", "{{").replace("}", "}}") for piece in pieces]
    slots = ["{" + name + "}" for name in names]
    return PromptTemplate("".join(itertools.chain(*zip(constants, [*slots, ""], strict=True))))


def search_tracked(root: Path, text: TemplateText, only: str | None = None) -> Found:
    """Search the tracked files of a folder, or one of them."""
    paths = Repository.open(root).tracked_files()
    return search(root, [path for path in paths if only in (None, path)], text)


def text_of(template: PromptTemplate, known_slots: tuple[str, ...] = ()) -> TemplateText:
    """A template as text; raises InputError for one with logic.

    Args:
        template: The template.
        known_slots: Slots of the template that it replaces.
    """
    shape = shape_of(template)
    return TemplateText.of(shape.pieces, shape.slots, known_slots)


def verbatim(template: PromptTemplate) -> TemplateText:
    """The text of a template as declared, with its placeholders and logic as plain text."""
    return TemplateText.of([template.text], [])


def _place(fit: Fit, template: TemplateText) -> LiteralPlace:
    literal = fit.match.literal
    text, core = template.text.strip(), literal.value.strip()
    slots: dict[str, str] = {}
    for unit in fit.match.units:
        part = text[slice(*unit.template)]
        name = "".join(template.name(c) if is_slot(c) else c for c in part)
        slots[name] = _source(literal, core[slice(*unit.literal)])
    return LiteralPlace(
        file=fit.file.path,
        line=fit.line,
        language=fit.file.language.name,
        span=byte_span(fit.file.text, literal.span),
        slots=slots,
    )


def _source(literal: Literal, value: str) -> str:
    code = ""
    for character in value:
        number = ord(character) - FIRST_MARK
        code += literal.slots[number].source if 0 <= number < len(literal.slots) else character
    return code


def _nearest(matches: Found) -> str:
    near = matches.nearest
    if near is None:
        return ""
    return f"the nearest is in {near.file.path}:{near.line}: {near.difference}"


def _article(language: str) -> str:
    return "a text file" if language == "text" else f"a {language} literal"
