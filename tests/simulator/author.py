"""The simulated author: it writes inputs like the examples it is shown, and adds up numbers.

It varies the whole numbers of an example. Now and then it repeats an example, writes an input of
another kind, or miscalculates, by seeded chances.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulator.luck import dice
from tests.simulator.task_model import text_of

MODEL = "simulated-author"

REPEATS, STRAYS, MISCALCULATES = 0.1, 0.1, 0.1
"""How often it repeats an example, writes something else, answers wrongly."""

_NUMBER = re.compile(r"\d+")


def answer(messages: Sequence[Mapping[str, Any]], *, seed: object) -> str:
    """What the author says: inputs where it is asked to write some, else the sum of the numbers."""
    request = text_of(messages[-1])
    luck = dice(seed, "author", request)
    wanted = re.search(r"Write (\d+) inputs\.", request)
    if wanted is None:
        total = sum(map(int, _NUMBER.findall(request.rpartition("Input: ")[2])))
        wrong = luck.random() < MISCALCULATES
        return json.dumps({"reasoning": "I add them up.", "answer": total + wrong})
    lines = [line for line in request.splitlines() if line.startswith(('"', "{"))]
    inputs: list[Any] = []
    for _ in range(int(wanted[1])):
        example = luck.choice(lines)
        kind = luck.random()
        if kind < REPEATS:
            inputs.append(json.loads(example))
        elif kind < REPEATS + STRAYS:
            inputs.append("something else")
        else:
            inputs.append(json.loads(_NUMBER.sub(lambda _: str(luck.randrange(1000)), example)))
    return json.dumps({"inputs": inputs})
