"""Labels: what people say of a rollout's output, against which evaluators are measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

Drawn: TypeAlias = Literal["random", "chosen", "imported"]


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A person's verdict on a rollout or recorded trace."""

    id: str
    """Set by the sender, which makes resending safe."""
    value: float
    """In [0, 1]: 1 is right, 0 is wrong."""
    rollout_id: str = ""
    trace_id: str = ""
    criterion: str = ""
    """What was judged; empty for the output as a whole."""
    labeller: str = ""
    drawn: Drawn = "imported"
    """How the subject was selected. random: with equal probability, so that means over labels
    are unbiased. chosen: the most informative subject. imported: unknown."""
    comment: str = ""
    created_at: float = 0.0
    """Unix seconds."""


RIGHT_FROM = 0.5
"""A value from which on the output counts as right."""


def label_fault(label: Label) -> tuple[str, str] | None:
    """Why a label is invalid, as a field's name and a sentence; None if it is valid."""
    if not (math.isfinite(label.value) and 0.0 <= label.value <= 1.0):
        return "value", "A label must be a number from 0 to 1."
    if bool(label.rollout_id) == bool(label.trace_id):
        return "rollout_id", "Name either a rollout or a trace."
    return None


class Contradiction(msgspec.Struct, frozen=True):
    """People who disagree on whether an output is right."""

    subject: str
    """Id of the rollout or trace."""
    criterion: str
    right: tuple[str, ...]
    """Who says that it is right."""
    wrong: tuple[str, ...]


def contradictions(labels: Iterable[Label]) -> tuple[Contradiction, ...]:
    """Find subjects that some call right and others wrong, in order of their first label."""
    votes: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for label in labels:
        right, wrong = votes.setdefault(
            (label.rollout_id or label.trace_id, label.criterion), ([], [])
        )
        (right if label.value >= RIGHT_FROM else wrong).append(label.labeller or "somebody")
    return tuple(
        Contradiction(subject, criterion, tuple(right), tuple(wrong))
        for (subject, criterion), (right, wrong) in votes.items()
        if right and wrong
    )
