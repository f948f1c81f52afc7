"""A domain in which a prompt improves by chains of small gains, with noisy answers.

Hidden rules each raise the probability of a right answer by a few points, on all tasks or on a
share of them. The agent answers each task right or wrong by chance, as a real model with a
temperature does. The coach's critique names one rule at most, and each of its edits changes one
thing: it states a rule, adds words without effect, states something harmful, or loses a rule. Its
requests are read as by the simulator, whichever algorithm they come from. Agent and coach run in
this process, so a search takes seconds; held-out scores are expectations, without noise.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from tests.simulator.luck import dice
from tests.simulator.shown import shown

from ratchet.evaluate import FunctionEvaluator, Scorer
from ratchet.learn import Algorithm, Budget, Lab, LabSettings
from ratchet.llm import Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Rollout, Task

SOURCE = "You are an assistant that answers questions about the handbook."
RULE = re.compile(r"Mind point (\d+) of the handbook\.")
HARM = re.compile(r"Guess at point (\d+) of the handbook\.")
FLUFF = ("Work with care.", "Quality matters.", "Be thorough.", "Think it over.", "Stay calm.")
WHERE = {
    "apo": "ratchet.learn.apo:APO",
    "auto": "ratchet.learn.auto:Auto",
    "evolve": "ratchet.learn.evolve:Evolve",
    "gepa": "ratchet.learn.gepa:GEPA",
}


class ChainShape(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a variant of the domain."""

    rules: int = 12
    gain: tuple[float, float] = (0.03, 0.08)
    """Lowest and highest gain of a rule, as a mean over all tasks."""
    touched: float = 1.0
    """Share of the tasks on which a rule has its effect."""
    start: float = 0.3
    """Mean score of the source's own prompt."""
    spread: float = 0.12
    """Standard deviation of the tasks' ease."""
    harm: float = 0.08
    """Loss by a harmful sentence."""
    edits: tuple[float, float, float, float, float] = (0.55, 0.2, 0.1, 0.1, 0.05)
    """Shares of the coach's edits: a rule, words, harm, a rule lost, a refusal."""
    agree: bool = False
    """Whether all critiques of a prompt name the same rule, the most obvious one."""
    labels: bool = False
    """Whether outputs are one of two labels rather than texts that all differ."""


SHAPES: Mapping[str, ChainShape] = {
    "chain": ChainShape(),
    "chain-few": ChainShape(rules=7, gain=(0.05, 0.11), touched=0.35, start=0.25, spread=0.2),
    "chain-long": ChainShape(rules=20, gain=(0.015, 0.05), start=0.25, spread=0.05),
    "chain-one": ChainShape(agree=True),
    "chain-labels": ChainShape(
        rules=10, start=0.4, harm=0.12, edits=(0.4, 0.25, 0.15, 0.12, 0.08), labels=True
    ),
}
"""Variants by name: other numbers of rules, gains, effects, and kinds of answers."""


class ChainResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a search."""

    prompt: str
    score: float
    """Expected score on held-out tasks."""
    rollouts: int
    coach_calls: int
    sentence: str


class ChainDomain:
    """Rules, tasks and their effects, drawn from a seed.

    Args:
        shape: The variant.
        seed: Draws the rules' gains and the tasks.
    """

    def __init__(self, shape: ChainShape, seed: int) -> None:
        self.shape = shape
        self._seed = seed
        luck = dice("chain", seed)
        self._gains = [luck.uniform(*shape.gain) for _ in range(shape.rules)]

    def tasks(self, split: str, count: int) -> list[Task]:
        """Tasks of a split."""
        return [Task(f"{split}{n}", {"question": f"{split} {n}"}) for n in range(count)]

    def probability(self, prompt: str, task: str) -> float:
        """Probability that a task is answered right with a prompt."""
        shape = self.shape
        value = shape.start + dice(self._seed, task, "ease").gauss(0.0, shape.spread)
        for rule in {int(number) for number in RULE.findall(prompt)}:
            if rule < shape.rules and dice(self._seed, task, rule).random() < shape.touched:
                value += self._gains[rule] / shape.touched
        value -= shape.harm * len(set(HARM.findall(prompt)))
        return min(0.98, max(0.02, value))

    def held_out(self, prompt: str) -> float:
        """Expected score of a prompt on tasks that no search has seen."""
        tasks = [f"held-out {n}" for n in range(300)]
        return sum(self.probability(prompt, task) for task in tasks) / len(tasks)

    def best(self) -> float:
        """Expected score of a prompt that states all rules and nothing else."""
        return self.held_out("\n".join(map(_rule, range(self.shape.rules))))

    def answer(self, prompt: str, task: str) -> dict[str, Any]:
        """The agent's answer."""
        luck = dice(self._seed, "answer", prompt, task)
        right = luck.random() < self.probability(prompt, task)
        words = "" if self.shape.labels else f" ({luck.getrandbits(32):x})"
        return {"right": right, "text": f"{'yes' if right else 'no'}{words}"}


class ChainRunner:
    """Runs the agent in this process, in a random order.

    Args:
        store: Keeps the rollouts.
        domain: The agent.
        slots: Number of rollouts at once, which searches take their breadth from.
    """

    def __init__(self, store: Store, domain: ChainDomain, slots: int) -> None:
        self.slots = slots
        self._store = store
        self._domain = domain
        self._order = random.Random(0)

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """Ended rollouts by id."""
        prompts = {c.id: str(c.resources["system"]) for c in candidates}
        ended = self._store.rollouts.get([rollout.id for rollout in rollouts])
        for _ in range(self._order.randrange(4)):
            await asyncio.sleep(0)
        done = [
            msgspec.structs.replace(
                one,
                status="succeeded",
                output=self._domain.answer(prompts[one.candidate_id], one.input["question"]),
                started_at=1.0,
                ended_at=2.0,
            )
            for one in rollouts
            if one.id not in ended
        ]
        self._store.rollouts.create(done, 1.0)
        ended.update((one.id, one) for one in done)
        if on_finish:
            for one in ended.values():
                on_finish(one)
        return ended


class ChainCoach:
    """Stands in for a coach: its luck depends on what it is asked, and how often it was asked it.

    Args:
        shape: The variant.
        seed: Of its luck.
    """

    def __init__(self, shape: ChainShape, seed: int) -> None:
        self.calls = 0
        self._shape = shape
        self._seed = seed
        self._asked: Counter[str] = Counter()

    async def ask(self, messages: Sequence[Message], **_: Any) -> Reply:
        """A critique or an edit, as asked for."""
        plain = [{"role": m.role, "content": m.content} for m in messages]
        text = json.dumps(plain)
        self._asked[text] += 1
        self.calls += 1
        luck = dice(self._seed, "coach", text, self._asked[text])
        for _ in range(luck.randrange(4)):
            await asyncio.sleep(0)
        said = self._answer(plain, luck)
        return Reply(text=said, model="stand-in", problem="" if said else "The model refused.")

    def credit(self, model: str, survived: bool) -> None:
        """Take no note."""

    def _answer(self, plain: Sequence[Mapping[str, Any]], luck: random.Random) -> str:
        seen = shown(plain, None)
        better, words, harm, lost, _ = self._shape.edits
        missing = self._missing(seen.current)
        if seen.form == "critique":
            if luck.random() * (better + words) < better and missing:
                eye = dice(self._seed, seen.current) if self._shape.agree else luck
                return f"- The prompt should say: {_rule(eye.choice(missing))}"
            return f"- The prompt could be clearer. {luck.choice(FLUFF)}"
        lines = seen.current.splitlines()
        draw = luck.random()
        stating = [n for n, line in enumerate(lines) if RULE.search(line)]
        if draw < better:
            advised = [n for n in missing if _rule(n) in seen.rest]
            # Critiques say what is missing; all that they name may be in the prompt already.
            if advised or "# Critiques" in seen.rest:
                lines += map(_rule, advised[:1])
            elif missing:
                lines.append(_rule(luck.choice(missing)))
        elif draw < better + words:
            lines.append(luck.choice(FLUFF))
        elif draw < better + words + harm:
            lines.append(_harm(luck))
        elif draw < better + words + harm + lost:
            if stating:
                del lines[luck.choice(stating)]
        else:
            return ""
        prompt = "\n".join(lines)
        fence = seen.fence or "```"
        return prompt if seen.form == "text" else f"{fence}\n{prompt}\n{fence}"

    def _missing(self, prompt: str) -> list[int]:
        said = {int(number) for number in RULE.findall(prompt)}
        return [rule for rule in range(self._shape.rules) if rule not in said]


def _rule(number: int) -> str:
    return f"Mind point {number} of the handbook."


def _harm(luck: random.Random) -> str:
    return f"Guess at point {luck.randrange(40)} of the handbook."


async def _search(who: str, domain: ChainDomain, seed: int, budget: int, url: str) -> ChainResult:
    module, _, name = WHERE[who].partition(":")
    algorithm: Algorithm = getattr(import_module(module), name)()

    def judge(output: dict[str, Any]) -> float:
        return float(output["right"])

    store = Store.open(url)
    coach = ChainCoach(domain.shape, seed)
    lab = Lab(
        LabSettings(
            run_id=f"run-{seed}",
            stage="learn",
            queue="benchmark",
            objective="objective",
            seed=seed,
            max_attempts=1,
        ),
        baseline=Candidate.of({"system": PromptTemplate(SOURCE)}, reason="the source's own"),
        train=domain.tasks("train", 40),
        val=domain.tasks("val", 29),
        runner=ChainRunner(store, domain, slots=8),
        scorer=Scorer(store, [FunctionEvaluator(judge, name="objective", trusted=True)]),
        store=store,
        budget=Budget(rollouts=budget),
        coach=coach,
    )
    finding = await algorithm.learn(lab)
    store.close()
    prompt = str(finding.best.resources["system"])
    return ChainResult(
        prompt=prompt,
        score=domain.held_out(prompt),
        rollouts=lab.spent.rollouts,
        coach_calls=coach.calls,
        sentence=finding.sentence,
    )


def search(who: str, variant: str, budget: int, seed: int) -> ChainResult:
    """Run one search on a variant of the domain.

    Args:
        who: The algorithm, a key of `WHERE`.
        variant: The variant, a key of `SHAPES`.
        budget: Rollouts.
        seed: Of the domain, the search and the coach.
    """
    domain = ChainDomain(SHAPES[variant], seed)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'ratchet.db'}"
        return asyncio.run(_search(who, domain, seed, budget, url))
