"""The surroundings of a literal: the name it is given, the calls it is passed to, its role.

The literals of a file are blanked out first, so that brackets and commas that are left are those of
the program, in whatever language. That is enough to say where a text stands, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ratchet.source.literals.literal import Literal

_MOST = 6_000
"""Number of characters before a literal that are examined."""
_LEVELS = 5
_OPENING, _CLOSING = "([{", ")]}"
_COMMENT = re.compile(r"(?:(?<=\s)|^)(?:#(?!\{)|//)[^\n]*|/\*.*?\*/", re.M | re.S)
_LABEL = re.compile(
    r"""(?:^|[\s,;({\[@])["']?([\w$][\w$.\-]*)["']?\??"""
    r"""(?:[ \t]*:[ \t]*[\w.\[\]<>|, "']+?)?[ \t]*(?::=|\+?=|:|=>)[\s(]*$"""
)
_CALLEE = re.compile(r"([\w$.]+)(?:<[^<>()]*>)?\s*$")
_COMMAND = re.compile(r"\s*([a-z]\w*)\s+(?![=:])\S*[^=]*$")
"""The first word of a line, such as a shell command or a statement."""
_FUNCTION = re.compile(
    r"^[ \t]*(?:export\s+|async\s+|default\s+|public\s+|private\s+|static\s+)*"
    r"(?:def|function|func|fn)\s+(?:\([^)\n]*\)\s*)?(\w+)"
    r"|^[ \t]*(?:export\s+)?(?:const|let)\s+(\w+)\s*=\s*(?:async\s*)?\([^\n]*=>",
    re.M,
)
_ROLE = re.compile(
    r"""["']?role["']?\s*[:=]\s*\w*\.?["']?(system|developer|user|human|assistant)\b""", re.I
)
_PAIR = re.compile(r"""^\s*["'](system|developer|user|human|ai|assistant)["']\s*,\s*$""", re.I)


class LiteralContext(msgspec.Struct, frozen=True):
    """The surroundings of a literal."""

    names: tuple[str, ...]
    """Labels from the inside out: argument, key, variable; empty if there is none."""
    calls: tuple[str, ...]
    """Calls that it is passed to, from the inside out; empty for other brackets."""
    role: str = ""
    """Role of the message whose content it is."""
    function: str = ""
    """The function that returns it."""
    alone: bool = False
    """Whether it is a statement by itself, as a docstring is."""


def blanked(text: str, literals: Iterable[Literal]) -> str:
    """A file's text with its literals and comments blanked out, of the same length."""
    parts, at = [], 0
    for start, end in sorted(literal.span for literal in literals):
        if start >= at:
            parts += [text[at:start], "\0" * (end - start)]
            at = end
    plain = "".join([*parts, text[at:]])
    return _COMMENT.sub(lambda comment: " " * len(comment.group()), plain)


def surroundings(text: str, plain: str, span: tuple[int, int]) -> LiteralContext:
    """What surrounds a literal.

    Args:
        text: The file.
        plain: The same, `blanked`.
        span: The literal.
    """
    names: list[str] = []
    calls: list[str] = []
    role = ""
    at, begin = span[0], max(0, span[0] - _MOST)
    for _ in range(_LEVELS):
        opener, comma = _opener(plain, at, begin)
        label = _LABEL.search(plain[max(comma, begin, at - 200) : at])
        names.append(label[1] if label else _key(text[max(comma, at - 200) : at]))
        if opener < begin:
            break
        if not role:
            role = _role(text, opener, span)
        callee = (
            _CALLEE.search(plain, max(begin, opener - 100), opener)
            if plain[opener] == "("
            else None
        )
        calls.append(callee[1] if callee else "")
        at = opener - (len(callee.group()) if callee else 0)
    statement = plain[plain.rfind("\n", 0, span[0]) + 1 : span[0]]
    returned = re.search(
        r"\b(?:return|yield)\b[\s(]*$|=>\s*[\s(]*$", plain[max(0, span[0] - 60) : span[0]]
    )
    function = ""
    if returned:
        defined = list(_FUNCTION.finditer(plain, begin, span[0]))
        function = next((name for name in defined[-1].groups() if name), "") if defined else ""
    command = None if calls else _COMMAND.match(statement)
    if command is not None:
        calls.append(command[1])
    alone = not statement.strip() and not calls
    return LiteralContext(tuple(names), tuple(calls), role, function, alone)


def _opener(plain: str, at: int, begin: int) -> tuple[int, int]:
    """The bracket that is open at a position, and the end of the last comma or bracket in it.

    Without one, the statement's beginning.
    """
    depth, comma = 0, -1
    for index in range(at - 1, begin - 1, -1):
        character = plain[index]
        if character in _CLOSING:
            depth += 1
        elif character in _OPENING:
            if not depth:
                return index, max(comma, index + 1)
            depth -= 1
        elif not depth and comma < 0 and (character in ",;"):
            comma = index + 1
        elif (
            not depth
            and character == "\n"
            and plain[index + 1 : index + 2] not in (" ", "\t", "\n", "\0", ")", "]", "}")
        ):
            return begin - 1, max(comma, index + 1)
    return begin - 1, max(comma, begin)


def _key(before: str) -> str:
    """The key of a mapping whose keys are literals too: `"content": `."""
    quoted = re.search(r"""["']([\w .\-]+)["']\s*(?::|=>|=)\s*[\s(]*$""", before)
    return quoted[1] if quoted else ""


def _role(text: str, opener: int, span: tuple[int, int]) -> str:
    """The role of the message that begins with a bracket."""
    before = text[opener + 1 : span[0]]
    pair = _PAIR.match(before)
    if pair:
        return pair[1].lower()
    if len(before) > 300:
        return ""
    after = text[span[1] : span[1] + 120].partition("}")[0].partition(")")[0]
    stated = _ROLE.search(before) or _ROLE.search(after)
    return stated[1].lower() if stated else ""
