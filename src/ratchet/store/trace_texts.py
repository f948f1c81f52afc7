"""A trace in a few lines: its input, output, first error and user, and its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ratchet.store.columns import clean
from ratchet.store.messages import messages_in, texts_of, words_of
from ratchet.store.recorded_spans import recordings_of
from ratchet.store.search_words import words_in
from ratchet.store.span_rows import MAX_ID
from ratchet.store.summaries import SummaryKey, among
from ratchet.store.tables import spans
from ratchet.types import Span
from ratchet.types.trace import Trace, TraceRecording

LISTED_TEXT_LIMIT = 300
"""Characters of an input, output or error in a list."""

SEARCHED = 4_000
"""Characters of an input, and of an output, that are searchable."""

MAX_NAMES_SEARCHED = 50
"""Names of steps and tools of a trace that are searchable."""

_INPUT, _OUTPUT = "ratchet.input", "ratchet.output"
_SENT, _SAID = "gen_ai.input.messages", "gen_ai.output.messages"
_USER = ("user.id", "enduser.id")

_READ = 20_000
"""Characters of a recorded text that are examined."""


class TraceTexts(NamedTuple):
    """The text of a trace; of long texts, the start."""

    input: str = ""
    output: str = ""
    error: str = ""
    user: str = ""
    names: tuple[str, ...] = ()
    """Names of its spans, which are those of steps, tools and models; each once."""

    def words(self, trace: Trace) -> list[str]:
        """Words by which the trace is found."""
        ids = (trace.trace_id, trace.conversation_id, trace.agent, self.user)
        texts = (self.input, self.output, self.error, *ids, *trace.models, *self.names)
        return words_in("\n".join(texts))


class TraceLines(NamedTuple):
    """The text of a trace in a list: a line each, as fields of `Trace`."""

    input: str
    output: str
    error: str
    user: str


def texts_by_trace(
    connection: Connection, traces: Mapping[SummaryKey, Trace]
) -> dict[SummaryKey, TraceTexts]:
    """Read the texts of traces; those deleted in the meantime are omitted.

    Args:
        connection: An open transaction.
        traces: Summaries of the traces.
    """
    recordings = recordings_of(connection, traces)
    errors, names = _steps(connection, list(traces))
    return {
        key: TraceTexts(
            input=clean(_input_of(recording)[:SEARCHED]),
            output=clean(_output_of(recording)[:SEARCHED]),
            error=errors.get(key, ""),
            user=_user_of(recording),
            names=tuple(names.get(key, ()))[:MAX_NAMES_SEARCHED],
        )
        for key, recording in recordings.items()
    }


def lines_by_trace(
    connection: Connection, traces: Mapping[SummaryKey, Trace]
) -> dict[SummaryKey, TraceLines]:
    """Read the texts of traces, as a list shows them; arguments as for `texts_by_trace`."""
    texts = texts_by_trace(connection, traces) if traces else {}
    return {key: lines_of(says) for key, says in texts.items()}


def lines_of(texts: TraceTexts) -> TraceLines:
    """The text of a trace, as a list shows it."""
    return TraceLines(_line(texts.input), _line(texts.output), _line(texts.error), texts.user)


def _line(text: str) -> str:
    return " ".join(text[: 2 * LISTED_TEXT_LIMIT].split())[:LISTED_TEXT_LIMIT]


def _steps(
    connection: Connection, keys: Sequence[SummaryKey]
) -> tuple[dict[SummaryKey, str], dict[SummaryKey, dict[str, None]]]:
    """Message of the span that failed first, and the names of the spans, of each trace."""
    if not keys:
        return {}, {}
    query = select(
        spans.c.rollout_seq,
        spans.c.fence,
        spans.c.trace_id,
        spans.c.name,
        spans.c.status,
        spans.c.message,
    )
    errors: dict[SummaryKey, str] = {}
    names: dict[SummaryKey, dict[str, None]] = {}
    # Of steps within each other the innermost ends first.
    ordered = query.where(among(keys)).order_by(spans.c.end_ns, spans.c.seq)
    for rollout_seq, fence, trace_id, name, status, message in connection.execute(ordered).all():
        key = SummaryKey(rollout_seq, fence, trace_id)
        names.setdefault(key, {})[name[:MAX_ID]] = None
        if status == "error" and key not in errors:
            errors[key] = message[:SEARCHED] or f"{name[:MAX_ID]} failed"
    return errors, names


def _input_of(recording: TraceRecording) -> str:
    """The input of the agent's call, or else what the user said last to the first model call."""
    stating = recording.call or recording.root
    if stating.attributes.get(_INPUT) not in (None, ""):
        return _text(stating.attributes[_INPUT])
    for span in _spans(recording.first_call, recording.root):
        messages, _ = messages_in(span.attributes.get(_SENT))
        said = [message for message in messages if message["role"] == "user"]
        if said:
            return "\n".join(texts_of(said[-1]))
    return ""


def _output_of(recording: TraceRecording) -> str:
    """The output of the agent's call, or else the text of the last model call's answer."""
    stating = recording.call or recording.root
    if stating.attributes.get(_OUTPUT) not in (None, ""):
        return _text(stating.attributes[_OUTPUT])
    for span in _spans(recording.last_call, recording.root):
        messages, _ = messages_in(span.attributes.get(_SAID))
        answers = [text for message in messages for text in texts_of(message)]
        if answers:
            return answers[-1]
    return ""


def _user_of(recording: TraceRecording) -> str:
    for span in _spans(recording.root, recording.call, recording.first_call):
        for name in _USER:
            value = span.attributes.get(name)
            if isinstance(value, str) and value:
                return clean(value[:MAX_ID])
    return ""


def _spans(*chosen: Span | None) -> list[Span]:
    return [span for span in chosen if span is not None]


def _text(stated: Any) -> str:
    if isinstance(stated, str) and len(stated) > _READ:
        return stated[:_READ]  # not parsed: only its beginning is shown
    return words_of(stated)
