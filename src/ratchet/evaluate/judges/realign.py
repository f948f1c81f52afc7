"""Realigns a judge with people's labels: wording, labelled cases in the prompt, and calibration.

The labelled cases are split by their input into three parts. From the first come the examples that
the judge is shown, those first on which it was most wrong, and what a search for a better wording
learns from. The second chooses the wording and how many examples, and fits the calibration. The
third is used once, for the agreement before and after; nothing is chosen by it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from ratchet.evaluate.judges.evaluator import Alignment, JudgeEvaluator
from ratchet.evaluate.judges.judge import Judge
from ratchet.evaluate.judges.material import Passage, material
from ratchet.evaluate.judges.prompt import Criterion, LabelledExample
from ratchet.stats.agreement import (
    IntervalEstimate,
    auroc,
    calibration_curve,
    calibration_error,
    confusion,
    kappa,
)
from ratchet.stats.calibration import calibrated, interpolated
from ratchet.types import RIGHT_FROM, InputError, Rollout, content_hash
from ratchet.types.wording import counted
from ratchet.worker.evaluator import SpansOf

EXAMPLE_AND_CHOICE_SHARES = (0.2, 0.4)
"""Shares of the inputs for examples and for selection; the rest is the held-out test."""

MIN_LABELLED_CASES = 30

SIZES = (2, 4, 8)
"""Numbers of examples to try; a prompt without examples is tried as well."""


Reword: TypeAlias = (
    "Callable[[Judge, Sequence[LabelledRollout], Sequence[LabelledRollout]],"
    " Awaitable[tuple[Criterion, ...]]]"
)
"""Searches for a better wording of a judge's questions, with cases to learn from and to choose by;
returns as many questions."""


class LabelledRollout(msgspec.Struct, frozen=True):
    """A rollout with people's label."""

    rollout: Rollout
    label: float
    """In [0, 1]; the mean over several people."""
    comment: str = ""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of a judge's scores with labels."""

    cases: int
    """Cases with a score."""
    unscored: int
    kappa: IntervalEstimate | None
    """Agreement on right and wrong beyond chance (kappa); None if undefined, as for a constant
    judge."""
    auroc: IntervalEstimate | None
    accuracy: float | None
    majority: float | None
    """Accuracy of always giving the more frequent verdict."""
    calibration_error: float | None


class Realigned(msgspec.Struct, frozen=True, kw_only=True):
    """A new alignment, and the agreement before and after on unseen labels."""

    alignment: Alignment
    before: Agreement
    after: Agreement
    examples: int
    chosen_by: int
    """Number of labelled cases by which it was chosen."""


def agreement(scores: Sequence[float | None], labels: Sequence[float]) -> Agreement:
    """Agreement of scores with labels; cases without a score are counted apart."""
    pairs = [(s, y) for s, y in zip(scores, labels, strict=True) if s is not None]
    scored = [s for s, _ in pairs]
    passed = [s >= RIGHT_FROM for s in scored]
    right = [y >= RIGHT_FROM for _, y in pairs]
    table = confusion(passed, right)
    return Agreement(
        cases=len(pairs),
        unscored=len(scores) - len(pairs),
        kappa=kappa(passed, right),
        auroc=auroc(scored, right),
        accuracy=table.accuracy,
        majority=table.majority,
        calibration_error=calibration_error(calibration_curve(scored, [y for _, y in pairs])),
    )


async def realign(
    evaluator: JudgeEvaluator,
    cases: Sequence[LabelledRollout],
    spans_of: SpansOf,
    *,
    seed: int = 0,
    reword: Reword | None = None,
) -> Realigned:
    """Align a judge with labels.

    Args:
        evaluator: The judge; its own alignment is replaced.
        cases: Labelled rollouts.
        spans_of: Reads a rollout's spans.
        seed: Seed of the split.
        reword: Searches for a better wording; without it the questions stay as they are.

    Raises:
        InputError: There are too few labelled cases, or all labels say the same.
    """
    right = sum(case.label >= RIGHT_FROM for case in cases)
    if len(cases) < MIN_LABELLED_CASES:
        raise InputError(
            f"{len(cases)} labelled cases are too few to align {evaluator.name!r} with:"
            f" {MIN_LABELLED_CASES - len(cases)} more are needed.",
            hint=f"Label outputs: ratchet label --evaluator {evaluator.name}.",
        )
    if right in (0, len(cases)):
        raise InputError(
            f"All {counted(len(cases), 'label')} say {'right' if right else 'wrong'}, which teaches"
            f" {evaluator.name!r} nothing.",
            hint="Label outputs of both kinds.",
        )
    pool, dev, test = _split(cases, seed)
    original = bare = _with_examples(evaluator.judge, ())
    if reword is not None:
        questions = await reword(bare, pool, dev)
        bare = bare.with_spec(msgspec.structs.replace(bare.spec, criteria=questions))
    pool_scores = await _scores(bare, pool, spans_of)
    examples = [_example(bare, case, spans_of) for case in _hardest(pool, pool_scores)]
    labels = [case.label for case in dev]
    best, best_scores = bare, await _scores(bare, dev, spans_of)
    for size in SIZES:
        if size > len(examples):
            break
        tried = _with_examples(bare, tuple(examples[:size]))
        scores = await _scores(tried, dev, spans_of)
        if _worth(scores, labels) > _worth(best_scores, labels):
            best, best_scores = tried, scores
    scored = [(s, y) for s, y in zip(best_scores, labels, strict=True) if s is not None]
    curve = calibrated([s for s, _ in scored], [y for _, y in scored]) if scored else ()
    sealed = [case.label for case in test]
    before = agreement(await _scores(original, test, spans_of), sealed)
    mapped = [
        None if s is None or not curve else interpolated(curve, s)
        for s in await _scores(best, test, spans_of)
    ]
    return Realigned(
        alignment=Alignment(
            examples=best.spec.examples, wording=_wording(evaluator, bare), curve=curve
        ),
        before=before,
        after=agreement(mapped, sealed),
        examples=len(best.spec.examples),
        chosen_by=len(pool) + len(dev),
    )


def _wording(evaluator: JudgeEvaluator, judge: Judge) -> dict[str, str]:
    """The judge's reworded questions, by configured question."""
    configured = {new: old for old, new in evaluator.wording.items()}
    pairs = zip(evaluator.judge.spec.criteria, judge.spec.criteria, strict=True)
    wording = {configured.get(old.question, old.question): new.question for old, new in pairs}
    return {old: new for old, new in wording.items() if new != old}


def _split(
    cases: Sequence[LabelledRollout], seed: int
) -> tuple[list[LabelledRollout], list[LabelledRollout], list[LabelledRollout]]:
    """Three parts; cases with equal inputs are in the same part."""
    by_input: dict[str, list[LabelledRollout]] = {}
    for case in cases:
        by_input.setdefault(content_hash([case.rollout.input]), []).append(case)
    groups = [by_input[key] for key in sorted(by_input)]
    random.Random(seed).shuffle(groups)  # noqa: S311
    first = max(1, round(EXAMPLE_AND_CHOICE_SHARES[0] * len(groups)))
    second = first + max(1, round(EXAMPLE_AND_CHOICE_SHARES[1] * len(groups)))
    parts = groups[:first], groups[first:second], groups[second:]
    if not parts[2]:
        raise InputError(
            f"The labelled cases have {counted(len(groups), 'distinct input')}, too few to hold"
            " some out.",
            hint="Label outputs of more tasks.",
        )
    pool, dev, test = ([case for group in part for case in group] for part in parts)
    return pool, dev, test


def _with_examples(judge: Judge, examples: tuple[LabelledExample, ...]) -> Judge:
    spec = msgspec.structs.replace(judge.spec, examples=examples)
    return judge.with_spec(spec)


async def _scores(
    judge: Judge, cases: Sequence[LabelledRollout], spans_of: SpansOf
) -> list[float | None]:
    judged = [judge.value(case.rollout, spans_of(case.rollout.id)) for case in cases]
    return list(await asyncio.gather(*judged))


def _hardest(
    pool: Sequence[LabelledRollout], scores: Sequence[float | None]
) -> list[LabelledRollout]:
    """The cases on which the judge was most wrong first, right and wrong ones in turn."""
    wrongness = {
        case.rollout.id: 0.5 if score is None else abs(score - case.label)
        for case, score in zip(pool, scores, strict=True)
    }
    by_kind = [
        sorted(
            (case for case in pool if (case.label >= RIGHT_FROM) is kind),
            key=lambda case: -wrongness[case.rollout.id],
        )
        for kind in (False, True)
    ]
    ordered: list[LabelledRollout] = []
    for place in range(max(map(len, by_kind))):
        ordered += [cases[place] for cases in by_kind if place < len(cases)]
    return ordered


def _example(judge: Judge, case: LabelledRollout, spans_of: SpansOf) -> LabelledExample:
    spec = judge.spec
    spans = spans_of(case.rollout.id) if "trace" in spec.reads else []
    sections = material(case.rollout, spans, spec.reads, spec.spans)
    redact = judge.models.redactor.text  # an alignment is a file of the repository
    redacted = tuple(Passage(section.title, redact(section.text)) for section in sections)
    return LabelledExample(redacted, case.label, redact(case.comment))


def _worth(scores: Sequence[float | None], labels: Sequence[float]) -> tuple[float, float]:
    """Kappa, then closeness of the scores; an unscored case counts as wrong."""
    verdicts = ["unscored" if s is None else s >= RIGHT_FROM for s in scores]
    estimate = kappa(verdicts, [y >= RIGHT_FROM for y in labels])
    error = sum(1.0 if s is None else (s - y) ** 2 for s, y in zip(scores, labels, strict=True))
    return (0.0 if estimate is None else estimate.value, -error)
