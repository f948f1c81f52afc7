"""Which evaluators fit the outputs of an agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ratchet.wire.choices import Choices
from ratchet.wire.facts import RepositoryLook
from ratchet.wire.recommending.choosing import within
from ratchet.wire.starters.tasks import StarterTasks

SHORT = 6
"""Words of an answer that a label or a fact has at most."""


class StarterEvaluator(msgspec.Struct, frozen=True):
    """An evaluator, and why it fits."""

    table: dict[str, Any]
    """As `[[evaluators]]` has it."""
    reason: str


def fitting_evaluators(
    look: RepositoryLook, choices: Choices, tasks: StarterTasks
) -> tuple[StarterEvaluator, ...]:
    """Evaluators for the outputs of an entry; the first is what is improved.

    Args:
        look: The repository's facts.
        choices: The entry.
        tasks: Its tasks.
    """
    answers = [task["expected"] for task in tasks.tasks if "expected" in task]
    found = [_by_answers(answers)] if answers else []
    retrieves = any(
        effect.kind == "database read" and within(effect.place.path, choices.project)
        for effect in look.side_effects
    )
    if not answers and retrieves:
        found.append(
            StarterEvaluator(
                {"use": "groundedness"},
                "The agent looks things up, and there are no expected answers: what it says must"
                " stand in what it found.",
            )
        )
    if not answers:
        found.append(
            StarterEvaluator(
                {"use": "refusal", "wanted": False},
                "There are no expected answers. An answer that refuses is wrong; that is all that"
                " can be told without them.",
            )
        )
    if _structured(choices.entry.output):
        table = {"use": "json_schema", "schema": {"type": "object"}}
        reason = f"The entry declares {choices.entry.output}, so that its output is an object."
        found.append(StarterEvaluator(table, reason))
    found.append(
        StarterEvaluator(
            {"use": "error_rate"}, "Steps that fail are shown beside the score, in each run."
        )
    )
    return tuple(found)


def _by_answers(answers: Sequence[Any]) -> StarterEvaluator:
    texts = [answer for answer in answers if isinstance(answer, str)]
    if len(texts) < len(answers):
        if all(isinstance(answer, int | float) for answer in answers):
            return StarterEvaluator({"use": "numeric"}, "The expected answers are numbers.")
        if all(isinstance(answer, list) for answer in answers):
            return StarterEvaluator({"use": "overlap"}, "The expected answers are lists.")
        return StarterEvaluator({"use": "json_match"}, "The expected answers are objects.")
    if all(re.fullmatch(r"\s*-?[\d.,]+%?\s*", text) for text in texts):
        return StarterEvaluator({"use": "numeric"}, "The expected answers are numbers.")
    if all(len(text.split()) <= SHORT for text in texts):
        distinct = len({text.strip().lower() for text in texts})
        if distinct <= max(2, len(texts) // 3):
            return StarterEvaluator(
                {"use": "exact_match", "ignore_case": True},
                f"The expected answers are {distinct} labels.",
            )
        return StarterEvaluator(
            {"use": "contains"},
            "The expected answers are short, and the agent may say more than them.",
        )
    return StarterEvaluator(
        {"use": "contains"},
        "The expected answers are texts. `contains` is strict with other words: a judge is better"
        ' ([[evaluators]] use = "judge"), once a coach model is configured.',
    )


def _structured(output: str) -> bool:
    """Whether a declared type is a class of fields, or a dictionary."""
    plain = {"", "str", "None", "int", "float", "bool", "Any", "object"}
    if output in plain or re.match(r"(?:Async)?(?:Iterator|Generator|Iterable)\b", output):
        return False
    return bool(re.match(r"(?:dict|Dict)\b", output))
