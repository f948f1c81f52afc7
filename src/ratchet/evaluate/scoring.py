"""Scores ended rollouts and stores the scores."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from types import TracebackType

from ratchet.evaluate.evaluator import Evaluator, FunctionEvaluator, SpansOf
from ratchet.store import Store
from ratchet.types import BudgetExhausted, Rollout, Score

AT_ONCE = 16
"""Number of concurrent verdicts."""

STORED_AT_ONCE = 256
"""Number of verdicts per write: paid verdicts must survive a kill."""

_UNANSWERED = frozenset({"failed", "timed_out", "crashed"})


class Scorer:
    """Scores rollouts with a project's evaluators. Existing scores are reused.

    A rollout in which the agent failed scores 0 with every evaluator that has no unit: no answer is
    the worst answer. An inconclusive or cancelled rollout has an error score with the reason.

    Args:
        store: Stores the scores.
        evaluators: The project's evaluators, with unique names.
    """

    def __init__(self, store: Store, evaluators: Sequence[Evaluator]) -> None:
        self._store = store
        self._evaluators = tuple(evaluators)
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
        known = await asyncio.to_thread(self._store.scores.of, [r.id for r in ended])
        result = {r.id: {s.evaluator: s for s in known.get(r.id, [])} for r in ended}
        missing: list[tuple[Rollout, Evaluator]] = []
        for rollout in ended:
            for evaluator in self._evaluators:
                # An evaluator that was changed and reverted reuses its old scores.
                own = _of_version(known[rollout.id], evaluator)
                if own is not None:
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
        return await self._verdict(rollout, evaluator, spans_of) if evaluator else None

    async def _judge(self, pairs: Sequence[tuple[Rollout, Evaluator]]) -> list[tuple[str, Score]]:
        """Verdicts in the order of the pairs, AT_ONCE at a time."""
        verdicts: list[tuple[str, Score] | None] = [None] * len(pairs)
        left = iter(enumerate(pairs))

        # A few worker tasks instead of one per verdict: most verdicts never await.
        async def take() -> None:
            for number, (rollout, evaluator) in left:
                verdicts[number] = (rollout.id, await self._verdict(rollout, evaluator))

        await asyncio.gather(*(take() for _ in range(min(AT_ONCE, len(pairs)))))
        return [verdict for verdict in verdicts if verdict is not None]

    async def _verdict(
        self, rollout: Rollout, evaluator: Evaluator, spans_of: SpansOf | None = None
    ) -> Score:
        unanswered = rollout.status in _UNANSWERED
        measured = unanswered and evaluator.unit and rollout.duration_s is not None
        if rollout.status == "succeeded" or measured:
            try:
                return await evaluator.score(rollout, spans_of or self._store.spans.of)
            except BudgetExhausted:
                raise
            except Exception as error:  # an evaluator that breaks its protocol affects no other
                return Score(
                    evaluator=evaluator.name,
                    version=evaluator.version,
                    value=None,
                    unit=evaluator.unit,
                    error=f"{type(error).__name__}: {error}"[:500],
                )
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
        self._more = asyncio.Event()
        self._closing = asyncio.Event()
        self._scores: dict[str, dict[str, Score]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, rollout: Rollout) -> None:
        """Add an ended rollout."""
        self._ended.append(rollout)
        self._more.set()

    async def scores(self) -> dict[str, dict[str, Score]]:
        """Scores of all added rollouts, by rollout id and evaluator name; waits for them.

        Raises:
            StoreError: The store cannot be read or written.
        """
        self._closing.set()
        self._more.set()
        assert self._task is not None
        await self._task
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
                await asyncio.wait_for(self._closing.wait(), GATHER_S)
            batch, self._ended = self._ended, []
            if batch:
                self._scores.update(await self._scorer.score(batch))
