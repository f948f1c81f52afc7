"""Ablation: proposes the leader without one line that an edit added, to test whether it helps.

Edits mostly add; a misleading line that reads like good advice is seldom criticised. Removing it is
evaluated like any edit, first on the tasks that the leader fails: solving one of them without the
line is a gain. Related to leave-one-out importance (which Koh & Liang 2017 approximate) and to the
deletion edits of GrIPS (Prasad et al. 2023).
"""

from __future__ import annotations

from ratchet.types import Candidate, InputError, PromptTemplate

LEAST = 250
"""Rollouts of a budget below which edits bring more than ablations."""

EVERY = 3
"""Minimum number of proposals between two ablations."""


class Ablation:
    """Proposes ablations; remembers which lines were removed, so that none is repeated.

    Args:
        source: The candidate whose own lines are never removed.
        targets: Names of the prompts that may change.
        rollouts: The planned number of rollouts.
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
        """The leader's next ablation: prompt name, template and removed line; None if none is due.

        Args:
            leader: The candidate to ablate.
            number: Number of the proposal.
            quiet: Proposals since the last improvement; no ablation while edits still improve.
        """
        if not self._enough or quiet < EVERY or number - self._last < EVERY:
            return None
        for name, own in self._own.items():
            template = leader.resources[name]
            assert isinstance(template, PromptTemplate)
            stay = {line.strip() for line in own.text.splitlines()}
            lines = template.text.splitlines()
            # Newest lines first: the oldest have survived the most selections.
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
    """The template of the remaining lines; None if it is invalid or loses a placeholder."""
    try:
        made = PromptTemplate("\n".join(lines), template.engine)
    except InputError:
        return None
    whole = made.placeholders == template.placeholders and made.text.strip()
    return made if whole else None
