"""The lab: all that an algorithm may touch, journaled so that a killed run repeats nothing.

A resumed run executes its algorithm again from the start, with the same seed. Everything that cost
something comes back from the journal: rollouts by their content key, coach calls by theirs,
decisions about the budget by the step at which they were made. So an algorithm must take its
randomness from `lab.rng`, its sense of time from `lab.may_continue`, and the order in which things
that run at once have ended from `lab.first`, and from nowhere else.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ratchet.evaluate import Scorer, ScoreStream
from ratchet.learn.budget import Budget, BudgetExhausted, Spent, exceeded, out_of_time
from ratchet.llm import Asks, CoachUnavailable, Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate, Resource, Rollout, Score, Span, Task, content_hash


class Executes(Protocol):
    """Runs rollouts to their ends; a Runner does."""

    async def run(
        self,
        rollouts: Sequence[Rollout],
        candidates: Sequence[Candidate],
        on_finish: Callable[[Rollout], None] | None = None,
    ) -> dict[str, Rollout]:
        """Ended rollouts by id."""
        ...


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout of a candidate on a task, scored."""

    task: Task
    rollout: Rollout
    value: float | None
    """The objective's score; None when the evaluator could not say."""
    scores: dict[str, Score]
    """All scores by evaluator name."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What an algorithm says of a candidate it has just judged, for progress and the record."""

    number: int
    candidate_id: str
    value: float
    """Mean objective over the tasks it was judged on."""
    tasks: int
    """How many those were."""
    pruned: bool = False
    """Given up before all train tasks were tried."""
    best: float
    """Best value over all train tasks so far."""
    rollouts: int
    """Rollouts spent so far."""
    dollars: float = 0.0
    """Dollars spent so far, on rollouts and coach calls."""
    coach_calls: int = 0
    """Coach calls spent so far."""
    accepted: str = ""
    """Why it was kept, in a sentence; empty when it was not."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a lab works on."""

    run_id: str
    stage: str
    """Prefix of the purpose of its rollouts."""
    queue: str
    objective: str
    """Name of the evaluator, or of the agent's own reward, that is to rise."""
    seed: int
    max_attempts: int
    again: int = 0
    """How often the run began anew because the agent had failed on everything."""


class Lab:
    """All that an algorithm may touch.

    Args:
        work: What it works on.
        baseline: The candidate to start from.
        train: Tasks to learn from.
        val: Tasks to choose by.
        runner: Runs rollouts.
        scorer: Scores them.
        store: Keeps candidates and the journal.
        budget: What may be spent.
        coach: Answers `coach`; without one, only algorithms that need none can work.
        checks: Says what is wrong with a candidate before it costs a rollout; empty when nothing.
        on_rollout: Called as each rollout ends.
        on_proposal: Called as each candidate is judged.
        clock: Seconds, for the budget.
    """

    def __init__(
        self,
        work: Work,
        *,
        baseline: Candidate,
        train: Sequence[Task],
        val: Sequence[Task],
        runner: Executes,
        scorer: Scorer,
        store: Store,
        budget: Budget,
        coach: Asks | None = None,
        checks: Callable[[Candidate], Awaitable[str]] | None = None,
        on_rollout: Callable[[Rollout], None] | None = None,
        on_proposal: Callable[[Proposal], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.baseline = baseline
        self.train = tuple(train)
        self.val = tuple(val)
        self.budget = budget
        self.spent = Spent()
        self.rng = random.Random(work.seed)  # noqa: S311 - reproducible, not secret
        self.seed = work.seed
        self._work = work
        self._runner = runner
        self._scorer = scorer
        self._store = store
        self._coach = coach
        self._checks = checks
        self._on_rollout = on_rollout
        self._on_proposal = on_proposal
        self._clock = clock
        self._since = clock()
        self._counted: set[str] = set()
        self._costs: list[float] = []

    async def evaluate(
        self, candidate: Candidate, tasks: Sequence[Task], *, repetition: int = 0
    ) -> list[Evaluation]:
        """Run and score a candidate on tasks. What was run before is taken from the journal.

        Args:
            candidate: The candidate; it is kept in the store.
            tasks: The tasks.
            repetition: Another number asks for another rollout of the same.

        Returns:
            One evaluation a task, in the order of the tasks.

        Raises:
            BudgetExhausted: The rollouts left do not suffice, or the dollars are spent; nothing was
                run. Seconds end nothing here: what may begin, `may_continue` says.
        """
        rollouts = [self._rollout(candidate, task, repetition) for task in tasks]
        new = list(dict.fromkeys(r.id for r in rollouts if r.id not in self._counted))
        reached = exceeded(self.budget, self.spent, more_rollouts=len(new))
        if reached and new:
            raise BudgetExhausted(f"{len(new)} more rollouts would exceed the budget: {reached}.")
        self._counted.update(new)
        self.spent.rollouts += len(new)
        await asyncio.to_thread(self._store.candidates.put, candidate, time.time())
        async with ScoreStream(self._scorer) as stream:

            def ended_one(rollout: Rollout) -> None:
                stream.add(rollout)
                if self._on_rollout:
                    self._on_rollout(rollout)

            ended = await self._runner.run(rollouts, [candidate], ended_one)
            scores = await stream.scores()
        self._costs.extend(ended[rollout_id].cost_usd for rollout_id in new)
        # Rounded once: the same in whatever order evaluations end.
        self.spent.dollars = math.fsum(self._costs)
        return [
            Evaluation(
                task=task,
                rollout=ended[rollout.id],
                value=objective_value(ended[rollout.id], scores[rollout.id], self._work.objective),
                scores=scores[rollout.id],
            )
            for task, rollout in zip(tasks, rollouts, strict=True)
        ]

    @property
    def concurrency(self) -> int:
        """How many rollouts run at once: an algorithm keeps about as many of them under way."""
        return int(getattr(self._runner, "slots", 1))

    @property
    def has_coach(self) -> bool:
        """Whether `coach` can be asked."""
        return self._coach is not None

    async def coach(
        self,
        messages: Sequence[Message],
        *,
        step: str,
        schema: Mapping[str, Any] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model: str | None = None,
    ) -> Reply:
        """Ask the coach. A call that was paid for before is answered from the journal.

        Args:
            messages: The conversation so far. It must not hold anything of held-out tasks.
            step: The call's name, unique in the run and the same whenever the run is resumed.
            schema: JSON schema that the answer is to fit; it comes back as `data`.
            temperature: Of sampling.
            max_tokens: Of the answer.
            model: One model of the ensemble by name; drawn by the ensemble when left out.

        Raises:
            BudgetExhausted: The dollars or coach calls are spent; nobody was asked.
            CoachUnavailable: There is no coach, or it cannot be reached.
        """
        asked = [[m.role, m.content] for m in messages]
        key = f"coach/{step}/{content_hash([asked, schema, temperature, max_tokens, model])}"
        known = await asyncio.to_thread(self._store.journal.get, self._work.run_id, key)
        if known is not None:
            reply = msgspec.convert(known, Reply)
        else:
            if self._coach is None:
                raise CoachUnavailable(
                    "This algorithm asks a coach LLM, and none is configured.",
                    hint='Name one under [coach] in ratchet.toml: model = "gpt-5-mini".',
                )
            reached = exceeded(self.budget, self.spent, more_coach_calls=1)
            if reached:
                raise BudgetExhausted(f"Another coach call would exceed the budget: {reached}.")
            self.spent.coach_calls += 1  # before the answer: calls under way count
            try:
                reply = await self._coach.ask(
                    messages,
                    schema=schema,
                    temperature=temperature,
                    max_tokens=max_tokens,
                    model=model,
                )
            except BaseException:
                self.spent.coach_calls -= 1
                raise
            await asyncio.to_thread(
                self._store.journal.append,
                self._work.run_id,
                key,
                msgspec.to_builtins(reply),
                time.time(),
            )
            self.spent.coach_calls -= 1
        if key not in self._counted:
            self._counted.add(key)
            self.spent.coach_calls += 1
            self._costs.append(reply.cost_usd)
            self.spent.dollars = math.fsum(self._costs)
        return reply

    def credit(self, reply: Reply, survived: bool) -> None:
        """Say whether the proposal of a coach's reply survived: calls move to models whose do."""
        if self._coach is not None and reply.model:
            self._coach.credit(reply.model, survived)

    async def check(self, candidate: Candidate) -> str:
        """What is wrong with a candidate before it costs a rollout; empty when nothing is.

        Templates keep their placeholders; code keeps its signature and passes the checks and tests
        of its repository.
        """
        return await self._checks(candidate) if self._checks is not None else ""

    async def spans(self, evaluation: Evaluation) -> list[Span]:
        """Spans of the attempt that ended an evaluation's rollout, in the order they started."""
        rollout = evaluation.rollout
        return await asyncio.to_thread(self._store.spans.of, rollout.id, rollout.fence)

    async def first(self, event: str, pending: Mapping[str, asyncio.Future[Any]]) -> str:
        """The name of the pending work that ended first, the same again when the run is resumed.

        What runs at once ends in another order each time. An algorithm whose next step depends on
        that order asks here, and a resumed run is told the order of the first time.

        Args:
            event: The event's name, unique in the run and the same whenever the run is resumed.
            pending: Futures by name, at least one; the one that is named is done.
        """
        key = f"first/{event}"
        known = await asyncio.to_thread(self._store.journal.get, self._work.run_id, key)
        if isinstance(known, str) and known in pending:
            await asyncio.wait({pending[known]})
            return known
        done, _ = await asyncio.wait(pending.values(), return_when=asyncio.FIRST_COMPLETED)
        name = next(name for name, future in pending.items() if future in done)
        await asyncio.to_thread(
            self._store.journal.append, self._work.run_id, key, name, time.time()
        )
        return name

    def propose(
        self,
        resources: Mapping[str, Resource],
        *,
        algorithm: str,
        reason: str,
        parent: Candidate | None = None,
    ) -> Candidate:
        """A candidate that differs from its parent (the baseline by default) in these resources."""
        return (parent or self.baseline).derive(resources, algorithm=algorithm, reason=reason)

    def judged(self, proposal: Proposal) -> None:
        """Tell what became of a proposal; it is journaled and shown."""
        self._store.journal.append(
            self._work.run_id,
            f"proposal/{proposal.number:06d}",
            msgspec.to_builtins(proposal),
            time.time(),
        )
        if self._on_proposal:
            self._on_proposal(proposal)

    def may_continue(self, step: str) -> bool:
        """Whether the budget allows another step; the answer for a step never changes.

        Args:
            step: The step's name, unique in the run and the same whenever the run is resumed.
        """
        now = self._clock()
        self.spent.seconds += now - self._since
        self._since = now
        reached = out_of_time(self.budget, self.spent) or exceeded(self.budget, self.spent)
        answer: Any = self._store.journal.append(
            self._work.run_id,
            f"budget/{step}",
            {"seconds": self.spent.seconds, "reached": reached},
            time.time(),
        )
        self.spent.seconds = float(answer["seconds"])  # on resuming: the time it took then
        return not answer["reached"]

    def _rollout(self, candidate: Candidate, task: Task, repetition: int) -> Rollout:
        work = self._work
        return Rollout.of(
            task,
            candidate.id,
            scope=[work.run_id, work.again, repetition],
            luck=[work.seed, repetition],
            queue=work.queue,
            purpose=f"{work.stage}/{work.run_id}",
            max_attempts=work.max_attempts,
        )


def objective_value(rollout: Rollout, scores: Mapping[str, Score], objective: str) -> float | None:
    """The objective's value for a rollout: 0 when the agent failed, None when it is unknown."""
    if rollout.status in ("failed", "timed_out", "crashed"):
        return 0.0  # whatever reward it gave itself before
    score = scores.get(objective)
    return score.value if score is not None and rollout.status == "succeeded" else None


def mean(evaluations: Sequence[Evaluation]) -> float | None:
    """Mean objective over the evaluations that have one; None when none has."""
    values = [e.value for e in evaluations if e.value is not None]
    return sum(values) / len(values) if values else None
