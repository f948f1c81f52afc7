"""How a function's new source is put in the place of the old one."""

from __future__ import annotations

import difflib
import io
import textwrap
import tokenize

from ratchet.ship.slots import FunctionNode, Slot
from ratchet.ship.source import Source, Span


def extract(source: Source, slot: Slot) -> str:
    """The function's text, dedented and without decorators, as `Code.source` holds it."""
    start = source.starts[slot.node.lineno - 1]
    return textwrap.dedent(_normal(source.data[start : slot.span[1]].decode())).strip("\n")


def place(source: Source, slot: Slot, baseline: str, candidate: str) -> list[tuple[Span, str]]:
    """Ways to write the candidate into the file, the smallest edit first.

    Args:
        source: The file.
        slot: The function's place in it.
        baseline: Source of the function as measured.
        candidate: Source of the function to write, dedented, without decorators.

    Returns:
        (span, text) each; the caller takes the first whose result means what the candidate means.
    """
    assert isinstance(slot.node, FunctionNode)
    start = source.starts[slot.node.lineno - 1]
    indent = source.data[start : slot.span[0]].decode()
    new = candidate.replace("\r\n", "\n").strip("\n").split("\n")
    ways: list[tuple[Span, str]] = []
    if matched := _matching(source, slot, baseline):
        span, old = matched
        ways.append((span, _by_lines(old, baseline.strip("\n").split("\n"), new, indent)))
    ways.append((slot.span, "\n".join(_indented(new, indent)).removeprefix(indent)))
    return [(span, text.replace("\n", source.newline)) for span, text in ways]


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _matching(source: Source, slot: Slot, baseline: str) -> tuple[Span, list[str]] | None:
    """The lines of the file that the baseline's lines are, one by one."""
    wanted = baseline.strip("\n").split("\n")
    first = slot.node.lineno
    last = min(first + len(wanted) - 1, len(source.starts))
    end = source.line_end(last)
    start = source.starts[first - 1]
    text = _normal(source.data[start:end].decode())
    if textwrap.dedent(text).rstrip() != baseline.strip("\n").rstrip():
        return None
    # The last line's trailing blanks may differ; everything else is the same text.
    return (slot.span[0], end), text.split("\n")


def _by_lines(old: list[str], baseline: list[str], new: list[str], indent: str) -> str:
    indented = _indented(new, indent)
    lines: list[str] = []
    matcher = difflib.SequenceMatcher(None, baseline, new, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        lines += old[a:b] if tag == "equal" else indented[c:d]
    return "\n".join(lines).removeprefix(indent)


def _indented(lines: list[str], indent: str) -> list[str]:
    """Each line with the indent before it, but not inside a string, where it would be content."""
    inside: set[int] = set()
    text = "\n".join(lines) + "\n"
    for token in tokenize.generate_tokens(io.StringIO(text, newline="\n").readline):
        # From Python 3.12 on an f-string is several tokens; its text parts span its lines.
        if token.type == tokenize.STRING or tokenize.tok_name[token.type].startswith("FSTRING"):
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    return [
        line if number in inside or not line.strip() else indent + line
        for number, line in enumerate(lines, start=1)
    ]
