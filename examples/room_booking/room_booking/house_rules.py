"""The rules that make a room right for a request. The agent has to learn them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NONE = "none"
BUFFER_MINUTES = 10


@dataclass(frozen=True)
class Request:
    """The intended meaning of a request."""

    date: str
    start: str
    minutes: int
    people: int
    equipment: tuple[str, ...] = ()
    step_free: bool = False
    metres: int | None = None


def minute(clock: str) -> int:
    """Minutes after midnight."""
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def broken_rules(request: Request, room: dict[str, Any]) -> dict[str, str]:
    """The rules that a room breaks, each with a message."""
    broken: dict[str, str] = {}
    if room["capacity"] < request.people:
        broken["capacity"] = f"it is too small, it seats {room['capacity']} of {request.people}"
    missing = [item for item in request.equipment if item not in room["equipment"]]
    if missing:
        broken["equipment"] = f"it has no {' and no '.join(missing)}"
    if request.step_free and not room["accessible"]:
        broken["accessible"] = "it is not accessible without steps"
    if request.metres is not None and room["distance_m"] > request.metres:
        broken["distance"] = (
            f"it is too far away, {room['distance_m']} m with a limit of {request.metres} m"
        )
    start = minute(request.start)
    end = start + request.minutes
    for begins, ends in room["bookings"]:
        if minute(begins) < end and start < minute(ends):
            broken["booked"] = f"it is already booked from {begins} to {ends}"
        elif minute(begins) < end + BUFFER_MINUTES and start < minute(ends) + BUFFER_MINUTES:
            broken.setdefault(
                "buffer",
                f"less than {BUFFER_MINUTES} minutes are left between it and the booking"
                f" from {begins} to {ends}",
            )
    return broken


def right_room(request: Request, rooms: list[dict[str, Any]]) -> str:
    """The right answer: of the rooms that break no rule the smallest, of those the nearest."""
    fitting = [room for room in rooms if not broken_rules(request, room)]
    if not fitting:
        return NONE
    best = min(fitting, key=lambda room: (room["capacity"], room["distance_m"], room["id"]))
    return str(best["id"])


def worse_than(room: dict[str, Any], best: dict[str, Any]) -> str:
    """Why a room that breaks no rule is still not the right one."""
    if room["capacity"] > best["capacity"]:
        return f"a smaller room was free, {best['id']} with {best['capacity']} seats"
    return f"a nearer room of the same size was free, {best['id']} at {best['distance_m']} m"


def why(request: Request, rooms: list[dict[str, Any]]) -> str:
    """The reason of the right answer, in words."""
    answer = right_room(request, rooms)
    if answer == NONE:
        return "no room meets every condition."
    wanted = [f"seats {request.people}"]
    if request.equipment:
        wanted.append(f"has {' and '.join(request.equipment)}")
    if request.step_free:
        wanted.append("is accessible without steps")
    if request.metres is not None:
        wanted.append(f"is within {request.metres} m")
    wanted.append("is free")
    return f"it {', '.join(wanted[:-1])} and {wanted[-1]}."
