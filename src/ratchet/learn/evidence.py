"""Low rollouts by kind of failure: the differences that the evaluators report, field by field."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ratchet.learn.work import Evaluation
from ratchet.observe.step_text import text_of
from ratchet.types import Span, Task

MIN_LIKENESS = 0.5
"""Share of common words from which on two remarks in prose are of the same kind."""

MAX_VALUE_LENGTH = 24
"""Longest quoted value that is part of a kind of failure; a longer one is content."""

MAX_ASKED_LENGTH = 1_000
"""Characters of a task's input that are compared with another's."""

MAX_KIND_LENGTH = 120
"""Maximum length of a kind of failure, in characters."""

CUT_OFF_REASONS = ("length", "max_tokens", "max_output_tokens")
"""Finish reasons of an answer that its token limit cut off."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")


class LowRollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout below the best score, and what is known of the cause."""

    evaluation: Evaluation
    spans: tuple[Span, ...] = ()
    finish: str = ""
    """Why the model's last answer ended, such as `length`; empty if unknown."""
    said: str = ""
    """What the error and the evaluators say; first of all, that the answer was cut off."""

    @property
    def task_id(self) -> str:
        """Id of its task."""
        return self.evaluation.task.id


def low_rollout(evaluation: Evaluation, spans: Sequence[Span]) -> LowRollout:
    """A low rollout with the findings of its trace and its evaluators."""
    finish = finish_reason(spans)
    notes = []
    if finish in CUT_OFF_REASONS:
        limit = token_limit(spans)
        notes.append(f"the answer was cut off at its limit{f' of {limit} tokens' if limit else ''}")
    if evaluation.rollout.error:
        notes.append(evaluation.rollout.error)
    # A measurement, as of cost, says nothing about the answer.
    remarks = {
        name: remark
        for name, score in evaluation.scores.items()
        if not score.unit and (remark := score.rationale or score.error)
    }
    notes += [f"{name}: {note}" if len(remarks) > 1 else note for name, note in remarks.items()]
    return LowRollout(
        evaluation=evaluation, spans=tuple(spans), finish=finish, said="; ".join(notes)
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


def kinds_of_failure(low: Sequence[LowRollout]) -> dict[str, list[LowRollout]]:
    """Low rollouts by kind of failure, the most frequent kind first.

    A kind is one difference of a field, or remarks in prose of mostly the same words, or a score
    where nothing is said. A rollout with several differences is of several kinds.
    """
    kinds: dict[str, list[LowRollout]] = {}
    prose: list[tuple[str, frozenset[str]]] = []
    for rollout in low:
        for note in _notes(rollout):
            name = note
            if "expected" not in note and note not in kinds:
                words = frozenset(_WORD.findall(note.lower()))
                alike = (label for label, bag in prose if _likeness(words, bag) > MIN_LIKENESS)
                name = next(alike, note)
                if name == note:
                    prose.append((note, words))
            kinds.setdefault(name, []).append(rollout)
    return dict(sorted(kinds.items(), key=lambda kind: -len(kind[1])))


def spread(low: Sequence[LowRollout], times: Mapping[str, int]) -> list[LowRollout]:
    """Low rollouts in the order in which they should be shown.

    Each next one adds the most of what those before it do not show, the frequent kinds of failure
    first; those that were shown before come after all others.

    Args:
        low: The rollouts.
        times: How often each task was shown before.
    """
    kinds = kinds_of_failure(low)
    mine: dict[str, list[str]] = {rollout.task_id: [] for rollout in low}
    for name, rollouts in kinds.items():
        for rollout in rollouts:
            mine[rollout.task_id].append(name)
    words = {rollout.task_id: _words_asked(rollout.evaluation.task) for rollout in low}
    near = dict.fromkeys(mine, 0.0)
    """The similarity of each task to the most similar one before it."""
    covered: Counter[str] = Counter()
    left, ordered = list(low), list[LowRollout]()

    def adds(rollout: LowRollout) -> tuple[int, float]:
        new = (len(kinds[name]) ** 0.5 / (1 + covered[name]) for name in mine[rollout.task_id])
        return -times.get(rollout.task_id, 0), sum(new) * (1 - near[rollout.task_id])

    while left:
        chosen = max(left, key=adds)
        left.remove(chosen)
        ordered.append(chosen)
        covered.update(mine[chosen.task_id])
        for later in left:
            likeness = _likeness(words[chosen.task_id], words[later.task_id])
            near[later.task_id] = max(near[later.task_id], likeness)
    return ordered


def least_alike(tasks: Sequence[Task], earlier: Sequence[Task]) -> Iterator[Task]:
    """Tasks, each the least similar to those before it and to those already shown."""
    words = {task.id: _words_asked(task) for task in tasks}
    earlier_words = [_words_asked(task) for task in earlier]
    near = {
        id: max((_likeness(task_words, bag) for bag in earlier_words), default=0.0)
        for id, task_words in words.items()
    }
    left = {task.id: task for task in tasks}
    while left:
        task = left.pop(min(left, key=near.__getitem__))
        yield task
        for id in left:
            near[id] = max(near[id], _likeness(words[task.id], words[id]))


def _words_asked(task: Task) -> frozenset[str]:
    return frozenset(_WORD.findall(text_of(task.input)[:MAX_ASKED_LENGTH].lower()))


def _likeness(words: frozenset[str], other_words: frozenset[str]) -> float:
    return len(words & other_words) / max(1, len(words | other_words))


def _notes(rollout: LowRollout) -> list[str]:
    """The differences one by one, without the actual values and without content."""
    if not rollout.said:
        return [f"score {rollout.evaluation.worth:.2f}"]
    notes = []
    for note in rollout.said.split("; "):
        wanted = re.sub(r"(expected .*), got .*", r"\1", note, flags=re.DOTALL)
        plain = _QUOTED.sub(lambda m: m[0] if len(m[0]) <= MAX_VALUE_LENGTH + 2 else "…", wanted)
        notes.append(re.sub(r"\d{2,}(?:\.\d+)?", "#", plain)[:MAX_KIND_LENGTH])
    return list(dict.fromkeys(notes))
