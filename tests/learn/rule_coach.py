"""A task that a prompt solves by naming rules, and a stand-in coach that proposes some."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ratchet.llm import Message, Reply
from ratchet.types import Candidate, PromptTemplate, content_hash
from tests.learn.conftest import Killed

RULES = ("capacity", "equipment", "distance", "access", "ties")

SOURCE = Candidate.of({"system": PromptTemplate("Book a room for {request}.")})


def obeys(resources: Mapping[str, Any], given: Any) -> float:
    """The agent: right where its prompt names the rule that the task is about."""
    rule = RULES[given["nr"] % len(RULES)]
    return 1.0 if rule in resources["system"].text.lower() else 0.0


class RuleCoach:
    """Answers with the last prompt it sees and one rule more, or with nonsense.

    Its luck comes from what it is asked alone, as that of a model with a seed.

    Args:
        form: Makes the answer of the new prompt.
        dies_after: Calls after which the process is killed.
        order: Seed of how long calls take.
    """

    def __init__(
        self,
        form: Callable[[str], str],
        *,
        dies_after: int | None = None,
        order: int = 0,
    ) -> None:
        self.form = form
        self.asked: list[str] = []
        self.credits: list[bool] = []
        self.left = dies_after
        self.order = random.Random(order)

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        for _ in range(self.order.randrange(4)):
            await asyncio.sleep(0)
        if self.left == 0:
            raise Killed
        if self.left is not None:
            self.left -= 1
        prompt = "\n".join(message.content for message in messages)
        self.asked.append(prompt)
        luck = random.Random(content_hash(prompt))
        if luck.random() < 0.2:
            return Reply(text="", problem="The model refused.", model="one", cost_usd=0.01)
        found = re.findall(r"Book a room for \{request\}\.[^\n`]*", prompt)
        grown = f"{found[-1] if found else 'Be good.'} Mind {luck.choice(RULES)}."
        return Reply(text=self.form(grown), model="one", cost_usd=0.01)

    def credit(self, model: str, survived: bool) -> None:
        self.credits.append(survived)
