"""Extracts the answer from a model's text: without reasoning, and out of code blocks.

Everything that looks for an answer in prose uses this module, so that all agree on where it is.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ratchet.types import InputError

MAX_DEPTH = 500
"""Deepest nesting of data whose texts are read."""

_REASONING = re.compile(r"<(?P<end>/?)(?:think|thinking|reasoning)\s*>", re.IGNORECASE)
_OPENING = re.compile(r"(?P<fence>(?<!`)`{3,}|(?<!~)~{3,})(?P<info>[^`]*)$")
_INFO = re.compile(r"[\w+#.-]*[^\S\n]*$")
_LANGUAGE = re.compile(
    r"[{.\s]{0,3}(?:json[c5]?|sql|sqlite3?|postgres(?:ql)?|mysql|tsql|python3?|py|text|txt|plain"
    r"|yaml|xml|bash|sh)[}\s]+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CodeBlock:
    """A block of code in a text."""

    text: str
    info: str = ""
    """The text after the opening fence: a language, and attributes."""
    guessed: bool = False
    """Whether only a closing fence shows that there is a block."""


def without_reasoning(text: str) -> str:
    """Remove the reasoning that some models put before an answer, or between its parts.

    Reasoning whose first tag was in the prompt ends at the closing tag. Reasoning that never ends
    was cut off: nothing is left of it.
    """
    text = text.lstrip("\ufeff")
    parts, at, opened = list[str](), 0, -1
    for tag in _REASONING.finditer(text):
        if tag["end"]:
            parts = parts if opened >= 0 else []
            at, opened = tag.end(), -1
        elif opened < 0:
            parts.append(text[at : tag.start()])
            opened = tag.start()
    if at == 0 and opened < 0:
        return text
    if opened >= 0:  # behind words it is a tag that the text speaks of
        parts.append(text[opened:] if "".join(parts).strip() else "")
    else:
        parts.append(text[at:])
    return "".join(parts).strip()


def answer_of(output: Any, depth: int = 0) -> Any:
    """An output without reasoning, also in the texts of data."""
    if isinstance(output, str):
        return output if _is_json(output) else without_reasoning(output)
    if depth >= MAX_DEPTH:
        return output
    if isinstance(output, dict):
        return {key: answer_of(value, depth + 1) for key, value in output.items()}
    if isinstance(output, list):
        return [answer_of(value, depth + 1) for value in output]
    return output


def comparable(value: Any, depth: int = 0) -> Any:
    """A value whose texts are in Unicode's normal form C: "é" is one character, however it is
    composed."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if depth >= MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {comparable(key): comparable(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [comparable(inner, depth + 1) for inner in value]
    return value


def output_text(output: Any) -> str:
    """An output as text: a text unchanged, None as the empty text, and data as JSON.

    Raises:
        InputError: The data is nested too deep.
    """
    if output is None or isinstance(output, str):
        return output or ""
    try:
        return json.dumps(output, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise InputError("The output is nested too deeply, or is not a JSON value.") from None


def answer_text(output: Any) -> str:
    """The text of an output's answer; see `output_text` and `answer_of`."""
    return output_text(answer_of(output))


def code_blocks(text: str) -> list[CodeBlock]:
    """The nonempty code blocks of a text, in order.

    A fence is of backticks or tildes, may be indented or stand behind words, and closes at a line
    of its own or at the end of one. A closing fence without an opening one, as where the opening
    was in the prompt, ends a block that begins with the text, or behind the block before.
    """
    return [
        block for block in _blocks(text.replace("\r\n", "\n").split("\n")) if block.text.strip()
    ]


def without_code(text: str) -> str:
    """A text without its code blocks, and without code between backticks."""
    for block in code_blocks(text):
        text = text if block.guessed else text.replace(block.text, " ", 1)
    return re.sub(r"`[^`\n]*`", " ", text)


def json_in(value: Any) -> Any:
    """The value that a text holds as JSON, alone or in its last code block that is JSON.

    Args:
        value: A text; anything else is returned as it is.

    Raises:
        ValueError: The text holds no JSON, or JSON nested too deep.
    """
    if not isinstance(value, str):
        return value
    wrong = ""
    for text in _candidates(value):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            wrong = wrong or str(error)
    raise ValueError(wrong)


def _candidates(text: str) -> Iterator[str]:
    yield text
    for block in reversed(code_blocks(text)):
        yield block.text
        yield f"{block.info}\n{block.text}"  # an object that begins behind the fence


def _is_json(text: str) -> bool:
    """Whether a whole text is JSON, so that the strings in it are content."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _blocks(lines: list[str]) -> Iterator[CodeBlock]:
    at = since = 0  # the line that is read, and the first that no block has taken
    while at < len(lines):
        line = lines[at]
        opening = _OPENING.search(line) if "```" in line or "~~~" in line else None
        within = _within_line(line) if "```" in line or "~~~" in line else None
        if within is not None:
            yield within
            since = at + 1
        elif opening is not None and _is_opening(line, opening):
            before, info = line[: opening.start()], opening["info"].strip()
            end, last_line = _end_of_block(lines, at, opening)
            if end < 0 or (end == len(lines) and not info):
                yield CodeBlock("\n".join([*lines[since:at], before]).strip("\n"), guessed=True)
            if end >= 0:
                content = [_outdented(line, len(before)) for line in lines[at + 1 : end]]
                text = "\n".join([*content, *last_line])
                yield CodeBlock(text, info) if text.strip() else CodeBlock(info)
                at = end
            since = at + 1
        at += 1


def _is_opening(line: str, opening: re.Match[str]) -> bool:
    """Whether a fence opens a block: at the beginning of a line, or before a language alone."""
    before = line[: opening.start()].strip()
    return not before or _INFO.match(opening["info"]) is not None


def _within_line(line: str) -> CodeBlock | None:
    """The last block that opens and closes within a line."""
    line = line.strip()
    for fence in ("```", "~~~"):
        parts = line.split(fence)
        text = ""
        if not parts[0] and not parts[-1] and len(parts) > 2:
            text = line[len(fence) : -len(fence)]
        elif len(parts) > 2 and len(parts) % 2 and line[0] not in '{["' and line[-1] not in '}],"':
            text = parts[-2]  # no line of JSON, whose texts may hold fences
        if text.strip(f"{fence[0]} "):
            language = _LANGUAGE.match(text)
            return CodeBlock(text[language.end() if language else 0 :].strip())
    return None


def _end_of_block(lines: list[str], opened: int, opening: re.Match[str]) -> tuple[int, list[str]]:
    """The line that closes a block, and the text before the closing fence.

    It is the number of lines where none does, and -1 where the fence opens no block, but has closed
    one: it has no language, and a block with a language begins before it is closed.
    """
    fence, indent = opening["fence"], opening.start()
    for number in range(opened + 1, len(lines)):
        line = lines[number]
        if fence[0] * 3 not in line:
            continue
        stripped = line.strip()
        marks = len(stripped) - len(stripped.lstrip(fence[0]))
        if marks == len(stripped):
            if marks >= len(fence) and len(line) - len(line.lstrip()) <= indent + 3:
                return number, []
        elif marks >= 3 and not opening["info"].strip() and _OPENING.search(line):
            return -1, []
        elif not marks and stripped.endswith(fence) and stripped.count(fence[0] * 3) == 1:
            return number, [_outdented(line.rstrip()[: -len(fence)], indent)]
    return len(lines), []


def _outdented(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip())) :]
