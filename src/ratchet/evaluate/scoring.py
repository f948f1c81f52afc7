"""Scores ended rollouts and keeps the scores."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

from ratchet.evaluate.evaluator import Evaluator
from ratchet.store import Store
from ratchet.types import Rollout, Score

AT_ONCE = 16
"""Verdicts under way at the same time."""

_UNANSWERED = frozenset({"failed", "timed_out", "crashed"})


class Scorer:
    """Scores rollouts with a project's evaluators. Scores that exist already are not made again.

    A rollout in which the agent failed counts 0 with every evaluator that has no unit: no answer is
    the worst answer. An inconclusive or cancelled one has no score, and says so.

    Args:
        store: Where scores are kept.
        evaluators: The project's evaluators, with names all different.
    """

    def __init__(self, store: Store, evaluators: Sequence[Evaluator]) -> None:
        self._store = store
        self._evaluators = tuple(evaluators)

    async def score(self, rollouts: Iterable[Rollout]) -> dict[str, dict[str, Score]]:
        """Score ended rollouts.

        Returns:
            By rollout id, the scores by evaluator name; scores that the agent gave itself included.

        Raises:
            StoreError: The store cannot be read or written.
        """
        ended = list(rollouts)
        known = await asyncio.to_thread(self._store.scores.of, [r.id for r in ended])
        result = {r.id: {s.evaluator: s for s in known.get(r.id, [])} for r in ended}
        missing = [
            (rollout, evaluator)
            for rollout in ended
            for evaluator in self._evaluators
            if not _same_version(result[rollout.id].get(evaluator.name), evaluator)
        ]
        fresh: list[tuple[str, Score]] = []
        gate = asyncio.Semaphore(AT_ONCE)

        async def judge(rollout: Rollout, evaluator: Evaluator) -> None:
            async with gate:
                fresh.append((rollout.id, await self._verdict(rollout, evaluator)))

        for start in range(0, len(missing), 256):
            chunk = missing[start : start + 256]
            await asyncio.gather(*(judge(rollout, evaluator) for rollout, evaluator in chunk))
        if fresh:
            await asyncio.to_thread(self._store.scores.add, fresh, time.time())
        for rollout_id, score in fresh:
            result[rollout_id][score.evaluator] = score
        order = [evaluator.name for evaluator in self._evaluators]
        return {
            rollout_id: {name: scores[name] for name in (*order, *(scores.keys() - set(order)))}
            for rollout_id, scores in result.items()
        }

    async def _verdict(self, rollout: Rollout, evaluator: Evaluator) -> Score:
        if rollout.status == "succeeded" or (evaluator.unit and rollout.duration_s is not None):
            return await evaluator.score(rollout, self._store.spans.of)
        if rollout.status in _UNANSWERED and not evaluator.unit:
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


def _same_version(score: Score | None, evaluator: Evaluator) -> bool:
    return score is not None and score.version == evaluator.version
