"""The lab: all that an algorithm may touch, journaled so that a killed run repeats nothing.

A resumed run executes its algorithm again from the start, with the same seed. Everything that cost
something comes back from the journal: rollouts by their content key, coach calls by theirs,
decisions about the budget by the step at which they were made. So an algorithm must take its
randomness from `lab.rng`, its sense of time from `lab.may_continue`, and the order in which things
that run at once have ended from `lab.first`, and from nowhere else.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ratchet.evaluate import Scorer, ScoreStream
from ratchet.learn.budget import Budget, BudgetExhausted, BudgetLedger, Spent, unpriced_sentence
from ratchet.learn.candidate_stats import CandidateStats
from ratchet.learn.coach_calls import CoachQuestion, PendingCoachCalls, ask_and_charge, paid_before
from ratchet.learn.run_journal import RunJournal
from ratchet.learn.verdicts import Judge, Verdicts
from ratchet.learn.work import Evaluation, LabSettings, Proposal, RolloutRunner, objective_value
from ratchet.llm import ChatClient, Message, Reply
from ratchet.store import Store
from ratchet.types import Candidate, Cost, RatchetError, Resource, Rollout, Span, Task


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
        tests: Says the same after a longer look, before a candidate costs many rollouts.
        on_rollout: Called as each rollout ends.
        on_proposal: Called as each candidate is judged.
        on_note: Called with each sentence that an algorithm says of what it does.
        redact: Takes what is not to leave out of a text; by the built-in rules when left out.
        clock: Seconds, for the budget.
        whole: The lab that this one is a part of.
        only: Names of the resources that may change; all when left out.
    """

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
        on_rollout: Callable[[Rollout], None] | None = None,
        on_proposal: Callable[[Proposal], None] | None = None,
        on_note: Callable[[str], None] | None = None,
        redact: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        whole: Lab | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self.baseline = baseline
        self.targets = {
            name: resource
            for name, resource in baseline.resources.items()
            if only is None or name in only
        }
        """The baseline's resources that an algorithm may change, by name."""
        self.train = tuple(train)
        self._train_ids = {task.id for task in self.train}
        self.val = tuple(val)
        self._purse: BudgetLedger = BudgetLedger(
            budget, now=clock(), whole=whole._purse if whole else None
        )
        self._whole = whole
        seed = f"{work.seed}/{work.part}" if work.part else work.seed
        self.rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.seed = work.seed
        self._work = work
        self._runner = runner
        self._scorer = scorer
        self._store = store
        self._coach = coach
        self._journal: RunJournal = (
            whole._journal if whole else RunJournal(store.journal, work.run_id)
        )
        own = Verdicts(store, work.run_id, checks, tests)
        self._verdicts: Verdicts = whole._verdicts if whole else own
        self._calls: PendingCoachCalls = whole._calls if whole else PendingCoachCalls()
        self._on_rollout = on_rollout
        self._on_proposal = on_proposal
        self._on_note = on_note
        self._redact = redact
        self._clock = clock
        self._dropped: tuple[str, ...] | None = None
        """What the keys of calls begin with that an end left behind, once it was looked up."""
        self._new = asyncio.Event()
        """Set once something is decided that no earlier run decided."""
        self._announced: set[str] = set()
        """Models whose price was said to be unknown."""
        self._judged = 0
        self._notes = 0
        self._tried: dict[str, CandidateStats] = {} if whole is None else whole._tried

    async def __aenter__(self) -> Lab:
        """Read what an earlier try of the run has journaled."""
        await self._journal.load()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        """Wait until all is journaled."""
        if kind is None:
            await self._journal.flush()
        else:
            with suppress(RatchetError):  # what ended the work says more
                await self._journal.flush()

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        return self._purse.budget

    @property
    def spent(self) -> Spent:
        """What has been spent."""
        return self._purse.spent

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
        rollouts = [self._work.rollout(task, candidate.id, repetition) for task in tasks]
        new = self._purse.fresh(rollout.id for rollout in rollouts)
        reached = self._purse.refusal(rollouts=len(new)) if new else ""
        if reached:
            raise BudgetExhausted(f"{len(new)} more rollouts would exceed the budget: {reached}.")
        self._purse.take_rollouts(new)
        await self._journal.flush()
        await asyncio.to_thread(self._store.candidates.put, candidate, time.time())
        async with ScoreStream(self._scorer) as stream:

            def ended_one(rollout: Rollout) -> None:
                stream.add(rollout)
                if self._on_rollout:
                    self._on_rollout(rollout)

            ended = await self._runner.run(rollouts, [candidate], ended_one)
            scores = await stream.scores()
        self._purse.pay(ended[rollout_id].cost for rollout_id in new)
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
        self._tried.setdefault(candidate.id, CandidateStats(candidate)).add(evaluations)
        return evaluations

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
        question = CoachQuestion(tuple(messages), schema, temperature, max_tokens, model)
        key = f"{self._key('coach', step)}/{question.digest}"
        known = await self._known(key)
        if known is not None:
            return paid_before(known, key, self._purse)
        if await self._is_dropped(key):
            await self._new.wait()  # the end comes first, as it did the first time
        await self._journal.flush()
        return await self._calls.finish(
            ask_and_charge(
                self._coach,
                question,
                step=step,
                key=key,
                purse=self._purse,
                keep=self._append,
                kept=self._journal.flush,
            )
        )

    async def settle(self) -> None:
        """Wait for coach calls that were begun and are not needed any more: they are paid for."""
        await self._calls.settle()
        await self._journal.flush()

    def credit(self, reply: Reply, survived: bool) -> None:
        """Say whether the proposal of a coach's reply survived: calls move to models whose do."""
        if self._coach is not None and reply.model:
            self._coach.credit(reply.model, survived)

    async def check(self, candidate: Candidate) -> str:
        """What is wrong with a candidate before it costs a rollout; empty when nothing is.

        Templates keep their placeholders, code its signature; it takes no time to speak of. The
        verdict is journaled: a resumed run hears the same.
        """
        return await self._verdicts.of("check", candidate)

    def needs_test(self, candidate: Candidate) -> bool:
        """Whether `test` may find something: there are tests, and the candidate has other code."""
        return self._verdicts.may_fail(candidate, self.baseline)

    async def test(self, candidate: Candidate) -> str:
        """What its repository's type checker and own tests find wrong with a candidate's code.

        It takes seconds: ask it of candidates that have shown something on a few tasks, before they
        run on many and before one is accepted. The verdict is journaled: a test that fails now and
        then says the same when the run is resumed.
        """
        return await self._verdicts.of("test", candidate) if self.needs_test(candidate) else ""

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
        key = self._key("first", event)
        known = await self._known(key)
        if isinstance(known, str) and known in pending:
            await asyncio.wait({pending[known]})
            return known
        self._new.set()
        done, _ = await asyncio.wait(pending.values(), return_when=asyncio.FIRST_COMPLETED)
        name = next(name for name, future in pending.items() if future in done)
        self._append(key, name)
        return name

    async def drop(self, steps: Collection[str]) -> None:
        """Keep whose coach calls were under way when the algorithm ended: it needs them no more.

        A resumed run does not ask anew. What was answered the first time has been paid for.

        Args:
            steps: What the names of the calls' steps begin with, before a slash.
        """
        theirs = [self._key("coach", f"{step}/") for step in steps]
        self._append(self._key("dropped", ""), theirs)
        await self._journal.flush()
        for key, body in self._journal.entries.items():
            if key.startswith(tuple(theirs)):
                paid_before(body, key, self._purse)

    async def _is_dropped(self, key: str) -> bool:
        if self._dropped is None:
            self._dropped = tuple(await self._known(self._key("dropped", "")) or ())
        return key.startswith(self._dropped)

    def redact(self, text: str) -> str:
        """A text without what is not to leave: for what a coach is shown, or a prompt will hold."""
        if self._redact is None:
            from ratchet.observe.redaction import Redactor

            self._redact = Redactor().text
        return self._redact(text)

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
        """Tell what became of a proposal; it is journaled and shown.

        A part of a lab counts its proposals on from those of the parts before it.
        """
        if self._whole is not None:
            number = max(self._whole._judged, proposal.number)
            self._whole.judged(msgspec.structs.replace(proposal, number=number))
            return
        self._judged = proposal.number + 1
        tried = self._tried.get(proposal.candidate_id)
        proposal = msgspec.structs.replace(
            proposal,
            rollouts=self.spent.rollouts,
            dollars=self.spent.dollars,
            unpriced=self.spent.unpriced,
            coach_calls=self.spent.coach_calls,
            **(tried.facts(self._train_ids) if tried else {}),
        )
        self._append(f"proposal/{proposal.number:06d}", msgspec.to_builtins(proposal))
        if self._on_proposal:
            self._on_proposal(proposal)

    def note(self, text: str) -> None:
        """Say in a sentence what is being done and why; it is journaled and shown."""
        if self._whole is not None:
            self._whole.note(text)
            return
        self._append(f"note/{self._notes:06d}", text)
        self._notes += 1
        if self._on_note:
            self._on_note(text)

    def _announce_unpriced(self, cost: Cost) -> None:
        """Say of each model once that its price is unknown; it is journaled and shown."""
        if self._whole is not None:
            self._whole._announce_unpriced(cost)
            return
        for model in sorted(cost.unpriced.keys() - self._announced):
            self._announced.add(model)
            said = unpriced_sentence(model, self.budget)
            self._append(f"unpriced/{model}", said)
            if self._on_note:
                self._on_note(said)

    def unusable(self, step: str, why: str) -> None:
        """Keep why an answer of the coach could not be made a candidate, for those who ask.

        Args:
            step: The answer's name, unique in the run and the same whenever the run is resumed.
            why: A sentence.
        """
        self._append(self._key("unusable", step), why)

    def may_continue(self, step: str) -> bool:
        """Whether the budget allows another step; the answer for a step never changes.

        Args:
            step: The step's name, unique in the run and the same whenever the run is resumed.
        """
        self._purse.tick(self._clock())
        mine, *above = self._purse.seconds
        answer: Any = self._append(
            self._key("budget", step),
            {"seconds": mine, "above": above, "reached": self._purse.reached()},
        )
        self._purse.recall([answer["seconds"], *answer["above"]])
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
    ) -> Lab:
        """A lab within this one, for one algorithm of several that share a budget.

        What it spends, this one has spent; rollouts that were paid for here cost it nothing.

        Args:
            name: The part's name, unique here and the same whenever the run is resumed.
            baseline: The candidate that it starts from; this lab's own when left out.
            budget: What it may spend at most; when left out, what this lab may.
            only: Names of its `targets`; this lab's own when left out.
            train: Some of the train tasks; all when left out.
            val: Some of the val tasks; all when left out.
        """
        start = baseline or self.baseline
        return Lab(
            msgspec.structs.replace(self._work, part=f"{self._work.part}{name}/"),
            baseline=start,
            train=self.train if train is None else train,
            val=self.val if val is None else val,
            runner=self._runner,
            scorer=self._scorer,
            store=self._store,
            budget=budget or Budget(),
            coach=self._coach,
            on_rollout=self._on_rollout,
            redact=self._redact,
            clock=self._clock,
            whole=self,
            only=self.targets.keys() if only is None else only,
        )

    def shuffled(self, step: str, tasks: Sequence[Task]) -> list[Task]:
        """Tasks in a random order, but those first that the baseline was tried on before.

        They cost nothing any more: a part of a lab need not pay for what another part has run.

        Args:
            step: The order's name, unique in the run and the same whenever it is resumed.
            tasks: The tasks.
        """
        order = list(tasks)
        self.rng.shuffle(order)
        tried = self._tried.get(self.baseline.id)
        if self._whole is None or tried is None:
            return order
        # As with comparisons, the journal keeps what was known the first time.
        known = [task.id for task in order if task.id in tried.values]
        first = set(self._append(self._key("known", step), known))
        return sorted(order, key=lambda task: task.id not in first)

    def compared(self, step: str, one: Candidate, other: Candidate) -> list[tuple[float, float]]:
        """Values of two candidates on the val tasks that both were tried on, in the tasks' order.

        It costs nothing: tasks that either was not tried on are left out.

        Args:
            step: The comparison's name, unique in the run and the same whenever it is resumed.
            one: A candidate.
            other: Another.
        """
        known = [self._tried[c.id].values if c.id in self._tried else {} for c in (one, other)]
        found = [[known[0].get(task.id), known[1].get(task.id)] for task in self.val]
        pairs = [pair for pair in found if None not in pair]
        # Work that was cut off in the first run may have ended by now: the journal keeps what was
        # seen then.
        kept: Any = self._append(self._key("compared", step), pairs)
        return [(one, other) for one, other in kept]

    async def _known(self, key: str) -> Any:
        await self._journal.load()
        return self._journal.entries.get(key)

    def _key(self, kind: str, name: str) -> str:
        return f"{kind}/{self._work.part}{name}"

    def _append(self, key: str, body: Any) -> Any:
        return self._journal.append(key, body)
