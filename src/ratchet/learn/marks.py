"""Redaction marks in a coach's answer: replaced by what they stand for, where that is known.

A coach is sent redacted text. A prompt that it rewrites may hold marks, which must not become part
of the agent: each is replaced by what it stands for if that is one text, and the agent's own
resources hold it. A value of a rollout is never put into a prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from ratchet.observe.redaction import MARK_START, Redactor, marks_in
from ratchet.types import Candidate, Resource


def restored(answer: str, request: Iterable[str], own: Iterable[str], redactor: Redactor) -> str:
    """An answer with its marks replaced, where it is certain what they stand for.

    Args:
        answer: What the coach wrote.
        request: The texts that it was asked with, before they were redacted.
        own: Texts of the agent's resources.
        redactor: What redacted the request.
    """
    if MARK_START not in answer:
        return answer
    in_request, in_own = _removed(request, redactor), _removed(own, redactor)
    for mark in marks_in(answer):
        values = in_request[mark] - {mark}
        if len(values) == 1 and values <= in_own[mark]:
            (value,) = values
            answer = answer if MARK_START in value else answer.replace(mark, value)
    return answer


def added_marks(candidate: Candidate, baseline: Candidate) -> list[str]:
    """The marks in a candidate's resources that are not in the baseline's."""
    baseline_marks = set(_marks(baseline.resources.values()))
    changed = [candidate.resources[name] for name in candidate.changed_from(baseline)]
    return [mark for mark in _marks(changed) if mark not in baseline_marks]


def _marks(resources: Iterable[Resource]) -> list[str]:
    return marks_in(msgspec.json.encode(list(resources)).decode())


def _removed(texts: Iterable[str], redactor: Redactor) -> defaultdict[str, set[str]]:
    """What each mark in the texts stands for."""
    removed: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        for mark, values in redactor.removed(text).items():
            removed[mark] |= values
    return removed
