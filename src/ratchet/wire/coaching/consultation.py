"""Asks a coach about a repository, bounded; what it fails at leaves the rest as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ratchet.llm import Coach, CoachSettings, CoachUnavailable
from ratchet.observe.redaction import Redactor
from ratchet.types import InputError, RatchetError, Task
from ratchet.wire.changes import Changes, FileChange, LeftAlone, StepChanges
from ratchet.wire.choices import Choices
from ratchet.wire.coaching.bounded import MOST_TOKENS, CountedCoach
from ratchet.wire.coaching.briefing import briefing
from ratchet.wire.coaching.drafts import (
    EVALUATORS_MODULE,
    TASKS_FILE,
    DraftEvaluators,
    draft_evaluators,
    draft_tasks,
    evaluators_text,
    tasks_text,
)
from ratchet.wire.coaching.opinion import Opinion, ask_opinion
from ratchet.wire.facts import Place, RepositoryLook
from ratchet.wire.recommending import PageSection
from ratchet.wire.starters import find_tasks

SETTINGS = CoachSettings(
    timeout_s=45.0, total_s=60.0, retries=1, concurrency=2, max_tokens=MOST_TOKENS
)
SECONDS = 180.0
"""After which no more is asked, and what was answered is taken."""


class Consultation(msgspec.Struct, frozen=True):
    """What a coach said and drafted, what it failed at, and what was spent."""

    asked: str
    """The model as it was named; `[coach]` in ratchet.toml gets this name."""
    model: str
    """The model as it names itself."""
    opinion: Opinion | None
    evaluators: DraftEvaluators
    tasks: tuple[Task, ...]
    problems: tuple[str, ...]
    """In sentences; empty if all went well."""
    calls: int
    cost: str
    """In words."""

    def section(self) -> PageSection:
        """Its part of the page, which says whose opinion it is."""
        lines: list[str] = []
        if self.opinion is not None:
            lines += [
                f"This is the opinion of {self.model}, a model that read the agent; nothing of it"
                " was checked.",
                self.opinion.what_it_is,
                f"First it would improve the prompt {self.opinion.improve_first}:"
                f" {self.opinion.why}",
                *(f"It expects this failure: {one}" for one in self.opinion.likely_failures),
            ]
        if self.evaluators.kept:
            lines.append(
                f"Evaluators drafted ({EVALUATORS_MODULE}.py), unproved; none decides until you add"
                " it and its report card allows it:"
            )
            lines += [
                f"  {one.proposal.name}. Report card: {one.card}" for one in self.evaluators.kept
            ]
        lines += self.evaluators.dropped
        if self.tasks:
            lines.append(
                f"Tasks drafted ({TASKS_FILE}): {len(self.tasks)}, unproved and without answers."
                " Nothing runs them until you read them and move them to the task file."
            )
        lines += self.problems
        if self.problems:
            lines.append("The rest of this page is complete without that.")
        called = f"{self.calls} {'question' if self.calls == 1 else 'questions'}"
        lines.append(f"Spent on the coach: {called}, {self.cost}.")
        return PageSection("What the coach thinks", tuple(lines))

    def step(self, root: Path, look: RepositoryLook, choices: Choices) -> StepChanges:
        """The step of the wiring that writes the drafts, and names the coach."""
        folder = "" if choices.project == "." else f"{choices.project}/"
        drafts = []
        if self.evaluators.kept:
            text = evaluators_text(self.evaluators.kept, self.model)
            drafts.append((f"{EVALUATORS_MODULE}.py", "Draft evaluators, unproved.", text))
        if self.tasks:
            drafts.append((TASKS_FILE, "Draft tasks, unproved.", tasks_text(self.tasks)))
        files, left = [], []
        for name, purpose, text in drafts:
            path = f"{folder}{name}"
            if (root / path).exists():
                why = "It is there already, and is not overwritten."
                left.append(LeftAlone(purpose.rstrip("."), Place(path), why))
            else:
                files.append(FileChange(path, purpose, content=text))
        answered = self.opinion is not None or self.evaluators.kept or self.tasks
        config = {"coach": {"model": self.asked}} if answered else {}
        return StepChanges(Changes(tuple(files), tuple(left)), config)


async def consult(
    root: Path,
    look: RepositoryLook,
    choices: Choices,
    model: str,
    *,
    redactor: Redactor,
    settings: CoachSettings = SETTINGS,
    seconds: float = SECONDS,
    say: Callable[[str], None] = lambda _: None,
) -> Consultation:
    """Ask a coach for an opinion, evaluators and tasks.

    Its address and key are those of the environment, as for `[coach]`. What fails is a sentence.

    Args:
        root: The repository.
        look: Its facts.
        choices: What is wired.
        model: Name of the coach's model.
        redactor: Applied to what the coach is sent.
        settings: Limits of each question.
        seconds: Limit of all questions.
        say: Called with sentences for the user.
    """
    async with Coach(model, settings=settings, redactor=redactor, notify=say) as raw:
        coach = CountedCoach(raw)
        work = _Work(root, look, choices, coach)
        try:
            async with asyncio.timeout(seconds):
                await work.all()
        except TimeoutError:
            work.problems.append(f"The coach did not end within {seconds:g} s.")
    return Consultation(
        model,
        coach.model or model,
        work.opinion,
        work.evaluators,
        work.tasks,
        tuple(work.problems),
        coach.calls,
        str(coach.cost),
    )


class _Work:
    def __init__(
        self, root: Path, look: RepositoryLook, choices: Choices, coach: CountedCoach
    ) -> None:
        self._coach = coach
        self._agent = briefing(root, look, choices)
        self._names = [one.name for one in choices.prompts if one.way != "leave"]
        self._starters: Sequence[dict[str, Any]] = find_tasks(root, look, choices).tasks
        self.opinion: Opinion | None = None
        self.evaluators = DraftEvaluators()
        self.tasks: tuple[Task, ...] = ()
        self.problems: list[str] = []

    async def all(self) -> None:
        """Ask for everything; stop when the coach cannot be used at all."""
        try:
            await self._part("opinion", self._ask_opinion)
            await self._part("draft of evaluators", self._ask_evaluators)
            await self._part("draft of tasks", self._ask_tasks)
        except CoachUnavailable as error:
            self.problems.append(f"The coach cannot be used: {error.message}")

    async def _part(self, what: str, ask: Callable[[], Awaitable[None]]) -> None:
        try:
            await ask()
        except CoachUnavailable:
            raise
        except RatchetError as error:
            self.problems.append(f"There is no {what}: {error.message}")

    async def _ask_opinion(self) -> None:
        if not self._names:
            raise InputError("No prompt can be improved.")
        self.opinion = await ask_opinion(self._coach, self._agent, self._names)

    async def _ask_evaluators(self) -> None:
        self.evaluators = await draft_evaluators(self._coach, self._agent, self._starters)

    async def _ask_tasks(self) -> None:
        if not self._starters:
            raise InputError("The repository shows no input to make others of.")
        made = await draft_tasks(self._coach, self._agent, self._starters)
        if not made.tasks:
            why = ", ".join(f"{count} dropped: {reason}" for reason, count in made.dropped.items())
            raise InputError(f"{made.ended} {why}".strip())
        self.tasks = made.tasks
