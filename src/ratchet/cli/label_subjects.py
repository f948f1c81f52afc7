"""The answers that people label, of a rollout or a recorded trace, and how they are shown."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from typing import Any, Protocol

from ratchet.cli.console import one_line, out, printable
from ratchet.cli.show_trace import feedback_line, print_messages
from ratchet.curate.recorded_values import Incomplete, input_of, output_of
from ratchet.evaluate.labelling import LabelCase, in_random_order
from ratchet.store import Store
from ratchet.store.recorded_spans import agent_call
from ratchet.store.usage import used_in
from ratchet.types import RIGHT_FROM, Span
from ratchet.types.trace import (
    ConversationMessage,
    Trace,
    TraceDetail,
    TraceFilter,
    TraceRecording,
)

NEWEST_TRACES = 1_000
"""How many of the newest traces are considered."""

MAX_EARLIER_MESSAGES = 12


class LabelSubject(Protocol):
    """An answer to be labelled."""

    @property
    def id(self) -> str:
        """Id of the rollout or trace."""
        ...

    @property
    def field(self) -> str:
        """Field of a label that holds the id."""
        ...

    def show(self) -> None:
        """Print what a person needs to judge the answer."""
        ...

    def spans(self) -> Sequence[Span]:
        """The steps behind the answer."""
        ...

    def for_machines(self) -> dict[str, Any]:
        """What a person needs to judge the answer, for JSON."""
        ...


class RolloutSubject:
    """A rollout's answer."""

    field = "rollout_id"

    def __init__(self, case: LabelCase, store: Store) -> None:
        self._case = case
        self._store = store
        self.id = case.rollout.id

    def show(self) -> None:
        """Input, output, expected answer and scores."""
        rollout = self._case.rollout
        fields = [("Input", rollout.input), ("Output", rollout.output)]
        if rollout.expected is not None:
            fields.append(("Expected", rollout.expected))
        _print_values(fields)
        for name, score in self._case.scores.items():
            value = "unscored" if score.value is None else f"{score.value:.2f}"
            reason = one_line(score.rationale or score.error, 100)
            out.print(f"{name} {value}  {reason}", style="dim", markup=False)

    def spans(self) -> Sequence[Span]:
        """The rollout's spans."""
        return self._store.spans.of(self.id)

    def for_machines(self) -> dict[str, Any]:
        """Input, output, expected answer and scores."""
        rollout = self._case.rollout
        return {
            "rollout_id": rollout.id,
            "input": rollout.input,
            "output": rollout.output,
            "expected": rollout.expected,
            "scores": {
                name: {"value": s.value, "rationale": s.rationale, "error": s.error}
                for name, s in self._case.scores.items()
            },
        }


class TraceSubject:
    """The answer of a recorded trace."""

    field = "trace_id"

    def __init__(self, trace: Trace, store: Store) -> None:
        self._trace = trace
        self._store = store
        self._known: TraceDetail | None = None
        self.id = trace.trace_id

    def show(self) -> None:
        """The conversation before it, then input, output and feedback."""
        if earlier := self._earlier():
            out.print("Conversation", style="bold")
            print_messages(earlier[-MAX_EARLIER_MESSAGES:])
        values = self._values()
        _print_values([("Input", values["input"]), ("Output", values["output"])])
        for item in self._detail.feedback:
            out.print(feedback_line(item))

    def spans(self) -> Sequence[Span]:
        """The trace's spans."""
        return self._detail.spans

    def for_machines(self) -> dict[str, Any]:
        """Input, output, agent and conversation."""
        trace = self._trace
        about = {"agent": trace.agent, "conversation_id": trace.conversation_id}
        return {"trace_id": self.id, **self._values(), **about}

    @property
    def _detail(self) -> TraceDetail:
        if self._known is None:
            detail = self._store.traces.get(self.id)
            # A trace may be deleted meanwhile.
            self._known = detail or TraceDetail(trace=self._trace, spans=[], feedback=[])
        return self._known

    def _values(self) -> dict[str, Any]:
        spans = self._detail.spans
        if not spans:
            return {"input": None, "output": None}
        calls = [span for span in spans if used_in(span) is not None]
        root = next((span for span in spans if span.parent_id is None), spans[0])
        recording = TraceRecording(
            trace=self._trace,
            root=root,
            call=agent_call(root, spans),
            first_call=calls[0] if calls else None,
            last_call=calls[-1] if calls else None,
        )
        values: dict[str, Any] = {}
        for name, read in (("input", input_of), ("output", output_of)):
            try:
                values[name] = read(recording)
            except Incomplete:
                values[name] = "(recorded in part only)"
        return values

    def _earlier(self) -> list[ConversationMessage]:
        """Messages of the same conversation before this trace."""
        if not self._trace.conversation_id:
            return []
        log = self._store.conversations.log(self._trace.conversation_id)
        messages = log.messages if log is not None else ()
        return [m for m in messages if not m.nested and m.at_ns < self._trace.start_ns]


def trace_subjects(store: Store, agent: str | None, *, random: bool) -> list[TraceSubject]:
    """The newest live traces: in random order, or those with bad feedback or a failed step first.

    Args:
        store: The store.
        agent: Only this agent's; by default all but those of Ratchet's own model calls.
        random: Whether to draw evenly.
    """
    wanted = TraceFilter(agent=agent, own_calls=agent is not None)
    traces, _ = store.traces.list(wanted, limit=NEWEST_TRACES)
    if random:
        traces = in_random_order(traces, lambda trace: trace.trace_id)
    else:
        traces.sort(key=lambda trace: not (trace.errors or _is_disliked(trace)))
    return [TraceSubject(trace, store) for trace in traces]


def _is_disliked(trace: Trace) -> bool:
    return trace.worst is not None and trace.worst < RIGHT_FROM


def _print_values(fields: Sequence[tuple[str, Any]]) -> None:
    for title, value in fields:
        out.print(title, style="bold")
        out.print(_text(value), markup=False)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(json_text.dumps(value, ensure_ascii=False, indent=2))
