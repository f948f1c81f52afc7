"""Synthesizes tasks: draws inputs by several methods, checks and answers them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ratchet.curate.refinement.results import answer_key
from ratchet.curate.synthesis.answers import Answer, Answerer
from ratchet.curate.synthesis.boundary import BoundaryValues
from ratchet.curate.synthesis.input_schema import infer_schema, loosened
from ratchet.curate.synthesis.rewording import KeptAnswers
from ratchet.curate.synthesis.sample import Method, Sample
from ratchet.curate.synthesis.slots import RecombinedSlots
from ratchet.curate.synthesis.spending import MethodEnded
from ratchet.observe.redaction import MARK_START
from ratchet.types import Dataset, InputError, Origin, RatchetError, Split, Task, content_hash

MethodName: TypeAlias = Literal["slots", "rewording", "boundary", "coach"]
FREE: tuple[MethodName, ...] = ("slots", "rewording", "boundary")
"""The methods that need no coach."""

SAMPLES_PER_DRAW = 40
"""Number of samples drawn from a method at once."""

_SIGNS = re.compile(r"(?<!\d)[.,;:!?\u2026]+|[.,;:!?\u2026]+(?!\d)")
"""Characters that are not part of a number."""

REDACTED = "it holds a mark such as [redacted:phone] in place of a value that was redacted"

Check: TypeAlias = Callable[[Any], str]
"""Says why the agent cannot take an input; empty if it can."""


class Synthesis(msgspec.Struct, frozen=True):
    """The result of a synthesis."""

    tasks: tuple[Task, ...]
    dropped: dict[str, int]
    """Number of discarded samples, by reason."""
    ended: str
    """Why there are fewer than requested; empty if there are enough."""

    def into(self, dataset: Dataset, split: Split = "train") -> Dataset:
        """The dataset's next version, with these tasks in a split.

        Args:
            dataset: The dataset that they were made for.
            split: Where they go; a proof on synthetic tasks proves nothing for real ones.
        """
        if not self.tasks:
            return dataset
        families = Counter(_family(task.origin.by) for task in self.tasks)
        parts = ", ".join(f"{count} by {family}" for family, count in families.items())
        return msgspec.structs.replace(
            dataset,
            tasks=(*dataset.tasks, *self.tasks),
            splits={**dataset.splits, **{task.id: split for task in self.tasks}},
            parent=dataset.version,
            reason=f"Synthesized into {split}: {parts}.",
        )


async def synthesize(
    dataset: Dataset,
    count: int,
    *,
    methods: Sequence[MethodName] = FREE,
    coach_inputs: Method | None = None,
    answerer: Answerer | None = None,
    schema: Mapping[str, Any] | None = None,
    optional: Sequence[str] = (),
    check: Check | None = None,
    split: Split = "train",
    open_answers: bool | None = None,
    seed: int = 0,
    now: float = 0.0,
    on_progress: Callable[[int], None] = lambda total: None,
) -> Synthesis:
    """Make tasks that resemble a dataset's.

    They are made of the tasks of `split` alone, so that nothing of another split leaks into it.

    Args:
        dataset: The dataset.
        count: Number of tasks to make.
        methods: How inputs are made. slots: by recombining the varying parts of real inputs.
            rewording: by changes that keep the answer. boundary: from the schema's boundaries.
            coach: by `coach_inputs`.
        coach_inputs: Draws inputs from the coach; see `CoachInputs`.
        answerer: Finds the answers that a method does not know.
        schema: JSON schema of the inputs; inferred by default.
        optional: Top-level fields of an input that the agent does not need.
        check: Whether the agent takes an input.
        split: The split whose tasks are the sources.
        open_answers: Whether to keep tasks without an expected answer; by default if the sources
            have none.
        seed: Seed of all choices.
        now: Unix seconds, noted in each task's origin.
        on_progress: Called with the number of tasks kept so far.

    Raises:
        InputError: The split has no tasks, or the schema is malformed.
        CoachUnavailable: The coach cannot be used.
    """
    sources = dataset.split(split)
    if not sources:
        raise InputError(
            f"The {split} split of {dataset.name!r} has no tasks to make others from.",
            hint="Add a few real tasks first.",
        )
    rng = random.Random(seed)  # noqa: S311
    full_schema = dict(schema or infer_schema([task.input for task in sources]))
    if open_answers is None:
        open_answers = all(task.expected is None for task in sources)
    makers: dict[MethodName, Method] = {}
    for name in methods:
        if name == "slots":
            makers[name] = RecombinedSlots(sources, rng)
        elif name == "rewording":
            makers[name] = KeptAnswers(sources, rng)
        elif name == "boundary":
            makers[name] = BoundaryValues(sources, full_schema, rng, optional=optional)
        elif coach_inputs is not None:
            makers[name] = coach_inputs
    shape = Validation(full_schema if schema else loosened(full_schema), optional, check)
    keeper = _Keeper(dataset, shape, answerer, open_answers, now)
    ended = ""
    left = dict(makers)
    while left and len(keeper.tasks) < count:
        for name, method in list(left.items()):
            missing = count - len(keeper.tasks)
            if missing <= 0:
                break
            share = min(SAMPLES_PER_DRAW, -(-missing // len(left)))
            try:
                samples = await method.draw(share)
                await keeper.take(samples, count)
            except MethodEnded as error:
                ended, samples = str(error), ()
            if not samples:
                del left[name]
            on_progress(len(keeper.tasks))
    if len(keeper.tasks) < count and not ended:
        ended = "The methods have nothing new to offer."
    return Synthesis(
        tuple(keeper.tasks), dict(keeper.dropped), ended if len(keeper.tasks) < count else ""
    )


class Validation:
    """Whether an input may be given to the agent.

    Args:
        schema: JSON schema of the inputs.
        optional: Top-level fields that may be missing.
        check: The agent's own check.

    Raises:
        InputError: It is not a JSON schema.
    """

    def __init__(
        self, schema: Mapping[str, Any], optional: Sequence[str], check: Check | None
    ) -> None:
        from jsonschema import Draft202012Validator, SchemaError

        full_schema = dict(schema)
        if optional and "required" in full_schema:
            full_schema["required"] = [
                name for name in full_schema["required"] if name not in optional
            ]
        try:
            Draft202012Validator.check_schema(full_schema)
        except SchemaError as error:
            raise InputError(
                f"The schema of the inputs is not a JSON schema: {error.message}."
            ) from None
        self._validator = Draft202012Validator(full_schema)
        self._check = check

    def problem(self, value: Any) -> str:
        """Why the input is not valid; empty if it is."""
        if not self._validator.is_valid(value):
            return "does not fit the schema"
        if self._check is not None and self._check(value):
            return "the agent does not accept it"
        return ""


class _Keeper:
    """Validates, deduplicates and answers samples, and keeps them as tasks."""

    def __init__(
        self,
        dataset: Dataset,
        shape: Validation,
        answerer: Answerer | None,
        open_answers: bool,
        now: float,
    ) -> None:
        self._shape = shape
        self._answerer = answerer
        self._open = open_answers
        self._now = now
        self._ids = {task.id for task in dataset.tasks}
        self._exact = {content_hash(task.input) for task in dataset.tasks}
        self._folded = {_said(task.input) for task in dataset.tasks}
        self.tasks: list[Task] = []
        self.dropped: Counter[str] = Counter()

    async def take(self, samples: Sequence[Sample], wanted: int) -> None:
        """Keep samples that are valid, new and answered, up to this many tasks in all."""
        fresh = [sample for sample in samples if self._is_new(sample)]
        unknown = [sample for sample in fresh if sample.expected is None]
        answer_of: dict[int, Answer] = {}
        if self._answerer is not None and unknown:
            answers = await self._answerer.answer([sample.input for sample in unknown])
            answer_of = {id(s): answer for s, answer in zip(unknown, answers, strict=True)}
        for sample in fresh:
            answer = answer_of.get(
                id(sample), Answer(sample.expected, problem="no answer is known")
            )
            if answer.expected is None and (not self._open or self._answerer is not None):
                self.dropped[answer.problem] += 1
            elif _is_marked(answer.expected):
                self.dropped[REDACTED] += 1
            elif len(self.tasks) < wanted:
                self._keep(sample, answer)

    def _is_new(self, sample: Sample) -> bool:
        try:
            exact, folded = content_hash(sample.input), _said(sample.input)
        except RatchetError:  # such as a lone surrogate
            self.dropped["not JSON"] += 1
            return False
        problem = REDACTED if _is_marked(sample.input) else self._shape.problem(sample.input)
        if problem:
            self.dropped[problem] += 1
            return False
        if exact in self._exact or (folded in self._folded and not sample.rewording):
            self.dropped["a duplicate"] += 1
            return False
        self._exact.add(exact)
        self._folded.add(folded)
        return True

    def _keep(self, sample: Sample, answer: Answer) -> None:
        by = f"{sample.by}; {answer.by}" if answer.by else sample.by
        id = f"syn-{content_hash([sample.input, answer.expected, sample.metadata])[:12]}"
        if id in self._ids:
            self.dropped["a duplicate"] += 1
            return
        self._ids.add(id)
        origin = Origin(made="synthesized", by=by, sources=sample.sources, at=self._now)
        self.tasks.append(Task(id, sample.input, answer.expected, sample.metadata, origin))


def _is_marked(value: Any) -> bool:
    return MARK_START in msgspec.json.encode(value).decode()


def _said(value: Any) -> str:
    """An input without final punctuation and case, which do not make it a different task."""
    return " ".join(_SIGNS.sub("", answer_key(value)).split())


def _family(by: str) -> str:
    return by.partition(";")[0].partition(":")[0]
