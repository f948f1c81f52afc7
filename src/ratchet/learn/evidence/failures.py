"""Low rollouts by kind of failure: what the evaluators say differs, field by field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ratchet.learn.work import Evaluation
from ratchet.types import Span

ALIKE = 0.5
"""Share of common words from which on two remarks in prose are of one kind."""

LONGEST_VALUE = 24
"""Characters up to which a quoted value is part of a kind of failure; a longer one is content."""

CUT = ("length", "max_tokens", "max_output_tokens")
"""Finish reasons of an answer that its token limit cut off."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")


class LowRollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout without the best score, and what is known of why."""

    evaluation: Evaluation
    spans: tuple[Span, ...] = ()
    finish: str = ""
    """Why the model's last answer ended, such as `length`; empty if unknown."""
    said: str = ""
    """What the error and the evaluators say; that the answer was cut off, before all else."""

    @property
    def task_id(self) -> str:
        """Id of its task."""
        return self.evaluation.task.id


def low_rollout(evaluation: Evaluation, spans: Sequence[Span]) -> LowRollout:
    """A low rollout with what its trace and its evaluators say."""
    finish = finish_reason(spans)
    said = []
    if finish in CUT:
        limit = token_limit(spans)
        said.append(f"the answer was cut off at its limit{f' of {limit} tokens' if limit else ''}")
    if evaluation.rollout.error:
        said.append(evaluation.rollout.error)
    several = len(evaluation.scores) > 1
    for name, score in evaluation.scores.items():
        remark = score.rationale or score.error
        if remark:
            said.append(f"{name}: {remark}" if several else remark)
    return LowRollout(
        evaluation=evaluation, spans=tuple(spans), finish=finish, said="; ".join(said)
    )


def finish_reason(spans: Sequence[Span]) -> str:
    """Why the last model call of a rollout ended; empty if the trace does not say."""
    for span in reversed(spans):
        reasons = span.attributes.get("gen_ai.response.finish_reasons")
        if isinstance(reasons, (list, tuple)) and reasons:
            return str(reasons[0])
    return ""


def token_limit(spans: Sequence[Span]) -> int | None:
    """The token limit of the last model call that had one."""
    for span in reversed(spans):
        limit = span.attributes.get("gen_ai.request.max_tokens")
        if isinstance(limit, int):
            return limit
    return None


def kinds_of_failure(low: Sequence[LowRollout]) -> list[list[LowRollout]]:
    """Low rollouts grouped by what is wrong with them, the most frequent kind first.

    Differences of fields are compared field by field, with short values and without long ones;
    remarks in prose by their words; silent ones by their score.
    """
    kinds: list[tuple[frozenset[str], frozenset[str], list[LowRollout]]] = []
    for rollout in low:
        notes = _notes(rollout)
        words = frozenset(_WORD.findall(rollout.said.lower()))
        for known_notes, known_words, kind in kinds:
            both = words | known_words
            prose = not _is_structured(rollout) and not _is_structured(kind[0])
            if notes == known_notes or (prose and len(words & known_words) > ALIKE * len(both)):
                kind.append(rollout)
                break
        else:
            kinds.append((notes, words, [rollout]))
    return sorted((kind for _, _, kind in kinds), key=lambda kind: -len(kind))


def spread(low: Sequence[LowRollout], times: Mapping[str, int]) -> list[LowRollout]:
    """Low rollouts in the order in which they should be shown: one of each kind in turn.

    Args:
        low: The rollouts.
        times: How often each task was shown before: the least shown come first.
    """
    turns: Counter[int] = Counter()
    places: dict[str, tuple[int, int]] = {}
    for number, kind in enumerate(kinds_of_failure(low)):
        for rollout in sorted(kind, key=lambda one: times.get(one.task_id, 0)):
            places[rollout.task_id] = (turns[number], number)
            turns[number] += 1
    return sorted(low, key=lambda one: (times.get(one.task_id, 0), places[one.task_id]))


def _is_structured(rollout: LowRollout) -> bool:
    return "expected" in rollout.said or "missing" in rollout.said


def _notes(rollout: LowRollout) -> frozenset[str]:
    """The single differences, without what is only content."""
    if not rollout.said:
        return frozenset([f"score {rollout.evaluation.worth:.2f}"])
    notes = []
    for note in rollout.said.split("; "):
        plain = _QUOTED.sub(lambda m: m[0] if len(m[0]) <= LONGEST_VALUE + 2 else "…", note)
        notes.append(re.sub(r"\d+(?:\.\d+)?", "#", plain))
    return frozenset(notes)
