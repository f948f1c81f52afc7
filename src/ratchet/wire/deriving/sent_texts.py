"""The texts sent to the model in the recorded run, compared with those of the wired agent."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from ratchet.wire.recording.model_calls import texts_of_request, turns_of
from ratchet.wire.recording.recording import ModelText, Recording, WatchedCall


def system_texts(recording: Recording) -> tuple[str, ...]:
    """The distinct system prompts of the recorded run, in order."""
    texts = [sent.text for call in recording.calls for sent in call.texts if sent.role == "system"]
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


def unlike(
    recording: Recording,
    other_calls: Sequence[Sequence[ModelText]],
    shown: Callable[[ModelText], str] = lambda sent: sent.text,
) -> list[str]:
    """How the texts of other calls differ from the recorded ones, a clause for each.

    Calls may come in another order, since they may be made at once.

    Args:
        recording: The recorded run.
        other_calls: Texts of each other call.
        shown: Returns what of a text is compared.
    """
    left = [[shown(sent) for sent in texts] for texts in other_calls]
    clauses = []
    for call in recording.calls:
        texts = [shown(sent) for sent in call.texts]
        if texts in left:
            left.remove(texts)
            continue
        nearest = max(left, key=lambda call_texts: _likeness(texts, call_texts), default=None)
        if nearest is None:
            clauses.append(f"call {call.number + 1} was not repeated")
            continue
        left.remove(nearest)
        clauses.append(_difference(call.number + 1, "\n".join(texts), "\n".join(nearest)))
    return clauses


def nearest_call(calls: Sequence[WatchedCall], request: Any) -> WatchedCall:
    """The recorded call that a request repeats, or whose texts are most similar.

    Args:
        calls: At least one.
        request: The decoded body of a request.
    """
    for call in calls:
        if call.request == request:
            return call
    texts, turns = [sent.text for sent in texts_of_request(request)], turns_of(request)

    def nearness(call: WatchedCall) -> tuple[float, int]:
        # Within a loop over tools, requests may differ in the tools' calls alone.
        likeness = _likeness([sent.text for sent in call.texts], texts)
        return likeness, -abs(turns_of(call.request) - turns)

    return max(calls, key=nearness)


def _likeness(texts: Sequence[str], other_texts: Sequence[str]) -> float:
    first, second = "\n".join(texts)[:4_000], "\n".join(other_texts)[:4_000]
    return difflib.SequenceMatcher(None, first, second, autojunk=False).quick_ratio()


def _difference(number: int, recorded: str, sent: str) -> str:
    at = next(
        (
            index
            for index, (before, after) in enumerate(zip(recorded, sent, strict=False))
            if before != after
        ),
        min(len(recorded), len(sent)),
    )
    begin = max(0, at - 15)
    return (
        f"call {number} has “{_short(sent[begin : at + 25])}” where the recorded one had"
        f" “{_short(recorded[begin : at + 25])}”"
    )


def _short(text: str) -> str:
    return " ".join(text.split())
