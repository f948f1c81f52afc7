"""Ablation: the leader without one of the lines that edits gave it, to see whether it is better so.

Edits only ever add what seems right; a line that misleads stays until something speaks against it,
and no critique does as long as it looks like good advice. Its absence is measured like any edit, on
the tasks that the leader fails first: who solves one of them without it is better off. The idea is
that of leave-one-out importance (Koh & Liang 2017 speak of it as the thing to approximate) and of
deletion among the edits of prompts (GrIPS: Prasad et al. 2023).
"""

from __future__ import annotations

from ratchet.types import Candidate, InputError, PromptTemplate

LEAST = 250
"""Rollouts of a budget below which further edits bring more."""

EVERY = 3
"""One in so many proposals leaves something out, at most."""


class Ablation:
    """Which lines were left out already, so that none is twice.

    Args:
        source: The candidate whose own lines stay.
        targets: Names of what may change.
        rollouts: The budget that is planned with.
    """

    def __init__(self, source: Candidate, targets: tuple[str, ...], rollouts: int) -> None:
        own = {name: source.resources[name] for name in targets}
        self._own = {n: r for n, r in own.items() if isinstance(r, PromptTemplate)}
        self._enough = rollouts >= LEAST
        self._tried: set[tuple[str, str]] = set()
        self._last = 0

    def next(
        self, leader: Candidate, *, number: int, quiet: int
    ) -> tuple[str, PromptTemplate, str] | None:
        """The prompt to try in place of a leader's, by its name, and the line that it lacks.

        Args:
            leader: Whose lines are in doubt.
            number: Of the proposal.
            quiet: Proposals since something was better: while edits bring more, they go on.
        """
        if not self._enough or quiet < EVERY or number - self._last < EVERY:
            return None
        for name, own in self._own.items():
            template = leader.resources[name]
            assert isinstance(template, PromptTemplate)
            stay = {line.strip() for line in own.text.splitlines()}
            lines = template.text.splitlines()
            # The newest come first: what has stood longest has been chosen most often.
            for n in reversed(range(len(lines))):
                line = lines[n].strip()
                if not line or line in stay or (name, line) in self._tried:
                    continue
                self._tried.add((name, line))
                made = _without(template, [*lines[:n], *lines[n + 1 :]])
                if made is not None:
                    self._last = number
                    return name, made, line
        return None


def _without(template: PromptTemplate, lines: list[str]) -> PromptTemplate | None:
    """The template of the lines that are left; None where it loses what it is filled with."""
    try:
        made = PromptTemplate("\n".join(lines), template.engine)
    except InputError:
        return None
    whole = made.placeholders == template.placeholders and made.text.strip()
    return made if whole else None
