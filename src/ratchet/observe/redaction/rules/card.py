"""Payment card numbers: checks the issuer's prefix, the length and the Luhn digit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ratchet.observe.redaction.rules.scanned import ScannedText

_RUN = re.compile(r"(?<![0-9])[0-9](?:[ \-._/\t\n]{0,3}[0-9]){12,}(?![0-9])")
_GROUP = re.compile(r"[0-9]+")

_GROUPED = frozenset(
    {
        (4, 4, 4, 4),
        (4, 4, 4, 4, 3),
        (4, 6, 5),
        (4, 6, 4),
        (4, 4, 4, 1),
        (4, 4, 4, 2),
        (8, 8),
        (6, 10),
        (6, 13),
        (4, 4, 4, 3),
        (4, 4, 5),
    }
)
"""Sizes of digit groups in card numbers."""

_LONGEST_RUN = 400
"""Maximum number of digits in a row of groups that is searched for cards; more are a table."""


def find(scanned: ScannedText) -> Iterator[tuple[int, int]]:
    """Find card numbers."""
    if not scanned.has_digits(13):
        return
    text = scanned.text
    for run in _RUN.finditer(text):
        groups = [(m.start(), m.end()) for m in _GROUP.finditer(text, run.start(), run.end())]
        if len(groups) == 1:
            if is_card(run[0]):
                yield run.span()
            continue
        digits = "".join(text[start:end] for start, end in groups)
        if len(digits) <= 19 and _is_grouped(text, groups) and is_card(digits):
            yield run.span()
        elif len(digits) <= _LONGEST_RUN:
            yield from _within(text, groups)


def _is_grouped(text: str, groups: Sequence[tuple[int, int]]) -> bool:
    """Whether groups look like one number: usual sizes, or the same separator throughout."""
    between = {text[end:start] for (_, end), (start, _) in pairwise(groups)}
    return len(between) == 1 or tuple(end - start for start, end in groups) in _GROUPED


def _within(text: str, groups: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    sizes = [end - start for start, end in groups]
    at = 0
    while at < len(groups):
        group_count = 0
        if sizes[at] > 12 and is_card(text[slice(*groups[at])]):
            group_count = 1
        else:
            for count in (5, 4, 3, 2):
                some = groups[at : at + count]
                if tuple(sizes[at : at + count]) in _GROUPED and is_card(
                    "".join(text[start:end] for start, end in some)
                ):
                    group_count = len(some)
                    break
        if group_count:
            yield groups[at][0], groups[at + group_count - 1][1]
        at += group_count or 1


def is_card(digits: str) -> bool:
    """Whether digits are a possible card number."""
    if len(set(digits)) < 2 or not _issued(digits):
        return False
    # The check digit of Luhn: every second digit from the right counts twice.
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def _issued(digits: str) -> bool:
    length = len(digits)
    two, three, four = int(digits[:2]), int(digits[:3]), int(digits[:4])
    if digits[0] == "4":
        return length in (13, 16, 19)
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return length == 16
    if two in (34, 37):
        return length == 15
    if four == 6011 or two == 65 or 644 <= three <= 649 or two == 62 or 3528 <= four <= 3589:
        return 16 <= length <= 19
    if two in (36, 38, 39) or 300 <= three <= 305:
        return 14 <= length <= 19
    if two in (50, 56, 57, 58, 63, 67) or two == 81:
        return length in (16, 19)
    return False
