"""Checks tasks.jsonl against a solver that shares no code with the one that made it.

It walks the day minute by minute and eliminates rooms. `python check_tasks.py` lists each task
whose expected answer differs from its own, and exits with 1 when there is one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def solve(request: dict[str, Any], rooms: list[dict[str, Any]], booked: dict[str, Any]) -> str:
    """The right room, found by elimination."""
    hour, minute = map(int, request["start"].split(":"))
    wanted = set(range(hour * 60 + minute - 10, hour * 60 + minute + request["minutes"] + 10))
    left = []
    for room in rooms:
        taken: set[int] = set()
        for begins, ends in booked[room["id"]]:
            (h1, m1), (h2, m2) = (map(int, t.split(":")) for t in (begins, ends))
            taken.update(range(h1 * 60 + m1, h2 * 60 + m2))
        enough = room["capacity"] >= request["people"]
        equipped = not set(request["equipment"]) - set(room["equipment"])
        reachable = room["accessible"] or not request["step_free"]
        near = request["metres"] is None or room["distance_m"] <= request["metres"]
        if enough and equipped and reachable and near and not taken & wanted:
            left.append(room)
    if not left:
        return "none"
    size = min(room["capacity"] for room in left)
    left = [room for room in left if room["capacity"] == size]
    walk = min(room["distance_m"] for room in left)
    return str(min(room["id"] for room in left if room["distance_m"] == walk))


def main() -> int:
    """Check every task."""
    calendar = json.loads((HERE / "room_booking" / "rooms.json").read_text())
    wrong = 0
    tasks = [json.loads(line) for line in (HERE / "tasks.jsonl").read_text().splitlines()]
    for task in tasks:
        request = task["request"]
        found = solve(request, calendar["rooms"], calendar["bookings"][request["date"]])
        if found != task["expected"]:
            wrong += 1
            print(f"{task['id']}: {task['expected']} is expected, {found} is right")
    print(f"{len(tasks)} tasks, {wrong} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
