"""Metamorphic rules: changes to an input that keep its answer."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from ratchet.curate.refinement.duplicates import REWORDED
from ratchet.curate.synthesis.sample import Sample
from ratchet.types import Task, canonical_json

Rule = Callable[[str], str]

_PROSE = re.compile(r"[^\n\t`{}<>]*\w+ \w+[^\n\t`{}<>]*")
"""One line of words; not code, not markup, not a layout."""


def _white_space(text: str) -> str:
    return f"  {text}\n"


def _spaces(text: str) -> str:
    return text.replace(" ", "  ")


def _apostrophe(text: str) -> str:
    return re.sub(r"(?<=\w)'(?=\w)", "\u2019", text)


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


TEXT_RULES: dict[str, Rule] = {
    "white space around": _white_space,
    "double spaces": _spaces,
    "typographic apostrophe": _apostrophe,
    "decomposed letters": _decomposed,
}


class KeptAnswers:
    """Draws real inputs in another form, with their answers.

    An input that its answer repeats is left alone: there the form may be the answer.

    Args:
        tasks: The sources.
        rng: Source of randomness.
    """

    def __init__(self, tasks: Sequence[Task], rng: random.Random) -> None:
        shuffled = [*tasks]
        rng.shuffle(shuffled)
        self._samples = self._all(shuffled)

    async def draw(self, count: int) -> list[Sample]:
        """See `Method.draw`."""
        return list(islice(self._samples, count))

    def _all(self, tasks: Sequence[Task]) -> Iterator[Sample]:
        # Each task once before any is changed a second time.
        for name, change in TEXT_RULES.items():
            for task in tasks:
                reworded = _changed(task, change)
                if reworded is not None:
                    yield Sample(
                        input=reworded,
                        by=f"{REWORDED}: {name}",
                        sources=(task.id,),
                        expected=task.expected,
                        metadata=task.metadata,
                        rewording=True,
                    )


def _changed(task: Task, change: Rule) -> str | None:
    text = task.input
    if not isinstance(text, str) or not _PROSE.fullmatch(text):
        return None
    if text in canonical_json(task.expected).decode():
        return None
    changed = change(text)
    return changed if changed != text else None
