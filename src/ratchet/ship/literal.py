"""Write a value as a Python literal, in the style of the literal it replaces."""

from __future__ import annotations

import ast
import difflib
import io
import re
import textwrap
import tokenize
import warnings
from typing import Any

_PREFIX = re.compile(r"(?P<prefix>[A-Za-z]*)(?P<quote>'''|\"\"\"|'|\")")


def write_value(value: Any, old: str) -> str:
    """Write a number, boolean or string (or a list or dict of them) as a literal on one line.

    Args:
        value: The exact value of the literal.
        old: Source of the literal that it replaces; a string keeps its quotes.
    """
    if isinstance(value, str):
        match = _PREFIX.match(old)
        return _quoted(value, match["quote"][0] if match else '"')
    if not isinstance(value, (list, dict)):
        return repr(value)
    return _nested(value, "'" if '"' not in old and "'" in old else '"')


def _nested(value: Any, quote: str) -> str:
    match value:
        case str():
            return _quoted(value, quote)
        case list():
            return f"[{', '.join(_nested(item, quote) for item in value)}]"
        case dict():
            entries = (f"{_nested(k, quote)}: {_nested(v, quote)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
    return repr(value)


def _quoted(value: str, quote: str) -> str:
    return _checked(quote + _escape(value, quote, raw_tabs=False) + quote, value)


def write_text(text: str, old: str) -> str:
    """Write a prompt's text as a string literal, with line ends as `\\n`.

    Args:
        text: The exact value of the literal.
        old: Source of the string literal, or implicit concatenation, that it replaces, with line
            ends as `\\n`. Its quotes, `r` prefix and unchanged pieces stay.
    """
    pieces = _pieces(old)
    if not pieces:
        return _write_piece(text, '""', multiline=True)
    if len(pieces) == 1:
        return _write_piece(text, pieces[0][2], multiline=True)
    # Pieces at both ends that the new text keeps are left as they are.
    first, last = 0, len(pieces)
    while first < last - 1 and text.startswith(pieces[first][3]):
        text = text[len(pieces[first][3]) :]
        first += 1
    while last > first + 1 and text.endswith(pieces[last - 1][3]):
        text = text[: len(text) - len(pieces[last - 1][3])]
        last -= 1
    start, end = pieces[first][0], pieces[last - 1][1]
    between = old[pieces[0][1] : pieces[1][0]]
    joint = "\n" + between.rpartition("\n")[2] if "\n" in between and "\\" not in between else " "
    if '"""' in pieces[first][2] or "'''" in pieces[first][2]:
        code = _write_piece(text, pieces[first][2], multiline=True)
    else:
        lines = text.splitlines(keepends=True) if "\r" not in text else [text]
        code = joint.join(
            _write_piece(line, pieces[first][2], multiline=False) for line in lines or [""]
        )
    return old[:start] + code + old[end:]


def first_piece(old: str) -> str:
    """The first string token of an implicit concatenation, whose style the new literal copies."""
    pieces = _pieces(old)
    return pieces[0][2] if pieces else '""'


def rewrap(text: str, old: str, evaluate: Any) -> str | None:
    """Find the literal that dedent or strip turns into `text`, laid out like `old`.

    Args:
        text: The required result.
        old: The literal's present text.
        evaluate: The function applied to the literal: text → text.

    Returns:
        None when no layout gives exactly `text`.
    """
    lines = old.split("\n")
    lead = old[: len(old) - len(old.lstrip(" \t\n"))].rpartition("\n")
    trail = old[len(old.rstrip(" \t\n")) :]
    layouts: list[str] = []
    for margin in dict.fromkeys((_margin(lines), _margin(lines[1:]))):
        indented = "\n".join(margin + line if line.strip() else line for line in text.split("\n"))
        for body in (indented, indented[len(margin) :], text):
            for before in (lead[0] + lead[1], "", "\n"):
                for after in (trail, trail.lstrip("\n"), trail.rpartition("\n")[2], ""):
                    if evaluate(before + body + after) == text:
                        layouts.append(before + body + after)
    return max(layouts, key=lambda layout: _common_lines(layout, old), default=None)


def _margin(lines: list[str]) -> str:
    """The common indentation of all lines."""
    filled = [line for line in lines if line.strip()] or [""]
    first = textwrap.dedent("\n".join(filled)).split("\n")[0]
    return filled[0][: len(filled[0]) - len(first)]


def _common_lines(layout: str, original: str) -> int:
    matcher = difflib.SequenceMatcher(
        None, layout.split("\n"), original.split("\n"), autojunk=False
    )
    return sum(block.size for block in matcher.get_matching_blocks())


def _pieces(source: str) -> list[tuple[int, int, str, str]]:
    """(start, end, source, value) of each string token."""
    wrapped = f"({source})"
    starts = [0]
    for line in wrapped.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    pieces = []
    for token in tokenize.generate_tokens(io.StringIO(wrapped, newline="\n").readline):
        if token.type == tokenize.STRING:
            start = starts[token.start[0] - 1] + token.start[1] - 1
            end = starts[token.end[0] - 1] + token.end[1] - 1
            pieces.append((start, end, token.string, str(ast.literal_eval(token.string))))
    return pieces


def _write_piece(text: str, old: str, *, multiline: bool) -> str:
    match = _PREFIX.match(old)
    assert match is not None
    prefix, quote = match["prefix"], match["quote"]
    body = old[match.end() : -len(quote)]
    if multiline and len(quote) == 1 and "\n" in text.rstrip("\n"):
        quote *= 3
    raw = "r" in prefix.lower()
    if raw and _is_plain(text):
        code = prefix + quote + text + quote
        if _evaluate(code) == text:
            return code
    opening = "\\\n" if len(quote) == 3 and not raw and body.startswith("\\\n") else ""
    escaped = _escape(text, quote, raw_tabs="\t" in body)
    code = quote + opening + escaped + quote
    return _checked(code, text)


def _checked(code: str, value: str) -> str:
    return code if _evaluate(code) == value else ascii(value)


def _evaluate(source: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(source)
    except (SyntaxError, ValueError):
        return None
    return value if isinstance(value, str) else None


def _is_plain(text: str) -> bool:
    return all(character.isprintable() or character in "\n\t" for character in text)


def _escape(text: str, quote: str, *, raw_tabs: bool) -> str:
    escaped: list[str] = []
    run = 0
    for index, character in enumerate(text):
        run = run + 1 if character == quote[0] else 0
        if character == "\\":
            escaped.append("\\\\")
        elif character == quote[0]:
            last = index == len(text) - 1
            if len(quote) == 1 or run == 3 or last:
                escaped.append("\\" + character)
                run = 0
            else:
                escaped.append(character)
        elif character == "\n":
            escaped.append("\n" if len(quote) == 3 else "\\n")
        elif character == "\t":
            escaped.append("\t" if raw_tabs else "\\t")
        elif character == "\r":
            escaped.append("\\r")
        elif character.isprintable():
            escaped.append(character)
        else:
            # Invisible and bidirectional characters are spelled out, so that a reviewer sees them.
            escaped.append(character.encode("unicode_escape").decode("ascii"))
    return "".join(escaped)
