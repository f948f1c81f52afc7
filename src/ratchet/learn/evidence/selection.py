"""Selects the rollouts that a coach is shown: every kind of failure, a near miss, and successes.

A request shows rollouts of the very prompt that it asks about, the least shown first, and no two
requests about one candidate show the same ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import shorten

from ratchet.learn.race import EVEN, RaceEntry
from ratchet.learn.wording import counted
from ratchet.learn.work import Evaluation, mean
from ratchet.observe.step_text import cut, text_of

ALIKE = 0.5
"""Minimum share of common words of two messages about the same kind of failure."""

MAX_COMPARED = 60
"""Maximum number of rollouts of one kind that are compared with each other."""

MAX_KINDS = 8
MAX_SAID = 160
"""Maximum number of kinds of failure that are listed, and of characters of a message or task that
are looked at."""

_WORD = re.compile(r"[^\W\d_]{2,}")


class EvidenceSelector:
    """Selects the evidence of one request after another."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()
        """How often each rollout was shown, by candidate and task."""
        self._chosen: set[tuple[str, frozenset[str]]] = set()

    def choose(
        self, entry: RaceEntry, *, failures: int, successes: int, top: float = 1.0
    ) -> tuple[Evaluation, ...]:
        """The rollouts to show, failures first; empty if each selection of them was shown before.

        Args:
            entry: The candidate that is asked about.
            failures: Maximum number of rollouts without the best score.
            successes: Maximum number of rollouts with it.
            top: The best possible score.
        """
        low = self.failures(entry, top)
        failing = {evaluation.task.id for evaluation in low}
        good = [e for task, e in entry.evaluations.items() if task not in failing]
        good.sort(key=lambda e: self._shown(entry, e))
        for group in _selections(low, good, failures, successes, top):
            key = (entry.id, frozenset(e.task.id for e in group))
            if key not in self._chosen:
                self._chosen.add(key)
                self._times.update((entry.id, e.task.id) for e in group)
                return group
        return ()

    def failures(self, entry: RaceEntry, top: float = 1.0) -> list[Evaluation]:
        """A candidate's low rollouts, least shown first, one of each kind of failure in turn."""
        low = [entry.evaluations[task] for task in entry.failing(top) if task in entry.scores]
        low = low or [entry.evaluations[task] for task in entry.failing(top)]
        kinds = [
            sorted(_diverse(kind), key=lambda e: self._shown(entry, e))
            for kind in kinds_of_failure(low)
        ]
        kinds.sort(key=lambda kind: (self._shown(entry, kind[0]), -len(kind)))
        ordered: list[Evaluation] = []
        while any(kinds):
            ordered += [kind.pop(0) for kind in kinds if kind]
        return sorted(ordered, key=lambda e: self._shown(entry, e))

    def overview(self, entry: RaceEntry, top: float = 1.0) -> str:
        """A candidate's mean score, and how often each kind of failure occurred."""
        low = self.failures(entry, top)
        lines = [
            f"In all it ran {counted(len(entry.evaluations), 'task')}, with a mean score of"
            f" {entry.mean():.2f}; {len(low)} of them scored low:"
        ]
        kinds = sorted(kinds_of_failure(low), key=lambda kind: -len(kind))
        for kind in kinds[:MAX_KINDS]:
            said = shorten(_said(kind[0]), MAX_SAID, placeholder=" …") or "no comment"
            score = f"mean score {mean(kind):.2f}"
            lines.append(f"- {counted(len(kind), 'time')} ({score}, such as: {said})")
        return "\n".join(lines)

    def _shown(self, entry: RaceEntry, evaluation: Evaluation) -> int:
        return self._times[entry.id, evaluation.task.id]


def kinds_of_failure(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    """Low rollouts grouped by what the evaluators or the error say; by score where they are silent.

    Args:
        evaluations: The rollouts; the first of each group represents it.
    """
    groups: list[tuple[frozenset[str], float, list[Evaluation]]] = []
    for evaluation in evaluations:
        words, value = _words(evaluation), evaluation.worth
        for known, score, group in groups:
            alike = _likeness(words, known) >= ALIKE if words else not known
            if alike and (words or abs(score - value) <= EVEN):
                group.append(evaluation)
                break
        else:
            groups.append((words, value, [evaluation]))
    return [group for _, _, group in groups]


def _diverse(kind: Sequence[Evaluation]) -> list[Evaluation]:
    """Rollouts of one kind, each as unlike those before it as can be."""
    left = [(frozenset(_WORD.findall(_task(e).lower())), e) for e in kind[:MAX_COMPARED]]
    near = [0.0] * len(left)
    ordered: list[Evaluation] = []
    while left:
        at = near.index(min(near))
        words, chosen = left.pop(at)
        del near[at]
        ordered.append(chosen)
        near = [
            max(likeness, _likeness(words, other))
            for likeness, (other, _) in zip(near, left, strict=True)
        ]
    return [*ordered, *kind[MAX_COMPARED:]]


def _task(evaluation: Evaluation) -> str:
    task = evaluation.task
    return f"{cut(text_of(task.input), MAX_SAID)} {cut(text_of(task.expected), MAX_SAID)}"


def _words(evaluation: Evaluation) -> frozenset[str]:
    return frozenset(_WORD.findall(_said(evaluation).lower()))


def _said(evaluation: Evaluation) -> str:
    """What the error and the evaluators say."""
    said = [score.rationale or score.error for score in evaluation.scores.values()]
    return " ".join(part for part in (evaluation.rollout.error, *said) if part)


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))


def _selections(
    low: Sequence[Evaluation],
    good: Sequence[Evaluation],
    failures: int,
    successes: int,
    top: float,
) -> Iterator[tuple[Evaluation, ...]]:
    """Selections in order of preference: the first ones first, as many as allowed."""
    for size in range(min(failures, len(low)), 0, -1):
        for start in range(len(low)):
            ring = [*low[start:], *low[:start]]
            chosen = _with_near_miss(ring, size, top)
            for shift in range(max(1, len(good))):
                yield (*chosen, *[*good[shift:], *good[:shift]][:successes])


def _with_near_miss(ring: Sequence[Evaluation], size: int, top: float) -> list[Evaluation]:
    """The first ones; the last place goes to a near miss if there is none among them."""
    chosen = list(ring[:size])

    def is_near(evaluation: Evaluation) -> bool:
        return evaluation.worth > top / 2

    if size >= 3 and not any(map(is_near, chosen)):
        near = [e for e in ring[size:] if is_near(e)]
        chosen[-1:] = near[:1] or chosen[-1:]
    return chosen
