"""A lab around a fake runner, which keeps what it ran in a real store."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from ratchet.evaluate import Evaluator, FunctionEvaluator, Scorer
from ratchet.learn import Budget, Lab, LabSettings, Proposal
from ratchet.learn.lab import LabListener
from ratchet.llm import ChatClient
from ratchet.store import Store
from ratchet.types import Candidate, Params, Resource, Rollout, Task

Answer = Callable[[Mapping[str, Resource], Any], Any]


class Killed(BaseException):
    """The process was killed here."""


class FakeRunner:
    """Answers like an agent would, in a random order, and counts what it executed.

    Args:
        store: Where ended rollouts are kept, one by one, as a killed run leaves them.
        answer: The agent: what it returns for the resources and a task's input.
        order: Seed of the order in which rollouts end.
        dies_after: Executions after which the process is killed.
        cost_usd: Dollars that a rollout costs.
    """

    def __init__(
        self,
        store: Store,
        answer: Answer,
        *,
        order: int = 0,
        dies_after: int | None = None,
        cost_usd: float = 0.0,
    ) -> None:
        self.store = store
        self.answer = answer
        self.executed: Counter[str] = Counter()
        self.order = random.Random(order)
        self.left = dies_after
        self.cost_usd = cost_usd

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """Ended rollouts by id."""
        resources = {candidate.id: candidate.resources for candidate in candidates}
        ended = self.store.rollouts.get([rollout.id for rollout in rollouts])
        waiting = [rollout for rollout in rollouts if rollout.id not in ended]
        self.order.shuffle(waiting)
        while waiting:
            for _ in range(self.order.randrange(3)):
                await asyncio.sleep(0)
            batch = [waiting.pop() for _ in range(min(len(waiting), self.order.randrange(1, 8)))]
            done = []
            for rollout in batch:
                if self.left is not None:
                    if self.left == 0:
                        break
                    self.left -= 1
                self.executed[rollout.id] += 1
                done.append(self._ended(rollout, resources[rollout.candidate_id]))
            self.store.rollouts.create(done, 1.0)
            if len(done) < len(batch):
                raise Killed
            ended.update((rollout.id, rollout) for rollout in done)
        if on_finish:
            for rollout in ended.values():
                on_finish(rollout)
        return ended

    def _ended(self, rollout: Rollout, resources: Mapping[str, Resource]) -> Rollout:
        fields: dict[str, Any] = {"cost_usd": self.cost_usd, "duration_s": 0.1}
        try:
            fields |= {"status": "succeeded", "output": self.answer(resources, rollout.input)}
        except Exception as error:
            fields |= {"status": "failed", "error": str(error)}
        return msgspec.structs.replace(rollout, started_at=1.0, ended_at=2.0, **fields)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done in threads is done in place: nothing is left to how fast they are."""

    async def in_place(work: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        return work(*args, **options)

    monkeypatch.setattr(asyncio, "to_thread", in_place)


def _objective() -> FunctionEvaluator:
    def judge(output: float) -> float:
        return output

    return FunctionEvaluator(judge, name="objective", trusted=True)


def tasks(prefix: str, count: int) -> list[Task]:
    """So many tasks, each with a number as its input."""
    return [Task(f"{prefix}{i}", {"nr": i, "split": prefix}) for i in range(count)]


def source(params: Mapping[str, Params]) -> Candidate:
    """The candidate of a source that declares these params."""
    return Candidate.of(dict(params))


MakeStore = Callable[[], Store]


@pytest.fixture
def make_store(sqlite_template: Any, tmp_path: Any) -> Iterator[MakeStore]:
    """Empty stores in SQLite files of their own."""
    opened: list[Store] = []
    numbers = itertools.count()

    def make() -> Store:
        path = tmp_path / f"{next(numbers)}.db"
        path.write_bytes(sqlite_template.read_bytes())
        opened.append(Store.open(f"sqlite:///{path}"))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


class Told(LabListener):
    """Passes on what a lab tells."""

    def __init__(
        self,
        on_proposal: Callable[[Proposal], None] | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self._on_proposal, self._on_note = on_proposal, on_note

    def proposal(self, proposal: Proposal) -> None:
        if self._on_proposal:
            self._on_proposal(proposal)

    def message(self, text: str) -> None:
        if self._on_note:
            self._on_note(text)


def make_lab(
    runner: Any,
    store: Store,
    baseline: Candidate,
    *,
    train: int = 40,
    val: int = 10,
    budget: Budget | None = None,
    seed: int = 0,
    clock: Callable[[], float] = lambda: 0.0,
    evaluator: Evaluator | None = None,
    on_proposal: Callable[[Proposal], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    coach: ChatClient | None = None,
    checks: Callable[[Candidate], Awaitable[str]] | None = None,
    tests: Callable[[Candidate], Awaitable[str]] | None = None,
) -> Lab:
    """A lab on train and val tasks."""
    return Lab(
        LabSettings(
            run_id=f"run{seed}",
            stage="learn",
            queue="queue",
            objective="objective",
            seed=seed,
            max_attempts=1,
        ),
        baseline=baseline,
        train=tasks("train", train),
        val=tasks("val", val),
        runner=runner,
        scorer=Scorer(store, [evaluator or _objective()]),
        store=store,
        budget=budget or Budget(),
        clock=clock,
        listener=Told(on_proposal, on_note),
        coach=coach,
        checks=checks,
        tests=tests,
    )
