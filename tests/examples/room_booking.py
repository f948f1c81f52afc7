"""The room-booking example's parts that do not need Ratchet, for tests."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "room_booking"
if str(EXAMPLE) not in sys.path:
    sys.path.append(str(EXAMPLE))

from room_booking.rooms import OFFICE, TOOLS, rooms_on  # noqa: E402
from room_booking.verdict import judge  # noqa: E402

PROMPT = "You are a booking assistant for {office}. Help people with meeting rooms."

__all__ = ["EXAMPLE", "OFFICE", "PROMPT", "TOOLS", "judge", "rooms_on", "tasks"]


@lru_cache(maxsize=1)
def tasks() -> list[dict[str, Any]]:
    """The example's tasks."""
    return [json.loads(line) for line in (EXAMPLE / "tasks.jsonl").read_text().splitlines()]
