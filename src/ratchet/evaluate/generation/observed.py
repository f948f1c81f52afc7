"""Proposes evaluators from an agent's own outputs, without a language model."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ratchet.evaluate.catalog import BUILT_IN, make_evaluator
from ratchet.evaluate.generation.invariants import propose_invariants
from ratchet.evaluate.generation.json_paths import data_of
from ratchet.evaluate.generation.json_shape import MAX_CHOICES, SEEN_EACH, mask_of, schema_of
from ratchet.evaluate.generation.proposal import ProposedEvaluator
from ratchet.types import InputError

MIN_EXAMPLES = 20
"""Minimum number of good outputs to infer anything."""

AGREE = 0.95
"""Share of the good outputs that an evaluator must accept to be proposed."""

BOUND_RATIO = 1.5
"""Ratio of a proposed bound to the 95th percentile of the observed values."""


class KnownOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output of the agent, with its verdicts."""

    input: Any
    output: Any
    expected: Any = None
    good: bool | None = None
    """Whether it is right, by a label, feedback or a trusted score; None when unknown."""
    score: float | None = None
    """A trusted evaluator's score; below 1, the output is a near miss unless it is known to be
    bad."""
    duration_s: float | None = None
    cost_usd: float | None = None

    @property
    def is_near_miss(self) -> bool:
        """Whether the output is partly wrong."""
        return self.good is None and self.score is not None and self.score < 1.0


def propose_from_data(examples: Sequence[KnownOutput], *, seed: int = 0) -> list[ProposedEvaluator]:
    """Evaluators that the good outputs suggest.

    A schema, relations between fields, comparisons with the expected answer, closed sets and shapes
    of answers, and bounds of latency and cost. Where no output is known to be good, all that are
    not known to be bad are taken for good.

    Args:
        examples: Outputs with what is known about them.
        seed: Seed of what is drawn.

    Raises:
        InputError: There are fewer than MIN_EXAMPLES good outputs.
    """
    known_good = [example for example in examples if example.good]
    good = known_good or [example for example in examples if example.good is None]
    if len(good) < MIN_EXAMPLES:
        raise InputError(
            f"There are {len(good)} good outputs; inferring evaluators needs {MIN_EXAMPLES}.",
            hint="Run `ratchet eval` on more tasks, or `ratchet label` some outputs.",
        )
    proposals = itertools.chain(
        _schema(good),
        propose_invariants([(example.output, example.input) for example in good], seed=seed),
        _fields(good),
        _comparison(good, examples),
        _answers(good),
        _bounds(good),
    )
    return [*proposals]


def _schema(good: Sequence[KnownOutput]) -> Iterator[ProposedEvaluator]:
    values = [data for example in good if (data := data_of(example.output)) is not None]
    if len(values) < AGREE * len(good):
        return
    yield ProposedEvaluator(
        name="fits_the_schema",
        why=f"The output has the fields, types and values of {len(values)} good outputs.",
        made_by="schema",
        use="json_schema",
        options={"schema": schema_of(values)},
    )


def _fields(good: Sequence[KnownOutput]) -> Iterator[ProposedEvaluator]:
    pairs = [(data_of(example.output), data_of(example.expected)) for example in good]
    both = [(o, e) for o, e in pairs if isinstance(o, dict) and isinstance(e, dict)]
    if "json_match" not in BUILT_IN or len(both) < AGREE * len(good):
        return
    keys = dict.fromkeys(key for _, expected in both for key in expected)
    loose = [
        key
        for key in keys
        if sum(o.get(key) == e.get(key) for o, e in both) < (1 - CHANGES) * len(both)
    ]
    compared = [key for key in keys if key not in loose]
    if not compared:
        return
    left_out = f", except {', '.join(loose)}, where good outputs differ from it" if loose else ""
    yield ProposedEvaluator(
        name="fields_match",
        why=f"Each field of the expected answer is compared{left_out}.",
        made_by="fields",
        use="json_match",
        options={"ignore": loose} if loose else {},
    )


CHANGES = 0.2
"""Maximum share of good outputs in which a compared field differs from the expected one."""


def _comparison(
    good: Sequence[KnownOutput], examples: Sequence[KnownOutput]
) -> Iterator[ProposedEvaluator]:
    """The strictest comparison with the expected answer that accepts the good outputs."""
    answered = [
        example for example in good if isinstance(example.expected, (str, int, float, list))
    ]
    if len(answered) < AGREE * len(good):
        return
    strict: list[tuple[str, dict[str, Any], str]] = [
        ("exact_match", {}, "equals the expected answer"),
        ("exact_match", {"ignore_case": True}, "equals the expected answer, ignoring case"),
        ("numeric", {}, "states the expected number"),
        ("numeric", {"tolerance": 0.01, "relative": True}, "states the expected number within 1 %"),
        ("contains", {}, "contains the expected answer"),
    ]
    bad = [
        example for example in examples if example.good is False and example.expected is not None
    ]
    for use, options, words in strict:
        judge = _verdict(use, options)
        accepted = sum(judge(example) for example in answered)
        if accepted < AGREE * len(answered):
            continue
        wrong = sum(judge(example) for example in bad)
        rejected = f", and {len(bad) - wrong} of {len(bad)} bad ones do not" if bad else ""
        yield ProposedEvaluator(
            name=f"{use}_of_the_answer",
            why=f"The output {words}: {accepted} of {len(answered)} good outputs do{rejected}.",
            made_by="fields",
            use=use,
            options=options,
        )
        return


def _verdict(use: str, options: Mapping[str, Any]) -> Callable[[KnownOutput], bool]:
    evaluator: Any = make_evaluator(use, options)

    def judge(example: KnownOutput) -> bool:
        try:
            score = evaluator(output=example.output, expected=example.expected)
        except Exception:  # it cannot be compared this way
            return False
        return bool(float(getattr(score, "value", score)) >= 1.0)

    return judge


def _answers(good: Sequence[KnownOutput]) -> Iterator[ProposedEvaluator]:
    texts = [example.output.strip() for example in good if isinstance(example.output, str)]
    if len(texts) < len(good) or not all(texts):
        return
    distinct = sorted(set(texts))
    if len(distinct) <= MAX_CHOICES and len(texts) >= SEEN_EACH * len(distinct):
        pattern = "|".join(re.escape(text) for text in distinct)
        yield ProposedEvaluator(
            name="is_a_known_answer",
            why=f"Each of {len(texts)} good outputs is one of {len(distinct)} answers.",
            made_by="answers",
            use="regex",
            options={"pattern": rf"\s*(?:{pattern})\s*", "full": True},
        )
    elif (mask := mask_of(texts)) is not None:
        yield ProposedEvaluator(
            name="has_the_usual_shape",
            why=f"All {len(texts)} good outputs have the shape {mask}.",
            made_by="answers",
            use="regex",
            options={"pattern": rf"\s*{mask}\s*", "full": True},
        )


def _bounds(good: Sequence[KnownOutput]) -> Iterator[ProposedEvaluator]:
    measured: list[tuple[str, str, list[float]]] = [
        ("latency", "s", [example.duration_s for example in good if example.duration_s]),
        ("cost", "dollars", [example.cost_usd for example in good if example.cost_usd]),
    ]
    for use, unit, values in measured:
        if len(values) < MIN_EXAMPLES:
            continue
        usual = sorted(values)[math.ceil(0.95 * len(values)) - 1]
        within = float(f"{BOUND_RATIO * usual:.2g}")
        yield ProposedEvaluator(
            name=f"{use}_is_usual",
            why=f"95 % of {len(values)} good outputs take at most {usual:.2g} {unit};"
            f" {within:g} is {BOUND_RATIO:g} times that.",
            made_by="bounds",
            use=use,
            options={"within": within},
        )
