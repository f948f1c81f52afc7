"""YAML literals: scalars of all five styles that are not keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ratchet.source.literals.literal import Inexpressible, Literal, LiteralBuilder

_HEADER = re.compile(r"[|>](?P<marks>[+-]?[1-9]?[+-]?)[ \t]*(?:#[^\r\n]*)?\r?\n")
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_SINGLE = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


@dataclass(frozen=True)
class _Style:
    """A scalar."""

    form: str
    """`|`, `>`, `"`, `'`, or empty for a plain one."""
    header: str
    """For a block: its header, such as `|-`, and the rest of that line."""
    indent: str
    """Indentation of a block's lines."""
    newline: str

    def encode(self, text: str, *, at_end: bool) -> str:
        if self.form == '"':
            return _double(text)
        plain = all(c.isprintable() or c in "\n\t" for c in text)
        if not plain or (self.form not in ("|", ">") and "\n" in text):
            raise Inexpressible("a scalar of this style cannot contain it")
        if self.form == "'":
            return text.replace("'", "''")
        if self.form == ">":
            # A folded line end is a space; one more of them is a line end.
            text = re.sub(r"\n+(?=[^\n])" if at_end else r"\n+", r"\g<0>\n", text)
        encoded = re.sub(r"\n(?=[^\n])", "\n" + self.indent, text)
        if text.endswith("\n") and not at_end:
            encoded += self.indent
        return encoded.replace("\n", self.newline)

    def whole(self, value: str) -> Iterator[str]:
        try:
            if self.form in ("|", ">"):
                yield self._block(value, "|" + self.header[1:])
            else:
                yield self.form + self.encode(value, at_end=True) + self.form
        except Inexpressible:
            pass
        if "\n" in value and self.form not in ("|", ">"):
            end = len(value) - len(value.rstrip("\n"))
            try:
                yield self._block(value, "|" + ("-" if not end else "" if end == 1 else "+"))
            except Inexpressible:
                pass
        yield f'"{_double(value)}"' + (self.newline if self.form in ("|", ">") else "")

    def _block(self, value: str, header: str) -> str:
        block = _Style("|", header, self.indent, self.newline)
        body = self.indent + block.encode(value, at_end=True)
        return header.rstrip("\r\n") + self.newline + body


def _double(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(escapes.get(character) or _spelled(character) for character in text)


def _spelled(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def read(text: str) -> tuple[list[Literal], int]:
    """The scalars in all documents of a text, and 1 if it is not YAML, else 0."""
    import yaml

    newline = "\r\n" if "\r\n" in text else "\n"
    literals: list[Literal] = []
    is_key = False
    resolver = yaml.SafeLoader("")
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.ScalarToken):
                if not is_key and _is_text(resolver, token):
                    literal = _literal(text, token, newline)
                    literals += [literal] if literal is not None else []
                is_key = False
            elif not isinstance(token, (yaml.AnchorToken, yaml.TagToken)):
                is_key = isinstance(token, yaml.KeyToken)
    except (yaml.YAMLError, ValueError, OverflowError):  # the second for `\U00110000`
        return literals, 1
    return literals, 0


def _is_text(resolver: Any, token: Any) -> bool:
    """Whether a scalar is a string, not a number, a date or the like."""
    import yaml

    tag = resolver.resolve(yaml.ScalarNode, token.value, (token.plain, not token.plain))
    return bool(tag == "tag:yaml.org,2002:str")


def _literal(text: str, token: Any, newline: str) -> Literal | None:
    start, end = token.start_mark.index, token.end_mark.index
    value: str = token.value
    form = "" if token.plain else token.style
    if form in ("|", ">"):
        literal = _block(text, start, end, value, form, newline)
        if literal is not None:
            return literal
    line = text[text.rfind("\n", 0, start) + 1 : start]
    deeper = " " * (len(line) - len(line.lstrip(" -")) + 2)
    builder = LiteralBuilder()
    if form in ("|", ">"):
        end = start + len(text[start:end].rstrip())
        body = (start, end)
    else:
        body = (start + len(form), end - len(form))
        source = text[slice(*body)]
        if form == '"' and "\n" not in source:
            at = body[0]
            for escape in _ESCAPE.finditer(text, *body):
                builder.add(text[at : escape.start()], at, escape.start())
                builder.add(_decoded(escape.group()), escape.start(), escape.end())
                at = escape.end()
            builder.add(text[at : body[1]], at, body[1])
        elif form == "'" and "\n" not in source:
            for piece in re.finditer(r"''|[^']+", source):
                decoded = piece.group().replace("''", "'")
                builder.add(decoded, body[0] + piece.start(), body[0] + piece.end())
    if "".join(builder.characters) != value:
        # Lines that are folded: only all of it can be written anew.
        builder = LiteralBuilder()
        if source_is(text, body, value):
            builder.add(value, *body)
        else:
            for index, character in enumerate(value):
                builder.add(character, body[0] if not index else body[1], body[1])
    return builder.finish(
        "YAML", (start, end), body, _Style(form, form, deeper, newline), raw_lines=False
    )


def source_is(text: str, body: tuple[int, int], value: str) -> bool:
    """Whether a value appears verbatim in the source."""
    return text[slice(*body)] == value


def _block(text: str, start: int, end: int, value: str, form: str, newline: str) -> Literal | None:
    header = _HEADER.match(text, start)
    if header is None or not value.strip():
        return None
    first = re.compile(r"(?:[ \t]*\r?\n)*( +)\S").match(text, header.end())
    if first is None:
        return None
    widths = range(1, len(first[1]) + 1) if re.search(r"\d", header["marks"]) else [len(first[1])]
    for width in widths:
        builder = LiteralBuilder()
        last = _lines(builder, text, header.end(), end, width, form, len(value))
        if "".join(builder.characters) == value:
            style = _Style(form, header.group(), " " * width, newline)
            body = (builder.starts[0], last)
            span = (start, last)
            return builder.finish("YAML", span, body, style, raw_lines=True)
    return None


def _lines(
    builder: LiteralBuilder, text: str, begin: int, end: int, width: int, form: str, length: int
) -> int:
    """Add a block's lines, up to a number of characters; return the position after them."""
    at = begin
    breaks: list[int] = []
    after = begin
    indented = re.compile(f"[ ]{{0,{width}}}")
    while at < len(text) and at <= end:
        line_end = text.find("\n", at)
        stop = len(text) if line_end < 0 else line_end
        bare = stop - 1 if stop > at and text[stop - 1] == "\r" else stop
        match = indented.match(text, at)
        start = min(match.end() if match else at, bare)
        if start < bare and start - at < width:
            break  # less indented: no part of the block
        content = text[start:bare]
        if breaks and content:
            _add_breaks(builder, breaks, start, form)
            breaks = []
        if content:
            builder.add(content, start, bare)
            after = bare
        if line_end < 0:
            break
        breaks.append(bare)
        at = line_end + 1
    missing = length - len(builder.characters)
    for place in breaks[: max(0, missing)]:
        after = place + (2 if text.startswith("\r\n", place) else 1)
        builder.add("\n", place, after)
    return after


def _add_breaks(builder: LiteralBuilder, breaks: list[int], start: int, form: str) -> None:
    """Add the line ends between two lines of text; a folded block reads a single one as a space."""
    if not builder.characters:
        for index, place in enumerate(breaks):
            builder.add("\n", place, breaks[index + 1] if index + 1 < len(breaks) else start)
        return
    if form == ">":
        text = " " if len(breaks) == 1 else "\n" * (len(breaks) - 1)
        builder.add(text, breaks[0], start)
        return
    for index, place in enumerate(breaks):
        builder.add("\n", place, breaks[index + 1] if index + 1 < len(breaks) else start)


def _decoded(escape: str) -> str:
    body = escape[1:]
    if body[0] in "xuU" and len(body) > 1:
        return chr(int(body[1:], 16))
    return _SINGLE.get(body, body)


def parses(text: str) -> bool:
    """Whether a text is YAML."""
    import yaml

    try:
        list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return False
    return True
