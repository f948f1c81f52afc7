"""Writes rooms.json and tasks.jsonl, the same for the same seed: `python make_tasks.py`.

`--rooms 5` makes a smaller office, whose calendar a small model reads in less time.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from room_booking.house_rules import NONE, Request, broken_rules, right_room, why

HERE = Path(__file__).parent
SEED = 29
TASKS = 240
NO_ROOM = 0.14
"""Share of tasks that no room fits."""
EQUIPMENT = ("projector", "whiteboard", "video", "phone")
DATES = [f"2026-03-{day:02d}" for day in (2, 3, 4, 5, 6, 9, 10, 11, 12, 13)]
PEOPLE = ("people", "attendees", "participants", "colleagues")
NAMES = {"video": "video conferencing", "phone": "a phone", "projector": "a projector"}
NAMES["whiteboard"] = "a whiteboard"


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Writes rooms.json and tasks.jsonl.")
    parser.add_argument("--rooms", type=int, choices=range(1, 17), default=16, metavar="1..16")
    luck = random.Random(SEED)
    rooms = make_rooms(luck)[: parser.parse_args().rooms]
    bookings = {date: {room["id"]: make_bookings(luck) for room in rooms} for date in DATES}
    tasks = make_tasks(luck, rooms, bookings)
    (HERE / "room_booking" / "rooms.json").write_text(
        json.dumps({"rooms": rooms, "bookings": bookings}, indent=1) + "\n"
    )
    (HERE / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))


def make_rooms(luck: random.Random) -> list[dict[str, Any]]:
    """Sixteen rooms in random order, of few sizes, so that distance breaks ties."""
    numbers = luck.sample(range(101, 420), 16)
    sizes = [4, 4, 4, 6, 6, 6, 8, 8, 8, 10, 10, 12, 12, 16, 16, 24]
    luck.shuffle(sizes)
    return [
        {
            "id": f"{'ABCD'[number // 100 - 1]}{number}",
            "capacity": size,
            "equipment": [item for item in EQUIPMENT if luck.random() < 0.62],
            "accessible": luck.random() < 0.62,
            "distance_m": luck.randrange(10, 240, 5),
        }
        for number, size in zip(numbers, sizes, strict=True)
    ]


def make_bookings(luck: random.Random) -> list[list[str]]:
    """The bookings of a room on a day, in order, many of them back to back."""
    found: list[list[str]] = []
    at = 8 * 60 + luck.choice((0, 30, 60, 90))
    while at < 17 * 60:
        end = at + luck.choice((30, 45, 60, 90))
        found.append([clock(at), clock(end)])
        at = end + luck.choice((0, 30, 60, 65, 75, 90, 120, 150, 180))
    return found


def clock(minutes: int) -> str:
    """A time of day."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def make_tasks(
    luck: random.Random, rooms: list[dict[str, Any]], bookings: dict[str, Any]
) -> list[dict[str, Any]]:
    """Tasks with different requests, a fixed share of them without a room."""
    tasks: list[dict[str, Any]] = []
    seen: set[str] = set()
    counted: Counter[bool] = Counter()
    while len(tasks) < TASKS:
        request = make_request(luck)
        on_day = [{**room, "bookings": bookings[request.date][room["id"]]} for room in rooms]
        answer = right_room(request, on_day)
        is_none = answer == NONE
        limit = round(TASKS * (NO_ROOM if is_none else 1 - NO_ROOM))
        # A request that any room fits teaches nothing.
        easy = sum(not broken_rules(request, room) for room in on_day) > 0.4 * len(rooms)
        text = worded(request, luck)
        if counted[is_none] >= limit or easy or text in seen:
            continue
        counted[is_none] += 1
        seen.add(text)
        tasks.append(
            {
                "id": f"room-{len(tasks) + 1:03d}",
                "input": {"request": text},
                "expected": answer,
                "rationale": why(request, on_day),
                "request": asdict(request),
            }
        )
    return tasks


def make_request(luck: random.Random) -> Request:
    """A random request."""
    return Request(
        date=luck.choice(DATES),
        start=clock(luck.randrange(9 * 60, 16 * 60 + 30, 15)),
        minutes=luck.choice((30, 45, 60, 60, 90)),
        people=luck.choice((2, 3, 4, 5, 5, 6, 6, 7, 8, 8, 9, 10, 11, 12)),
        equipment=tuple(luck.sample(EQUIPMENT, luck.choice((0, 1, 1, 2)))),
        step_free=luck.random() < 0.3,
        metres=luck.choice((80, 100, 120, 150)) if luck.random() < 0.3 else None,
    )


def worded(request: Request, luck: random.Random) -> str:
    """The request in words."""
    end = clock(
        sum(int(p) * f for p, f in zip(request.start.split(":"), (60, 1), strict=True))
        + request.minutes
    )
    who = f"{request.people} {luck.choice(PEOPLE)}"
    when = luck.choice(
        (
            f"on {request.date} at {request.start} for {request.minutes} minutes",
            f"on {request.date} from {request.start} to {end}",
        )
    )
    parts = [
        luck.choice(
            (
                f"We need a room for {who} {when}.",
                f"Please find a room {when}, {who}.",
                f"Team meeting {when}. There will be {who}.",
            )
        )
    ]
    if request.equipment:
        wanted = " and ".join(NAMES[item] for item in request.equipment)
        parts.append(luck.choice((f"We need {wanted}.", f"It should have {wanted}.")))
    if request.step_free:
        parts.append(
            luck.choice(("One of us uses a wheelchair.", "It has to be reachable step-free."))
        )
    if request.metres is not None:
        parts.append(
            luck.choice(
                (
                    f"It should be at most {request.metres} m away.",
                    f"Not more than {request.metres} m to walk, please.",
                )
            )
        )
    return " ".join(parts)


if __name__ == "__main__":
    main()
