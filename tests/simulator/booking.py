"""Room booking as the simulated models understand it: requests, rooms, what speaks against one.

Nothing here is the example's own code: requests are read from free text, rooms from whatever JSON
a tool returned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

NONE = "none"
BUFFER_MINUTES = 10

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_WORDS += (
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
)
_NUMBERS = {word: number for number, word in enumerate(_WORDS)}
_COUNT = rf"(\d+|{'|'.join(_NUMBERS)})"
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_TIME = re.compile(r"(?<![\d:-])([01]?\d|2[0-3])[:h]([0-5]\d)(?![\d:])")
_PEOPLE = [
    re.compile(rf"\b{_COUNT} (?:people|persons?|attendees|participants|guests|colleagues|of us)"),
    re.compile(rf"\b(?:attendees|participants|people|group size|head ?count)\W{{1,5}}{_COUNT}\b"),
    re.compile(rf"\b(?:group|party|team|meeting) of {_COUNT}\b"),
    re.compile(rf"\bthere (?:will be|are) {_COUNT}\b"),
    re.compile(rf"\b(?:seats?|room) for {_COUNT}\b"),
]
_MINUTES = re.compile(rf"\b{_COUNT}[ -]?(?:minutes?|mins?)\b|duration\w*\W{{1,5}}(\d+)")
_HOURS = re.compile(rf"\b(\d+(?:\.\d+)?|{'|'.join(_NUMBERS)}|an)[ -]?(?:hours?|h|hrs?)\b")
_METRES = re.compile(r"(?:distance|walk|away|within|at most|more than|max)\D{0,30}?(\d+) ?m\b")
_ACCESS = re.compile(r"step[- ]free|wheelchair|accessib|mobility")
_NO_ACCESS = re.compile(
    r"accessib\w*\W{1,5}(?:false|no\b)|no (?:step|wheelchair)|not? \w+ (?:step-free|accessib)"
)


class Request(NamedTuple):
    """What is to be booked."""

    date: str
    start: int
    """Minutes after midnight."""
    minutes: int
    people: int
    text: str
    """Lower case, to find the names of equipment in."""
    step_free: bool
    metres: int | None
    """The farthest that the room may be."""

    @property
    def clock(self) -> str:
        return f"{self.start // 60:02d}:{self.start % 60:02d}"


class Room(NamedTuple):
    """A room on a day."""

    id: str
    capacity: int
    equipment: tuple[str, ...]
    accessible: bool
    metres: int
    bookings: tuple[tuple[int, int], ...]


def read_request(text: str) -> Request | None:
    """The request in a text; None when there is none."""
    lower = text.lower()
    date, time = _DATE.search(lower), _TIME.search(lower)
    people = next((found[1] for p in _PEOPLE if (found := p.search(lower))), None)
    if date is None or time is None or people is None:
        return None
    start = int(time[1]) * 60 + int(time[2])
    metres = _METRES.search(lower)
    return Request(
        date=date[0],
        start=start,
        minutes=_duration(lower, start, time.end()),
        people=_number(people),
        text=lower,
        step_free=bool(_ACCESS.search(lower)) and not _NO_ACCESS.search(lower),
        metres=int(metres[1]) if metres else None,
    )


def _number(text: str) -> int:
    return _NUMBERS[text] if text in _NUMBERS else int(text)


def _duration(lower: str, start: int, after: int) -> int:
    until = re.match(r"\W{0,3}(?:to|until|till|-|\u2013)\W{0,3}", lower[after:])
    end = _TIME.match(lower, after + until.end()) if until else None
    if end and (minutes := int(end[1]) * 60 + int(end[2]) - start) > 0:
        return minutes
    if re.search(r"\bhalf an hour\b", lower):
        return 30
    if found := _MINUTES.search(lower):
        return _number(found[1] or found[2])
    if found := _HOURS.search(lower):
        hours = 1.0 if found[1] == "an" else float(_NUMBERS.get(found[1], -1))
        half = 30 if re.match(r" and a half", lower[found.end() :]) else 0
        return int((hours if hours >= 0 else float(found[1])) * 60) + half
    return 60


def read_rooms(value: Any) -> list[Room]:
    """The rooms in what a tool returned; empty when there are none."""
    if isinstance(value, Mapping):
        for inner in value.values():
            if rooms := read_rooms(inner):
                return rooms
        return []
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [room for item in value if (room := _room(item)) is not None]


def _room(item: Any) -> Room | None:
    if not isinstance(item, Mapping):
        return None
    name = _field(item, r"^(room_?)?(id|name|number)$")
    capacity = _field(item, r"capacity|seats")
    if name is None or not isinstance(capacity, int):
        return None
    bookings = _field(item, r"book|busy|reserv|occupied")
    bookings = bookings if isinstance(bookings, Sequence) else []
    spans = [span for booking in bookings if (span := _span(booking)) is not None]
    return Room(
        id=str(name),
        capacity=capacity,
        equipment=tuple(str(e) for e in _field(item, r"equip|feature|amenit") or []),
        accessible=bool(_field(item, r"accessib|step_?free|wheelchair")),
        metres=int(_field(item, r"distance|metres|meters|walk") or 0),
        bookings=tuple(spans),
    )


def _field(item: Mapping[str, Any], pattern: str) -> Any:
    return next((v for k, v in item.items() if _is_named(k, pattern)), None)


@lru_cache(maxsize=4096)
def _is_named(key: str, pattern: str) -> bool:
    return bool(re.search(pattern, key.lower()))


def _span(booking: Any) -> tuple[int, int] | None:
    times = _TIME.findall(json.dumps(booking))
    if len(times) < 2:
        return None
    (h1, m1), (h2, m2) = times[:2]
    return int(h1) * 60 + int(m1), int(h2) * 60 + int(m2)


def equipment_asked(request: Request, rooms: Sequence[Room]) -> set[str]:
    """Of the equipment that any room has, what the request names."""
    known = {name for room in rooms for name in room.equipment}
    return {name for name in known if re.search(rf"\b{re.escape(name.lower())}", request.text)}


def violations(request: Request, room: Room, asked: set[str]) -> Iterator[str]:
    """The rules that a room breaks."""
    if room.capacity < request.people:
        yield "capacity"
    if not asked <= set(room.equipment):
        yield "equipment"
    if request.step_free and not room.accessible:
        yield "accessible"
    end = request.start + request.minutes
    if any(start < end and request.start < stop for start, stop in room.bookings):
        yield "available"
    elif any(
        start < end + BUFFER_MINUTES and request.start < stop + BUFFER_MINUTES
        for start, stop in room.bookings
    ):
        yield "buffer"
    if request.metres is not None and room.metres > request.metres:
        yield "distance"
