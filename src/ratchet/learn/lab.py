"""The lab: an algorithm's only interface to rollouts, the coach, the budget and the journal.

A resumed run executes its algorithm again from the start, with the same seed. Results that cost
something are replayed from the journal: rollouts by their content key, coach calls by theirs,
budget decisions by the step at which they were made. An algorithm must therefore take randomness
from `lab.rng` and elapsed time from `lab.may_continue`, and decide nothing by the order in which
concurrent work ends.
"""

from __future__ import annotations

import asyncio
import copy
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ratchet.evaluate import Scorer, ScoreStream
from ratchet.learn.attempts import TriedChange, attempt_of
from ratchet.learn.budget import Budget, BudgetExhausted, BudgetLedger, Spent, unpriced_sentence
from ratchet.learn.candidate_stats import CandidateStats
from ratchet.learn.lab_coach import LabCoach
from ratchet.learn.marks import added_marks
from ratchet.learn.run_journal import PartJournal, RunJournal
from ratchet.learn.verdicts import Judge, Verdicts
from ratchet.learn.work import (
    Evaluation,
    LabSettings,
    Proposal,
    RolloutTokens,
    objective_value,
)
from ratchet.llm import Account, ChatClient, Reply, paid_from
from ratchet.observe.redaction import MARK_START, Redactor
from ratchet.run.paid import RolloutRunner, run_paid
from ratchet.store import Store
from ratchet.types import Candidate, Cost, RatchetError, Resource, Rollout, Span, Task, content_hash
from ratchet.types.wording import counted


class LabListener:
    """Receives reports on a lab's progress; this base class ignores them."""

    def rollout(self, rollout: Rollout) -> None:
        """A rollout ended."""

    def proposal(self, proposal: Proposal) -> None:
        """A candidate was judged."""

    def message(self, text: str) -> None:
        """A sentence on what is being done and why."""


class Lab:
    """Journaled access to rollouts, the coach and the budget for one algorithm.

    Args:
        work: Seed, run id, objective and rollout settings.
        baseline: The candidate to start from.
        train: Tasks to learn from.
        val: Tasks to select by.
        runner: Runs rollouts.
        scorer: Scores rollouts.
        store: Stores candidates and the journal.
        budget: Spending limits.
        coach: Client for `coach`; algorithms that need a coach raise without one.
        checks: Fast check of a candidate, run before its first rollout; returns the fault, or an
            empty string.
        tests: Slow check of a candidate, run before it costs many rollouts; returns the fault, or
            an empty string.
        listener: Told what happens.
        redactor: What the coach's requests are redacted by; the built-in rules by default.
        guidelines: What the owner tells the coach: tone, domain, what must stay.
        clock: Monotonic time in seconds, for the budget.
        record: Called with each reply of a model that was paid for, and who asked.
        account: An account that is charged as well, such as a command's.
        only: Names of the resources that may change; all by default.
    """

    is_last = True
    """Whether its result is final: no other search continues from it or compares it again."""

    def __init__(
        self,
        work: LabSettings,
        *,
        baseline: Candidate,
        train: Sequence[Task],
        val: Sequence[Task],
        runner: RolloutRunner,
        scorer: Scorer,
        store: Store,
        budget: Budget,
        coach: ChatClient | None = None,
        checks: Judge | None = None,
        tests: Judge | None = None,
        listener: LabListener | None = None,
        redactor: Redactor | None = None,
        guidelines: str = "",
        clock: Callable[[], float] = time.monotonic,
        record: Callable[[str, Reply], None] | None = None,
        account: Account | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self._root: Lab = self
        """The outermost lab; parts are copies of it and share everything that `part` does not set.
        """
        self.baseline = baseline
        self.targets = _among(baseline, only)
        """The baseline's resources that an algorithm may change, by name."""
        self.train = tuple(train)
        self._train_ids = {task.id for task in self.train}
        self.val = tuple(val)
        self._ledger: BudgetLedger = BudgetLedger(
            budget,
            now=clock(),
            record=record,
            within=account,
        )
        self.source = baseline
        """The candidate that the outermost lab starts from: the agent unchanged."""
        self.rng = random.Random(work.seed)  # noqa: S311 - reproducible, not secret
        self.seed = work.seed
        self._work = work
        self._runner = runner
        self._scorer = scorer
        self._store = store
        self._journal = PartJournal(RunJournal(store.journal, work.run_id))
        self._redactor = redactor or Redactor()
        self.coach = LabCoach(
            coach,
            journal=self._journal,
            ledger=self._ledger,
            baseline=baseline,
            redactor=self._redactor,
            guidelines=guidelines,
        )
        """The coach, whether or not one is configured."""
        self._verdicts = Verdicts(store, work.run_id, checks, tests)
        self._listener = listener or LabListener()
        self._clock = clock
        self._announced: set[str] = set()
        """Models already reported as unpriced, and marks already reported as refused."""
        self._judged = 0
        self._notes = 0
        self._stats: dict[str, CandidateStats] = {}
        self.attempts: list[TriedChange] = []
        """What every algorithm of the run has tried so far, oldest first."""

    async def __aenter__(self) -> Lab:
        """Load the journal of earlier attempts of the run."""
        await self._journal.run.load()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        """Wait until the journal is written."""
        if kind is None:
            await self._journal.run.flush()
        else:
            with suppress(RatchetError):  # the original exception is more useful
                await self._journal.run.flush()

    @property
    def run_id(self) -> str:
        """The run that the lab belongs to."""
        return self._work.run_id

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of a run that lead to this lab, from the outermost; empty for the
        whole run."""
        return tuple(filter(None, self._work.part.split("/")))

    @property
    def budget(self) -> Budget:
        """Spending limits."""
        return self._ledger.budget

    @property
    def spent(self) -> Spent:
        """Amounts spent so far."""
        return self._ledger.spent

    def count_spent(self, costs: Iterable[Cost]) -> None:
        """Count spending of the run outside the lab, such as for checks before learning."""
        self._ledger.pay(costs)

    async def evaluate(
        self,
        candidate: Candidate,
        tasks: Sequence[Task],
        *,
        repetition: int = 0,
        training: str = "",
    ) -> list[Evaluation]:
        """Run and score a candidate on tasks. Rollouts that ran before come from the journal.

        Args:
            candidate: The candidate; it is saved in the store.
            tasks: The tasks.
            repetition: Index of the repetition; each index is a separate rollout.
            training: Name of the batch, if a model learns from them: the tokens of their calls are
                kept, which are sampled from the model's own distribution. They are no measure of
                the candidate.

        Returns:
            One evaluation per task, in the order of the tasks.

        Raises:
            BudgetExhausted: Too few rollouts are left, and nothing was run; or the dollars are
                spent, and rollouts that ran are kept. The time limit does not raise here:
                `may_continue` enforces it.
        """
        rollouts = [
            self._work.rollout(task, candidate.id, repetition, training=training) for task in tasks
        ]
        earlier: dict[str, Rollout] = {}
        if candidate.id == self.source.id and not training:
            earlier = await asyncio.to_thread(self._paid_earlier, rollouts, tasks, repetition)
            rollouts = [earlier.get(rollout.id, rollout) for rollout in rollouts]
        paid = {rollout.id for rollout in earlier.values()}
        new = self._ledger.fresh(r.id for r in rollouts if r.id not in paid)
        reached = self._ledger.refusal(rollouts=len(new)) if new else ""
        if reached:
            raise BudgetExhausted(
                f"{counted(len(new), 'more rollout')} would exceed the budget: {reached}."
            )
        self._ledger.take_rollouts(new)
        await self._journal.run.flush()
        await asyncio.to_thread(self._store.candidates.put, candidate, time.time())
        judges = Account(within=self._ledger.account)
        begun: set[str] = set()
        with paid_from(judges):
            async with ScoreStream(self._scorer) as stream:

                def ended_one(rollout: Rollout) -> None:
                    begun.add(rollout.id)
                    self._ledger.note_end("rollout", rollout.ended_at or 0.0)
                    stream.add(rollout)
                    self._listener.rollout(rollout)

                try:
                    ended = await run_paid(
                        self._runner,
                        self._ledger.account,
                        rollouts,
                        [candidate],
                        ended_one,
                        free=frozenset(rollout.id for rollout in rollouts) - {*new},
                    )
                except BudgetExhausted:
                    self._ledger.give_back_rollouts([id for id in new if id not in begun])
                    raise
                scores = await stream.scores()
        self._pay_judges(new, judges.cost)
        for rollout_id in new:
            self._announce_unpriced(ended[rollout_id].cost)
        evaluations = [
            Evaluation(
                task=task,
                rollout=ended[rollout.id],
                value=objective_value(ended[rollout.id], scores[rollout.id], self._work.objective),
                scores=scores[rollout.id],
            )
            for task, rollout in zip(tasks, rollouts, strict=True)
        ]
        if not training:
            self._stats.setdefault(candidate.id, CandidateStats(candidate)).add(evaluations)
        return evaluations

    def _paid_earlier(
        self, rollouts: Sequence[Rollout], tasks: Sequence[Task], repetition: int
    ) -> dict[str, Rollout]:
        """Succeeded rollouts of the baseline in earlier runs, by the id of the rollout that each
        replaces.

        A rollout that this run has begun stays its own, so that a resumed run takes the same ones.
        """
        if not self._work.earlier:
            return {}
        own = self._store.rollouts.get([rollout.id for rollout in rollouts])
        ids = {
            rollout.id: [
                settings.rollout(task, rollout.candidate_id, repetition).id
                for settings in self._work.earlier
            ]
            for rollout, task in zip(rollouts, tasks, strict=True)
            if rollout.id not in own
        }
        stored = self._store.rollouts.get([id for group in ids.values() for id in group])
        return {
            own_id: succeeded[0]
            for own_id, group in ids.items()
            if (
                succeeded := [
                    stored[id] for id in group if id in stored and stored[id].status == "succeeded"
                ]
            )
        }

    def overtime(self, now: float) -> str:
        """Sentence on how far learning exceeded its time limit, and why; empty if it did not.

        Args:
            now: Unix seconds.
        """
        return self._ledger.overtime(self._ledger.elapsed(self._clock()), now)

    def _pay_judges(self, rollouts: Sequence[str], live: Cost) -> None:
        """Journal the judges' cost for new rollouts, so that a resumed run counts the same cost."""
        if not rollouts:
            return
        key = self._journal.key("judged", content_hash(sorted(rollouts)))
        journaled = self._journal.run.entries.get(key)
        if journaled is not None:
            first = msgspec.convert(journaled, Cost)
            unpaid = max(0.0, first.known_usd - live.known_usd)
            unpriced = {} if live.unpriced else first.unpriced
            self._ledger.pay([Cost(known_usd=unpaid, unpriced=unpriced)])
        elif live != Cost():
            self._journal.append(key, msgspec.to_builtins(live))
            self._announce_unpriced(live)

    async def rate(self, task: Task, output: Any) -> float | None:
        """Objective of an invented answer to a task, such as the expected one. It costs no rollout.

        The value is journaled, so a resumed run gets the same one.

        Returns:
            What the objective's evaluator says; None if it cannot tell without a real rollout.
        """
        key = self._journal.key("rate", f"{task.id}/{content_hash(output)}")
        journaled = await self._journal.get(key)
        if journaled is not None:
            return None if journaled["value"] is None else float(journaled["value"])
        rollout = self._work.rollout(task, self.baseline.id, 0)
        rollout = msgspec.structs.replace(
            rollout, id=f"{rollout.id}/made-up", status="succeeded", output=output
        )
        with paid_from(self._ledger.account):
            score = await self._scorer.rate(rollout, self._work.objective)
        value = score.value if score is not None else None
        self._journal.append(key, {"value": value})
        return value

    @property
    def concurrency(self) -> int:
        """Number of rollouts that run at once; an algorithm should have about as many in flight."""
        return int(getattr(self._runner, "slots", 1))

    async def check(self, candidate: Candidate) -> str:
        """The fault that the fast checks find in a candidate; empty if none.

        Templates must retain their placeholders, and code its signature. Takes milliseconds. The
        verdict is journaled, so a resumed run gets the same one.
        """
        marks = added_marks(candidate, self.baseline)
        if marks:
            listed = ", ".join(marks)
            self._announce_mark(listed)
            return f"It holds {listed}, which stands for a value that was redacted."
        return await self._verdicts.of("check", candidate)

    def _announce_mark(self, marks: str) -> None:
        """Report once that proposals with redaction marks are refused."""
        if marks not in self._announced:
            self._announced.add(marks)
            self.note(
                f"A proposal was refused: it contains {marks} in place of a value that the coach "
                "was not shown. If the coach may see that value, list it in allow under "
                "[redaction]."
            )

    def needs_test(self, candidate: Candidate) -> bool:
        """Whether `test` may find a fault: there are tests and the candidate's code differs."""
        return self._verdicts.may_fail(candidate, self.baseline)

    async def test(self, candidate: Candidate) -> str:
        """The fault that the type checker and the repository's tests find in a candidate's code.

        Takes seconds. Call it for candidates that did well on a few tasks, before they run on many
        and before one is accepted. The verdict is journaled: a flaky test gives the same result
        when the run is resumed.
        """
        return await self._verdicts.of("test", candidate) if self.needs_test(candidate) else ""

    async def spans(self, evaluation: Evaluation) -> list[Span]:
        """Spans of the final attempt of an evaluation's rollout, in start order."""
        rollout = evaluation.rollout
        return await asyncio.to_thread(self._store.spans.of, rollout.id, rollout.fence)

    async def tokens(self, evaluations: Sequence[Evaluation]) -> list[RolloutTokens]:
        """The tokens of the final attempt of each evaluation's rollout, as far as they are kept."""
        ids = [evaluation.rollout.id for evaluation in evaluations]

        def read() -> list[RolloutTokens]:
            transitions = self._store.transitions.of(ids)
            rewards = self._store.transitions.call_rewards(ids)
            return [RolloutTokens(tuple(transitions[id]), rewards[id]) for id in ids]

        return await asyncio.to_thread(read)

    def is_public(self, text: str) -> bool:
        """Whether a text may be put into a prompt: redaction finds nothing in it now, and found
        nothing before."""
        return MARK_START not in text and self._redactor.text(text) == text

    def propose(
        self,
        resources: Mapping[str, Resource],
        *,
        algorithm: str,
        reason: str,
        parent: Candidate | None = None,
    ) -> Candidate:
        """A candidate derived from its parent (the baseline by default) with changed resources."""
        return (parent or self.baseline).derive(resources, algorithm=algorithm, reason=reason)

    def judged(self, proposal: Proposal) -> None:
        """Journal and report the result of a proposal.

        Proposal numbers of a part continue those of the parts before it.
        """
        if self is not self._root:
            number = max(self._root._judged, proposal.number)
            self._root.judged(msgspec.structs.replace(proposal, number=number))
            return
        self._judged = proposal.number + 1
        tried = self._stats.get(proposal.candidate_id)
        proposal = msgspec.structs.replace(
            proposal,
            rollouts=self.spent.rollouts,
            dollars=self.spent.dollars,
            unpriced=self.spent.unpriced,
            coach_calls=self.spent.coach_calls,
            **(tried.facts(self._train_ids) if tried else {}),
        )
        if tried and all(prior.candidate_id != tried.candidate.id for prior in self.attempts):
            parent = next((self._stats[id] for id in proposal.parents if id in self._stats), None)
            if parent is not None and proposal.accepted:
                self.attempted(
                    attempt_of(tried.candidate, tried.values, parent.candidate, parent.values)
                )
        self._journal.append(f"proposal/{proposal.number:06d}", msgspec.to_builtins(proposal))
        self._listener.proposal(proposal)

    def attempted(self, attempt: TriedChange) -> None:
        """Record a change and its result for the next request to the coach."""
        self.attempts.append(attempt)

    def values(self, candidate_id: str) -> Mapping[str, float]:
        """Scores of a candidate on the train tasks that it ran, by task id."""
        stats = self._stats.get(candidate_id)
        scores = {} if stats is None else stats.values
        return {task: value for task, value in scores.items() if task in self._train_ids}

    def doubt(self, task: Task, why: str) -> None:
        """Journal that the coach considers a task's expected answer wrong, and report it once."""
        key = f"label/{task.id}"
        if key not in self._journal.run.entries:
            self._journal.append(key, {"task": task.id, "expected": task.expected, "why": why})
            self.note(f"The coach doubts the expected answer of task {task.id!r}: {why}")

    def note(self, text: str) -> None:
        """Journal and report a sentence on what is being done and why."""
        self._journal.append(f"note/{self._root._notes:06d}", text)
        self._root._notes += 1
        self._listener.message(text)

    def _announce_unpriced(self, cost: Cost) -> None:
        """Report once per model that its price is unknown; journaled."""
        for model in sorted(cost.unpriced.keys() - self._announced):
            self._announced.add(model)
            sentence = unpriced_sentence(model, self._root.budget)
            self._journal.append(f"unpriced/{model}", sentence)
            self._listener.message(sentence)

    def may_continue(self, step: str) -> bool:
        """Whether the budget allows another step; journaled, so that the answer for a step never
        changes.

        Args:
            step: Name of the step, unique in the run and stable across resumption.
        """
        self._ledger.tick(self._clock())
        mine, *above = self._ledger.seconds
        answer: Any = self._journal.append(
            self._journal.key("budget", step),
            {"seconds": mine, "above": above, "reached": self._ledger.reached()},
        )
        self._ledger.recall([answer["seconds"], *answer["above"]])
        return not answer["reached"]

    def part(
        self,
        name: str,
        *,
        baseline: Candidate | None = None,
        budget: Budget | None = None,
        only: Collection[str] | None = None,
        train: Sequence[Task] | None = None,
        val: Sequence[Task] | None = None,
        is_last: bool = True,
    ) -> Lab:
        """A lab within this one, for one of several algorithms that share a budget.

        Its spending counts against this lab; rollouts that this lab already paid for are free.

        Args:
            name: Name of the part, unique in this lab and stable across resumption.
            baseline: The candidate to start from; this lab's baseline by default.
            budget: Spending limits of its own; without, this lab's alone hold, and it sees none.
            only: Names of the `targets` that may change; this lab's by default.
            train: Subset of the train tasks; all by default.
            val: Subset of the val tasks; all by default.
            is_last: Whether its result is final: not compared again with this lab's baseline.
        """
        part = copy.copy(self)
        part._work = msgspec.structs.replace(self._work, part=f"{self._work.part}{name}/")
        part._journal = PartJournal(self._journal.run, part._work.part)
        part.baseline = baseline or self.baseline
        part.targets = _among(part.baseline, self.targets if only is None else only)
        part.train = self.train if train is None else tuple(train)
        part._train_ids = {task.id for task in part.train}
        part.val = self.val if val is None else tuple(val)
        part._ledger = BudgetLedger(budget or Budget(), now=self._clock(), parent=self._ledger)
        part.coach = self.coach.within(part._journal, part._ledger, part.baseline)
        part.rng = random.Random(f"{self.seed}/{part._work.part}")  # noqa: S311 - as above
        part.is_last = self.is_last and is_last
        return part

    def shuffled(self, step: str, tasks: Sequence[Task]) -> list[Task]:
        """Tasks in random order, those that the baseline has already run first.

        Those are free: a part of a lab need not pay again for what another part has run.

        Args:
            step: Name of the ordering, unique in the run and stable across resumption.
            tasks: The tasks.
        """
        order = list(tasks)
        self.rng.shuffle(order)
        tried = self._stats.get(self.baseline.id)
        if self is self._root or tried is None:
            return order
        # As with comparisons, the journal records which tasks had been run at the first time.
        tried_ids = [task.id for task in order if task.id in tried.values]
        first = set(self._journal.append(self._journal.key("known", step), tried_ids))
        return sorted(order, key=lambda task: task.id not in first)

    def compared(
        self,
        step: str,
        first: Candidate,
        second: Candidate,
        *,
        tasks: Sequence[Task] | None = None,
    ) -> list[tuple[float, float]]:
        """Values of two candidates on the tasks that both have run, in task order.

        Runs nothing: tasks that either candidate has not run are skipped.

        Args:
            step: Name of the comparison, unique in the run and stable across resumption.
            first: The first candidate.
            second: The second candidate.
            tasks: The tasks; those of val by default.
        """
        values = [self._stats[c.id].values if c.id in self._stats else {} for c in (first, second)]
        rows = [
            [values[0].get(task.id), values[1].get(task.id)]
            for task in (self.val if tasks is None else tasks)
        ]
        pairs = [pair for pair in rows if None not in pair]
        # Work that was interrupted in the first run may have ended since: the journal records the
        # pairs seen then.
        stored: Any = self._journal.append(self._journal.key("compared", step), pairs)
        return [(left, right) for left, right in stored]

    @property
    def tried(self) -> tuple[Candidate, ...]:
        """Every candidate that has run a task, by id."""
        return tuple(self._stats[id].candidate for id in sorted(self._stats))


def _among(candidate: Candidate, only: Collection[str] | None) -> dict[str, Resource]:
    """The candidate's resources of these names, or all."""
    resources = candidate.resources
    return {name: resources[name] for name in resources if only is None or name in only}
