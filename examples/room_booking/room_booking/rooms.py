"""The office's rooms and their bookings, as in its calendar."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

OFFICE = "Harbour House"

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "list_rooms",
            "description": "The meeting rooms of the office, with their bookings on a date.",
            "parameters": {
                "type": "object",
                "properties": {
                    "date": {"type": "string", "description": "As YYYY-MM-DD."},
                },
                "required": ["date"],
                "additionalProperties": False,
            },
        },
    }
]
"""What a model may call, as chat completions want it."""


@lru_cache(maxsize=1)
def calendar() -> dict[str, Any]:
    """All rooms, and the bookings by date and room."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "rooms.json").read_text())
    return found


def rooms_on(date: str) -> list[dict[str, Any]]:
    """The rooms with their bookings on a date.

    Raises:
        LookupError: The calendar does not hold that date.
    """
    bookings = calendar()["bookings"]
    if date not in bookings:
        raise LookupError(f"the calendar ends before {date!r}")
    return [
        {**room, "bookings": bookings[date].get(room["id"], [])} for room in calendar()["rooms"]
    ]
