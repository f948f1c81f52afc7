"""A small world of rules: tasks need some of them, the agent obeys those in its prompt, and
a stand-in for a coach that finds them in low rollouts.

The stand-in answers what its messages hold, drawn by their content, so that it says the same in
whatever order it is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ratchet.llm import Message, Reply
from ratchet.types import Candidate, PromptTemplate

RULES = 8


def needed(nr: int) -> set[int]:
    """The rules that a task needs: one or two."""
    return {nr % RULES, (nr * 5 + 3) % RULES} if nr % 3 else {nr % RULES}


def stated(prompt: str) -> set[int]:
    """The rules that a prompt states."""
    return {int(number) for number in re.findall(r"Follow rule (\d+)", prompt)}


def obey(resources: Mapping[str, Any], given: Any, noise: float = 0.0) -> float:
    """The agent: 1 when its prompt states all that the task needs."""
    prompt = resources["system"].text
    solved = needed(given["nr"]) <= stated(prompt)
    luck = random.Random(f"{prompt} {given}").random()
    return float(solved if luck >= noise else not solved)


SOURCE = Candidate.of({"system": PromptTemplate("You are an assistant. Follow rule 0. {question}")})


class RuleCoach:
    """Stands in for a coach.

    Args:
        useless: Share of edits that bring nothing.
        harmful: Share of edits that lose what was there.
        reads: Rules that one answer adds, at most.
        cost_usd: Dollars of a call.
    """

    def __init__(
        self,
        *,
        useless: float = 0.2,
        harmful: float = 0.15,
        reads: int = 2,
        cost_usd: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.useless = useless
        self.harmful = harmful
        self.reads = reads
        self.cost_usd = cost_usd
        self.seed = seed
        self.asked: Counter[str] = Counter()
        self.texts: list[str] = []
        self.credits: list[tuple[str, bool]] = []

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        schema: Any = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
    ) -> Reply:
        text = "\n".join(message.content for message in messages)
        luck = random.Random(f"{self.seed} {text}")
        for _ in range(luck.randrange(4)):
            await asyncio.sleep(0)
        self.asked[hashlib.sha256(text.encode()).hexdigest()] += 1
        self.texts.append(text)
        return Reply(
            text=self.answer(text, luck), model=model or "stand-in", cost_usd=self.cost_usd
        )

    def answer(self, text: str, luck: random.Random) -> str:
        """The prompt that a request shows, with some of the rules that low rollouts lack."""
        fence = re.findall(r"^(`{4,})", text, re.MULTILINE)[0]
        rules = stated(prompt_in(text))
        lacking = sorted({rule for nr in low_in(text) for rule in needed(nr)} - rules)
        luck.shuffle(lacking)
        draw = luck.random()
        if draw < self.harmful:
            rules = set(list(rules)[1:])
        elif draw > self.harmful + self.useless:
            rules |= set(lacking[: self.reads])
        said = " ".join(f"Follow rule {rule}." for rule in sorted(rules))
        prompt = f"You are an assistant. {said} {{question}}"
        return f"Rules were missing there, so I add them.\n{fence}text\n{prompt}\n{fence}"

    def credit(self, model: str, survived: bool) -> None:
        self.credits.append((model, survived))


def prompt_in(text: str) -> str:
    """The prompt that a request shows."""
    found = re.search(r"^(`{4,})text\n(.*?)\n\1$", text, re.DOTALL | re.MULTILINE)
    return found[2] if found else ""


def low_in(text: str) -> list[int]:
    """Numbers of the tasks whose low rollouts a request shows."""
    return [int(nr) for nr in re.findall(r'^Task \d+ \([^)]*\): .*?"nr":(\d+)', text, re.MULTILINE)]
