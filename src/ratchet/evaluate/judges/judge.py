"""A judge: language models that answer questions about a rollout, and the score that follows."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ratchet.evaluate.judges.clients import AGENT, JudgeModels
from ratchet.evaluate.judges.material import Part, Passage, material
from ratchet.evaluate.judges.outlook import AnswersOutlook
from ratchet.evaluate.judges.prompt import (
    BETTER,
    Criterion,
    Form,
    LabelledExample,
    messages,
    schema,
)
from ratchet.llm import COACH_STEP, Account, CoachUnavailable, Message, Reply, ask_paid
from ratchet.llm.recording import records_of
from ratchet.store import Store
from ratchet.types import (
    BudgetExhausted,
    Cost,
    PromptTemplate,
    RatchetError,
    Rollout,
    Span,
    content_hash,
    total_cost,
)
from ratchet.worker.evaluator import Judgement, Unscored

_log = logging.getLogger("ratchet")

JOURNAL = "judge/{name}"
"""Journal in the store that holds a judge's answers."""

VERDICTS = ("yes", "no", "unclear")
PREFERRED = ("first", "second", "tie", "unclear")

SPREAD = 0.7
"""Temperature when a model is asked several times; 0 when it is asked once."""

MIN_USABLE_SHARE = 0.5
"""More than this share of the answers to a question must be usable."""

MAX_RETRIES = 2
"""How often a model is asked again after an undecided or malformed answer. An undecided judge
counts against the agent's answer, so it should not be undecided by chance."""

_CACHE_MARK = "quoted>"
"""Mark in the key of a request, whose own mark is random."""


class JudgeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What determines a judge's verdicts; its hash is part of the evaluator's version."""

    form: Form
    criteria: tuple[Criterion, ...]
    prompt: PromptTemplate
    models: tuple[str, ...]
    reads: tuple[Part, ...]
    spans: tuple[str, ...] = ()
    samples: int = 1
    swap: bool = True
    """Pairwise: ask in both orders."""
    examples: tuple[LabelledExample, ...] = ()

    @property
    def temperature(self) -> float:
        """Sampling temperature of its calls."""
        return 0.0 if self.samples == 1 else SPREAD


class JudgeSpending:
    """What a judge and its variants have spent in this process."""

    def __init__(self, account: Account | None = None) -> None:
        self.account = account
        """Account that bounds the cost of its calls; None for no separate bound."""
        self.calls = 0
        """Number of calls; answers from the journal do not count."""
        self.cost = Cost()
        """Cost of those calls, which is not part of any rollout's cost."""
        self.used = Cost()
        """Original cost of the answers behind verdicts, including stored answers."""


class Vote(NamedTuple):
    """A usable answer to a question."""

    value: float
    reason: str
    model: str


class Judge:
    """Scores rollouts by asking models. Equal requests are asked once per store.

    Args:
        name: Name of the evaluator.
        spec: What it asks.
        models: The models that it asks.
        spending: What it and its variants have spent in this process, and may.
    """

    def __init__(
        self,
        name: str,
        spec: JudgeSpec,
        models: JudgeModels,
        *,
        spending: JudgeSpending | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.spending = spending or JudgeSpending()
        self.models = models
        self._reversed = False
        self._defended = True
        self._trial = 0
        self._store: Store | None = None
        self._known: dict[str, Reply] = {}
        self._outlook: AnswersOutlook | None = None
        self._running: dict[str, asyncio.Future[Reply]] = {}

    def attach(self, store: Store) -> None:
        """Store answers in a store's journal, and reuse them."""
        self._store = store

    def close(self) -> None:
        """Stop its local models; they restart when needed."""
        self.models.close()

    def with_spec(self, spec: JudgeSpec) -> Judge:
        """A judge with changed questions, with the same models, cost bound and stored answers."""
        copy = Judge(self.name, spec, self.models, spending=self.spending)
        copy._store = self._store
        copy._known, copy._running = self._known, self._running
        return copy

    def foreseen(self, outlook: AnswersOutlook) -> Judge:
        """A judge that asks no model, and counts stored and missing answers."""
        copy = self.again(self._trial)
        copy._reversed, copy._defended = self._reversed, self._defended
        copy._running, copy._outlook = {}, outlook
        return copy

    def in_one_order(self, *, reversed: bool) -> Judge:
        """A pairwise judge that asks in one order only; reversed, the expected answer is first."""
        copy = self.with_spec(msgspec.structs.replace(self.spec, swap=False))
        copy._reversed = reversed
        return copy

    def undefended(self) -> Judge:
        """A judge without the defence against injections, to measure its effect."""
        copy = self.with_spec(self.spec)
        copy._defended = False
        return copy

    def again(self, trial: int) -> Judge:
        """A judge that repeats earlier questions; answers are stored per trial."""
        copy = self.with_spec(self.spec)
        copy._trial = trial
        return copy

    def most_usd(self, rollout: Rollout) -> float | None:
        """Maximum cost of a request about a rollout in dollars, averaged over the models.

        None if a price is unknown. The steps of its trace are not counted.
        """
        spec = self.spec
        sections = material(rollout, (), spec.reads, spec.spans)
        questions = [criterion.question for criterion in spec.criteria] or [BETTER]
        request = messages(spec.prompt, sections, questions, spec.examples)
        most = self.models.most_usd(sum(len(message.content) for message in request))
        return None if most is None else most / len(spec.models)

    async def value(self, rollout: Rollout, spans: Sequence[Span] = ()) -> float | None:
        """The score of a rollout; None when there is none."""
        try:
            return (await self.judge(rollout, spans)).value
        except Unscored:
            return None

    async def judge(self, rollout: Rollout, spans: Sequence[Span] = ()) -> Judgement:
        """Score a rollout.

        Returns:
            The weighted share of criteria that are met; for a pairwise judge 1, 0.5 or 0 as the
            answer is preferred to the expected one.

        Raises:
            Unscored: Too few answers can be used, or the form needs an expected answer and there is
                none.
            BudgetExhausted: What its calls may cost is spent.
        """
        spec = self.spec
        if spec.form != "rubric" and rollout.expected is None:
            raise Unscored("The task has no expected answer.")
        sections = material(rollout, spans, spec.reads, spec.spans)
        if spec.form == "pairwise":
            expected = Passage("Answer", _text(rollout.expected))
            answer = next(s for s in sections if s.title == "Answer")
            context = [s for s in sections if s.title not in ("Answer", "Reference answer")]
            return await self._preferred(context, answer.text, expected.text)
        votes = await self._votes(sections)
        weights = [criterion.weight for criterion in spec.criteria]
        averages = [sum(v.value for v in usable) / len(usable) for usable in votes]
        value = sum(w * m for w, m in zip(weights, averages, strict=True)) / sum(weights)
        return Judgement(value, "\n".join(map(self._line, spec.criteria, votes)))

    async def compare(self, input: Any, first: Any, second: Any) -> Judgement:
        """Compare two answers to a task; 1 if the first is preferred, 0 if the second is.

        Raises:
            Unscored: As `judge`.
        """
        return await self._preferred([Passage("Task", _text(input))], _text(first), _text(second))

    async def _votes(self, sections: Sequence[Passage]) -> list[list[Vote]]:
        """The usable votes on each criterion, at least one each."""
        spec = self.spec
        questions = [criterion.question for criterion in spec.criteria]
        slots = await self._ask_all(sections, questions, schema(len(questions), VERDICTS))
        votes: list[list[Vote]] = []
        for number, question in enumerate(questions, 1):
            usable = [
                Vote(float(answer["verdict"] == "yes"), answer["reason"], model)
                for answer, model in _decided(slots, f"c{number}")
            ]
            if len(usable) <= MIN_USABLE_SHARE * len(slots):
                raise Unscored(_too_few(question, slots, f"c{number}"))
            votes.append(usable)
        return votes

    async def _preferred(self, sections: Sequence[Passage], first: str, second: str) -> Judgement:
        values: list[float] = []
        reasons: list[str] = []
        swapped = (False, True) if self.spec.swap else (self._reversed,)
        for swap in swapped:
            pair = (second, first) if swap else (first, second)
            passages = [Passage("First answer", pair[0]), Passage("Second answer", pair[1])]
            question = self.spec.criteria[0].question if self.spec.criteria else BETTER
            slots = await self._ask_all([*sections, *passages], [question], schema(1, PREFERRED))
            usable = [answer for answer, _ in _decided(slots, "c1")]
            if len(usable) <= MIN_USABLE_SHARE * len(slots):
                raise Unscored(_too_few(question, slots, "c1"))
            values.append(sum(_worth(a["verdict"], swap) for a in usable) / len(usable))
            reasons.append(usable[0]["reason"])
        if len(values) == 2 and (values[0] - 0.5) * (values[1] - 0.5) < 0:
            return Judgement(0.5, "The preference depends on the order: " + " / ".join(reasons))
        return Judgement(sum(values) / len(values), " / ".join(dict.fromkeys(reasons)))

    async def _ask_all(
        self, sections: Sequence[Passage], questions: Sequence[str], form: dict[str, Any]
    ) -> list[list[Reply]]:
        """The answers of all models, as often as each is asked; the last of each is decided, or it
        was asked `MAX_RETRIES` times more.
        """
        places = [f"c{number}" for number in range(1, len(questions) + 1)]

        async def slot(model: str, sample: int) -> list[Reply]:
            replies: list[Reply] = []
            # A reply in another format has already been asked for twice.
            while sum(reply.requests for reply in replies) <= MAX_RETRIES and any(
                not _decided([replies], place) for place in places
            ):
                replies.append(
                    await self._ask(sections, questions, form, model, sample, len(replies))
                )
            return replies

        asking = [
            slot(model, sample)
            for model in self.models.names
            for sample in range(self.spec.samples)
        ]
        return list(await asyncio.gather(*asking))

    async def _ask(
        self,
        sections: Sequence[Passage],
        questions: Sequence[str],
        form: dict[str, Any],
        model: str,
        sample: int,
        again: int,
    ) -> Reply:
        spec = self.spec
        request = (spec.prompt, sections, questions, spec.examples)
        ask = functools.partial(messages, *request, defended=self._defended)
        text = [[m.role, m.content] for m in ask(mark=_CACHE_MARK)]
        # At 0 the same answer would come again.
        temperature = max(spec.temperature, SPREAD) if again else spec.temperature
        number = sample + self._trial * spec.samples
        key = content_hash([text, form, model, number, temperature, *([again] if again else [])])
        running = self._running.get(key)
        if running is None:
            asking = self._answered(key, ask(), form, model, temperature)
            running = self._running[key] = asyncio.ensure_future(asking)
            running.add_done_callback(lambda _: self._running.pop(key, None))
        reply = await asyncio.shield(running)
        if self._outlook is not None:
            if key not in self._outlook.missing:
                self._outlook.stored[key] = reply
            return reply
        self.spending.used = total_cost([self.spending.used, reply.cost])
        return reply

    async def _answered(
        self,
        key: str,
        request: list[Message],
        form: dict[str, Any],
        model: str,
        temperature: float,
    ) -> Reply:
        """The answer from memory, the journal, or the model."""
        remembered = self._known.get(key)
        if remembered is not None:
            return remembered
        store, journal = self._store, JOURNAL.format(name=self.name)
        if store is not None:
            body = await asyncio.to_thread(store.journal.get, journal, key)
            if body is not None:
                self._known[key] = msgspec.convert(body, Reply)
                return self._known[key]
        if self._outlook is not None:
            self._outlook.missing.add(key)
            return Reply(text="", problem="The model was not asked.", requests=MAX_RETRIES + 1)
        self._check_priced()
        client = await self.models.client()
        COACH_STEP.set(self.name)  # in a task of its own
        try:
            reply = await ask_paid(
                client,
                request,
                kind=f"judge {self.name}",
                schema=form,
                temperature=temperature,
                model=model,
                own=self.spending.account,
            )
        except CoachUnavailable as error:
            await self._store_traces()
            raise Unscored(error.message) from None
        self.spending.calls += reply.requests
        self.spending.cost = total_cost([self.spending.cost, reply.cost])
        if not reply.problem:
            self._known[key] = reply
            if store is not None:
                body = msgspec.to_builtins(reply)
                await asyncio.to_thread(store.journal.append, journal, key, body, time.time())
        await self._store_traces()
        return reply

    async def _store_traces(self) -> None:
        """Store the traces of finished calls."""
        spans = self.models.take_spans()
        if self._store is None or not spans:
            return
        try:
            records = records_of(spans, AGENT)
            await asyncio.to_thread(self._store.spans.put, records)
        except RatchetError as error:  # a trace is not worth a verdict
            _log.warning("Traces of the judge %r are not stored: %s", self.name, error)

    def _check_priced(self) -> None:
        """Refuse to ask a model of unknown price within a cost bound.

        Raises:
            BudgetExhausted: Its calls cannot be counted.
        """
        unpriced = self.spending.cost.unpriced
        if self.spending.account is not None and unpriced:
            models = ", ".join(map(repr, unpriced))
            raise BudgetExhausted(
                f"The cost of the judge {self.name!r} is bounded by max_dollars, but the price of "
                f"{models} is unknown.",
                hint="Set input_price and output_price.",
            )

    def _line(self, criterion: Criterion, votes: Sequence[Vote]) -> str:
        """The votes on a criterion, with the reason of the majority's first vote."""
        yes = sum(v.value for v in votes)
        majority = float(2 * yes >= len(votes))
        reason = next(v.reason for v in votes if v.value == majority)
        word = "yes" if majority else "no"
        count = f" ({yes:g} of {len(votes)})" if len(votes) > 1 else ""
        return f"{criterion.question} {word}{count}: {reason}"


def _decided(slots: Sequence[Sequence[Reply]], place: str) -> list[tuple[dict[str, Any], str]]:
    """Each model's first decided answer to a question, with its name."""
    decided = []
    for replies in slots:
        answers = ((r.data[place], r.model) for r in replies if not r.problem)
        first = next((answer for answer in answers if answer[0]["verdict"] != "unclear"), None)
        if first is not None:
            decided.append(first)
    return decided


def _too_few(question: str, slots: Sequence[Sequence[Reply]], place: str) -> str:
    undecided = [replies for replies in slots if not _decided([replies], place)]
    last = undecided[0][-1]
    why = last.problem or f"it is unclear: {last.data[place]['reason']}"
    times = sum(map(len, undecided))
    return f"No verdict on {question!r} after {times} requests: {why}"


def _worth(verdict: str, swapped: bool) -> float:
    """The value of a preference for the first of the two answers as given."""
    if verdict == "tie":
        return 0.5
    return float((verdict == "first") != swapped)


def _text(value: Any) -> str:
    from ratchet.evaluate.judges.material import MAX_FIELD
    from ratchet.observe.step_text import cut, text_of

    return cut(text_of(value), MAX_FIELD)
