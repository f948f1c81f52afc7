"""Finds the literals that make up a sent text: each part belongs to the one that explains most of
it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ratchet.source.literals.literal import Literal, parts_of
from ratchet.source.literals.matching import MIN_CONSTANT
from ratchet.source.literals.placeholders import with_placeholders
from ratchet.source.literals.search import LiteralFile
from ratchet.types.scripts import find_words, has_several_words, size_of, word_count

LONG_WORDS: Final = 12
"""Words from which on a literal is a prompt wherever it is. A shorter one beside longer ones is a
name or a description that is put into them, or is there by chance."""

LABEL_WORDS: Final = 3
"""Words of the longest label before a value: `Pain points identified:`. Longer ones were mostly
instructions in the repositories that were tried, such as `Answer the following question:`; but
where the text is mostly values, longer ones are labels too, such as `The plan that we agreed on
is:`."""

LISTED: Final = 3
"""Literals in one slot from which on they are a list, as of agents, tools or columns."""

BESIDE_LINES: Final = 4
"""Maximum number of lines between a prompt and a few words that reached the model with it, such as
an agent's role beside its goal."""

MIN_NAME: Final = 4
"""Length of the shortest name, in characters."""

TextRange: TypeAlias = tuple[int, int]

_NAMED = re.compile(
    r"(?:(?<![+=!<>])=|=>|:|\b(?:return|yield|else|or))[\s]*(?:(?:[\w.]*[(\[{]|await\b)\s*)*$"
)
"""The source before a literal that has its own name, is an alternative, or is returned."""

_DATA = (".yaml", ".yml", ".json", ".toml")
_KEY = re.compile(r"^[\s-]*[\"']?([\w.-]+)[\"']?\s*[:=]")
"""The key before a value in a line of a data file."""

_DESCRIPTION = re.compile(r"([\"']description[\"']: ?[\"']|\b[Tt]ool [Dd]escription: ?)\Z")
_IN_TOOL = re.compile(r"^class \w+\([^)]*Tool\b[^)]*\):(?!.*^[\w@])", re.MULTILINE | re.DOTALL)
"""The beginning of a Python file whose last statement, which may go on, is a tool's class."""

_BEFORE = 200
"""Characters before a literal, or before its place in a text, that are searched."""


@dataclass(frozen=True, eq=False)
class SentSource:
    """A literal that may have been sent, whole or in part."""

    file: LiteralFile
    literal: Literal
    forms: tuple[tuple[str, ...], ...]
    """Its constant pieces, as written and with each form of placeholders as slots."""
    line: int
    slots: int
    """Number of values that it takes, in the form that takes most."""

    @property
    def size(self) -> int:
        """Number of characters of its constant text."""
        return sum(map(len, self.forms[0]))

    @property
    def is_long(self) -> bool:
        """Whether it is too long to be a name or a description."""
        return sum(map(word_count, self.forms[0])) >= LONG_WORDS

    def is_labels_in(self, text: str) -> bool:
        """Whether it only labels the values that are put into it: `Question: {question}`.

        Args:
            text: What was sent of it and its values.
        """
        is_mostly_values = not self.is_long and 2 * self.size < len(text)
        most = LONG_WORDS if is_mostly_values else LABEL_WORDS
        literals = (self.literal, *with_placeholders(self.literal))
        return any(literal.slots and _is_labels(literal.value, most) for literal in literals)

    @property
    def open_ends(self) -> tuple[bool, bool]:
        """Whether it begins with a value, and whether it ends with one."""
        literals = (self.literal, *with_placeholders(self.literal))
        ends = [parts for literal in literals if len(parts := parts_of(literal.value)) > 1]
        return (
            any(not parts[0][0].strip() for parts in ends),
            any(not parts[-1][0].strip() for parts in ends),
        )

    @property
    def is_named(self) -> bool:
        """Whether it has a name of its own: an assignment, a field, a function that returns it."""
        before = self.file.text[: self.literal.span[0]][-_BEFORE:]
        return not before.strip() or _NAMED.search(before.rstrip("rRbBfFuU")) is not None

    @property
    def key(self) -> str:
        """The key before it in its line; empty for an item of a list."""
        begin = self.file.text.rfind("\n", 0, self.literal.span[0]) + 1
        match = _KEY.match(self.file.text[begin : self.literal.span[0]])
        return match[1] if match else ""

    def is_beside(self, source: SentSource) -> bool:
        """Whether it is at most a few lines from another one."""
        begin, end = source.line, source.line + source.file.lines(source.literal)
        return (
            source.file.path == self.file.path
            and begin - BESIDE_LINES <= self.line <= end + BESIDE_LINES
        )


class Owned(NamedTuple):
    """The literals that make up a sent text."""

    owners: tuple[SentSource, ...]
    """The literals that it consists of, without the values in them."""
    values: frozenset[SentSource]
    """Literals that fill the owners' slots, or the text before the first or after the last."""


def owned(text: str, sources: Sequence[SentSource]) -> Owned:
    """The literals of a sent text.

    Args:
        text: The text.
        sources: What may stand in it, by falling size.
    """
    spans: dict[SentSource, list[TextRange]] = {}
    for source in sources:
        if says_enough(source.forms[0]) or text in source.forms[0]:
            _add(text, source, spans)
    prompts = [
        source
        for source, places in spans.items()
        if source.is_long or (source.slots and places[0][0] == 0)
    ] or list(spans)
    for source in sources:
        few_words = source not in spans and is_few_words(source.forms[0])
        if few_words and any(source.is_beside(prompt) for prompt in prompts):
            _add(text, source, spans)
    at_ends = _at_open_ends(text, spans)
    values = _values(spans)
    for value in values | _records(spans) | _described(text, spans):
        del spans[value]
    owners = (
        source
        for source in spans
        if says_enough(source.forms[0]) or any(source.is_beside(prompt) for prompt in prompts)
    )
    return Owned(tuple(owners), frozenset(values | at_ends))


def heads(owners: Sequence[SentSource]) -> Iterator[SentSource]:
    """The owners of a text, without those that continue the one before them in their file.

    A literal without a name of its own is the next line of a list, or is added to what there is.
    """
    begun = set()
    for source in sorted(owners, key=lambda source: source.literal.span):
        if source.is_named or source.file.path not in begun:
            yield source
        begun.add(source.file.path)


def _add(text: str, source: SentSource, spans: dict[SentSource, list[TextRange]]) -> None:
    """Record where a source occurs in the text, outside the places of other sources."""
    for form in source.forms:
        occupied = [
            span for owner, placed in spans.items() if form not in owner.forms for span in placed
        ]
        if places := _places(text, form, occupied):
            spans[source] = places
            return


def _places(text: str, form: Sequence[str], occupied: Sequence[TextRange]) -> list[TextRange]:
    places = []
    at = 0
    for piece in form:
        begin = find_words(text, piece, at)
        while begin >= 0 and any(
            first <= begin and begin + len(piece) <= last for first, last in occupied
        ):
            begin = find_words(text, piece, begin + 1)
        if begin < 0:
            return []
        at = begin + len(piece)
        places.append((begin, at))
    return places


def _values(spans: Mapping[SentSource, Sequence[TextRange]]) -> set[SentSource]:
    """What fills the slots of others: between the pieces of a literal, or between a file's literals
    that together form a text."""
    of_files: dict[str, list[TextRange]] = {}
    for source, places in spans.items():
        of_files.setdefault(source.file.path, []).extend(places)
    values: set[SentSource] = set()
    wholes: list[tuple[str, SentSource | None, list[TextRange]]] = [
        *((path, None, sorted(places)) for path, places in of_files.items()),
        *((source.file.path, source, list(places)) for source, places in spans.items()),
    ]
    # The outermost first: what lies in its slots has none of its own.
    wholes.sort(key=lambda group: group[2][0][0] - group[2][-1][1])
    for path, owner, places in wholes:
        whole = {owner} if owner else {source for source in spans if source.file.path == path}
        if whole <= values:
            continue
        for (_, begin), (end, _) in itertools.pairwise(places):
            inside = [
                source
                for source, (*_, last) in spans.items()
                if source is not owner
                and (owner is not None or source.file.path != path)
                and begin <= spans[source][0][0]
                and last[1] <= end
            ]
            is_listing = len({source.forms[0] for source in inside}) >= LISTED
            values |= {source for source in inside if is_listing or not source.is_long}
    return values


def _at_open_ends(text: str, spans: Mapping[SentSource, Sequence[TextRange]]) -> set[SentSource]:
    """The source that alone fills a value at the beginning or the end of a text.

    Lines beside that literal continue it, and a long text before it holds what it refers to.
    """
    values = set()
    for owner, owned_places in spans.items():
        is_open_before, is_open_behind = owner.open_ends
        before, behind = text[: owned_places[0][0]].strip(), text[owned_places[-1][1] :].strip()
        for source, places in spans.items():
            if source is owner or source.slots or source.is_beside(owner):
                continue
            whole = text[places[0][0] : places[-1][1]]
            if (is_open_before and whole == before and not source.is_long) or (
                is_open_behind and whole == behind
            ):
                values.add(source)
    return values


def _records(spans: Mapping[SentSource, Sequence[TextRange]]) -> set[SentSource]:
    """Fields of a data file's records that the program puts into a text of its own."""
    if not spans:
        return set()
    first = min(spans, key=lambda source: spans[source][0])
    fields = {
        source: (source.file.path, source.key)
        for source in spans
        if source.file.path.endswith(_DATA) and source.file.path != first.file.path
    }
    counts = Counter(fields.values())
    return {source for source, field in fields.items() if counts[field] >= LISTED}


def _described(text: str, spans: Mapping[SentSource, Sequence[TextRange]]) -> set[SentSource]:
    """Descriptions of fields in a schema, and of tools, that the program puts into its text."""
    return {
        source
        for source, ((begin, _), *_) in spans.items()
        if _DESCRIPTION.search(text, max(0, begin - _BEFORE), begin)
        or (
            source.key == "description"
            and _IN_TOOL.search(source.file.text[: source.literal.span[0]])
        )
    }


def pieces_of(literal: Literal) -> tuple[str, ...]:
    return tuple(piece for text, _ in parts_of(literal.value) if (piece := plain(text)))


def _is_labels(value: str, most: int) -> bool:
    """Whether each line between its slots is empty, or a few words with a colon."""
    lines = (line.strip() for piece, _ in parts_of(value) for line in piece.splitlines())
    return all(
        not any(map(str.isalpha, line)) or (line[-1] in ":\uff1a" and word_count(line) <= most)
        for line in lines
    )


def says_enough(pieces: Sequence[str]) -> bool:
    return sum(map(size_of, pieces)) >= MIN_CONSTANT and any(map(has_several_words, pieces))


def is_few_words(pieces: Sequence[str]) -> bool:
    """Whether it may be words on a field or an agent's role, and no name, as `FileAgent` is."""
    words = pieces[0] if len(pieces) == 1 else ""
    is_word = words[:1].isupper() and (words[1:].islower() or words.isupper())
    return len(words) >= MIN_NAME and (" " in words or is_word)


def in_order(pieces: Sequence[str], text: str) -> bool:
    """Whether the pieces occur in a text in this order, at word boundaries."""
    at = 0
    for piece in pieces:
        at = find_words(text, piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def plain(text: str) -> str:
    """A text with its white space normalised: indentation and line endings differ in the source."""
    return " ".join(text.split())
