"""Expected answers of synthetic inputs: from an oracle, or if several solvers agree."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from ratchet.curate.refinement.results import answer_key
from ratchet.curate.synthesis.coached import MAX_INPUT_CHARACTERS
from ratchet.curate.synthesis.spending import BoundedCoach, MethodEnded
from ratchet.llm import Message, Reply
from ratchet.observe.capture import shorten
from ratchet.types import InputError, Task
from ratchet.types.wording import counted

MIN_AGREEING_ANSWERS = 2
"""Number of answers that must agree, and of all answers."""

EXAMPLES_PER_REQUEST = 5

_SYSTEM = (
    "You solve the task of a software agent. The examples show inputs with right answers. Answer"
    " the last input in exactly their form; think first, in `reasoning`."
)


class Answer(msgspec.Struct, frozen=True):
    """An expected answer, or the reason why there is none."""

    expected: Any = None
    by: str = ""
    """The source of the answer."""
    problem: str = ""


class Answerer(Protocol):
    """Finds the expected answers of inputs."""

    async def answer(self, inputs: Sequence[Any]) -> list[Answer]:
        """One answer for each input."""
        ...


Solver = Callable[[Sequence[Any]], Awaitable[Sequence[Sequence[Any]]]]
"""Solves each input several times, independently; returns the answers to each."""


class Oracle:
    """Answers by a function of the input that is known to be right.

    Args:
        function: Returns the answer; None means that there is none.
        name: Its name.
    """

    def __init__(self, function: Callable[[Any], Any], name: str) -> None:
        self._function = function
        self._name = name

    async def answer(self, inputs: Sequence[Any]) -> list[Answer]:
        """See `Answerer.answer`."""
        return [self._one(value) for value in inputs]

    def _one(self, value: Any) -> Answer:
        try:
            answer = self._function(value)
            msgspec.json.encode(answer)
        except Exception as error:
            kind = type(error).__name__
            return Answer(problem=f"The oracle {self._name} fails: {kind}: {error}.")
        if answer is None:
            return Answer(problem=f"The oracle {self._name} has no answer.")
        return Answer(answer, f"oracle {self._name}")


class SolverAgreement:
    """Answers an input if all solvers agree in every try.

    Args:
        solvers: Solvers by name.
    """

    def __init__(self, solvers: Mapping[str, Solver]) -> None:
        self._solvers = dict(solvers)

    async def answer(self, inputs: Sequence[Any]) -> list[Answer]:
        """See `Answerer.answer`."""
        solutions = await asyncio.gather(*(solve(inputs) for solve in self._solvers.values()))
        return [
            self._agreed([answer for solved in solutions for answer in solved[at]])
            for at in range(len(inputs))
        ]

    def _agreed(self, answers: Sequence[Any]) -> Answer:
        keys = {answer_key(answer) for answer in answers}
        if len(answers) < MIN_AGREEING_ANSWERS:
            return Answer(problem=f"Too few solvers gave an answer ({len(answers)}).")
        if len(keys) > 1:
            return Answer(problem=f"The solvers gave {len(keys)} different answers.")
        who = " and ".join(self._solvers)
        return Answer(answers[0], f"{counted(len(answers), 'answer')} of {who} agree")


class CoachSolver:
    """Solves inputs with the coach, by examples.

    Args:
        coach: The coach.
        tasks: Tasks with answers.
        schema: JSON schema of an answer.
        rng: Selects the examples.
        tries: Answers to each input; each sees other examples.
        purpose: What the agent does; empty when unknown.

    Raises:
        InputError: No task has an answer.
    """

    def __init__(
        self,
        coach: BoundedCoach,
        tasks: Sequence[Task],
        schema: Mapping[str, Any],
        rng: random.Random,
        *,
        tries: int = 3,
        purpose: str = "",
    ) -> None:
        self._tasks = [task for task in tasks if task.expected is not None]
        if not self._tasks:
            raise InputError(
                "No task has an expected answer, so the coach has no example of an answer.",
                hint="Give an oracle, or keep the inputs without answers (--open).",
            )
        self._coach = coach
        self._rng = rng
        self._tries = tries
        self._purpose = purpose
        self._form = {
            "type": "object",
            "properties": {"reasoning": {"type": "string"}, "answer": dict(schema)},
            "required": ["reasoning", "answer"],
            "additionalProperties": False,
        }

    async def __call__(self, inputs: Sequence[Any]) -> list[list[Any]]:
        """See `Solver`.

        Raises:
            MethodEnded: A bound is reached, and no input was answered.
            CoachUnavailable: The coach cannot be used.
        """
        size = min(EXAMPLES_PER_REQUEST, len(self._tasks))
        calls = [
            (at, self._one(value, self._rng.sample(self._tasks, size), number))
            for at, value in enumerate(inputs)
            for number in range(self._tries)
        ]
        # All are awaited even if one fails: they are paid for.
        replies = await asyncio.gather(*(call for _, call in calls), return_exceptions=True)
        answers: list[list[Any]] = [[] for _ in inputs]
        for (at, _), reply in zip(calls, replies, strict=True):
            if isinstance(reply, Reply):
                answers[at] += [] if reply.data is None else [reply.data["answer"]]
            elif not isinstance(reply, MethodEnded):
                raise reply
        refused = [reply for reply in replies if isinstance(reply, MethodEnded)]
        if refused and not any(answers):
            raise refused[0]
        return answers

    async def _one(self, value: Any, sample_tasks: Sequence[Task], number: int) -> Reply:
        examples = [
            f"Input: {_line(task.input)}\nAnswer: {_line(task.expected)}" for task in sample_tasks
        ]
        about = [f"What the agent does:\n{self._purpose}"] if self._purpose else []
        request = "\n\n".join([*about, *examples, f"Input: {_line(value)}"])
        messages = [Message("system", _SYSTEM), Message("user", request)]
        return await self._coach.ask(f"answer {number}", messages, self._form)


def _line(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), MAX_INPUT_CHARACTERS)
