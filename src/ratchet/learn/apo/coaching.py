"""Coaching: turns low-scoring rollouts into critiques, and critiques into an edited prompt.

The textual gradient of Pryzant et al. 2023 (ProTeGi): one call describes what is wrong with a
prompt, another edits it to fix that.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence

import msgspec

from ratchet.learn.apo.answers import DECLINED, EditAnswer, read_answer
from ratchet.learn.apo.placeholders import written
from ratchet.learn.attribution import blame
from ratchet.learn.coach_prompts import CoachPrompts, declines
from ratchet.learn.evidence import (
    TriedChange,
    changes_text,
    cut,
    example_of,
    examples_text,
    history_text,
    parameters_text,
)
from ratchet.learn.lab import Lab
from ratchet.learn.length import longest
from ratchet.learn.race import RaceEntry
from ratchet.learn.wording import counted
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

MAX_CHANGES = 2_000
"""Maximum characters of what has changed since critiques were written."""

MAX_GIST = 160
"""Maximum characters of a critique in a candidate's reason."""

BLAMED = 24
"""Maximum number of low-scoring rollouts whose traces are inspected to select the prompt to
edit."""


class EditOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions for a draft."""

    number: int
    parent: RaceEntry
    groups: tuple[tuple[Evaluation, ...], ...]
    """Rollouts of the parent to show, by critique; the critiques are merged into one edit."""
    overview: str = ""
    """What the parent scored on how many tasks, and its kinds of failure."""
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
    tried: tuple[TriedChange, ...] = ()
    """The edits that made the parent, and those tried on it."""


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
    declined: bool = False
    """Whether the coach answered that nothing should change."""
    asked_in_vain: bool = False
    """Whether the coach was asked once more after its edit, and had nothing to add."""


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
        target, groups = await self._target(order)
        answers = await asyncio.gather(
            *(self._critique(order, target, n, group) for n, group in enumerate(groups))
        )
        texts = [reply.text.strip() for reply in answers]
        critiques = list(dict.fromkeys(text for text in texts if text and not declines(text)))
        failing = order.parent.failing()
        shown_ids = tuple(e.task.id for g in groups for e in g if e.task.id in failing)
        if not critiques:
            problem = next((reply.problem for reply in answers if reply.problem), "")
            declined = any(map(declines, texts))
            if declined:
                self._lab.usable()
            why = f"The coach wrote no critique: {problem or 'its answer was empty'}."
            return PromptDraft(
                target=target,
                problem=DECLINED if declined else why,
                declined=declined,
                shown=shown_ids,
                replies=tuple(answers),
            )
        made = await self._edit(order, target, critiques)
        if made.candidate is not None:
            gist = _gist(critiques[0])
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

    async def _target(self, order: EditOrder) -> tuple[str, Sequence[Sequence[Evaluation]]]:
        """The prompt to edit: the one to blame for most low rollouts; and those to show."""
        prompts = self._prompts(order.parent.candidate)
        if len(prompts) == 1:
            return next(iter(prompts)), order.groups
        resources = order.parent.candidate.resources
        failing = order.parent.failing()
        chosen = [e for group in order.groups for e in group if e.task.id in failing]
        others = [e for e in low_rollouts(order.parent) if e not in chosen]
        looked = [*chosen, *others][: max(BLAMED, len(chosen))]
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
        foreign = {
            e.task.id
            for e, share in zip(looked, shares, strict=True)
            if share[target] < max(share[name] for name in prompts)
        }
        groups = [[e for e in group if e.task.id not in foreign] for group in order.groups]
        groups = [group for group in groups if any(e.task.id in failing for e in group)]
        return target, groups or order.groups

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
        examples = [example_of(e, spans) for e, spans in zip(group, traces, strict=True)]
        template = self._prompts(order.parent.candidate)[target]
        return await self._lab.coach(
            [
                Message(
                    "user",
                    PROMPTS.fill(
                        "critique",
                        role=self._role(order.parent.candidate, target),
                        prompt=template.text,
                        settings=_settings(order.parent.candidate),
                        history=self._history(order),
                        rollouts=f"{order.overview}\n\n{examples_text(examples)}",
                    ),
                )
            ],
            step=f"{self.step(order)}/critique/{number}",
            temperature=self._temperature,
            model=self._gradient_model,
            once=True,
        )

    async def _edit(self, order: EditOrder, target: str, critiques: Sequence[str]) -> PromptDraft:
        """Edit the prompt, and re-edit while the critiques are not fully applied.

        One answer seldom applies everything that several critiques ask for. The critiques are of
        the parent, so each further request says what has changed since.
        """
        template = self._prompts(order.parent.candidate)[target]
        made = PromptDraft(target=target)
        replies: list[Reply] = []
        failed = edits = 0
        is_done = False
        for number in range(order.passes):
            answer, given = await self._edited(order, target, template, critiques, number)
            replies += given
            if answer.template is None:
                is_done = answer.declined or answer.unchanged
                if made.candidate is None:
                    made = PromptDraft(
                        target=target, problem=answer.problem, declined=answer.declined
                    )
                failed += 1
                if answer.final or failed == FAILED:
                    break
                continue
            template = answer.template
            edits += 1
            made = PromptDraft(target=target, candidate=self._candidate(order, target, template))
        return msgspec.structs.replace(
            made, replies=tuple(replies), asked_in_vain=is_done and edits == 1
        )

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
        parent = self._prompts(order.parent.candidate)[target]
        limit = str(longest(source.text))
        listed = "\n\n".join(
            f"## Critique {n}\n\n{cut(text, MAX_CRITIQUE)}" for n, text in enumerate(critiques, 1)
        )
        request = PROMPTS.fill(
            "edit",
            role=self._role(order.parent.candidate, target),
            prompt=template.text,
            since=_since(parent, template),
            critiques=listed,
            history=self._history(order),
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
                once=True,
            )
            replies.append(reply)
            answer = read_answer(reply.text, template, source)
            if reply.problem and reply.text.strip():
                answer = EditAnswer(problem=reply.problem)  # truncated, even if it looks complete
            if answer.template is not None:
                problem = await self._lab.check(self._candidate(order, target, answer.template))
                if not problem:
                    self._lab.usable()
                    return answer, replies
                answer = EditAnswer(problem=problem)
            if answer.declined:
                self._lab.usable()
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
        made = counted(len(order.groups), "critique")
        return self._lab.propose(
            {target: template},
            algorithm=self._algorithm,
            reason=f"An edit {what}made from {made} of low rollouts (prompts {PROMPTS.version}).",
            parent=order.parent.candidate,
        )

    def _history(self, order: EditOrder) -> str:
        text = history_text(order.tried)
        return "\n" + PROMPTS.fill("history", tried=text) if text else ""

    def _role(self, candidate: Candidate, target: str) -> str:
        names = list(self._prompts(candidate))
        if len(names) == 1:
            return "The prompt that the agent runs with:"
        others = ", ".join(repr(name) for name in names if name != target)
        return f"The prompt {target!r} of the agent, which has others too ({others}):"

    def step(self, order: EditOrder) -> str:
        """Prefix of the step names of an order's coach calls."""
        return f"{self._algorithm}/{PROMPTS.version}/{order.number:04d}"


def low_rollouts(entry: RaceEntry) -> list[Evaluation]:
    """Evaluations that are not solved, lowest first."""
    return [entry.evaluations[task] for task in entry.failing() if task in entry.scores]


def _settings(candidate: Candidate) -> str:
    text = parameters_text(candidate)
    return (
        f"\nIt runs with these parameters, which are tuned separately:\n\n{text}\n" if text else ""
    )


def _since(parent: PromptTemplate, current: PromptTemplate) -> str:
    """What has changed since the critiques were written; empty if nothing has."""
    if current == parent:
        return ""
    changes = cut(changes_text(parent, current), MAX_CHANGES)
    return "\n" + PROMPTS.fill("since", changes=changes)


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
