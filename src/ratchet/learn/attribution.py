"""Attribution: which resources a rollout used, by its trace, and which one to blame.

`uses` finds each resource in the spans; `blame` combines that with the evaluators' rationales and
the error into shares that sum to one. Pure functions of spans and text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ratchet.bind.recognise import PromptPlace, recognise, recognise_within, shape_of
from ratchet.observe.step_text import decoded_json, entries_in
from ratchet.observe.system_prompts import is_model_call
from ratchet.types import Code, InputError, Model, Params, PromptTemplate, Resource, Span

MIN_PIECE = 20
"""Minimum length of a template's longest constant piece, in characters, to recognise it inside a
longer message."""

MAX_SPANS = 2_000
"""Maximum number of spans of a rollout to inspect."""

UNUSED = 0.05
"""Weight of a resource that would appear in the trace if used, but does not."""

UNSEEN = 0.5
"""Weight of a resource whose use need not appear in a trace: params, a very short prompt."""

ERRED = 4.0
"""Factor for a resource used in the step that failed, or beside it."""

LAST_USED_FACTOR = 2.0
"""Factor for the resource used last: it produced the answer."""

NAMED_FACTOR = 6.0
"""Factor for a resource named in an evaluator's rationale or in the error."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """How one resource appears in the trace of a rollout."""

    spans: tuple[str, ...] = ()
    """Ids of the spans that used it, in start order."""
    traceable: bool = True
    """Whether its use would appear in the trace."""
    erred: bool = False
    """Whether one of those spans failed, or one of their siblings or descendants."""
    ended_ns: int = 0
    """End time of the last of them in nanoseconds; 0 without any."""

    @property
    def used(self) -> bool:
        """Whether the trace shows that it was used."""
        return bool(self.spans)


def uses(
    resources: Mapping[str, Resource], spans: Sequence[Span], error: str = ""
) -> dict[str, Use]:
    """How each resource of a candidate appears in the trace of one of its rollouts.

    A prompt is recognised by its template in the messages of model calls, or by the attribute that
    the gateway sets; a function by a span of its name or its frame in an exception; a model by its
    name in a request.

    Args:
        resources: The candidate's resources by name.
        spans: Spans of the attempt, in start order.
        error: The agent's exception, with its stack if there is one.

    Returns:
        One entry per resource, used or not.
    """
    spans = spans[:MAX_SPANS]
    failing = _failing(spans)
    texts = [(span, sent_texts(span)) for span in spans]
    usage: dict[str, Use] = {}
    for name, resource in resources.items():
        mine = [span for span, message in texts if _shows(name, resource, span, message)]
        framed = isinstance(resource, Code) and any(
            _has_frame(resource.function, text) for text in (error, *_stacks(spans))
        )
        usage[name] = Use(
            spans=tuple(span.span_id for span in mine),
            traceable=_is_traceable(resource, spans),
            erred=framed or any(span.span_id in failing for span in mine),
            ended_ns=max((span.end_ns for span in mine), default=0),
        )
    return usage


def blame(
    resources: Mapping[str, Resource],
    spans: Sequence[Span],
    *,
    error: str = "",
    rationales: Iterable[str] = (),
) -> dict[str, float]:
    """The share of each resource in the blame for a rollout's low score.

    Args:
        resources: The candidate's resources by name.
        spans: Spans of the attempt, in start order.
        error: The agent's exception; empty if there was none.
        rationales: The evaluators' rationales for the rollout.

    Returns:
        Shares by name that sum to one; empty without resources.
    """
    usage = uses(resources, spans, error)
    words = [error, *rationales]
    last = max((use.ended_ns for use in usage.values()), default=0)
    weights = {
        name: _weight(name, resources[name], use, words, last) for name, use in usage.items()
    }
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()} if total else {}


def _weight(name: str, resource: Resource, use: Use, words: Sequence[str], last: int) -> float:
    weight = 1.0 if use.used or use.erred else UNUSED if use.traceable else UNSEEN
    if use.erred:
        weight *= ERRED
    if use.used and use.ended_ns == last:
        weight *= LAST_USED_FACTOR
    names = {name, resource.function} if isinstance(resource, Code) else {name}
    if any(_names(alias, text) for alias in names for text in words):
        weight *= NAMED_FACTOR
    return weight


def _names(name: str, text: str) -> bool:
    """Whether a text contains the name as a whole word: `rank` does not match `ranking`."""
    return bool(text) and re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _is_traceable(resource: Resource, spans: Sequence[Span]) -> bool:
    """Whether use of a resource would appear in these spans."""
    called = any(is_model_call(span.attributes) for span in spans)
    if isinstance(resource, PromptTemplate):
        return called and len(_longest_piece(resource)) >= MIN_PIECE
    if isinstance(resource, Model):
        return called
    return False  # a function without its own span leaves no trace


def _shows(name: str, resource: Resource, span: Span, texts: Sequence[str]) -> bool:
    if isinstance(resource, PromptTemplate):
        return name in _marked(span) or any(_is_from(resource, text) for text in texts)
    if isinstance(resource, Code):
        aliases = {name, resource.function}
        return span.name in aliases or str(span.attributes.get("code.function.name", "")) in aliases
    if isinstance(resource, Params):
        return span.name == name
    return resource.model in (
        span.attributes.get("gen_ai.request.model"),
        span.attributes.get("gen_ai.response.model"),
    )


def _is_from(template: PromptTemplate, text: str) -> bool:
    if recognise(template, text) is not None:
        return True
    piece = _longest_piece(template)
    return len(piece) >= MIN_PIECE and piece in text


def _longest_piece(template: PromptTemplate) -> str:
    try:
        pieces = shape_of(template).pieces
    except InputError:  # template logic: only the text between its tags is constant
        pieces = tuple(re.split(r"\{[{%#].*?[}%#]\}", template.text, flags=re.DOTALL))
    return max((piece.strip() for piece in pieces), key=len, default="")


def _marked(span: Span) -> tuple[str, ...]:
    """Names of the prompts that the gateway recognised in a call."""
    value = span.attributes.get("ratchet.prompt.name")
    if isinstance(value, str):
        listed = decoded_json(value) if value.startswith("[") else None
        return tuple(map(str, listed)) if isinstance(listed, list) else (value,)
    return tuple(map(str, value)) if isinstance(value, (list, tuple)) else ()


def sent_texts(span: Span) -> tuple[str, ...]:
    """Texts sent to the model."""
    texts: list[str] = []
    for part in entries_in(span.attributes.get("gen_ai.system_instructions")):
        texts.append(str(part.get("content", "")))
    for message in entries_in(span.attributes.get("gen_ai.input.messages")):
        texts.extend(str(part.get("content", "")) for part in entries_in(message.get("parts")))
    return tuple(text for text in texts if text)


def sent_prompt(template: PromptTemplate, spans: Iterable[Span]) -> PromptPlace | None:
    """How a prompt was first sent in a rollout, according to its trace; None if the trace does not
    show it."""
    for text in (text for span in spans for text in sent_texts(span)):
        slots = recognise(template, text)
        place = PromptPlace(slots, "", "") if slots is not None else None
        place = place or recognise_within(template, text)
        if place is not None:
            return place
    return None


def step_of(
    name: str, template: PromptTemplate, spans: Iterable[Span], task_input: Any
) -> Span | None:
    """The last model call that sent a prompt, if it says more than the whole rollout; else None.

    It does where other calls sent other prompts, and where no call sent the task's input, such as
    the name of a file.
    """
    calls = [span for span in spans if is_model_call(span.attributes)]
    mine = [call for call in calls if _shows(name, template, call, sent_texts(call))]
    if not mine:
        return None
    is_sent = not isinstance(task_input, str) or any(
        task_input.strip() in text for call in mine for text in sent_texts(call)
    )
    return mine[-1] if len(mine) < len(calls) or not is_sent else None


def said_in(call: Span) -> str:
    """The text that a model call answered."""
    messages = entries_in(call.attributes.get("gen_ai.output.messages"))
    parts = [part for message in messages for part in entries_in(message.get("parts"))]
    return "\n".join(str(part["content"]) for part in parts if part.get("content"))


def _failing(spans: Sequence[Span]) -> set[str]:
    """Ids of the spans that failed first, of their descendants, and of the model calls before them.

    An error propagates through all ancestors, which say nothing of its origin. The model call that
    ended last before a sibling step is the one that requested it.
    """
    by_id = {span.span_id: span for span in spans}
    failed = [span for span in spans if span.status == "error"]
    above = {span.parent_id for span in failed}
    origins = [span for span in failed if span.span_id not in above]
    failing_ids = {origin.span_id for origin in origins if origin.parent_id or len(spans) == 1}
    for origin in origins:
        before = [
            span
            for span in spans
            if span.parent_id == origin.parent_id
            and span.span_id != origin.span_id
            and is_model_call(span.attributes)
            and span.end_ns <= origin.start_ns
        ]
        if before and origin.parent_id:
            failing_ids.add(max(before, key=lambda span: span.end_ns).span_id)
    return failing_ids | {span.span_id for span in spans if failing_ids & _above(span, by_id)}


def _above(span: Span, by_id: Mapping[str, Span]) -> set[str]:
    """Ids of a span's ancestors."""
    ancestors: set[str] = set()
    parent = span.parent_id
    while parent is not None and parent in by_id and parent not in ancestors:
        ancestors.add(parent)
        parent = by_id[parent].parent_id
    return ancestors


def _stacks(spans: Sequence[Span]) -> Iterable[str]:
    for span in spans:
        for event in span.events:
            yield str(event.attributes.get("exception.stacktrace", ""))


def _has_frame(function: str, text: str) -> bool:
    """Whether a function is among the frames of a stack: `File "x.py", line 3, in rank`."""
    return bool(text) and re.search(rf"\bin (?:\w+\.)*{re.escape(function)}\b", text) is not None
