"""Records calls of the coach and of judges as spans: a trace per call, with a span per request."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ratchet.llm.completion import Completion
from ratchet.llm.endpoint import Endpoint
from ratchet.llm.failures import RequestFailed, quote
from ratchet.observe.dialects import messages as form
from ratchet.observe.dialects import names
from ratchet.observe.ids import new_span_id, new_trace_id
from ratchet.observe.record_builder import bounded
from ratchet.types import Span, SpanRecord

if TYPE_CHECKING:
    from ratchet.observe.redaction import Redactor

_PROVIDERS = {
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.openai.com": "openai",
    "api.x.ai": "x_ai",
    "generativelanguage.googleapis.com": "gcp.gemini",
}
"""Provider names of OpenTelemetry, by host."""


def records_of(
    spans: Sequence[Span],
    agent: str,
    attributes: Mapping[str, Any] | None = None,
) -> list[SpanRecord]:
    """Records a call's spans, ready to be stored.

    Args:
        spans: The spans, redacted.
        agent: Agent name of the trace.
        attributes: Further attributes of each.
    """
    records = []
    for span in spans:
        own = msgspec.structs.replace(span, attributes={**span.attributes, **(attributes or {})})
        records.append(SpanRecord(span=bounded(own), agent=agent))
    return records


def _redacted(span: Span, redactor: Redactor) -> Span:
    """The span, redacted; its messages are unchanged, since they were redacted before."""
    redacted = redactor.span(span)
    sent = span.attributes.get(names.INPUT_MESSAGES)
    if sent is None or not redactor.rules.capture_content:
        return redacted
    return msgspec.structs.replace(
        redacted, attributes={**redacted.attributes, names.INPUT_MESSAGES: sent}
    )


class CallRecord:
    """The trace of a call.

    Args:
        agent: Agent name of the trace, `coach` or `judge`.
        step: Purpose of the call; may be empty.
    """

    def __init__(self, agent: str, step: str) -> None:
        self._agent = agent
        self._trace_id = f"{new_trace_id():032x}"
        self._root_id = f"{new_span_id():016x}"
        self._step = step
        self._since = time.time_ns()
        self._spans: list[Span] = []

    def request(
        self,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        since_ns: int,
        tries: int,
        outcome: Completion | RequestFailed,
        cost_usd: float | None = None,
    ) -> None:
        """Record a finished request.

        Args:
            endpoint: Target of the request.
            body: The request body, redacted.
            since_ns: Start, in Unix nanoseconds.
            tries: Number of earlier attempts.
            outcome: The answer or the failure.
            cost_usd: Dollars, if known.
        """
        attributes: dict[str, Any] = {
            names.OPERATION: "chat",
            names.PROVIDER: _PROVIDERS.get(endpoint.host, "openai"),
            names.REQUEST_MODEL: endpoint.model,
            "server.address": endpoint.host,
            names.INPUT_MESSAGES: form.json_text(
                [
                    form.message(message["role"], "user", [form.text(message["content"])])
                    for message in body["messages"]
                ]
            ),
        }
        for key in ("temperature", "max_tokens"):
            if key in body:
                attributes[f"gen_ai.request.{key}"] = body[key]
        if "max_completion_tokens" in body:
            attributes["gen_ai.request.max_tokens"] = body["max_completion_tokens"]
        if tries:
            attributes["http.request.resend_count"] = tries
        message = ""
        if isinstance(outcome, RequestFailed):
            attributes["error.type"] = outcome.kind
            if outcome.status:
                attributes["http.response.status_code"] = outcome.status
            message = outcome.sentence
        else:
            answer = form.message(
                "assistant", "assistant", [form.text(outcome.text)], outcome.finish or None
            )
            attributes |= {
                names.RESPONSE_MODEL: quote(endpoint, outcome.model) or endpoint.model,
                names.OUTPUT_MESSAGES: form.json_text([answer]),
                names.INPUT_TOKENS: outcome.usage.input_tokens,
                names.OUTPUT_TOKENS: outcome.usage.output_tokens,
            }
            if outcome.usage.cache_read_tokens:
                attributes[names.CACHE_READ_TOKENS] = outcome.usage.cache_read_tokens
            if outcome.finish:
                attributes[names.FINISH_REASONS] = [outcome.finish]
            if outcome.estimated:
                attributes["ratchet.usage.estimated"] = True
            if cost_usd is not None:
                attributes["ratchet.cost_usd"] = cost_usd
        self._spans.append(
            self._span(f"chat {endpoint.model}", since_ns, attributes, message, self._root_id)
        )

    def spans(self, problem: str, redactor: Redactor) -> list[Span]:
        """Return the trace of the finished call, redacted.

        Args:
            problem: Why there is no usable answer; empty if there is.
            redactor: That of the coach, whose requests are redacted already.
        """
        attributes: dict[str, Any] = {names.AGENT_NAME: self._agent}
        if self._step:
            attributes[f"ratchet.{self._agent}.step"] = self._step
        name = f"{self._agent} {self._step}".strip()
        root = self._span(name, self._since, attributes, problem, None)
        return [_redacted(span, redactor) for span in (root, *self._spans)]

    def _span(
        self,
        name: str,
        since_ns: int,
        attributes: dict[str, Any],
        message: str,
        parent_id: str | None,
    ) -> Span:
        return Span(
            trace_id=self._trace_id,
            span_id=self._root_id if parent_id is None else f"{new_span_id():016x}",
            parent_id=parent_id,
            name=name,
            start_ns=since_ns,
            end_ns=max(time.time_ns(), since_ns),
            status="error" if message else "ok",
            message=message,
            attributes=attributes,
        )
