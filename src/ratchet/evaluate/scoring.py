"""Scores ended rollouts and stores the scores."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import TypeVar, cast

from ratchet.evaluate.failures import AnswerFailures, Failure, attempted, is_failure
from ratchet.store import Store
from ratchet.types import Rollout, Score
from ratchet.worker.evaluator import Evaluator, FunctionEvaluator, SpansOf

MAX_CONCURRENT_VERDICTS = 16

STORED_AT_ONCE = 256
"""Number of verdicts per write; paid verdicts must survive a kill."""

LOOKED = 64
"""Number of stored rollouts searched for an output that an evaluator can score."""

V = TypeVar("V")

_UNANSWERED = frozenset({"failed", "timed_out", "crashed"})


class Scorer:
    """Scores rollouts with a project's evaluators. Existing scores are reused.

    A rollout in which the agent failed scores 0 with every evaluator that has no unit: no answer is
    the worst answer. So does one on whose answer an evaluator fails; see `failures`. An
    inconclusive or cancelled rollout has an error score with the reason.

    Args:
        store: Stores the scores.
        evaluators: The project's evaluators, with unique names.
    """

    def __init__(self, store: Store, evaluators: Sequence[Evaluator]) -> None:
        self._store = store
        self._evaluators = tuple(evaluators)
        self._failures = AnswerFailures()
        self._looked: set[tuple[str, str, str]] = set()
        for evaluator in evaluators:
            if isinstance(evaluator, FunctionEvaluator):
                evaluator.attach(store)

    async def score(self, rollouts: Iterable[Rollout]) -> dict[str, dict[str, Score]]:
        """Score ended rollouts.

        Returns:
            Scores by evaluator name, by rollout id, including scores that the agent reported
            itself.

        Raises:
            StoreError: The store cannot be read or written.
            BudgetExhausted: The dollars for an evaluator's model calls are spent; what models have
                answered is kept.
        """
        ended = list(rollouts)
        stored = await asyncio.to_thread(self._store.scores.of, [r.id for r in ended])
        result = {r.id: {s.evaluator: s for s in stored.get(r.id, [])} for r in ended}
        missing: list[tuple[Rollout, Evaluator]] = []
        for rollout in ended:
            for evaluator in self._evaluators:
                # An evaluator that was changed and reverted reuses its old scores.
                own = _of_version(stored[rollout.id], evaluator)
                if own is not None and not self._failures.is_open(rollout.id, evaluator.name):
                    result[rollout.id][evaluator.name] = own
                else:
                    missing.append((rollout, evaluator))
        for start in range(0, len(missing), STORED_AT_ONCE):
            fresh = await self._judge(missing[start : start + STORED_AT_ONCE])
            await asyncio.to_thread(self._store.scores.add, fresh, time.time())
            for rollout_id, score in fresh:
                result[rollout_id][score.evaluator] = score
        order = [evaluator.name for evaluator in self._evaluators]
        return {
            rollout_id: {name: scores[name] for name in dict.fromkeys((*order, *scores))}
            for rollout_id, scores in result.items()
        }

    async def rate(
        self, rollout: Rollout, name: str, spans_of: SpansOf | None = None
    ) -> Score | None:
        """Score a made-up rollout with one evaluator. Nothing is stored.

        Args:
            rollout: The rollout.
            name: The evaluator's name.
            spans_of: Reads its spans by its id; by default those of the stored rollout.

        Returns:
            The score; None if there is no evaluator of that name.
        """
        evaluator = next((e for e in self._evaluators if e.name == name), None)
        if evaluator is None:
            return None
        verdict = await self._verdict(rollout, evaluator, spans_of)
        return await self._settled(verdict) if isinstance(verdict, Failure) else verdict

    def left_open(self, rollouts: Iterable[Rollout]) -> list[Rollout]:
        """The rollouts on which an evaluator failed before it had scored any output.

        Scored once more, the failure may turn out to be the answer's.
        """
        return [
            rollout
            for rollout in rollouts
            if any(
                self._failures.is_open(rollout.id, evaluator.name)
                and self._failures.has_outputs(evaluator)
                for evaluator in self._evaluators
            )
        ]

    async def _judge(self, pairs: Sequence[tuple[Rollout, Evaluator]]) -> list[tuple[str, Score]]:
        """Verdicts in the order of the pairs; failures are settled once all others are known."""
        verdicts = await _at_once([functools.partial(self._verdict, *pair) for pair in pairs])
        for (rollout, evaluator), verdict in zip(pairs, verdicts, strict=True):
            scored = isinstance(verdict, Score) and verdict.value is not None
            if scored and rollout.status == "succeeded":
                self._failures.scored(evaluator, rollout)
        failures = [verdict for verdict in verdicts if isinstance(verdict, Failure)]
        settled = iter(
            await _at_once([functools.partial(self._settled, failure) for failure in failures])
        )
        return [
            (rollout.id, next(settled) if isinstance(verdict, Failure) else verdict)
            for (rollout, _), verdict in zip(pairs, verdicts, strict=True)
        ]

    async def _settled(self, failure: Failure) -> Score:
        if not self._failures.has_outputs(failure.evaluator):
            await asyncio.to_thread(self._look_for_outputs, failure)
        return await self._failures.settled(failure)

    def _look_for_outputs(self, failure: Failure) -> None:
        """Remember outputs that the evaluator scored in an earlier process."""
        rollout, evaluator = failure.rollout, failure.evaluator
        place = (rollout.queue, evaluator.name, evaluator.version)
        if place in self._looked:
            return
        self._looked.add(place)
        ended, _ = self._store.rollouts.list(queue=rollout.queue, status="succeeded", limit=LOOKED)
        stored = self._store.scores.of([earlier.id for earlier in ended])
        for earlier in ended:
            score = _of_version(stored[earlier.id], evaluator)
            if score is not None and score.value is not None and not is_failure(score):
                self._failures.scored(evaluator, earlier)

    async def _verdict(
        self, rollout: Rollout, evaluator: Evaluator, spans_of: SpansOf | None = None
    ) -> Score | Failure:
        unanswered = rollout.status in _UNANSWERED
        measured = unanswered and evaluator.unit and rollout.duration_s is not None
        if rollout.status == "succeeded" or measured:
            return await attempted(evaluator, rollout, spans_of or self._store.spans.of)
        if unanswered and not evaluator.unit:
            return Score(
                evaluator=evaluator.name,
                version=evaluator.version,
                value=0.0,
                rationale=f"The rollout {rollout.status.replace('_', ' ')}: {rollout.error}"[:500],
            )
        return Score(
            evaluator=evaluator.name,
            version=evaluator.version,
            value=None,
            unit=evaluator.unit,
            error=f"The rollout is {rollout.status}: {rollout.error}"[:500],
        )


async def _at_once(calls: Sequence[Callable[[], Awaitable[V]]]) -> list[V]:
    """The results of calls in order, MAX_CONCURRENT_VERDICTS at a time."""
    results: list[V | None] = [None] * len(calls)
    left = iter(enumerate(calls))

    # A few worker tasks instead of one per verdict: most verdicts never await.
    async def take() -> None:
        for number, call in left:
            results[number] = await call()

    await asyncio.gather(*(take() for _ in range(min(MAX_CONCURRENT_VERDICTS, len(calls)))))
    return cast("list[V]", results)


def _of_version(scores: Iterable[Score], evaluator: Evaluator) -> Score | None:
    wanted = (evaluator.name, evaluator.version)
    return next((s for s in scores if (s.evaluator, s.version) == wanted), None)


GATHER_S = 0.05
"""Seconds that an ended rollout waits to be scored in a batch."""


class ScoreStream:
    """Scores rollouts as they end; use as `async with ScoreStream(scorer) as stream`.

    Args:
        scorer: The scorer.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._ended: list[Rollout] = []
        self._all: list[Rollout] = []
        self._more = asyncio.Event()
        self._closing = asyncio.Event()
        self._scores: dict[str, dict[str, Score]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, rollout: Rollout) -> None:
        """Add an ended rollout."""
        self._ended.append(rollout)
        self._all.append(rollout)
        self._more.set()

    async def scores(self) -> dict[str, dict[str, Score]]:
        """Wait for the scores of all added rollouts, by rollout id and evaluator name.

        Raises:
            StoreError: The store cannot be read or written.
        """
        self._closing.set()
        self._more.set()
        assert self._task is not None
        await self._task
        # What failed in an early batch may be settled by what was scored in a later one.
        if left := self._scorer.left_open(self._all):
            self._scores.update(await self._scorer.score(left))
        return self._scores

    async def __aenter__(self) -> ScoreStream:
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while not self._closing.is_set() or self._ended:
            await self._more.wait()
            self._more.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GATHER_S):
                    await self._closing.wait()
            batch, self._ended = self._ended, []
            if batch:
                self._scores.update(await self._scorer.score(batch))
