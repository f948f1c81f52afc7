"""Searches files for the literal whose text is a template."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet.source.literals.languages import TEXT, Language, language_of
from ratchet.source.literals.literal import Literal
from ratchet.source.literals.matching import MIN_CONSTANT, Match, TemplateText, is_slot, match
from ratchet.source.literals.source_files import is_generated, is_searched, is_test, read_text
from ratchet.source.literals.writing import shown
from ratchet.types.scripts import size_of

_WORDS = 12
"""Number of a template's longest words that are searched for in a file."""

_FOLLOWING = 40
"""Characters after a literal that may show how it is filled."""

_PIECES = re.compile("[\ud800-\udbff]")

MIN_LIKENESS = 0.4
"""Minimum share of equal words in a literal that is reported as the nearest."""


@dataclass(frozen=True)
class LiteralFile:
    """A file with its literals."""

    path: str
    """Relative to the searched folder, with forward slashes."""
    text: str
    language: Language
    literals: tuple[Literal, ...]

    def line(self, literal: Literal) -> int:
        """1-based line where the literal begins."""
        return self.text.count("\n", 0, literal.span[0]) + 1

    def lines(self, literal: Literal) -> int:
        """Number of line breaks in a literal."""
        return self.text.count("\n", *literal.span)

    def following(self, literal: Literal) -> str:
        """Source after a literal."""
        return self.text[literal.span[1] : literal.span[1] + _FOLLOWING]


@dataclass(frozen=True)
class Fit:
    """A literal whose text is the template."""

    file: LiteralFile
    match: Match

    @property
    def line(self) -> int:
        return self.file.line(self.match.literal)


@dataclass(frozen=True)
class Near:
    """The place most similar to the template."""

    file: LiteralFile
    line: int
    """1-based."""
    likeness: float
    """Share of equal words, in [0, 1]."""
    difference: str
    """The first difference, as a clause."""


@dataclass(frozen=True)
class Found:
    """Result of a search."""

    fits: tuple[Fit, ...]
    copies: tuple[Fit, ...]
    """Matches in tests, which repeat the prompt but are not sent by the agent."""
    generated: tuple[Fit, ...]
    """Matches in generated files, in which an edit would be lost."""
    nearest: Near | None


def read_file(text: str, path: str) -> LiteralFile:
    """A file's literals."""
    language = language_of(path, text)
    literals, _ = language.read(text)
    return LiteralFile(path, text, language, tuple(literals))


def search(root: Path, paths: Iterable[str], template: TemplateText) -> Found:
    """Find all literals whose text is a template.

    Args:
        root: A folder, resolved.
        paths: Its files to search, relative, with forward slashes; those that cannot hold a
            prompt's source are left out.
        template: The template.
    """
    fits: list[Fit] = []
    copies: list[Fit] = []
    generated: list[Fit] = []
    nearest: Near | None = None
    words = _words(template)
    for path in paths:
        if not is_searched(path):
            continue
        text = read_text(root / path, root)
        if text is None or sum(word in text for word in words) < len(words) / 2:
            continue
        file = read_file(text, path)
        file_fits = fits_in(file, template)
        if is_test(path):
            copies += file_fits
        elif is_generated(text):
            generated += file_fits
        else:
            fits += file_fits
            nearest = _nearer(nearest, file, template) if not fits else None
    return Found(tuple(fits), tuple(copies), tuple(generated), nearest)


def fits_in(file: LiteralFile, template: TemplateText) -> list[Fit]:
    """The literals of a file whose text is a template; of nested literals, the most complete."""
    candidates = [
        Fit(file, matched)
        for literal in file.literals
        if (matched := match(literal, template, file.following(literal))) is not None
    ]
    candidates.sort(
        key=lambda fit: (_guessed(fit, template), not _is_exact(fit, template), _size(fit))
    )
    chosen: list[Fit] = []
    for fit in candidates:
        start, end = fit.match.literal.span
        if all(
            end <= chosen_fit.match.literal.span[0] or start >= chosen_fit.match.literal.span[1]
            for chosen_fit in chosen
        ):
            chosen.append(fit)
    return sorted(chosen, key=lambda fit: fit.match.literal.span)


def _guessed(fit: Fit, template: TemplateText) -> int:
    """Characters of the template's constant text that the literal lacks."""
    text = template.text.strip()
    return sum(
        not is_slot(character)
        for unit in fit.match.units
        for character in text[slice(*unit.template)]
    )


def _is_exact(fit: Fit, template: TemplateText) -> bool:
    """Whether the white space at both ends is the same as the template's."""
    ends = [
        (text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :])
        for text in (fit.match.literal.value, template.text)
    ]
    return ends[0] == ends[1]


def _size(fit: Fit) -> int:
    start, end = fit.match.literal.span
    return end - start


def _words(template: TemplateText) -> Sequence[str]:
    """Long words of the constant text, which every way of writing it keeps."""
    words = set(re.findall(r"[A-Za-z]{4,}", template.text))
    return sorted(words, key=lambda word: (-len(word), word))[:_WORDS]


def _nearer(best: Near | None, file: LiteralFile, template: TemplateText) -> Near | None:
    wanted = _tokens(_named(template))
    for literal in file.literals:
        have = _tokens(shown(literal))
        matcher = difflib.SequenceMatcher(None, have, wanted)
        threshold = max(MIN_LIKENESS, best.likeness if best else 0.0)
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) <= threshold:
            continue
        likeness = matcher.ratio()
        if likeness > threshold:
            difference = _difference(matcher, have, wanted)
            best = Near(file, file.line(literal), likeness, difference)
    if best is None and file.language is TEXT and (at := _quotes(file.text, template)) >= 0:
        line = file.text.count("\n", 0, at) + 1
        best = Near(file, line, MIN_LIKENESS, "that file is treated as one text, not as a program")
    return best


def _quotes(text: str, template: TemplateText) -> int:
    """Position of the template's longest constant line in a text; -1 if absent."""
    lines = (line.strip() for piece in _PIECES.split(template.text) for line in piece.split("\n"))
    longest = max(lines, key=len)
    return text.find(longest) if size_of(longest) >= MIN_CONSTANT else -1


def _difference(matcher: difflib.SequenceMatcher[str], have: list[str], wanted: list[str]) -> str:
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        source_words, prompt_words = _quoted("".join(have[i1:i2])), _quoted("".join(wanted[j1:j2]))
        if source_words and prompt_words:
            return f"it has {source_words} where the prompt has {prompt_words}"
        if source_words:
            return f"it has {source_words}, which the prompt lacks"
        if prompt_words:
            return f"it lacks {prompt_words}"
    return "it is written differently"


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return f"“{flat[:60]}…”" if len(flat) > 60 else f"“{flat}”" if flat else ""


def _named(template: TemplateText) -> str:
    return "".join(
        f"{{{name}}}" if (name := template.name(character)) else character
        for character in template.text
    )


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text.strip())


def byte_span(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """A range of characters in a file's text, in bytes."""
    start = len(text[: span[0]].encode())
    return start, start + len(text[slice(*span)].encode())
