"""The coach's part in a search: what it is asked, and what its answers are worth."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ratchet.learn.algorithm import CALLS_SPENT, SearchEnd
from ratchet.learn.attempts import Outcome, TriedChange
from ratchet.learn.attribution import blame
from ratchet.learn.evidence import LowRollout, kinds_of_failure, low_rollout, spread
from ratchet.learn.lab import Lab
from ratchet.learn.lab_coach import FailureKey
from ratchet.learn.race import RaceEntry
from ratchet.learn.search import numbers
from ratchet.learn.search.answers import AnswerParts, fault_of, parts_of, whole_answer
from ratchet.learn.search.code_answer import UnusableAnswer, rewritten_code
from ratchet.learn.search.placeholders import mended
from ratchet.learn.search.plan import calls_left
from ratchet.learn.search.request import (
    PROMPTS,
    RequestFacts,
    fence_for,
    plain_request_text,
    request_text,
    source_of,
)
from ratchet.llm import CoachUnavailable, Message, Reply
from ratchet.observe.step_text import text_of
from ratchet.types import BudgetExhausted, Candidate, Code, PromptTemplate, Resource
from ratchet.types.wording import counted


class RewriteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the requests to the coach."""

    algorithm: str
    shown: int = numbers.ROLLOUTS_SHOWN
    """Maximum low rollouts in a request."""
    temperature: float | None = None
    model: str | None = None
    """Model of the ensemble; the ensemble selects one by default."""
    max_growth: float = 4.0
    required: bool = False
    """Whether nothing else can change the target: then a lost coach is an error, and the run
    continues once there is one again."""


class FailureSet(msgspec.Struct, frozen=True):
    """Low rollouts of an entry that the coach has not been asked about."""

    entry: RaceEntry
    name: str
    """The resource to improve."""
    low: tuple[LowRollout, ...]
    """All low rollouts of the entry."""
    shown: tuple[LowRollout, ...]

    @property
    def key(self) -> FailureKey:
        """The failures: the resource, the task and the answer of each."""
        rollouts = [low.evaluation.rollout for low in self.shown]
        return frozenset(
            (self.name, rollout.task_id, text_of(rollout.output), rollout.error)
            for rollout in rollouts
        )


class Rewrite(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a request."""

    candidate: Candidate | None = None
    entry: RaceEntry
    """What was to be improved."""
    shown: tuple[str, ...]
    """Ids of the tasks whose low rollouts were shown."""
    reply: Reply


class Coaching:
    """Asks the coach once for each candidate, and never twice about the same failures.

    Args:
        lab: The lab whose coach is asked.
        settings: How it is asked.
        names: The resources that it may rewrite.
    """

    def __init__(self, lab: Lab, settings: RewriteSettings, names: Sequence[str]) -> None:
        self._lab = lab
        self._settings = settings
        self._names = tuple(names)
        self._low: dict[tuple[str, str], LowRollout] = {}
        """Low rollouts with their traces, by candidate and task."""
        self._closed: set[tuple[str, str]] = set()
        """Failures, by candidate and task, that the coach said nothing would fix."""
        self._times: Counter[str] = Counter()
        """How often each task's failure has been shown."""
        self.calls = 0
        self.unusable = 0
        """Answers without a candidate."""
        self.declined = 0
        """Answers that say that nothing would help."""
        self._declined = 0
        """Number of answers in a row that say that nothing would help."""
        self.gained = 0
        """Candidates that were kept."""
        self._quiet = 0
        """Number of answers in a row that brought no gain."""
        self._idle = 0
        """Number of answers in a row without anything to run."""
        self.last_problem = ""
        self.end: SearchEnd | None = None
        """Why the coach is no longer asked; None while it is."""

    def ended(self) -> SearchEnd | None:
        """Why the coach is no longer asked: it is weak or lost, or its calls are spent."""
        if self.end is None and calls_left(self._lab) < 1:
            self.end = CALLS_SPENT
        declined = self._declined >= numbers.MAX_DECLINES
        if self.end is None and declined and not self._lab.coach.is_asked_plainly:
            self.end = SearchEnd("no_gain", "the coach says that no change would help")
        limit = numbers.MAX_WEAK_CALLS * (numbers.PROVEN_FACTOR if self.gained else 1)
        # Alone, what a candidate that lost has cost is nobody else's.
        count = self._quiet if self._lab.parts else self._idle
        if self.end is None and count >= limit:
            if self.unusable == self.calls:
                last = self.last_problem.rstrip(".")
                answers = counted(count, "answer")
                why = f"none of {answers} from the coach could be used (the last: {last})"
                self.end = SearchEnd("coach_unusable", why)
            else:
                self.end = SearchEnd(
                    "no_gain", f"{counted(count, 'answer')} from the coach brought no gain"
                )
        return self.end

    async def failures(self, entries: Sequence[RaceEntry], top: float) -> FailureSet | None:
        """The first entry's failures that the coach has not been asked about, of the first entry
        that has any.

        Args:
            entries: The entries, in order of preference.
            top: The best possible score.
        """
        for entry in entries:
            low = await self._low_of(entry, top)
            if not low:
                continue
            name, mine = self._target(entry, low)
            new = self._new_selection(FailureSet(entry, name, tuple(mine), ()))
            if new is not None:
                return new
        return None

    def _new_selection(self, of: FailureSet) -> FailureSet | None:
        """Failures among these that the coach has not been asked about."""
        left = [low for low in of.low if (of.entry.id, low.task_id) not in self._closed]
        for selection in self._selections(left) if left else ():
            new = msgspec.structs.replace(of, shown=tuple(selection))
            if new.key not in self._lab.coach.asked:
                return new
        return None

    async def rewrite(self, failures: FailureSet, turn: int) -> Rewrite | None:
        """A candidate from one request to the coach; None if there is no coach any more.

        Raises:
            CoachUnavailable: The coach cannot be reached, and is required.
        """
        step = f"{self._settings.algorithm}/{PROMPTS.version}/{turn:04d}"
        lab, settings = self._lab, self._settings
        resource = failures.entry.candidate.resources[failures.name]
        plain = lab.coach.is_asked_plainly and isinstance(resource, PromptTemplate)
        text = (plain_request_text if plain else request_text)(self._facts(failures))
        try:
            reply = await lab.coach.ask(
                [Message("user", text)],
                step=step,
                temperature=settings.temperature,
                model=settings.model,
            )
        except BudgetExhausted:
            self.end = CALLS_SPENT
            return None
        except CoachUnavailable as error:
            why = f"the coach is no longer available: {error.message.rstrip('.')}"
            self.end = SearchEnd("coach", why)
            if self._settings.required:
                raise
            return None
        lab.coach.asked.add(failures.key)
        self._times.update(rollout.task_id for rollout in failures.shown)
        self.calls += 1
        parts = (
            whole_answer(reply.text)
            if plain
            else parts_of(reply.text, fence_for(source_of(resource)))
        )
        for number, why in parts.doubts:
            if 1 <= number <= len(lab.train):
                lab.doubt(lab.train[number - 1], why)
        candidate = await self._candidate(failures, parts, reply, step)
        if not plain and self._seems_too_much(failures):
            lab.coach.ask_plainly()
        task_ids = tuple(rollout.task_id for rollout in failures.shown)
        return Rewrite(candidate=candidate, entry=failures.entry, shown=task_ids, reply=reply)

    def _seems_too_much(self, failures: FailureSet) -> bool:
        """Whether the whole request seems to be more than the coach can answer.

        No change where most tasks fail is no answer either, if nothing has been tried.
        """
        mostly_fails = failures.entry.mean() < 0.5
        return self.calls == self.unusable + self.declined >= numbers.PLAIN_AFTER and (
            self.unusable > 0 or mostly_fails
        )

    def judged(self, reply: Reply, gained: bool) -> None:
        """Record whether a rewrite was kept."""
        self._quiet = 0 if gained else self._quiet + 1
        self._declined = self._idle = 0
        self.gained += gained
        self._lab.coach.credit(reply, gained)

    def refused(self, why: str, reply: Reply, *, declined: bool = False) -> None:
        """Record an answer without a candidate; the next request says why."""
        self.unusable += not declined
        self.declined += declined
        self._declined = self._declined + 1 if declined else 0
        self.last_problem = why
        outcome: Outcome = "declined" if declined else "refused"
        algorithm = self._settings.algorithm
        self._lab.attempted(TriedChange(outcome=outcome, algorithm=algorithm, reason=why))
        self._quiet += 1
        self._idle += 1
        if not declined:
            self._lab.coach.credit(reply, False)

    async def _candidate(
        self, failures: FailureSet, parts: AnswerParts, reply: Reply, step: str
    ) -> Candidate | None:
        lab = self._lab
        if parts.declined:
            lab.coach.usable()
            self._closed.update((failures.entry.id, rollout.task_id) for rollout in failures.shown)
            self.refused(parts.declined, reply, declined=True)
            return None
        problem, resource = "", None
        if reply.problem:  # cut off, even if it looks whole
            problem = f"The coach's answer is incomplete: {reply.problem}"
        elif parts.text is None:
            problem = parts.problem
        else:
            resource, problem = self._resource(failures, parts.text)
        if resource is not None:
            remark = f": {parts.said}" if parts.said else "."
            reason = f"The coach rewrote {failures.name!r}{remark}"
            candidate = lab.propose(
                {failures.name: resource},
                algorithm=self._settings.algorithm,
                reason=reason,
                parent=failures.entry.candidate,
            )
            problem = await lab.check(candidate)
            if not problem:
                lab.coach.rewrote()
                return candidate
        lab.coach.unusable(step, problem)
        self.refused(f"{problem} {parts.said}".strip(), reply)
        return None

    def _resource(self, failures: FailureSet, text: str) -> tuple[Resource | None, str]:
        """The new version made from a text, or why none can be made."""
        current = failures.entry.candidate.resources[failures.name]
        own = self._lab.source.resources[failures.name]
        growth = self._settings.max_growth
        if isinstance(own, Code):
            try:
                code = rewritten_code(text, own, growth)
            except UnusableAnswer as error:
                return None, str(error)
            return (None, "The function is unchanged.") if code == current else (code, "")
        assert isinstance(current, PromptTemplate)
        assert isinstance(own, PromptTemplate)
        answers = [text_of(task.expected) for task in self._lab.train if task.expected is not None]
        answers += [text_of(low.evaluation.rollout.output) for low in failures.low]
        fault = fault_of(text, current.text, own.text, answers, growth)
        return (None, fault) if fault else mended(text, current)

    def _facts(self, failures: FailureSet) -> RequestFacts:
        lab = self._lab
        attempts = lab.attempts
        ids = dict.fromkeys(attempt.candidate_id for attempt in attempts if attempt.candidate_id)
        return RequestFacts(
            name=failures.name,
            candidate=failures.entry.candidate,
            baseline=lab.baseline,
            scores=failures.entry.scores,
            shown=failures.shown,
            low=failures.low,
            train=lab.train,
            attempts=attempts,
            values={id: lab.values(id) for id in (lab.source.id, lab.baseline.id, *ids)},
            guidelines=lab.coach.guidelines,
            max_growth=self._settings.max_growth,
            redact=lab.coach.redacted,
        )

    async def _low_of(self, entry: RaceEntry, top: float) -> list[LowRollout]:
        tasks = entry.failing(top)
        new = [task for task in tasks if (entry.id, task) not in self._low]
        traces = await asyncio.gather(*(self._lab.spans(entry.evaluations[t]) for t in new))
        for task, spans in zip(new, traces, strict=True):
            low = low_rollout(entry.evaluations[task], spans)
            remark = self._lab.coach.redacted(low.said)  # kinds of failure are cut
            self._low[entry.id, task] = msgspec.structs.replace(low, said=remark)
        return [self._low[entry.id, task] for task in tasks]

    def _target(
        self, entry: RaceEntry, low: Sequence[LowRollout]
    ) -> tuple[str, Sequence[LowRollout]]:
        """The resource with the largest share of the blame, and the failures blamed on it."""
        if len(self._names) == 1:
            return self._names[0], low
        resources = {name: entry.candidate.resources[name] for name in self._names}
        shares = [
            blame(
                resources,
                rollout.spans,
                error=rollout.evaluation.rollout.error,
                rationales=_rationales(rollout),
            )
            for rollout in low
        ]
        tried = Counter(
            name for key in self._lab.coach.asked for name in {failure[0] for failure in key}
        )
        totals = {
            name: math.fsum(share[name] for share in shares) / (1 + tried[name])
            for name in self._names
        }
        target = max(self._names, key=lambda name: totals[name])
        mine = [r for r, share in zip(low, shares, strict=True) if _is_to_blame(share, target)]
        return target, mine or low

    def _selections(self, low: Sequence[LowRollout]) -> Iterator[list[LowRollout]]:
        """Sets of failures to show the coach, in order of preference.

        First a spread over all kinds, and those that it leaves out; then each kind alone; then ever
        smaller parts, since fewer failures at once may be understood where many were not.
        """
        ordered, size = spread(low, self._times), self._settings.shown
        yield from _parts(ordered, size)
        kinds = kinds_of_failure(low)
        if len(kinds) > 1:
            yield from (spread(kind, self._times)[:size] for kind in kinds.values())
        size = min(size, len(ordered))
        while size > 1:
            size = (size + 1) // 2
            yield from _parts(ordered, size)


def _parts(ordered: Sequence[LowRollout], size: int) -> Iterator[list[LowRollout]]:
    for start in range(0, len(ordered), size):
        yield list(ordered[start : start + size])


def _rationales(rollout: LowRollout) -> list[str]:
    scores = rollout.evaluation.scores.values()
    return [score.rationale for score in scores if score.rationale]


def _is_to_blame(share: Mapping[str, float], name: str) -> bool:
    return share[name] >= max(share.values())
