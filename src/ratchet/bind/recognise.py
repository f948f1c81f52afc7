"""Recognises registered prompts in texts, by their constant text, and extracts the slots."""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ratchet.types import InputError, PromptTemplate
from ratchet.types.scripts import size_of
from ratchet.types.template import Engine
from ratchet.types.wording import counted

MIN_CONSTANT = 16
"""Minimum length of the constant text of a template with slots, in characters without white space.
A shorter one would match unrelated prompts."""

MIN_PIECE = 8
"""Minimum length of its longest constant piece, in characters: many short pieces occur in any long
text."""

MAX_TEXT = 200_000
"""Maximum length of a text to match, in characters."""

MAX_STEPS = 500
"""Maximum backtracking steps, needed only when a slot occurs in a template more than once."""

_PREFIX = 64
"""Characters of a template's beginning, or end, that are indexed."""

_USER = re.compile(r"(?:^|\.)user(?:_\d+)?$")

_TAIL = 24
"""Characters at the end of a constant piece that are searched first. Short strings are found
faster, and versions of a prompt often differ at these places."""


class TemplateShape(msgspec.Struct, frozen=True):
    """Constant pieces and slots of a template."""

    pieces: tuple[str, ...]
    """Constant text before, between and after the slots; one more than there are slots."""
    slots: tuple[str, ...]
    """Text in the braces. A slot with a format (`price:.2f`) or an attribute (`user.name`), or
    one directly after another (`first}{last`), is named by all of that text: it is refilled only
    where the same text occurs."""

    @property
    def constant(self) -> int:
        """Number of characters of constant text."""
        return sum(map(len, self.pieces))


class RegisteredPrompt(msgspec.Struct, frozen=True):
    """A prompt to recognise."""

    name: str
    version: str
    template: PromptTemplate


class RecognisedPrompt(msgspec.Struct, frozen=True):
    """A recognised prompt."""

    name: str
    version: str
    slots: dict[str, str]
    """The value of each slot, by name."""
    before: str = ""
    """The text before the prompt."""
    after: str = ""


class PromptPlace(NamedTuple):
    """A prompt inside a longer text."""

    slots: dict[str, str]
    """The value of each slot, by name."""
    before: str
    after: str


def shape_of(template: PromptTemplate) -> TemplateShape:
    """Parse a template into constant pieces and slots.

    Raises:
        InputError: It is a Jinja2 template with more than text and plain names. Its logic is not
            run here, so its output is unknown.
    """
    shape = _shape(template)
    if isinstance(shape, str):
        raise InputError(shape)
    return shape


def is_user_prompt(name: str) -> bool:
    """Whether a prompt is also searched for in user messages and inside longer texts."""
    return _USER.search(name) is not None


def refusal(template: PromptTemplate) -> str:
    """Why a template can never be recognised; empty if it can be."""
    if len(template.text) > MAX_TEXT:
        return f"The prompt is longer than {MAX_TEXT} characters."
    shape = _shape(template)
    if isinstance(shape, str):
        return shape
    sizes = [size_of(piece) for piece in shape.pieces]
    if not shape.slots:
        return "" if sum(sizes) else "The prompt is empty."
    if sum(sizes) < MIN_CONSTANT or max(sizes) < MIN_PIECE:
        return (
            f"The prompt has {counted(sum(sizes), 'character')} of constant text, {max(sizes)} of "
            f"them in one piece; it needs at least {MIN_CONSTANT} and {MIN_PIECE}; with less, it "
            "would match unrelated texts."
        )
    return ""


def recognise(template: PromptTemplate, text: str) -> dict[str, str] | None:
    """Match a text against a template.

    White space at both ends and line ends (CRLF or LF) may differ. If slots can be filled in
    several ways, the first one is as short as possible, then the second, and so on.

    Args:
        template: The template.
        text: The text.

    Returns:
        Value of each slot, or None when the text does not match or the template can never be
        recognised (see `refusal`).
    """
    if len(text) > MAX_TEXT or refusal(template):
        return None
    return _match(shape_of(template), text)


def recognise_within(template: PromptTemplate, text: str) -> PromptPlace | None:
    """Find a prompt in a text that continues before or after it.

    A slot at an end of the template reaches to that end of the text.

    Args:
        template: The template.
        text: The text.

    Returns:
        Its place, or None where it is not found or can never be recognised (see `refusal`).
    """
    if len(text) > MAX_TEXT or refusal(template):
        return None
    return _within(shape_of(template), text)


def refill(template: PromptTemplate, slots: Mapping[str, str]) -> str:
    """Fill a template with recognised values, inserted verbatim.

    Raises:
        InputError: The template has logic, or a slot without a value.
    """
    shape = shape_of(template)
    missing = [slot for slot in shape.slots if slot not in slots]
    if missing:
        raise InputError(
            f"The prompt has a slot {{{missing[0]}}} that the recognised prompt does not fill; it "
            f"fills {sorted(slots)}."
        )
    return _filled(shape, slots)


def with_whitespace_of(text: str, original: str) -> str:
    """Give a text the original's line endings, and its outer white space unless both have some."""
    if "\r\n" in original and "\r" not in text:
        text = text.replace("\n", "\r\n")
    bare, core = text.strip(), original.strip()
    if text != bare and original != core:
        return text
    begin = original.index(core)
    return f"{original[:begin]}{bare}{original[begin + len(core) :]}"


class _Entry(NamedTuple):
    name: str
    version: str
    shape: TemplateShape


class Recogniser:
    """Index of registered prompts by their beginnings and ends.

    Args:
        registered: The prompts; of two that match a text equally well, the later one is found.
    """

    def __init__(self, registered: Iterable[RegisteredPrompt]) -> None:
        self.refused: dict[tuple[str, str], str] = {}
        """Why a prompt is never recognised, by name and version."""
        self._fixed: dict[str, list[_Entry]] = {}
        self._open: list[_Entry] = []
        for prompt in registered:
            reason = refusal(prompt.template)
            if reason:
                self.refused[prompt.name, prompt.version] = reason
                continue
            entry = _Entry(prompt.name, prompt.version, shape_of(prompt.template))
            if entry.shape.slots:
                self._open.append(entry)
            else:
                self._fixed.setdefault(_plain(entry.shape.pieces[0]), []).insert(0, entry)
        # Most constant text first, so that the first match is the best; sorting is stable, so that
        # of equals the latest comes first.
        self._open.reverse()
        self._open.sort(key=lambda entry: -entry.shape.constant)
        self._user = [entry for entry in self._open if is_user_prompt(entry.name)]
        """Prompts that may be inside a text, longest first."""
        for entries in self._fixed.values():
            self._user += [entry for entry in entries if is_user_prompt(entry.name)]
        self._user.sort(key=lambda entry: -entry.shape.constant)
        self._ends: list[tuple[str, ...]] = []
        """Ends of the constant pieces, by rank."""
        self._heads: dict[str, list[int]] = {}
        self._tails: dict[str, list[int]] = {}
        self._needles: dict[str, list[int]] = {}
        for rank, entry in enumerate(self._open):
            pieces = [_plain(piece) for piece in entry.shape.pieces]
            self._ends.append(tuple({piece[-_TAIL:]: None for piece in pieces if piece}))
            if pieces[0]:
                self._heads.setdefault(pieces[0][:_PREFIX], []).append(rank)
            elif pieces[-1]:
                self._tails.setdefault(pieces[-1][-_PREFIX:], []).append(rank)
            else:
                self._needles.setdefault(max(pieces, key=len), []).append(rank)
        self._head_sizes = sorted({len(head) for head in self._heads})
        self._tail_sizes = sorted({len(tail) for tail in self._tails})

    def __len__(self) -> int:
        return len(self._open) + sum(map(len, self._fixed.values()))

    def find(self, text: str) -> RecognisedPrompt | None:
        """The matching prompt with the most constant text; None if none matches."""
        if len(text) > MAX_TEXT:
            return None
        plain = _plain(text)
        fixed = self._fixed.get(plain)
        if fixed:
            same = (entry for entry in fixed if entry.shape.pieces[0] == text)
            entry = next(same, fixed[0])
            return RecognisedPrompt(entry.name, entry.version, {})
        for rank in sorted(self._likely(plain)):
            if not all(end in plain for end in self._ends[rank]):
                continue
            entry = self._open[rank]
            slots = _match(entry.shape, text)
            if slots is not None:
                return RecognisedPrompt(entry.name, entry.version, slots)
        return None

    @property
    def finds_within(self) -> bool:
        """Whether any prompt may be inside a longer text."""
        return bool(self._user)

    def find_anywhere(self, text: str) -> RecognisedPrompt | None:
        """The prompt that a text is, or else contains; None without either."""
        return self.find(text) or self.find_within(text)

    def find_within(self, text: str, besides: Collection[str] = ()) -> RecognisedPrompt | None:
        """The user's prompt with the most constant text that a text contains, or None.

        Args:
            text: The text.
            besides: Names of prompts that are not looked for.
        """
        if len(text) > MAX_TEXT or not self._user:
            return None
        plain = _plain(text)
        for entry in self._user:
            if entry.name not in besides and all(
                _plain(piece) in plain for piece in entry.shape.pieces
            ):
                place = _within(entry.shape, text)
                if place is not None:
                    return RecognisedPrompt(entry.name, entry.version, *place)
        return None

    def _likely(self, plain: str) -> Iterator[int]:
        for size in self._head_sizes:
            yield from self._heads.get(plain[:size], ())
        for size in self._tail_sizes:
            yield from self._tails.get(plain[-size:], ())
        for needle, ranks in self._needles.items():
            if needle in plain:
                yield from ranks


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _match(shape: TemplateShape, text: str) -> dict[str, str] | None:
    filled = _fill(shape.pieces, shape.slots, text)
    if filled is not None:
        return filled
    filled = _fill_stripped(shape, text)
    if filled is None and ("\r\n" in text or any("\r\n" in piece for piece in shape.pieces)):
        pieces = tuple(piece.replace("\r\n", "\n") for piece in shape.pieces)
        filled = _fill_stripped(TemplateShape(pieces, shape.slots), text.replace("\r\n", "\n"))
    return filled


def _within(shape: TemplateShape, text: str) -> PromptPlace | None:
    if size_of("".join(shape.pieces)) < MIN_CONSTANT:
        return None
    first, last = shape.pieces[0].strip(), shape.pieces[-1].strip()
    start, end = text.find(first), text.rfind(last) + len(last)
    slots = _match(shape, text[start:end]) if 0 <= start < end else None
    return PromptPlace(slots, text[:start], text[end:]) if slots is not None else None


def _fill_stripped(shape: TemplateShape, text: str) -> dict[str, str] | None:
    """Slot values of a text that may have been stripped."""
    pieces = (*shape.pieces[:-1], shape.pieces[-1].rstrip())
    pieces = (pieces[0].lstrip(), *pieces[1:])
    text = text.strip()
    filled = _fill(pieces, shape.slots, text)
    if filled is not None or not shape.slots:
        return filled
    # An empty slot at an end also accounts for the white space between it and the text.
    before = "" if pieces[0] else _margin(pieces[1], pieces[1].lstrip(), first=True)
    after = "" if pieces[-1] else _margin(pieces[-2], pieces[-2].rstrip(), first=False)
    for head, tail in ((before, ""), ("", after), (before, after)):
        if head or tail:
            filled = _fill(pieces, shape.slots, head + text + tail)
            if filled is not None:
                return filled
    return None


def _margin(piece: str, bare: str, *, first: bool) -> str:
    return piece[: len(piece) - len(bare)] if first else piece[len(bare) :]


def _fill(pieces: Sequence[str], slots: Sequence[str], text: str) -> dict[str, str] | None:
    """Match with each slot as short as possible, from left to right.

    Taking the first occurrence of each piece finds every match if all slots are unique. The
    occurrences of a repeated slot must be equal, so other positions are tried then, up to a bound.
    """
    if not slots:
        return {} if text == pieces[0] else None
    last = len(slots) - 1
    end = len(text) - len(pieces[-1])
    if end < len(pieces[0]) or not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return None
    repeated = len(set(slots)) < len(slots)
    values: dict[str, str] = {}
    choices: list[tuple[int, int, int]] = []
    """Backtracking points: the slot, its start, and where to search for its end next."""
    slot, at = 0, len(pieces[0])
    look = at
    for _ in range(len(slots) + MAX_STEPS):
        key = slots[slot]
        earlier_text = values.get(key)
        if earlier_text is not None:
            stop = at + len(earlier_text)
            after = pieces[slot + 1]
            fits = text.startswith(earlier_text, at) and (
                stop == end if slot == last else text.startswith(after, stop)
            )
        elif slot == last:
            stop, fits = end, at <= end
        else:
            stop = text.find(pieces[slot + 1], look, end)
            fits = stop >= 0
        if fits:
            if earlier_text is None:
                values[key] = text[at:stop]
                if repeated and slot != last:
                    choices.append((slot, at, stop + 1))
            if slot == last:
                return values
            at = look = stop + len(pieces[slot + 1])
            slot += 1
            continue
        if not choices:
            return None
        slot, at, look = choices.pop()
        # Discard the values from this slot on.
        values = {key: values[key] for key in slots[:slot] if key in values}
    return None


def _filled(shape: TemplateShape, values: Mapping[str, str]) -> str:
    parts = [shape.pieces[0]]
    for slot, piece in zip(shape.slots, shape.pieces[1:], strict=True):
        parts += (values[slot], piece)
    return "".join(parts)


@functools.lru_cache(maxsize=8192)
def _shape(template: PromptTemplate) -> TemplateShape | str:
    """The template's shape, or why it has none."""
    parts = _PARTS[template.engine](template.text)
    if parts is None:
        return (
            "The prompt is a Jinja2 template with more than text and plain names. The gateway "
            "does not run its logic."
        )
    pieces: list[str] = [""]
    slots: list[str] = []
    for constant, slot in parts:
        pieces[-1] += constant
        if slot is None:
            continue
        if slots and not pieces[-1]:
            slots[-1] += "}{" + slot
        else:
            slots.append(slot)
            pieces.append("")
    return TemplateShape(tuple(pieces), tuple(slots))


def _plain_parts(text: str) -> list[tuple[str, str | None]]:
    return [(text, None)]


def _parts(text: str) -> list[tuple[str, str | None]]:
    parts: list[tuple[str, str | None]] = []
    for constant, field, spec, conversion in string.Formatter().parse(text):
        if field is None:
            parts.append((constant, None))
            continue
        # `!s` formats like a bare slot; other conversions do not.
        how = "" if conversion in (None, "s") else f"!{conversion}"
        parts.append((constant, f"{field}{how}:{spec}" if spec else f"{field}{how}"))
    return parts


def _jinja_parts(text: str) -> list[tuple[str, str | None]] | None:
    from jinja2 import nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    parts: list[tuple[str, str | None]] = []
    for node in ImmutableSandboxedEnvironment(keep_trailing_newline=True).parse(text).body:
        if not isinstance(node, nodes.Output):
            return None
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                parts.append((part.data, None))
            elif isinstance(part, nodes.Name):
                parts.append(("", part.name))
            else:
                return None
    return parts


_PARTS: Mapping[Engine, Callable[[str], list[tuple[str, str | None]] | None]] = {
    "f-string": _parts,
    "jinja2": _jinja_parts,
    "plain": _plain_parts,
}
