"""A world in which prompts are lists of rules, a stand-in for the coach, and whole searches."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ratchet.learn import Budget, Finding, Lab, Proposal
from ratchet.learn.evolve import Evolve
from ratchet.llm import CoachUnavailable, Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate, Code, PromptTemplate
from tests.learn.conftest import Answer, FakeRunner, make_lab

RULES = 8
SOURCE = Candidate.of({"system": PromptTemplate("You answer {question}.\nFollow rule0.")})


def needed(given: Mapping[str, Any]) -> list[int]:
    """Rules that a prompt has to state for a task to succeed."""
    number = given["nr"] + (1000 if given["split"] == "val" else 0)
    return [number % RULES] if number % 3 else [number % RULES, (number // 3) % RULES]


def by_rules(resources: Any, given: Any) -> float:
    """The share of the rules that a task needs which the prompt states; 0 beside a harmful one."""
    text = str(resources["system"])
    if "harm" in text:
        return 0.0
    wanted = needed(given)
    return sum(f"rule{rule}." in text for rule in wanted) / len(wanted)


class RuleCoach:
    """Reads which inputs scored low, and states a rule that one of them needs; not always.

    Args:
        seed: Of what it answers.
        calls: Counts what was asked, by the whole conversation.
    """

    def __init__(self, seed: int = 0, calls: list[str] | None = None) -> None:
        self.seed = seed
        self.calls = calls if calls is not None else []
        self.credits: list[bool] = []

    def credit(self, model: str, survived: bool) -> None:
        """Hear what survived."""
        self.credits.append(survived)

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """Answer as a model would."""
        text = messages[-1].content
        self.calls.append(text)
        await asyncio.sleep(0)
        luck = random.Random(f"{self.seed} {text}")
        if "# Current function" in text:
            return Reply(text="I write no code.", model="m", cost_usd=0.01)
        current = text.split("\n````text\n")[1].split("\n````\n")[0]
        low = re.findall(r"^Task \d+ \([^)]*\): (\{.*\})", text, re.MULTILINE)
        missing = sorted(
            {
                rule
                for given in low
                for rule in needed(msgspec.json.decode(given))
                if f"rule{rule}." not in current
            }
        )
        draw = luck.random()
        if draw < 0.1:
            return Reply(text="", problem="it refused", model="m", cost_usd=0.01)
        added = "harm" if draw < 0.2 or not missing else f"Follow rule{luck.choice(missing)}."
        return Reply(
            text=f"A rule was missing there.\n````\n{current}\n{added}\n````",
            model="m",
            cost_usd=0.01,
        )


class NoCoach(RuleCoach):
    """Cannot be asked after so many calls."""

    def __init__(self, after: int = 0) -> None:
        super().__init__()
        self.after = after

    async def ask(self, messages: Sequence[Message], **more: Any) -> Reply:
        """Fail, as with a wrong key."""
        if len(self.calls) >= self.after:
            raise CoachUnavailable("The key was refused.", hint="Check OPENAI_API_KEY.")
        return await super().ask(messages, **more)


class SlotRunner(FakeRunner):
    """A FakeRunner with several slots."""

    slots = 1


class Learned(msgspec.Struct):
    """What a search came to."""

    finding: Finding
    proposals: list[Proposal]
    runner: FakeRunner
    coach: RuleCoach
    lab: Lab


def learn(
    store: Store,
    evolve: Evolve | None = None,
    *,
    baseline: Candidate = SOURCE,
    answer: Answer = by_rules,
    coach: RuleCoach | None = None,
    rollouts: int | None = 300,
    seed: int = 0,
    order: int = 0,
    slots: int = 1,
    dies_after: int | None = None,
    cost_usd: float = 0.0,
    checks: Callable[[Candidate], Any] | None = None,
    tests: Callable[[Candidate], Any] | None = None,
    train: int = 24,
    on_judged: Callable[[Proposal], None] | None = None,
    **options: Any,
) -> Learned:
    """One whole search, or a beginning of one that a kill ends."""
    runner = SlotRunner(store, answer, order=order, dies_after=dies_after, cost_usd=cost_usd)
    runner.slots = slots
    proposals: list[Proposal] = []

    def judged(proposal: Proposal) -> None:
        proposals.append(proposal)
        if on_judged:
            on_judged(proposal)

    budget = options.pop("budget", Budget(rollouts=rollouts))
    lab = make_lab(
        runner,
        store,
        baseline,
        seed=seed,
        budget=budget,
        train=train,
        on_proposal=judged,
        checks=checks,
        tests=tests,
        **options,
    )
    asked = coach or RuleCoach()
    lab.coach._client = asked
    finding = asyncio.run((evolve or Evolve()).learn(lab))
    return Learned(finding, proposals, runner, asked, lab)


FUNCTION = Code(
    "def guess(low, high):\n"
    '    """Returns a number between the two."""\n'
    "    share = 0.1\n"
    "    if high < low:\n"
    "        return high\n"
    "    return low + share * (high - low)\n",
    "guess",
)


def by_code(resources: Any, given: Any) -> float:
    """How near the function's answer is to three quarters of the way."""
    names: dict[str, Any] = {}
    exec(resources["guess"].source, names)
    low, high = given["nr"] % 5, given["nr"] % 5 + 4
    found = float(names["guess"](low, high))
    return max(0.0, 1 - abs(found - (low + 0.75 * (high - low))) / 4)
