"""The simulated grader: it says the score that it was told, at once.

Some trainers show a coach nothing of a rollout but its model calls. An agent for them has a model
grade its answer, so that the verdict is in the trace; this one stands in for that model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulator.task_model import text_of

MODEL = "simulated-grader"


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """The last number of the last message."""
    found = re.findall(r"\d+(?:\.\d+)?", text_of(messages[-1]))
    return found[-1] if found else "0"
