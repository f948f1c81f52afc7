"""OTLP endpoint: handles POST /v1/traces, responding once the spans are stored.

Specification: open-telemetry/opentelemetry-proto, docs/specification.md, OTLP/HTTP.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ratchet._asgi import AsgiScope, Receive, Send
from ratchet.server.access import Caller
from ratchet.server.agent_limits import opens
from ratchet.server.body import BodyBudget, Content, decompressed, read_body
from ratchet.server.http_problems import HttpProblem
from ratchet.server.metrics import Metrics
from ratchet.server.otlp.limits import MAX_MESSAGES, MAX_SPANS, Malformed, TooMany
from ratchet.server.otlp.messages import ENCODINGS, OtlpEncoding
from ratchet.server.otlp.records import OtlpRecords, describe, records_of
from ratchet.server.span_writer import SpanWriter

BODY_LIMIT = 32 * 1024 * 1024
"""Default limit of a body in bytes, before and after decompression."""

INLINE_BODY = 256 * 1024
"""Bodies up to this many bytes are decoded inline; larger ones in a thread, so as not to block
other requests.
"""

NOT_RUNNING = "belong to an attempt that is not running (send its spans before its end)"
OTHER_AGENT = "belong to an agent other than the one that the key is limited to"
FOREIGN = "belong to an attempt and came without its token"
"""Reasons of rejected spans."""

_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 408: 4, 413: 8, 429: 8, 503: 14}
"""gRPC's code for a status; anything else is 13, internal."""


class Otlp:
    """ASGI callable of /v1/traces.

    Args:
        writer: Stores spans.
        body_limit: Limit of a body in bytes, also after decompression.
        bodies: Memory that bodies share with those of other routes.
        metrics: Counts refused spans.
    """

    def __init__(
        self,
        writer: SpanWriter,
        *,
        body_limit: int = BODY_LIMIT,
        bodies: BodyBudget | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._writer = writer
        self._limit = body_limit
        self._metrics = metrics
        self._bodies = bodies or BodyBudget()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Serve one request.

        Raises:
            HttpProblem: OTLP does not support the method or the media type. Every other failure is
                answered here, in the form that the specification requires.
        """
        if scope["method"] != "POST":
            raise HttpProblem(405, "Spans are sent with POST.", headers={"allow": "POST"})
        media_type, compression, length = _headers(scope["headers"])
        encoding = ENCODINGS.get(media_type)
        if encoding is None:
            raise HttpProblem(
                415,
                f"OTLP does not support the media type {media_type!r}.",
                hint=f"Send {' or '.join(ENCODINGS)}.",
            )
        caller: Caller = scope["ratchet.caller"]
        try:
            rejected = await self._take(encoding, compression, length, receive, caller)
        except HttpProblem as problem:
            failure = encoding.failure(_CODES.get(problem.status, 13), problem.detail)
            await _answer(send, problem.status, encoding, failure, problem.headers)
            return
        count = rejected.total()
        if count and self._metrics is not None:
            self._metrics.spans_refused(count)
        await _answer(send, 200, encoding, encoding.success(count, describe(rejected)), {})

    async def _take(
        self,
        encoding: OtlpEncoding,
        compression: str,
        length: int,
        receive: Receive,
        caller: Caller,
    ) -> Counter[str]:
        """Read, decode and store a body; return the numbers of rejected spans by reason."""
        with self._bodies.hold() as held_body:
            body = await read_body(receive, self._limit, held_body, length=length)
            plain = await decompressed(body, compression, self._limit, held_body)
            if len(plain) <= INLINE_BODY:
                records = self._decode(encoding, plain, caller)
            else:
                async with self._bodies.decoding:
                    records = await asyncio.to_thread(self._decode, encoding, plain, caller)
            refused = await self._writer.write(records.kept)
            if refused:
                records.rejected[NOT_RUNNING] += refused
            return records.rejected

    def _decode(self, encoding: OtlpEncoding, plain: Content, caller: Caller) -> OtlpRecords:
        try:
            request = encoding.decode(plain)
        except Malformed as error:
            raise HttpProblem(400, str(error)) from None
        except TooMany:
            raise HttpProblem(
                413,
                f"The request has more than {MAX_SPANS} spans, or {MAX_MESSAGES} parts of them.",
                hint="Send fewer at a time (OTEL_BSP_MAX_EXPORT_BATCH_SIZE).",
            ) from None
        records = records_of(request, caller.attempt)
        if caller.attempt is not None:
            return records
        live = []
        for record in records.kept:
            if record.rollout_id:
                records.rejected[FOREIGN] += 1
            elif not opens(caller, record.agent):
                records.rejected[OTHER_AGENT] += 1
            else:
                live.append(record)
        return OtlpRecords(live, records.rejected)


def _headers(headers: Any) -> tuple[str, str, int]:
    """Media type, content encoding, and content length if known."""
    media_type = compression = ""
    length = 0
    for name, value in headers:
        if name == b"content-type":
            media_type = value.decode("latin-1").partition(";")[0].strip().lower()
        elif name == b"content-encoding":
            compression = value.decode("latin-1").strip().lower()
        elif name == b"content-length" and value.isdigit() and len(value) < 19:
            length = int(value)
    return media_type, compression, length


async def _answer(
    send: Send, status: int, encoding: OtlpEncoding, content: bytes, more: Mapping[str, str]
) -> None:
    headers = [
        (b"content-type", encoding.media_type.encode()),
        (b"content-length", str(len(content)).encode()),
        *((name.encode(), value.encode("latin-1", "replace")) for name, value in more.items()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
