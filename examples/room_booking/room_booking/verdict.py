"""Scores an answer and states in words what is wrong with it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .house_rules import NONE, Request, broken_rules, worse_than
from .rooms import calendar, rooms_on

VALID_BUT_NOT_BEST = 0.6
BROKEN = (0.35, 0.2, 0.1)
"""For a room that breaks one rule, two, or more."""
GAVE_UP = 0.15
"""For `none` where a room would have done."""


class Verdict(NamedTuple):
    """Score of an answer, with the reason."""

    value: float
    rationale: str


def judge(output: object, expected: str, metadata: dict[str, Any]) -> Verdict:
    """Compare the answered room with the right one."""
    request = Request(**metadata["request"])
    answer = read_answer(output)
    should = f"The right answer was {expected}: {metadata['rationale']}"
    if answer is None:
        return Verdict(0.0, f"No answer could be read: only the room id was expected. {should}")
    if answer == expected:
        return Verdict(1.0, f"{answer} is right.")
    if answer == NONE:
        return Verdict(GAVE_UP, f"The answer was none, but a room was there. {should}")
    rooms = {room["id"]: room for room in rooms_on(request.date)}
    broken = broken_rules(request, rooms[answer])
    if broken:
        value = BROKEN[min(len(broken), len(BROKEN)) - 1]
        return Verdict(value, f"{answer} is wrong: {'; '.join(broken.values())}. {should}")
    why = worse_than(rooms[answer], rooms[expected])
    return Verdict(VALID_BUT_NOT_BEST, f"{answer} would do, but {why}. {should}")


def read_answer(output: object) -> str | None:
    """The room that an answer names, or `none`; None when it names several or nothing."""
    if output is None:
        return None
    ids = {room["id"] for room in calendar()["rooms"]}
    named = {word for word in re.findall(r"[A-Z]\d+", str(output)) if word in ids}
    if len(named) == 1:
        return named.pop()
    if not named and re.fullmatch(r"\W*none\W*", str(output).lower()):
        return NONE
    return None
