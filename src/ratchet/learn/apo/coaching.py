"""Coaching: turns low-scoring rollouts into critiques, and critiques into an edited prompt.

The textual gradient of Pryzant et al. 2023 (ProTeGi): one call describes what is wrong with a
prompt, another edits it to fix that.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import msgspec

from ratchet.learn.apo.answers import EditAnswer, longest, read_answer
from ratchet.learn.apo.placeholders import written
from ratchet.learn.attribution import blame
from ratchet.learn.coach_prompts import CoachPrompts
from ratchet.learn.lab import Lab
from ratchet.learn.race import RaceEntry
from ratchet.learn.transcript import cut, transcript
from ratchet.learn.work import Evaluation
from ratchet.llm import Message, Reply
from ratchet.types import Candidate, PromptTemplate

PROMPTS = CoachPrompts("ratchet.learn.apo")

CALLS_AN_EDIT = 2
"""Maximum coach calls per edit: the edit and one repair."""

FAILED = 2
"""Number of unusable edits after which a draft is final."""

MAX_CRITIQUE = 4_000
MAX_LESSON = 1_200
"""Maximum characters of a critique shown as a lesson."""

MAX_GIST = 160
"""Maximum characters of a critique in a candidate's reason."""

BLAMED = 24
"""Maximum number of low-scoring rollouts whose traces are inspected to select the prompt to
edit."""


class EditOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for a draft."""

    number: int
    parent: RaceEntry
    batches: int
    """Number of critiques to merge, each over separate rollouts."""
    batch: int
    """Number of rollouts per critique."""
    turn: int
    """How often the parent was edited before: each turn shows other rollouts."""
    passes: int
    """Maximum number of successive edits from the same critiques."""
    draw: float
    """Random number in [0, 1) that selects the prompt to edit among those to blame."""
    worth: dict[str, float] = {}
    """Success rate of edits so far, by prompt; prompts without edits are absent."""
    lessons: tuple[str, ...] = ()
    """Critiques that led to an improvement of other prompts."""
    earlier: tuple[str, ...] = ()
    """Why earlier edits of the same parent were unusable."""


class PromptDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an order."""

    candidate: Candidate | None = None
    target: str = ""
    """The prompt that was edited."""
    problem: str = ""
    """Why there is no candidate."""
    critique: str = ""
    """The critiques it is based on."""
    shown: tuple[str, ...] = ()
    """Ids of the tasks that the coach was shown."""
    replies: tuple[Reply, ...] = ()


class Coaching:
    """Drafts edits of prompts with the coach.

    Args:
        lab: The lab whose coach is called.
        algorithm: Algorithm name recorded in the candidates.
        temperature: Sampling temperature of the coach.
        gradient_model: Model that writes critiques; selected by the ensemble by default.
        apply_edit_model: Model that writes edits; selected by the ensemble by default.
    """

    def __init__(
        self,
        lab: Lab,
        *,
        algorithm: str,
        temperature: float,
        gradient_model: str | None = None,
        apply_edit_model: str | None = None,
    ) -> None:
        self._lab = lab
        self._algorithm = algorithm
        self._temperature = temperature
        self._gradient_model = gradient_model
        self._apply_edit_model = apply_edit_model

    async def draft(self, order: EditOrder) -> PromptDraft:
        """Execute an order.

        Raises:
            BudgetExhausted: No coach calls are left.
            CoachUnavailable: The coach cannot be reached.
        """
        low = low_rollouts(order.parent)
        target, low = await self._target(order, low)
        groups = batches(low, order)
        solved = _solved(order.parent, len(groups), order.turn)
        shown = [
            [*group, *([solved[n]] if n < len(solved) else [])] for n, group in enumerate(groups)
        ]
        answers = await asyncio.gather(
            *(self._critique(order, target, n, group) for n, group in enumerate(shown))
        )
        critiques = [reply.text.strip() for reply in answers if reply.text.strip()]
        shown_ids = tuple(e.task.id for group in groups for e in group)
        if not critiques:
            problem = next((reply.problem for reply in answers if reply.problem), "")
            return PromptDraft(
                target=target,
                problem=f"The coach wrote no critique: {problem or 'its answer was empty'}.",
                shown=shown_ids,
                replies=tuple(answers),
            )
        made = await self._edit(order, target, critiques)
        if made.candidate is not None:
            gist = self._lab.redact(_gist(critiques[0]))
            reason = f"{made.candidate.reason} The critique began: {gist}"
            named = msgspec.structs.replace(made.candidate, reason=reason)
            made = msgspec.structs.replace(made, candidate=named)
        return msgspec.structs.replace(
            made,
            critique="\n\n".join(critiques),
            shown=shown_ids,
            replies=(*answers, *made.replies),
        )

    async def without(
        self, order: EditOrder, target: str, template: PromptTemplate, line: str
    ) -> PromptDraft:
        """A draft made without coach calls: a prompt without one of its lines."""
        reason = f"The parent without the line {cut(line, MAX_GIST)!r}, which may mislead."
        candidate = self._lab.propose(
            {target: template},
            algorithm=self._algorithm,
            reason=reason,
            parent=order.parent.candidate,
        )
        problem = await self._lab.check(candidate)
        return PromptDraft(candidate=None if problem else candidate, target=target, problem=problem)

    async def _target(
        self, order: EditOrder, low: Sequence[Evaluation]
    ) -> tuple[str, list[Evaluation]]:
        """The prompt to edit, and the low-scoring rollouts to blame on it, highest share first."""
        prompts = self._prompts(order.parent.candidate)
        if len(prompts) == 1:
            return next(iter(prompts)), list(low)
        resources = order.parent.candidate.resources
        looked = low[:BLAMED]
        traces = await asyncio.gather(*(self._lab.spans(e) for e in looked))
        shares = [
            blame(resources, spans, error=e.rollout.error, rationales=_rationales(e))
            for e, spans in zip(looked, traces, strict=True)
        ]
        totals = {
            name: math.fsum(share[name] for share in shares) * order.worth.get(name, 0.5)
            for name in prompts
        }
        target = _drawn(totals, order.draw)
        # Rollouts where another prompt is to blame would yield a critique of that prompt.
        ranked = sorted(
            zip(looked, shares, strict=True),
            key=lambda pair: pair[1][target] < max(pair[1][name] for name in prompts),
        )
        return target, [e for e, _ in ranked]

    def _prompts(self, candidate: Candidate) -> dict[str, PromptTemplate]:
        return {
            name: resource
            for name, resource in candidate.resources.items()
            if isinstance(resource, PromptTemplate) and name in self._lab.targets
        }

    async def _critique(
        self, order: EditOrder, target: str, number: int, group: Sequence[Evaluation]
    ) -> Reply:
        traces = await asyncio.gather(*(self._lab.spans(e) for e in group))
        rollouts = [
            transcript(e, spans, title=f"Rollout {n}")
            for n, (e, spans) in enumerate(zip(group, traces, strict=True), start=1)
        ]
        template = self._prompts(order.parent.candidate)[target]
        return await self._lab.coach(
            [
                Message(
                    "user",
                    PROMPTS.fill(
                        "critique",
                        role=self._role(order.parent.candidate, target),
                        prompt=template.text,
                        rollouts=self._lab.redact("\n\n".join(rollouts)),
                    ),
                )
            ],
            step=f"{self.step(order)}/critique/{number}",
            temperature=self._temperature,
            model=self._gradient_model,
        )

    async def _edit(self, order: EditOrder, target: str, critiques: Sequence[str]) -> PromptDraft:
        """Edit the prompt, and re-edit while the critiques are not fully applied.

        One answer seldom applies everything that several critiques ask for.
        """
        template = self._prompts(order.parent.candidate)[target]
        made = PromptDraft(target=target)
        replies: list[Reply] = []
        failed = 0
        for number in range(order.passes):
            answer, given = await self._edited(order, target, template, critiques, number)
            replies += given
            if answer.template is None:
                if made.candidate is None:
                    made = PromptDraft(target=target, problem=answer.problem)
                failed += 1
                if answer.final or failed == FAILED:
                    break
                continue
            template = answer.template
            made = PromptDraft(target=target, candidate=self._candidate(order, target, template))
        return msgspec.structs.replace(made, replies=tuple(replies))

    async def _edited(
        self,
        order: EditOrder,
        target: str,
        template: PromptTemplate,
        critiques: Sequence[str],
        number: int,
    ) -> tuple[EditAnswer, list[Reply]]:
        """One edit, repaired once if it is unusable."""
        source = self._prompts(self._lab.baseline)[target]
        limit = str(longest(template, source))
        listed = "\n\n".join(
            f"## Critique {n}\n\n{cut(text, MAX_CRITIQUE)}" for n, text in enumerate(critiques, 1)
        )
        request = PROMPTS.fill(
            "edit",
            role=self._role(order.parent.candidate, target),
            prompt=template.text,
            critiques=listed,
            lessons=_lessons(order),
            placeholders=_placeholders(template),
            limit=limit,
        )
        messages = [Message("user", request)]
        replies: list[Reply] = []
        answer = EditAnswer()
        for step in ("edit", "repair"):
            reply = await self._lab.coach(
                messages,
                step=f"{self.step(order)}/{step}/{number}",
                temperature=self._temperature,
                model=self._apply_edit_model,
            )
            replies.append(reply)
            answer = read_answer(reply.text, template, source)
            if reply.problem and reply.text.strip():
                answer = EditAnswer(problem=reply.problem)  # truncated, even if it looks complete
            if answer.template is not None:
                problem = await self._lab.check(self._candidate(order, target, answer.template))
                if not problem:
                    return answer, replies
                answer = EditAnswer(problem=problem)
            else:
                why = reply.problem if not reply.text.strip() else ""
                self._lab.unusable(f"{self.step(order)}/{step}/{number}", why or answer.problem)
            if answer.final or not reply.text.strip():
                break
            request = PROMPTS.fill(
                "repair",
                problem=answer.problem,
                placeholders=_placeholders(template),
                limit=limit,
            )
            messages = [*messages, Message("assistant", reply.text), Message("user", request)]
        if not replies[-1].text.strip() and replies[-1].problem:
            answer = EditAnswer(problem=replies[-1].problem)
        return answer, replies

    def _candidate(self, order: EditOrder, target: str, template: PromptTemplate) -> Candidate:
        several = len(self._prompts(self._lab.baseline)) > 1
        what = f"of {target!r} " if several else ""
        made = "1 critique" if order.batches == 1 else f"{order.batches} critiques"
        return self._lab.propose(
            {target: template},
            algorithm=self._algorithm,
            reason=f"An edit {what}made from {made} of low rollouts (prompts {PROMPTS.version}).",
            parent=order.parent.candidate,
        )

    def _role(self, candidate: Candidate, target: str) -> str:
        names = list(self._prompts(candidate))
        if len(names) == 1:
            return "The prompt that the agent runs with:"
        others = ", ".join(repr(name) for name in names if name != target)
        return f"The prompt {target!r} of the agent, which has others too ({others}):"

    def step(self, order: EditOrder) -> str:
        """Prefix of the step names of an order's coach calls."""
        return f"{self._algorithm}/{PROMPTS.version}/{order.number:04d}"


def batches(low: Sequence[Evaluation], order: EditOrder) -> list[list[Evaluation]]:
    """Groups of low-scoring rollouts, one per critique; disjoint if there are enough."""
    if not low:
        return []
    passed = order.turn * order.batch
    # Shift by one after each full cycle, so that groups do not repeat.
    start = (passed + passed // len(low)) % len(low)
    ring = [*low[start:], *low[:start]]
    count = max(1, min(order.batches, math.ceil(len(low) / order.batch)))
    return [ring[n * order.batch : (n + 1) * order.batch] for n in range(count)]


def low_rollouts(entry: RaceEntry) -> list[Evaluation]:
    """Evaluations that are not solved, lowest first."""
    return [entry.evaluations[task] for task in entry.failing() if task in entry.scores]


def _solved(parent: RaceEntry, count: int, turn: int) -> list[Evaluation]:
    """The best rollouts, for contrast; as many as there are critiques."""
    failing = parent.failing()
    good = [e for task, e in parent.evaluations.items() if task not in failing]
    start = (turn * count) % len(good) if good else 0
    return [*good[start:], *good[:start]][:count]


def _lessons(order: EditOrder) -> str:
    """The lessons of earlier edits, as text for the prompt."""
    text = ""
    if order.lessons:
        proven = "\n\n".join(cut(lesson, MAX_LESSON) for lesson in order.lessons)
        text += "\n" + PROMPTS.fill("lessons", proven=proven)
    if order.earlier:
        several = len(order.earlier) > 1
        count = f"{len(order.earlier)} earlier answers" if several else "An earlier answer"
        problems = " ".join(dict.fromkeys(order.earlier))
        text += "\n" + PROMPTS.fill("earlier", count=count, problems=cut(problems, MAX_LESSON))
    return text


def _rationales(evaluation: Evaluation) -> list[str]:
    return [score.rationale for score in evaluation.scores.values() if score.rationale]


def _drawn(weights: Mapping[str, float], draw: float) -> str:
    """A name drawn with probability proportional to its weight."""
    names = sorted(weights, key=lambda name: (-weights[name], name))
    total = math.fsum(weights.values())
    if total <= 0:
        return names[int(draw * len(names))]
    left = draw * total
    for name in names:
        left -= weights[name]
        if left < 0:
            return name
    return names[-1]


def _placeholders(template: PromptTemplate) -> str:
    names = sorted(template.placeholders)
    if names:
        forms = ", ".join(f"`{written(name, template.engine)}`" for name in names)
        rule = f"Keep these placeholders exactly as they are, and add none: {forms}."
    else:
        rule = "The prompt has no placeholders; add none."
    if template.engine == "f-string" and names:
        rule += " Any other brace is written twice."
    return rule


def _gist(critique: str) -> str:
    """The first sentence of a critique without headings, for a candidate's reason."""
    lines = [" ".join(line.strip(" \t#*->").split()) for line in critique.splitlines()]
    sentences = [line for line in lines if len(line.split()) >= 4]
    return cut(sentences[0] if sentences else " ".join(critique.split()), MAX_GIST)
