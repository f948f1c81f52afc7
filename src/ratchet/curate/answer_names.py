"""Names of question and answer columns in other programs' files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ratchet.types import Task
from ratchet.types.wording import counted

INPUTS = frozenset(
    {
        *("input", "inputs", "question", "query", "prompt", "instruction", "userinput", "task"),
        *("problem", "usermessage", "request", "userquery", "ticket", "conversation", "utterance"),
        *("userquestion", "inputtext", "usertext", "goal", "questiontext", "customermessage", "q"),
    }
)
"""Plain names of columns with inputs."""

ANSWER_COLUMNS = frozenset(
    {
        *("expected", "expectedoutput", "expectedanswer", "answer", "answers", "groundtruth"),
        *("label", "reference", "referenceanswer", "referenceoutput", "target", "output"),
        *("outputs", "gold", "goldanswer", "completion", "ideal", "solution", "correctanswer"),
        *("expectedresponse", "summary", "goldenanswer", "a", "response", "expectedresult"),
        *("expectedtool", "referenceoutputs", "groundtruths", "referencecontexts"),
    }
)
"""Plain names of columns with expected answers."""


def plain_name(name: str) -> str:
    """A name without case and punctuation: `expected_output` and `expectedOutput` are equal."""
    return re.sub(r"[^a-z]", "", name.lower())


def answer_note(tasks: Sequence[Task], expected: str) -> str:
    """A sentence if no task has an expected answer; otherwise empty.

    Args:
        tasks: The tasks of a file.
        expected: The key of the answers.
    """
    if not tasks or any(task.expected is not None for task in tasks):
        return ""
    similar = similar_answers(tasks)
    count = counted(len(tasks), "task")
    if not similar:
        return f"{count}, none with an answer: there is no {expected!r}."
    return f"{count}, none with an answer; columns that look like one: {', '.join(similar)}."


def similar_answers(tasks: Sequence[Task]) -> list[str]:
    """Keys of metadata that look like expected answers."""
    keys = dict.fromkeys(key for task in tasks for key in task.metadata)
    return [key for key in keys if plain_name(key) in ANSWER_COLUMNS]


def input_hint(keys: Iterable[str]) -> str:
    """The end of a clause, listing keys that look like an input; empty if there are none."""
    similar = [key for key in keys if plain_name(key) in INPUTS]
    return f"; columns that look like one: {', '.join(similar)}" if similar else ""
