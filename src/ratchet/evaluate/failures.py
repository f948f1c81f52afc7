"""Decides whether an evaluator failed because of the answer, which then scores 0.

An answer that an evaluator cannot read must not count as one that nothing is known of: a candidate
could gain by answers that cannot be scored. But a service that is down says nothing of the answer.
Which of the two it was is tried out, where the exception does not tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ratchet.evaluate.corruptions import expected_output
from ratchet.types import BudgetExhausted, Rollout, Score, content_hash
from ratchet.worker.evaluator import (
    MAX_CHARACTERS,
    Evaluator,
    OnError,
    SpansOf,
    described,
    is_outage,
    missing,
)

FAILURE_PREFIX = "evaluator failed: "
"""Start of the rationale of a 0 given for an evaluator's exception, and of the error where it is
not known whether evaluator or answer is at fault. Other errors state why there is no score."""

OTHER_OUTPUTS = 3
"""Maximum number of other rollouts' outputs scored to see whether an evaluator works."""

REMEMBERED = 16
"""Number of outputs kept per evaluator, from different tasks."""


class Failure(NamedTuple):
    """A failed verdict."""

    evaluator: Evaluator
    rollout: Rollout
    spans_of: SpansOf
    error: Exception

    @property
    def key(self) -> tuple[str, str]:
        """The rollout's id and the evaluator's name."""
        return self.rollout.id, self.evaluator.name


async def attempted(evaluator: Evaluator, rollout: Rollout, spans_of: SpansOf) -> Score | Failure:
    """A score, or the exception instead of it.

    Raises:
        BudgetExhausted: The dollars for its model calls are spent: nobody has judged the output.
    """
    judge = getattr(evaluator, "verdict", evaluator.score)
    try:
        score: Score = await judge(rollout, spans_of)
    except BudgetExhausted:
        raise
    except Exception as error:  # an evaluator that breaks affects no other
        return Failure(evaluator, rollout, spans_of, error)
    return score


class AnswerFailures:
    """Separates failures caused by an answer from others; remembers which evaluators work where."""

    def __init__(self) -> None:
        self._works: set[str] = set()
        self._outputs: dict[tuple[str, str], dict[str, Any]] = {}
        self._open: set[tuple[str, str]] = set()

    def scored(self, evaluator: Evaluator, rollout: Rollout) -> None:
        """Remember an output that an evaluator has scored without an error."""
        outputs = self._outputs.setdefault((evaluator.name, evaluator.version), {})
        if len(outputs) < REMEMBERED:
            outputs.setdefault(rollout.task_id, rollout.output)

    def has_outputs(self, evaluator: Evaluator) -> bool:
        """Whether the evaluator is known to score any output."""
        return bool(self._outputs.get((evaluator.name, evaluator.version)))

    def is_open(self, rollout_id: str, name: str) -> bool:
        """Whether a failure was called missing because no output could be scored."""
        return (rollout_id, name) in self._open

    async def settled(self, failure: Failure) -> Score:
        """The score of a failure: 0 if the answer caused it, otherwise missing.

        It is the answer's fault if the evaluator scores another answer to the same task without an
        error, and then fails on this one again.
        """
        evaluator, rollout, spans_of, error = failure
        self._open.discard(failure.key)
        on_error: OnError | None = getattr(evaluator, "on_error", None)
        if is_outage(error):
            return missing(evaluator, error)
        if evaluator.unit or on_error == "missing":
            return _failed(evaluator, error, None)
        if on_error == "zero":
            return _failed(evaluator, error, 0.0)
        if not await self._can_score_the_task(failure):
            self._open.add(failure.key)
            return _failed(evaluator, error, None)
        again = await attempted(evaluator, rollout, spans_of)
        if isinstance(again, Score):
            return again
        if is_outage(again.error):
            return missing(evaluator, again.error)
        return _failed(evaluator, again.error, 0.0)

    async def _can_score_the_task(self, failure: Failure) -> bool:
        evaluator, rollout, spans_of, _ = failure
        task = content_hash(
            [evaluator.name, evaluator.version, rollout.input, rollout.expected, rollout.metadata]
        )
        if task in self._works:
            return True
        for output in self._other_answers(evaluator, rollout):
            variant = msgspec.structs.replace(rollout, output=output)
            score = await attempted(evaluator, variant, spans_of)
            if isinstance(score, Score) and score.value is not None:
                self._works.add(task)
                return True
        return False

    def _other_answers(self, evaluator: Evaluator, rollout: Rollout) -> Iterator[Any]:
        """The expected answer, another output for the task, outputs for other tasks."""
        outputs = self._outputs.get((evaluator.name, evaluator.version), {})
        own = [outputs[rollout.task_id]] if rollout.task_id in outputs else []
        other_outputs = [outputs[task] for task in sorted(outputs.keys() - {rollout.task_id})]
        answers: list[Any] = [*own, *other_outputs][:OTHER_OUTPUTS]
        expected = expected_output(rollout.expected, [rollout.output])
        for answer in (expected, rollout.expected, *answers):
            if answer is not None and _text(answer) != _text(rollout.output):
                yield answer


def _failed(evaluator: Evaluator, error: Exception, value: float | None) -> Score:
    message = f"{FAILURE_PREFIX}{described(error, ' ')}"[:MAX_CHARACTERS]
    return Score(
        evaluator=evaluator.name,
        version=evaluator.version,
        value=value,
        unit=evaluator.unit,
        rationale="" if value is None else message,
        error=message if value is None else "",
    )


def is_failure(score: Score) -> bool:
    """Whether a score is a 0 given because the evaluator raised an exception."""
    return score.rationale.startswith(FAILURE_PREFIX)


def broken(name: str, scores: Sequence[Score], outputs: str) -> str:
    """Why an evaluator that scored too few outputs cannot decide; empty if it scored most.

    Args:
        name: Name of the evaluator.
        scores: Its scores of outputs; not of rollouts that have none.
        outputs: What they are outputs of, such as "the baseline's outputs".
    """
    faults = [s.rationale or s.error for s in scores if s.value is None or is_failure(s)]
    if 2 * len(faults) <= len(scores):
        return ""
    usual = min(faults, key=lambda fault: (-faults.count(fault), fault))
    share = f"{len(faults)} of {len(scores)} of {outputs}"
    if usual.startswith(FAILURE_PREFIX):
        cause = usual.removeprefix(FAILURE_PREFIX).rstrip(".")
        return (
            f"The evaluator {name!r} failed on {share}: {cause}. The evaluator is broken, not "
            "the agent."
        )
    return f"The evaluator {name!r} gave no score for {share}: {usual.rstrip('.')}."


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, default=str)
