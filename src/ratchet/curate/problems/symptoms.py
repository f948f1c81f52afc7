"""What failed in a trace: errors, loops, refusals, cut answers, complaints, low scores.

Each detector reads one trace and yields what it finds. What is compared with other traces is the
error, the rationale or the comment where there is one, and what was asked otherwise.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ratchet.curate.problems.resemblance import masked, words_of
from ratchet.curate.recorded_values import Incomplete, input_of, output_of
from ratchet.evaluate.json_difference import JsonComparison
from ratchet.evaluate.refusal import refusal_in
from ratchet.observe.dialects import names
from ratchet.types import (
    Feedback,
    Occurrence,
    ProblemKind,
    Score,
    Span,
    canonical_json,
    content_hash,
)
from ratchet.types.feedback import is_bad
from ratchet.types.trace import ObservedTrace

OCCURRENCE_TEXT_LIMIT = 2_000
"""Maximum length of an input, an output or a detail in an occurrence, in characters."""

LOOP = 3
"""Number of equal tool calls in a trace that count as a loop."""

SAME_QUESTION = 0.6
"""Share of words that two questions in a row have in common when a user asks again."""

PER_TRACE = 5
"""Maximum number of distinct errors of a trace."""

LOSSES: dict[ProblemKind, float] = {
    "error": 1.0,
    "low_score": 1.0,
    "negative_feedback": 1.0,
    "retry": 0.5,
    "abandonment": 1.0,
    "loop": 0.5,
    "refusal": 1.0,
    "guardrail": 1.0,
    "cut_off": 0.5,
}
"""Loss of a kind of failure that nothing measures: 1 if the user got nothing."""

RECOVERED = 0.25
"""Loss of an error after which the agent still answered."""

CORRECTED, RATED = "Corrected to ", "The user rated the answer "
"""Prefixes of the detail of a correction and of a rating, without a comment."""

_ERROR = re.compile(r"(?:\w*error|\w*exception|traceback)\b", re.IGNORECASE)
"""Start of a result that is an error."""

_LENGTH = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "model_length"})
_FILTERED = frozenset({"content_filter", "SAFETY", "safety", "guardrail_intervened", "refusal"})
_GUARD_WORDS = ("guardrail", "content_filter", "contentfilter", "content filter", "moderation")


class _Facts(msgspec.Struct, frozen=True):
    """A trace with its question and answer."""

    observed: ObservedTrace
    input: Any
    output: Any
    asked: str
    """The previous question in the same conversation; empty if there is none."""
    scores: Sequence[Score]
    low_score: float

    @property
    def question(self) -> str:
        """The input as masked text."""
        return masked(as_text(self.input))

    @property
    def acts(self) -> tuple[str, ...]:
        """Names of the tools that were called."""
        return acts_of(self.observed)


class _Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """A detector's finding."""

    kind: ProblemKind
    place: str = ""
    text: str
    is_message: bool = False
    detail: str = ""
    loss: float | None = None


def occurrences_of(
    observed: ObservedTrace,
    *,
    asked_before: str = "",
    scores: Sequence[Score] = (),
    low_score: float = 0.5,
) -> list[Occurrence]:
    """What failed in a trace; empty when nothing did.

    Args:
        observed: The trace.
        asked_before: The input of the turn before in its conversation, as text.
        scores: Scores of its answer.
        low_score: A score of at most this is low.
    """
    recording = observed.recording
    facts = _Facts(
        observed,
        _whole(input_of, recording),
        None if recording.failed else _whole(output_of, recording),
        asked_before,
        scores,
        low_score,
    )
    trace, acts = recording.trace, acts_of(observed)
    found: dict[str, Occurrence] = {}
    for detect in DETECTORS:
        for symptom in detect(facts):
            id = content_hash([trace.trace_id, symptom.kind, symptom.place, symptom.text])[:32]
            loss = LOSSES[symptom.kind] if symptom.loss is None else symptom.loss
            found.setdefault(
                id,
                Occurrence(
                    id=id,
                    trace_id=trace.trace_id,
                    agent=trace.agent,
                    kind=symptom.kind,
                    place=symptom.place[:200],
                    text=symptom.text,
                    is_message=symptom.is_message,
                    acts=acts,
                    detail=symptom.detail[:OCCURRENCE_TEXT_LIMIT],
                    input=as_text(facts.input)[:OCCURRENCE_TEXT_LIMIT],
                    output=as_text(facts.output)[:OCCURRENCE_TEXT_LIMIT],
                    loss=loss,
                    cost_usd=trace.cost_usd,
                    at=trace.start_ns / 1e9,
                ),
            )
    return list(found.values())


def acts_of(observed: ObservedTrace) -> tuple[str, ...]:
    """Names of the tools that were called in a trace, sorted."""
    return tuple(sorted({_place(span) for span in observed.spans if _is_tool(span)}))


def _is_tool(span: Span) -> bool:
    return span.attributes.get(names.OPERATION) == "execute_tool"


def as_text(value: Any) -> str:
    """A recorded value as text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical_json(value).decode()


def _whole(read: Callable[[Any], Any], recording: Any) -> Any:
    try:
        return read(recording)
    except Incomplete:
        return None


def _errors(facts: _Facts) -> Iterator[_Symptom]:
    """Failed spans in which the failure began; a parent only repeats it."""
    failed = [span for span in facts.observed.spans if span.status == "error"]
    repeating = {span.parent_id for span in failed}
    origins = [span for span in failed if span.span_id not in repeating]
    loss = LOSSES["error"] if facts.observed.recording.failed else RECOVERED
    for span in origins[:PER_TRACE]:
        kind, message = _error_of(span)
        said = f"{kind}: {message}" if kind and kind not in message else message or kind
        blob = f"{kind} {message} {span.name}".lower()
        is_guard = any(word in blob for word in _GUARD_WORDS)
        yield _Symptom(
            kind="guardrail" if is_guard else "error",
            place=_place(span),
            text=masked(said) or "no message",
            is_message=True,
            detail=said,
            loss=LOSSES["guardrail"] if is_guard and loss == LOSSES["error"] else loss,
        )


def _told_errors(facts: _Facts) -> Iterator[_Symptom]:
    """Tools that answered with an error in place of a result."""
    told: dict[tuple[str, str], str] = {}
    for span in facts.observed.spans:
        if _is_tool(span) and span.status != "error":
            said = _told_error(span.attributes.get(names.TOOL_RESULT))
            if said:
                told.setdefault((_place(span), masked(said)), said)
    for (tool, text), said in list(told.items())[:PER_TRACE]:
        yield _Symptom(
            kind="error", place=tool, text=text, is_message=True, detail=said, loss=RECOVERED
        )


def _told_error(result: Any) -> str:
    """The error in a tool's result; empty if there is none."""
    if isinstance(result, str):
        try:
            result = msgspec.json.decode(result)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            pass
    if isinstance(result, dict):
        error = result.get("error")
        return as_text(error)[:OCCURRENCE_TEXT_LIMIT] if error and error is not True else ""
    text = " ".join(result.split())[:OCCURRENCE_TEXT_LIMIT] if isinstance(result, str) else ""
    return text if _ERROR.match(text) else ""


def _error_of(span: Span) -> tuple[str, str]:
    """Type and message of a span's error; either may be empty."""
    kind = str(span.attributes.get("error.type") or "")
    message = span.message
    for event in span.events:
        if event.name == "exception":
            kind = kind or str(event.attributes.get("exception.type") or "")
            message = message or str(event.attributes.get("exception.message") or "")
    return kind.rpartition(".")[2], " ".join(message.split())


def _place(span: Span) -> str:
    return str(span.attributes.get(names.TOOL_NAME) or span.name)


def _loops(facts: _Facts) -> Iterator[_Symptom]:
    """Tools that are called repeatedly with equal arguments."""
    calls: Counter[tuple[str, str]] = Counter()
    for span in facts.observed.spans:
        if not _is_tool(span):
            continue
        arguments = span.attributes.get(names.TOOL_ARGUMENTS, span.attributes.get(names.INPUT))
        calls[_place(span), as_text(arguments)] += 1
    looping: dict[str, tuple[int, str]] = {}
    for (tool, arguments), count in calls.items():
        if count >= LOOP:
            looping[tool] = max(looping.get(tool, (0, "")), (count, arguments))
    for tool, (count, arguments) in looping.items():
        yield _Symptom(
            kind="loop",
            place=tool,
            text=f"{tool} again",
            is_message=True,
            detail=f"{count} times {tool}({arguments})",
        )


def _endings(facts: _Facts) -> Iterator[_Symptom]:
    """Answers that the token limit or a provider's filter ended."""
    last = facts.observed.recording.last_call
    reasons = last.attributes.get(names.FINISH_REASONS) if last is not None else None
    stated = {str(reason) for reason in reasons} if isinstance(reasons, list) else set()
    if stated & _FILTERED:
        reason = sorted(stated & _FILTERED)[0]
        yield _Symptom(
            kind="guardrail",
            place=reason,
            text=facts.question,
            detail=f"The provider ended the answer: {reason}.",
        )
    elif stated & _LENGTH:
        yield _Symptom(
            kind="cut_off",
            text=facts.question,
            detail=f"The answer was cut off: {sorted(stated & _LENGTH)[0]}.",
        )


def _refusals(facts: _Facts) -> Iterator[_Symptom]:
    phrase = refusal_in(facts.output) if facts.output is not None else ""
    if phrase:
        yield _Symptom(kind="refusal", text=facts.question, detail=f"It says: {phrase}")


def _complaints(facts: _Facts) -> Iterator[_Symptom]:
    """Negative feedback and signals of users."""
    for item in facts.observed.recording.feedback:
        if not is_bad(item) or _confirms(item, facts.output):
            continue
        if item.kind == "retry":
            said = item.comment or "The user asked again."
            yield _Symptom(kind="retry", text=facts.question, detail=said)
        elif item.kind == "abandonment":
            said = item.comment or "The user left without an answer."
            yield _Symptom(kind="abandonment", text=facts.question, detail=said)
        else:
            yield _complaint(item, facts)


def _confirms(item: Feedback, output: Any) -> bool:
    """Whether a correction is the answer that was given."""
    return item.kind == "correction" and item.content == output


def _complaint(item: Feedback, facts: _Facts) -> _Symptom:
    fields = _differing_fields(item.content, facts.output) if item.kind == "correction" else ""
    value = item.value or 0.0
    said = item.comment or (
        f"{CORRECTED}{as_text(item.content)}"
        if item.kind == "correction"
        else f"{RATED}{value:.2f} of 1."
    )
    return _Symptom(
        kind="negative_feedback",
        place=fields,
        text=f"{fields} differs" if fields else f"{facts.question} {masked(item.comment)}",
        is_message=bool(fields),
        detail=said,
        loss=1.0 - value,
    )


def _differing_fields(right: Any, answer: Any) -> str:
    """Names of the fields of a corrected object that differ; empty for other answers."""
    if isinstance(answer, str):
        try:
            answer = msgspec.json.decode(answer)
        except msgspec.DecodeError:
            return ""
    if not (isinstance(right, dict) and isinstance(answer, dict)):
        return ""
    same = JsonComparison().same
    differing = [
        key for key in sorted({*right, *answer}) if not same(right.get(key), answer.get(key))
    ]
    return ", ".join(differing[:3])


def _repeated_question(facts: _Facts) -> Iterator[_Symptom]:
    """A user who repeats the question in the next turn."""
    if not facts.asked or any(i.kind == "retry" for i in facts.observed.recording.feedback):
        return
    before, now = set(words_of(masked(facts.asked))), set(words_of(facts.question))
    if before and now and len(before & now) / len(before | now) >= SAME_QUESTION:
        yield _Symptom(
            kind="retry", text=facts.question, detail=f"Asked before: {facts.asked[:500]}"
        )


def _low_scores(facts: _Facts) -> Iterator[_Symptom]:
    if facts.observed.recording.failed:
        return
    for score in facts.scores:
        if score.value is None or score.unit or score.value > facts.low_score:
            continue
        yield _Symptom(
            kind="low_score",
            place=score.evaluator,
            # What it did says more of why than what was asked.
            text=masked(score.rationale) or ("" if facts.acts else facts.question),
            is_message=bool(score.rationale),
            detail=score.rationale or f"{score.evaluator} {score.value:.2f}",
            loss=1.0 - score.value,
        )


DETECTORS: tuple[Callable[[_Facts], Iterator[_Symptom]], ...] = (
    _errors,
    _told_errors,
    _loops,
    _endings,
    _refusals,
    _complaints,
    _repeated_question,
    _low_scores,
)
