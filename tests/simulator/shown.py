"""What a coach is shown and asked for: the text that is to become better, the answer's form.

Whoever asks marks the current text in some way: by a heading, a fence, a tag, or a field of JSON.
All marked pieces are collected with the words that introduce them, and the likeliest is taken.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

Form = Literal["critique", "text", "fenced", "diff", "json", "grade", "code_fenced", "code_diff"]


class Piece(NamedTuple):
    """A marked piece of what is shown."""

    text: str
    label: str
    """The words that introduce it, lower case."""
    start: int
    end: int
    fenced: bool


class Shown(NamedTuple):
    """What the coach is shown."""

    form: Form
    current: str
    """The text that is to become better; empty when none was found."""
    rest: str
    """Everything else that is shown."""
    schema: Mapping[str, Any] | None
    is_code: bool
    fence: str
    """Backticks that a fence is asked for with."""


_FENCE = re.compile(r"(?ms)^[ \t]*(`{3,}|~{3,})([\w+-]*)[ \t]*\n(.*?)^[ \t]*\1[ \t]*$")
_TAG = re.compile(
    r"(?s)<((?:\w+[-_])*(?:prompt|instructions?|template|program|code|text)\w*)(?:"
    r" [^>\n]*)?>\n?(.*?)\n?</\1>"
)
_HEADING = re.compile(
    r"(?m)^(?:#{1,6} +(.{1,80}?) *#*|\*\*(.{1,60}?)\*\*:?|([A-Z][\w /-]{2,50}):)[ \t]*$"
)

_WANTED = re.compile(
    r"current|original|existing|present|parent|\bthe prompt\b|base(line)?\b|to (improve|revise"
    r"|rewrite)"
)
_SUBJECT = re.compile(
    r"prompt|instruction|template|program|candidate|resource|text\b|code|function"
)
_OTHER = re.compile(
    r"example|sample|experiment|run\b|feedback|critique|trace|message|output|previous|attempt|top "
    r"|inspiration|history|your|another|score|second|other|evaluat|artifact|error|format|rule|step"
    r"|\bb\b"
)


_STANDS_IN = re.compile(
    r"\W{0,3}(\.\.\.|(your|the|an?)? ?(new|rewritten|improved|revised|complete)\b.{0,40}$)"
)
"""What stands where the answer is to go."""


def shown(
    messages: Sequence[Mapping[str, Any]], response_format: Mapping[str, Any] | None
) -> Shown:
    """Make out what is asked for.

    Args:
        messages: The conversation, contents as text.
        response_format: As chat completions have it.
    """
    text = "\n\n".join(str(m["content"]) for m in messages)
    pieces = _pieces(text)
    current = _current(pieces) or _bare(messages, text)
    content = current.text if current else ""
    rest = text[: current.start] + "\n" + text[current.end :] if current else text
    is_code = _is_code(content)
    schema = _schema(response_format, text)
    return Shown(
        form=_form(text, rest, schema, is_code, bool(current)),
        current=content,
        rest=rest,
        schema=schema,
        is_code=is_code,
        fence="````" if "````" in text else "```",
    )


def _pieces(text: str) -> list[Piece]:
    found: list[Piece] = []
    fences = list(_FENCE.finditer(text))
    for match in fences:
        label = f"{_before(text, match.start())} {match[2]}".lower()
        found.append(Piece(match[3].strip("\n"), label, match.start(3), match.end(3), True))
    for match in _TAG.finditer(text):
        found.append(Piece(match[2], match[1].lower().replace("_", " "), *match.span(2), True))
    heads = [
        m
        for m in _HEADING.finditer(text)
        if not any(f.start() < m.start() < f.end() for f in fences)
    ]
    for number, match in enumerate(heads):
        title = next(group for group in match.groups() if group)
        # A heading with `#` ends at the next of its kind: bold lines may be part of what it heads.
        later = (head for head in heads[number + 1 :] if head[1] or not match[1])
        after = next(later, None)
        end = after.start() if after else len(text)
        body = text[match.end() : end]
        if body.strip() and not _FENCE.search(body):
            found.append(Piece(body.strip("\n"), title.lower(), match.end(), end, False))
    decoder = json.JSONDecoder()
    for match in re.finditer(
        r'"((?:current_|original_)?(?:prompt|instruction|template)s?)"\s*:\s*(?=")', text
    ):
        try:
            value, end = decoder.raw_decode(text, match.end())
        except ValueError:
            continue
        found.append(Piece(value, match[1].replace("_", " "), match.end(), end, True))
    return found


def _before(text: str, position: int) -> str:
    """The line or heading that introduces what stands at a position."""
    lines = [
        line.strip()
        for line in text[:position].rsplit("\n\n\n", 1)[-1].splitlines()
        if line.strip()
    ]
    return lines[-1][-160:] if lines else ""


def _current(pieces: Sequence[Piece]) -> Piece | None:
    def likelihood(piece: Piece) -> float:
        words = piece.text.strip()
        if not words or _STANDS_IN.match(words.lower()):
            return -9
        value = 3.0 * bool(_WANTED.search(piece.label)) + 2.0 * bool(_SUBJECT.search(piece.label))
        value -= 2.5 * bool(_OTHER.search(_WANTED.sub("", piece.label)))
        value += 0.5 * piece.fenced + 0.5 * bool(re.search(r"you are|assistant", words.lower()))
        value -= 3.0 * words.startswith(("<<<<<<<", '{"', "[{"))
        return value

    ranked = sorted(pieces, key=likelihood, reverse=True)
    return ranked[0] if ranked and likelihood(ranked[0]) >= 1.5 else None


def _bare(messages: Sequence[Mapping[str, Any]], text: str) -> Piece | None:
    """The last message, where it is nothing but a prompt and what to do stands before it."""
    if len(messages) < 2:
        return None
    last = str(messages[-1]["content"]).strip()
    start = text.rfind(last)
    if not re.match(r"(?i)you (are|help|work)|act as|your (job|role|task) is", last):
        return None
    return Piece(last, "", start, start + len(last), False)


def _is_code(text: str) -> bool:
    if not re.search(
        r"(?m)^\s*(async )?def \w+\(|^\s*class \w+|^\s*(import|from) \w+|\w+ = ", text
    ):
        return False
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return False


def _schema(response_format: Mapping[str, Any] | None, text: str) -> Mapping[str, Any] | None:
    kind = (response_format or {}).get("type")
    if kind == "json_schema":
        named = (response_format or {}).get("json_schema") or {}
        found: Mapping[str, Any] = named.get("schema") or {}
        return found
    asked = re.search(
        r"(?i)\b(respond|reply|answer|return)\b[^.\n]{0,60}\bjson\b|\boutput (only )?(an?"
        r" )?(valid )?json\b",
        text,
    )
    if kind != "json_object" and not asked:
        return None
    tail = text[asked.start() :] if asked else text
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", tail):
        try:
            value, _ = decoder.raw_decode(tail, match.start())
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("properties"), dict):
            return value
    keys = list(dict.fromkeys(re.findall(r'"(\w+)"\s*:', tail))) or re.findall(r"`(\w+)`", tail)
    keys = keys or ["prompt"]
    return {"type": "object", "properties": {k: {"type": "string"} for k in keys}, "required": keys}


_DECLINED = re.compile(
    r"(\bno|\bnot|without|do not (write|give|return)|don't (write|give|return)|instead of)"
    r" (an? |the |any )?(new|revised|complete|rewritten|improved) (\w+ )?(prompt|version|text"
    r"|program)"
)


def _form(
    text: str, rest: str, schema: Mapping[str, Any] | None, is_code: bool, has_current: bool
) -> Form:
    lower = _DECLINED.sub("", rest.lower())
    if "not_novel" in lower:
        return "grade"
    if schema is not None:
        return "json"
    if "<<<<<<< search" in lower:
        return "code_diff" if is_code else "diff"
    if is_code:
        return "code_fenced"
    rewrites = re.search(
        r"return only the (\w+ ){0,3}prompt|(write|provide|produce|give|return"
        r"|output)\b[^.\n]{0,40}\b(new|improved"
        r"|revised|rewritten|complete|updated|full|better)\b[^.\n]{0,40}(instruction|prompt"
        r"|template|program|text|version)"
        r"|(rewrite|revise) the (\w+ ){0,3}(prompt|program|instruction|template|text)",
        lower,
    )
    critiques = re.search(
        r"\b(produce|write|give|provide|respond with|return)\b[^.\n]{0,60}(critique|diagnos"
        r"|bullet|analysis)"
        r"|analy[sz]e where|critique of",
        lower,
    )
    if critiques and not (rewrites and rewrites.start() > critiques.start()):
        return "critique"
    if not has_current and not rewrites:
        return "critique"
    if re.search(
        r"(within|in|inside|between|wrapped in)[^.\n]{0,20}(```|fence|code block|backtick)", lower
    ):
        return "fenced"
    return "fenced" if re.search(r"```\w*\n# your", lower) else "text"
