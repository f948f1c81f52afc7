"""The evaluator: 1 for the right room, part of it for a room that breaks a rule or two."""

from __future__ import annotations

from typing import Any

import ratchet
from ratchet import Judgement

from .verdict import judge


@ratchet.evaluator
def right_room(output: object, expected: str, metadata: dict[str, Any]) -> Judgement:
    """Compare the answered room with the right one, and state what is wrong with it."""
    return Judgement(*judge(output, expected, metadata))
