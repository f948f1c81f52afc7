"""Quoted strings: decodes the text between the quotes, and encodes another text there."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ratchet.source.literals.literal import (
    Inexpressible,
    Literal,
    LiteralBuilder,
    Slot,
    mark,
    parts_of,
)


@dataclass(frozen=True)
class Quote:
    """A form of quotes in a language."""

    opening: str
    closing: str
    escapes: re.Pattern[str] | None
    """Source pieces that stand for other text."""
    decode: Callable[[str], str]
    """The text that such a piece of source stands for."""
    encode: Callable[[str], str]
    """Source of constant text, line ends as `\\n`; raises Inexpressible."""
    newline: str = "\n"
    """Line end of the file, for forms that hold line ends as they are."""
    raw_lines: bool = False
    """Whether line endings may be written in the source as they are."""

    def source(self, text: str) -> str:
        """Source of constant text between the quotes."""
        return self.encode(text).replace("\n", self.newline)


@dataclass(frozen=True)
class Token:
    """A quoted string in a file."""

    span: tuple[int, int]
    body: tuple[int, int]
    """The range between the quotes."""
    quote: Quote
    slots: Sequence[tuple[int, int, Slot]] = ()


@dataclass(frozen=True)
class Operand:
    """An expression beside strings in a concatenation."""

    span: tuple[int, int]
    source: str
    simple: bool


def add_token(builder: LiteralBuilder, text: str, token: Token) -> None:
    """Add the text between a token's quotes."""
    at = token.body[0]
    for start, end, slot in token.slots:
        _add_text(builder, text, at, start, token.quote)
        builder.add_slot(slot, start, end)
        at = end
    _add_text(builder, text, at, token.body[1], token.quote)


def _add_text(builder: LiteralBuilder, text: str, start: int, end: int, quote: Quote) -> None:
    at = start
    for escape in quote.escapes.finditer(text, start, end) if quote.escapes else ():
        if escape.end() > end:
            break
        builder.add(text[at : escape.start()], at, escape.start())
        builder.add(_decoded(quote, escape.group()), escape.start(), escape.end())
        at = escape.end()
    builder.add(text[at:end], at, end)


def _decoded(quote: Quote, escape: str) -> str:
    try:
        return quote.decode(escape)
    except (ValueError, OverflowError, SyntaxError):
        return escape  # of no character, such as `\u` without digits: the file does not parse


@dataclass(frozen=True)
class TokenStyle:
    """A quoted string."""

    quote: Quote
    others: tuple[Quote, ...] = ()
    """Other quotes for texts that these cannot hold."""
    slots: tuple[str, ...] = ()

    def encode(self, text: str, *, at_end: bool) -> str:
        return self.quote.source(text)

    def whole(self, value: str) -> Iterator[str]:
        has_slots = any(number >= 0 for _, number in parts_of(value))
        for quote in (self.quote, *(() if has_slots else self.others)):
            try:
                yield write_token(value, quote, self.slots)
            except Inexpressible:
                continue


def write_token(value: str, quote: Quote, slots: Sequence[str]) -> str:
    """A quoted string with a value.

    Args:
        value: Text with marks.
        quote: Its quotes.
        slots: Source of each slot.
    """
    pieces = [
        quote.source(text) + (slots[number] if number >= 0 else "")
        for text, number in parts_of(value)
    ]
    return quote.opening + "".join(pieces) + quote.closing


def token_literal(
    text: str, token: Token, language: str, alternatives: tuple[Quote, ...] = ()
) -> Literal | None:
    """The literal of a single quoted string."""
    builder = LiteralBuilder()
    add_token(builder, text, token)
    style = TokenStyle(token.quote, alternatives, tuple(slot.source for _, _, slot in token.slots))
    return builder.finish(language, token.span, token.body, style, raw_lines=token.quote.raw_lines)


@dataclass(frozen=True)
class Element:
    """An element of a call that joins a list, or an operand of another concatenation."""

    value: str
    """Text with marks."""
    source: str
    gap: str
    """The source between this element and the next: a comma, a plus sign, comments."""
    quote: Quote | None
    """Quotes of its first string."""


@dataclass(frozen=True)
class ConcatenationStyle:
    """Strings and expressions joined by an operator, by nothing, or by a call of `join`."""

    quote: Quote
    """The quotes of the first string."""
    glue: str
    """Source between two strings: ` + `, with the line ending and indentation found there."""
    separator: str
    """Text between two elements of a join; otherwise empty."""
    slots: tuple[tuple[str, Quote | None], ...]
    """Source of each slot, and the quotes that it is in; None for a slot between strings."""
    edges: tuple[str, str] = ("", "")
    """Source around the elements of a join."""
    elements: tuple[Element, ...] = ()
    """In order."""

    def encode(self, text: str, *, at_end: bool) -> str:
        between = self.quote.closing + self.glue + self.quote.opening
        pieces = text.split(self.separator) if self.separator else _lines(text, self.glue)
        if self.separator:
            return between.join(map(self.quote.source, pieces))
        joined = between.join(map(self.quote.source, pieces))
        return (
            joined
            if at_end or not text.endswith("\n") or "\n" not in self.glue
            else (joined + between)
        )

    def whole(self, value: str) -> Iterable[str]:
        ways: list[Callable[[str], str]] = [self._by_element]
        if not self.separator:
            ways = [self._by_ends, lambda text: self._element(text, self.quote)]
        for way in ways:
            try:
                yield self.edges[0] + way(value) + self.edges[1]
            except Inexpressible:
                continue

    def _by_ends(self, value: str) -> str:
        """The new operands of a concatenation; unchanged ends keep their source."""
        old = self.elements
        first, last = 0, len(old)
        while first < last - 1 and value.startswith(old[first].value):
            value = value.removeprefix(old[first].value)
            first += 1
        while first < last - 1 and value.endswith(old[last - 1].value):
            value = value.removesuffix(old[last - 1].value)
            last -= 1
        changed = old[first:last]
        sources = [(element.source, element.gap) for element in old[:first]]
        if value or len(changed) == len(old):
            quote = next(
                (element.quote for element in changed if element.quote is not None), self.quote
            )
            sources.append((self._element(value, quote), changed[-1].gap))
        sources += [(element.source, element.gap) for element in old[last:]]
        return "".join(source + gap for source, gap in sources[:-1]) + sources[-1][0]

    def _by_element(self, value: str) -> str:
        """The elements of a join; unchanged ones keep their source, and all keep their comments."""
        old, new = self.elements, value.split(self.separator)
        sources: list[tuple[str, str]] = []
        values = [element.value for element in old]
        matcher = difflib.SequenceMatcher(None, values, new, autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            for number in range(d - c):
                old_element = old[a + number] if a + number < b else None
                if old_element is not None and tag == "equal":
                    sources.append((old_element.source, old_element.gap))
                    continue
                quote = (old_element and old_element.quote) or self.quote
                gap = old_element.gap if old_element else self.glue
                sources.append((self._element(new[c + number], quote), gap))
        pieces = [source + (gap or self.glue) for source, gap in sources[:-1]]
        return "".join(pieces) + sources[-1][0]

    def _element(self, value: str, default: Quote) -> str:
        """Operands of an element, in runs that share quotes."""
        operands: list[str] = []
        run = ""
        plus = self.glue if not self.separator else " + "
        for text, number in parts_of(value):
            run += text
            if number < 0:
                continue
            source, quote = self.slots[number]
            if quote is not None:
                run += mark(number)
                continue
            if run or not operands:
                # An expression alone might be added as a number: the empty string makes it text.
                operands += self._run(run, plus, default)
            operands.append(source)
            run = ""
        if run or not operands:
            operands += self._run(run, plus, default)
        return plus.join(operands)

    def _run(self, value: str, plus: str, default: Quote) -> list[str]:
        inside = [self.slots[number][1] for _, number in parts_of(value) if number >= 0]
        quote = next((quote for quote in inside if quote is not None), default)
        if any(slot_quote != quote for slot_quote in inside):
            raise Inexpressible("its slots are in strings with different quotes")
        sources = [source for source, _ in self.slots]
        return [write_token(piece, quote, sources) for piece in _lines(value, plus)]


def _lines(text: str, glue: str) -> list[str]:
    """One string per line, if the source has one string per line."""
    if "\n" not in glue or "\n" not in text:
        return [text]
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    return lines or [text]


def concatenation_literal(
    text: str,
    elements: Sequence[Sequence[Token | Operand]],
    language: str,
    span: tuple[int, int],
    *,
    glue: str,
    separator: str = "",
) -> Literal | None:
    """The literal of several strings and expressions.

    Args:
        text: The file's text.
        elements: The parts in order, at least one of them a string; those of a `join` by element.
        language: Name of the language.
        span: The whole expression.
        glue: Operator between two elements, such as `+`; empty for adjacent strings.
        separator: Text that a call of `join` puts between the elements.
    """
    operands = [operand for element in elements for operand in element]
    first = next(operand.quote for operand in operands if isinstance(operand, Token))
    builder = LiteralBuilder()
    slots: list[tuple[str, Quote | None]] = []
    begins: list[int] = []
    for number, element in enumerate(elements):
        if separator and number:
            builder.add(separator, _inner(elements[number - 1][-1])[1], _inner(element[0])[0])
        for index, operand in enumerate(element):
            if not index or not separator:
                begins.append(len(builder.characters))
            if isinstance(operand, Token):
                add_token(builder, text, operand)
                slots += [(slot.source, operand.quote) for _, _, slot in operand.slots]
                continue
            before = element[index - 1] if index else operand
            after = element[index + 1] if index + 1 < len(element) else operand
            start = _inner(before)[1] if isinstance(before, Token) else operand.span[0]
            end = _inner(after)[0] if isinstance(after, Token) else operand.span[1]
            moved = f"{first.closing} + {operand.source} + {first.opening}"
            builder.add_slot(Slot(operand.source, moved, simple=operand.simple), start, end)
            slots.append((operand.source, None))
    parts = elements if separator else [[operand] for operand in operands]
    style = ConcatenationStyle(
        quote=first,
        glue=_glue(text, parts, glue),
        separator=separator,
        slots=tuple(slots),
        elements=_elements(text, parts, builder, begins, separator),
        edges=(text[span[0] : operands[0].span[0]], text[operands[-1].span[1] : span[1]]),
    )
    body = (_inner(operands[0])[0], _inner(operands[-1])[1])
    raw_lines = all(operand.quote.raw_lines for operand in operands if isinstance(operand, Token))
    return builder.finish(language, span, body, style, raw_lines=raw_lines)


def _elements(
    text: str,
    elements: Sequence[Sequence[Token | Operand]],
    builder: LiteralBuilder,
    begins: Sequence[int],
    separator: str,
) -> tuple[Element, ...]:
    ends = [begin - len(separator) for begin in begins[1:]] + [len(builder.characters)]
    spans = [(element[0].span[0], element[-1].span[1]) for element in elements]
    gaps = [text[before[1] : after[0]] for before, after in itertools.pairwise(spans)]
    return tuple(
        Element(
            "".join(builder.characters[begin:end]),
            text[slice(*span)],
            gap,
            next((token.quote for token in element if isinstance(token, Token)), None),
        )
        for element, begin, end, span, gap in zip(
            elements, begins, ends, spans, [*gaps, ""], strict=True
        )
    )


def _inner(operand: Token | Operand) -> tuple[int, int]:
    return operand.body if isinstance(operand, Token) else operand.span


def _glue(text: str, elements: Sequence[Sequence[Token | Operand]], glue: str) -> str:
    """Source to put between elements, as found in the text; preferably with a line ending."""
    spacing = {"": " ", ",": ", "}.get(glue, f" {glue} ")
    for left, right in itertools.pairwise(elements):
        between = text[left[-1].span[1] : right[0].span[0]]
        if re.fullmatch(rf"\s*{re.escape(glue)}[\s\\]*", between):
            spacing = between
            if "\n" in between:
                break
    return spacing
