"""Text files whose whole content is one literal: Markdown, templates, plain text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ratchet.source.literals.literal import Inexpressible, Literal, LiteralBuilder
from ratchet.types.prompt_file import FRONT_MATTER


@dataclass(frozen=True)
class _Style:
    def encode(self, text: str, *, at_end: bool) -> str:
        if "\0" in text:
            raise Inexpressible("a text file cannot contain the character NUL")
        return text

    def whole(self, value: str) -> Iterator[str]:
        yield value


def read(text: str) -> tuple[list[Literal], int]:
    """The whole text, and the text after its front matter."""
    front = FRONT_MATTER.match(text)
    begins = [1 if text.startswith("\ufeff") else 0, *([front.end()] if front else [])]
    literals = []
    for begin in begins:
        builder = LiteralBuilder()
        builder.add(text[begin:], begin, len(text))
        span = (begin, len(text))
        literal = builder.finish("text", span, span, _Style(), raw_lines=True)
        if literal is not None:
            literals.append(literal)
    return literals, 0
