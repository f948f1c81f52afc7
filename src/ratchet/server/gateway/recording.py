"""Recording: collects the request and response of one call and makes them a span at its end.

It never raises into the relay, and its memory is bounded.
"""

from __future__ import annotations

import logging
import random
import secrets
import time
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ratchet.llm import price_at
from ratchet.observe.call_starts import start_of
from ratchet.observe.capture import CAPTURE_LIMIT, readable, shorten
from ratchet.observe.ids import attempt_span_id, attempt_trace_id
from ratchet.observe.model_apis import Assembly, ModelApi
from ratchet.observe.model_apis.bounded_json import decoded, mapping, name
from ratchet.server.body import Content
from ratchet.server.gateway.call_tokens import TokenKeeping, engine_of, transitions_of
from ratchet.server.gateway.json_lines import JsonLinesParser
from ratchet.server.gateway.sse import EventStreamParser
from ratchet.server.gateway.target import GatewayTarget
from ratchet.store.usage import INPUT_TOKENS, OUTPUT_TOKENS, call_of
from ratchet.types import SamplingSettings, Span, SpanRecord, Transition
from ratchet.types.trace import ARM, BROKEN_OFF

ANSWER_LIMIT = 16_777_216
"""How many bytes of a response are recorded, and of a stream after decompression."""

EARLY_BYTES = 65_536
"""A larger request is parsed before it is sent and then released, since calls may take long and be
numerous. A smaller one is parsed after the client has its response.
"""

NOT_SENT = frozenset({"connect_error", "overloaded"})
"""Errors of calls that reached no upstream and so cost nothing."""

_log = logging.getLogger(__name__)

_random = random.Random(secrets.randbits(256))  # noqa: S311 - unique, not secret


class CallRecording:
    """The recording of one call.

    Args:
        target: The attempt or agent that the call belongs to.
        dialect: API dialect of the call.
        request: The decoded body to send; None when it is not a JSON object.
        body: The same as bytes, recorded as text when it cannot be decoded.
        attributes: Attributes known at the start.
        context: Trace id and parent span id sent by the client, if any.
        sellers: Sellers to look up prices of, likeliest first, as named by `ratchet.llm.dollars`.
        keeping: How the call's tokens are kept; None to keep none.
    """

    __slots__ = (
        "_assembly",
        "_defect",
        "_dialect",
        "_ended_at",
        "_events",
        "_first_at",
        "_inflate",
        "_keeping",
        "_left",
        "_pieces",
        "_request",
        "_sellers",
        "_started_at",
        "_started_ns",
        "attributes",
        "context",
        "size",
        "span_id",
        "status",
        "target",
        "trace_id",
    )

    def __init__(
        self,
        target: GatewayTarget,
        dialect: ModelApi,
        request: dict[str, Any] | None,
        body: Content,
        attributes: dict[str, Any],
        context: tuple[str, str] | None,
        sellers: tuple[str, ...] = (),
        keeping: TokenKeeping | None = None,
    ) -> None:
        self.target = target
        self._keeping = keeping
        self.attributes = attributes
        self.context = context
        self.trace_id = _trace_id(target, context)
        self.span_id = f"{_random.getrandbits(64) or 1:016x}"
        attributes["gen_ai.operation.name"] = dialect.OPERATION
        self.status = 0
        """HTTP status of the response; 0 while there is none."""
        self._dialect = dialect
        self._sellers = sellers
        self._request = request
        self.size = 0
        """Approximate size of the span in bytes; set at its end."""
        self._started_ns = time.time_ns()
        self._started_at = time.perf_counter()
        self._first_at = 0.0
        self._ended_at = 0.0
        self._pieces: list[bytes] = []
        self._left = ANSWER_LIMIT
        self._events: EventStreamParser | JsonLinesParser | None = None
        self._assembly: Assembly | None = None
        self._inflate: Any = None
        self._defect = ""
        if request is None and body:
            text = readable(body[: 4 * CAPTURE_LIMIT].decode("utf-8", "replace"))
            attributes["ratchet.request.body"] = shorten(text, CAPTURE_LIMIT)
        elif request is not None and len(body) > EARLY_BYTES:
            self._read_request()

    def begin(self, status: int, content_type: str, encoding: str) -> None:
        """Record the head of the response."""
        self.status = status
        encoding = encoding.strip().lower()
        if encoding in ("gzip", "deflate"):
            self._inflate = zlib.decompressobj(47)  # detect a gzip or zlib header
        elif encoding not in ("", "identity"):
            self._give_up(f"The answer is compressed by {encoding[:40]}, which cannot be decoded.")
        if content_type.lower().startswith("text/event-stream"):
            self._events = EventStreamParser()
            self._assembly = self._dialect.assembly()
        elif "ndjson" in content_type.lower():
            self._events = JsonLinesParser()
            self._assembly = self._dialect.assembly()

    def piece(self, piece: bytes) -> None:
        """Record a piece of the response body that has been relayed."""
        if not self._first_at:
            self._first_at = time.perf_counter()
        if self._left <= 0:
            return
        if self._events is None:
            self._left -= len(piece)
            if self._left < 0:
                self._give_up(f"The answer is longer than {ANSWER_LIMIT} bytes.")
            else:
                self._pieces.append(piece)
            return
        try:
            if self._inflate is not None:
                piece = self._inflate.decompress(piece, self._left)
                self._left -= len(piece)
                if self._left <= 0:
                    self._give_up(f"The stream is longer than {ANSWER_LIMIT} bytes.")
            self._follow(self._events.feed(piece))
        except Exception as error:  # no recording error may stop the relay
            _log.debug("A stream cannot be recorded further.", exc_info=True)
            self._give_up(f"The stream cannot be read: {type(error).__name__}.")

    @property
    def seconds(self) -> float:
        """Seconds from the call to `stop`."""
        return self._ended_at - self._started_at

    @property
    def first_chunk_s(self) -> float | None:
        """Seconds from the call to the first chunk of a stream; None without one."""
        streamed = self._events is not None and self._first_at
        return self._first_at - self._started_at if streamed else None

    def stop(self) -> None:
        """Record the end of the call."""
        self._ended_at = time.perf_counter()

    def end(self, kind: str = "", message: str = "") -> SpanRecord:
        """The span of the call, after `stop`.

        Args:
            kind: Error type, when the gateway or the connection failed; else empty.
            message: The error message.
        """
        attributes = self.attributes
        answer: Mapping[str, Any] = {}
        self._read_request()
        try:
            answer = self._whole()
            attributes.update(self._dialect.response_attributes(answer))
        except Exception as error:  # a bug costs attributes, not the span
            _log.exception("A call could not be recorded in full.")
            self._give_up(f"{type(error).__name__}: {error}"[:500])
        if self._defect:
            attributes["ratchet.recording.error"] = self._defect
        if self.status:
            attributes["http.response.status_code"] = self.status
        if self._events is not None and self._first_at:
            first = round(self._first_at - self._started_at, 6)
            attributes["gen_ai.response.time_to_first_chunk"] = first
        if not kind:
            kind, message = self._failure(answer)
        if kind:
            attributes["error.type"] = kind
        broke_off = self._broke_off(answer, kind)
        if broke_off or kind:
            attributes[BROKEN_OFF] = broke_off
        cost = self._cost()
        if cost is not None:
            attributes["ratchet.cost_usd"] = cost
        transitions = () if self._keeping is None else self._tokens(answer, kind)
        return self._record(kind, message, transitions)

    def started(self) -> SpanRecord | None:
        """The record that the call has begun, if it is in a canary; otherwise None."""
        if ARM not in self.attributes:
            return None
        span = start_of(self.trace_id, self.span_id, self._started_ns, self.attributes)
        return SpanRecord(span=span, agent=self.target.agent)

    def again(self, former: CallRecording) -> None:
        """Record a retry of the same call, after the upstream had to load its weights."""
        self.trace_id, self.span_id = former.trace_id, former.span_id

    def _tokens(self, answer: Mapping[str, Any], kind: str) -> tuple[Transition, ...]:
        """The call's tokens, with their numbers as attributes of its span."""
        assert self._keeping is not None
        attributes, dialect = self.attributes, self._dialect
        if self.status != 200 or (kind and "error" in answer):
            return ()  # the model said nothing
        fault = "incomplete" if kind else "unreadable" if self._defect else ""
        if dialect.training_request({}) is None:
            fault = "api"
        call = Transition(
            id=self.span_id,
            rollout_id=self.target.rollout_id,
            fence=self.target.fence,
            role=self._keeping.role,
            model=attributes.get("gen_ai.request.model", ""),
            response_id=attributes.get("gen_ai.response.id", ""),
            sampling=SamplingSettings(
                temperature=attributes.get("gen_ai.request.temperature"),
                top_p=attributes.get("gen_ai.request.top_p"),
                top_k=attributes.get("gen_ai.request.top_k"),
                seed=attributes.get("gen_ai.request.seed"),
            ),
            started_ns=self._started_ns,
            ended_ns=self._ended_ns,
        )
        choices = dialect.choice_tokens(answer)
        transitions = transitions_of(call, choices, engine_of(answer), self._keeping, fault)
        if transitions and transitions[0].drop:
            attributes["ratchet.tokens.dropped"] = transitions[0].drop
        elif transitions:
            attributes["ratchet.tokens.prompt"] = len(transitions[0].prompt_ids) // _ID_BYTES
            attributes["ratchet.tokens.response"] = (
                sum(len(transition.response_ids) for transition in transitions) // _ID_BYTES
            )
        return transitions

    @property
    def _ended_ns(self) -> int:
        return self._started_ns + int((self._ended_at - self._started_at) * 1e9)

    def _read_request(self) -> None:
        request, self._request = self._request, None
        if request is None:
            return
        try:
            self.attributes.update(self._dialect.request_attributes(request))
        except Exception as error:  # a bug costs attributes, not the span
            _log.exception("A request could not be recorded in full.")
            self._defect = f"{type(error).__name__}: {error}"[:500]

    def _follow(self, events: list[bytes]) -> None:
        assert self._assembly is not None
        for data in events:
            if data == b"[DONE]":
                continue
            try:
                event = decoded(data)
            except ValueError:
                self._defect = "An event of the stream is not JSON."
                continue
            if isinstance(event, dict):
                self._assembly.add(event)

    def _whole(self) -> Mapping[str, Any]:
        """The decoded response, streamed or not."""
        if self._events is not None and self._assembly is not None:
            if self._events.skipped:
                self._defect = f"Events that were too long to record: {self._events.skipped}."
            return self._assembly.response()
        body = b"".join(self._pieces)
        self._pieces.clear()
        if not body:
            return {}
        if self._inflate is not None:
            try:
                body = self._inflate.decompress(body, ANSWER_LIMIT)
            except zlib.error:
                self._give_up("The answer is damaged: it cannot be decompressed.")
                return {}
            if self._inflate.unconsumed_tail:
                self._give_up(f"The answer is longer than {ANSWER_LIMIT} bytes.")
                return {}
        try:
            return mapping(decoded(body))
        except ValueError as error:
            self._give_up(f"The answer is not JSON: {error}"[:500])
            text = readable(body[: 4 * CAPTURE_LIMIT].decode("utf-8", "replace"))
            self.attributes["ratchet.response.body"] = shorten(text, CAPTURE_LIMIT)
            return {}

    def _give_up(self, why: str) -> None:
        self._defect = why
        self._left = 0
        self._pieces.clear()

    def _failure(self, answer: Mapping[str, Any]) -> tuple[str, str]:
        """Type and message of the error that the upstream reports; empty when there is none."""
        reported = answer.get("error")
        if reported is None and self.status < 400:
            return "", ""
        error = mapping(reported)
        kind = name(error.get("type")) or name(error.get("code")) or str(self.status)
        message = error.get("message") or (reported if isinstance(reported, str) else "")
        if not isinstance(message, str) or not message:
            message = f"The upstream answered with status {self.status}."
        return kind, readable(message[:2000])

    def _broke_off(self, answer: Mapping[str, Any], kind: str) -> bool:
        """Whether the model was still working when the call ended, so that its usage is unknown."""
        if self.status >= 400 or kind in NOT_SENT:
            return False
        assembly = self._assembly
        if assembly is not None and (assembly.begun or assembly.complete):
            return not assembly.complete
        # A whole answer that is not streamed has its usage; an error instead of one is a refusal.
        return bool(kind) and not answer

    def _cost(self) -> float | None:
        attributes = self.attributes
        if INPUT_TOKENS not in attributes and OUTPUT_TOKENS not in attributes:
            return None
        try:
            answered = call_of(attributes)
            requested = attributes.get("gen_ai.request.model", "")
            calls = [answered]
            if requested != answered.model:  # an alias, whose price may be known alone
                calls.append(msgspec.structs.replace(answered, model=requested))
            for seller in self._sellers:
                for call in calls:
                    cost = price_at(seller, call)
                    if cost is not None:
                        return cost
        except Exception:  # a price list of a changed format costs the price only
            _log.exception("The price of a call could not be computed.")
        return None

    def _record(self, kind: str, message: str, transitions: tuple[Transition, ...]) -> SpanRecord:
        target = self.target
        parent_id: str | None = None
        if self.context is not None:
            parent_id = self.context[1]
        elif target.is_attempt:
            parent_id = attempt_span_id(target.rollout_id, target.fence)
        self.size = _size(self.attributes) + sum(
            len(transition.prompt_ids) + 2 * len(transition.response_ids)
            for transition in transitions
        )
        model = self.attributes.get("gen_ai.request.model", "")
        span = Span(
            trace_id=self.trace_id,
            span_id=self.span_id,
            parent_id=parent_id,
            name=f"{self._dialect.OPERATION} {model}".strip(),
            start_ns=self._started_ns,
            end_ns=self._ended_ns,
            status="error" if kind else "ok",
            message=message,
            attributes=self.attributes,
        )
        if not target.is_attempt:
            return SpanRecord(span=span, agent=target.agent)
        return SpanRecord(
            span=span, rollout_id=target.rollout_id, fence=target.fence, transitions=transitions
        )


def _trace_id(target: GatewayTarget, context: tuple[str, str] | None) -> str:
    if context is not None:
        return context[0]
    if target.is_attempt:
        return attempt_trace_id(target.rollout_id, target.fence)
    return f"{_random.getrandbits(128) or 1:032x}"


_OVERHEAD = 2_000
_LARGE = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "ratchet.request.body",
    "ratchet.response.body",
)
_ID_BYTES = 4


def _size(attributes: Mapping[str, Any]) -> int:
    """Approximate size of a span with these attributes, in bytes."""
    size = _OVERHEAD
    for key in _LARGE:
        if key in attributes:
            size += len(attributes[key])
    return size
