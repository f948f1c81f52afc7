"""Quotes untrusted text for a judge, so that none of it can pass as an instruction.

Each line of what the agent or its users wrote gets a random mark in front, which the judge is told
of and which the text's author cannot know (datamarking: Hines et al. 2024, "Defending against
indirect prompt injection attacks with spotlighting"). What could end a line, a quotation or a
message behind the judge's back is neutralised: separators of lines, invisible characters, and the
tokens by which chat templates divide messages.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable

_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

_KEPT = frozenset("\t\u200c\u200d")
"""Control and format characters that are kept: scripts and emojis need the joiners."""

_TEMPLATE_TOKEN = re.compile(
    r"[<＜](?=\s*[|｜])"  # noqa: RUF001 - <|im_start|>, in both widths
    r"|[<＜](?=\s*/?\s*(?:s|bos|eos|think|start_of_turn|end_of_turn|system|user|assistant)\s*[>＞])"  # noqa: RUF001
    r"|<(?=\s*/?\s*<\s*/?\s*SYS\s*>)"
    r"|\[(?=\s*/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS)\s*\])",
    re.IGNORECASE,
)
"""Openings of tokens that divide the messages of a chat in the templates of known models."""


def new_mark() -> str:
    """A mark that no author of a text can guess."""
    return f"{secrets.token_hex(4)}>"


def unused_mark(texts: Iterable[str], draw: Callable[[], str] = new_mark) -> str:
    """Draw a mark that occurs in none of the texts."""
    searched = tuple(texts)
    while any((mark := draw()) in text for text in searched):
        pass
    return mark


def neutralised(text: str) -> str:
    """The text without characters and tokens that could act on a model or its chat template."""
    text = _LINE_END.sub("\n", text)
    text = "".join(
        character
        for character in text
        if character == "\n"
        or character in _KEPT
        or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
    )
    return _TEMPLATE_TOKEN.sub(lambda match: f"{match[0]} ", text)


def quoted(text: str, mark: str) -> str:
    """The neutralised text, each line preceded by the mark."""
    return "\n".join(f"{mark} {line}" for line in neutralised(text).split("\n"))
