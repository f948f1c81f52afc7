"""Inputs that the coach writes: for a persona, an edge case, or what a dataset lacks."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.curate.synthesis.sample import Sample
from ratchet.curate.synthesis.spending import BoundedCoach, MethodEnded
from ratchet.llm import Message
from ratchet.observe.capture import shorten
from ratchet.types import Task

BY_COACH = "coach"

PERSONAS = (
    "somebody who uses it for the first time and explains too much",
    "an expert in a hurry who writes in keywords",
    "somebody who writes in a second language, with mistakes",
    "somebody who is annoyed after two failures",
    "somebody careful who states every condition",
    "somebody who changes their mind in the middle",
)

EDGE_CASES = (
    "several conditions at once, one of which is easily overlooked",
    "a request at the very limit of what is possible",
    "an ambiguous request whose usual reading is wrong",
    "irrelevant details that mislead",
    "unusual names, numbers, units or dates",
    "a negation or an exception",
    "something that needs two steps to be answered",
    "missing information that has to be noticed",
)

PER_CALL = 5
"""Inputs asked for in one call."""

INPUTS_PER_REQUEST = 6

MAX_INPUT_CHARACTERS = 1500
"""Characters of an example that are shown."""

MAX_CONCURRENT_CALLS = 4

MAX_USELESS = 5
"""Maximum number of useless answers in a row."""

_SYSTEM = (
    "You write test inputs for a software agent. They are new, realistic, different from one"
    " another and from the examples, and of the same form as the examples."
)


class CoachInputs:
    """Draws inputs from the coach.

    Args:
        coach: The coach.
        tasks: Real tasks, shown as examples.
        schema: JSON schema of an input.
        rng: Selects examples.
        purpose: What the agent does, in its own words; empty when unknown.
        personas: Who asks.
        edge_cases: What is asked for.
        gaps: Descriptions of what live traffic has and the dataset lacks; they come first.
    """

    def __init__(
        self,
        coach: BoundedCoach,
        tasks: Sequence[Task],
        schema: Mapping[str, Any],
        rng: random.Random,
        *,
        purpose: str = "",
        personas: Sequence[str] = PERSONAS,
        edge_cases: Sequence[str] = EDGE_CASES,
        gaps: Sequence[str] = (),
    ) -> None:
        self._coach = coach
        self._tasks = tasks
        self._rng = rng
        self._purpose = purpose
        self._form = {
            "type": "object",
            "properties": {
                "inputs": {"type": "array", "items": dict(schema), "minItems": 1},
            },
            "required": ["inputs"],
            "additionalProperties": False,
        }
        self._orders = iter(
            [f"What is missing so far: {gap}" for gap in gaps]
            + [
                f"The person: {persona}. The difficulty: {edge}."
                for shift in range(len(edge_cases))
                for at, persona in enumerate(personas)
                if (edge := edge_cases[(at + shift) % len(edge_cases)])
            ]
        )
        self._number = 0
        self._useless = 0
        self._problem = ""

    async def draw(self, count: int) -> list[Sample]:
        """See `Method.draw`.

        Raises:
            MethodEnded: A bound is reached, or the answers are of no use, and nothing was drawn.
            CoachUnavailable: The coach cannot be used.
        """
        calls = min(MAX_CONCURRENT_CALLS, -(-count // PER_CALL))
        while self._useless < MAX_USELESS:
            drafts = [self._draft(order) for order in itertools.islice(self._orders, calls)]
            if not drafts:
                return []
            # All are awaited even if one fails: they are paid for.
            drafted = await asyncio.gather(*drafts, return_exceptions=True)
            samples = [sample for some in drafted if isinstance(some, list) for sample in some]
            if samples:
                return samples
            for failure in drafted:
                if isinstance(failure, BaseException):
                    raise failure
        raise MethodEnded(f"The coach's answers are unusable: {self._problem}.")

    async def _draft(self, order: str) -> list[Sample]:
        number, self._number = self._number, self._number + 1
        examples = self._rng.sample(self._tasks, min(INPUTS_PER_REQUEST, len(self._tasks)))
        about = f"What the agent does:\n{self._purpose}\n\n" if self._purpose else ""
        request = (
            f"{about}Examples of inputs, one JSON value a line:\n"
            + "\n".join(
                shorten(json.dumps(t.input, ensure_ascii=False), MAX_INPUT_CHARACTERS)
                for t in examples
            )
            + f"\n\n{order}\n\nWrite {PER_CALL} inputs."
        )
        messages = [Message("system", _SYSTEM), Message("user", request)]
        reply = await self._coach.ask(f"inputs {number}", messages, self._form)
        if reply.data is None:
            self._useless += 1
            self._problem = reply.problem.rstrip(".")
            return []
        self._useless = 0
        sources = tuple(task.id for task in examples)
        return [
            Sample(input=input, by=f"{BY_COACH}: {order}", sources=sources)
            for input in reply.data["inputs"]
        ]
