"""The load of benchmarks/ingest.py: realistic agent spans, and connections that send them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import conversations
import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

CONNECTIONS = 16
SPANS_PER_TRACE = 10

SYSTEM = (
    "You are the booking assistant of a travel agency. Answer in the language of the customer,"
    " name prices with their currency, and never promise what the booking system has not"
    " confirmed. Ask for the dates when they are missing. Use the tools to look up what is free."
)
QUESTION = (
    "We are two adults and a child, and would like to go to Lisbon over the first weekend of May."
)
ANSWER = (
    "There are three hotels near the Alfama with a family room from 2 to 4 May: the Sol at 412 EUR,"
    " the Miradouro at 388 EUR with breakfast, and the Casa Azul at 356 EUR. The flight that fits"
    " leaves on Friday at 16:40 and is back on Sunday at 21:05. Shall I hold one of them for you?"
)
ARGUMENTS = (
    '{"city": "Lisbon", "from": "2026-05-02", "to": "2026-05-04", "adults": 2, "children": 1}'
)
FOUND = json.dumps([{"hotel": name, "eur": 350} for name in ("Sol", "Miradouro", "Casa Azul")])
SCHEMA = json.dumps(
    {"type": "object", "properties": {name: {"type": "string"} for name in ("city", "from", "to")}}
)
PARAMETERS = '{"model": "gpt-4o-mini", "temperature": 0.2, "max_tokens": 600}'


def gen_ai_call() -> dict[str, Any]:
    """A model call in OpenTelemetry's conventions."""
    sent = [
        {"role": "system", "parts": [{"type": "text", "content": SYSTEM}]},
        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
    ]
    said = [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": ANSWER}],
            "finish_reason": "stop",
        }
    ]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 600,
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.response.id": "chatcmpl-9uYtR2",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 212,
        "gen_ai.usage.output_tokens": 118,
        "gen_ai.input.messages": json.dumps(sent),
        "gen_ai.output.messages": json.dumps(said),
        "server.address": "api.openai.com",
        "server.port": 443,
    }


def openinference_call() -> dict[str, Any]:
    """A model call as written by OpenInference's instrumentation of openai."""
    return {
        "openinference.span.kind": "LLM",
        "llm.system": "openai",
        "llm.model_name": "gpt-4o-mini-2024-07-18",
        "llm.invocation_parameters": PARAMETERS,
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": SYSTEM,
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": QUESTION,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_7Hq",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find_hotels",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": ARGUMENTS,
        "llm.tools.0.tool.json_schema": json.dumps(
            {
                "type": "function",
                "function": {"name": "find_hotels", "parameters": json.loads(SCHEMA)},
            }
        ),
        "llm.token_count.prompt": 212,
        "llm.token_count.completion": 31,
        "llm.token_count.total": 243,
        "llm.finish_reason": "tool_calls",
        "session.id": "conversation-31",
    }


def traceloop_call() -> dict[str, Any]:
    """A model call as written by Traceloop's instrumentation of openai."""
    return {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": SYSTEM,
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": QUESTION,
        "gen_ai.prompt.2.role": "tool",
        "gen_ai.prompt.2.content": FOUND,
        "gen_ai.prompt.2.tool_call_id": "call_7Hq",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": ANSWER,
        "gen_ai.completion.0.finish_reason": "stop",
        "gen_ai.usage.prompt_tokens": 274,
        "gen_ai.usage.completion_tokens": 118,
        "llm.usage.total_tokens": 392,
        "llm.is_streaming": False,
    }


def openinference_tool() -> dict[str, Any]:
    """A tool call in OpenInference's conventions."""
    return {
        "openinference.span.kind": "TOOL",
        "tool.name": "find_hotels",
        "tool.description": "Hotels of a city that have a room in a time.",
        "tool.parameters": SCHEMA,
        "input.value": ARGUMENTS,
        "input.mime_type": "application/json",
        "output.value": FOUND,
        "output.mime_type": "application/json",
        "session.id": "conversation-31",
        "user.id": "customer-8812",
        "metadata": '{"langgraph_node": "tools", "langgraph_step": 2}',
        "tag.tags": ["booking", "eu"],
    }


KINDS = (
    ("ChatCompletion", openinference_call),
    ("find_hotels", openinference_tool),
    ("chat gpt-4o-mini", gen_ai_call),
    ("openai.chat", traceloop_call),
    ("chat gpt-4o-mini", gen_ai_call),
)


def any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))
    return AnyValue(string_value=value)


def pairs(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def empty_request() -> tuple[ExportTraceServiceRequest, ScopeSpans]:
    """A request with an agent's resource, and where its spans go."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(
        pairs(
            {
                "service.name": "booking-agent",
                "service.version": "1.4.2",
                "deployment.environment.name": "production",
                "telemetry.sdk.language": "python",
                "telemetry.sdk.name": "opentelemetry",
                "telemetry.sdk.version": "1.39.0",
                "process.pid": 4711,
            }
        )
    )
    scope = resource.scope_spans.add()
    scope.scope.name = "openinference.instrumentation.openai"
    scope.scope.version = "0.1.40"
    return request, scope


@dataclass
class Template:
    """A serialised request whose ids and times are replaced for each use.

    Serialising each request would measure the client.
    """

    body: bytes
    traces: list[list[int]]
    """Where each trace's id stands."""
    spans: list[list[int]]
    """Where each span's id stands: its own, and as the parent of others."""
    times: list[tuple[int, int]]
    """Where each span's start and end stand."""

    @classmethod
    def of(cls, count: int) -> Template:
        """Make a request of `count` spans, in traces of ten."""
        request, scope = empty_request()
        trace_ids: list[bytes] = []
        span_ids: list[bytes] = []
        stamps: list[tuple[bytes, bytes]] = []
        for number in range(count):
            if number % SPANS_PER_TRACE == 0:
                trace_ids.append(os.urandom(16))
                parent = b""
            name, attributes = KINDS[number % len(KINDS)]
            span_ids.append(os.urandom(8))
            stamp = struct.unpack("<QQ", os.urandom(16))
            scope.spans.add(
                trace_id=trace_ids[-1],
                span_id=span_ids[-1],
                parent_span_id=parent,
                name=name,
                kind=3,
                start_time_unix_nano=stamp[0],
                end_time_unix_nano=stamp[1],
                attributes=pairs(attributes()),
                status={"code": 1},
            )
            stamps.append((struct.pack("<Q", stamp[0]), struct.pack("<Q", stamp[1])))
            parent = span_ids[number - number % SPANS_PER_TRACE]
        body = request.SerializeToString()
        return cls(
            body,
            [places(body, each) for each in trace_ids],
            [places(body, each) for each in span_ids],
            [(places(body, start)[0], places(body, end)[0]) for start, end in stamps],
        )

    def fill(self) -> tuple[bytearray, list[bytes]]:
        """Return a request with new ids and times, and the ids, trace and span joined."""
        body = bytearray(self.body)
        fresh = os.urandom(16 * len(self.traces) + 8 * len(self.spans))
        ids: list[bytes] = []
        at = 0
        for where in self.traces:
            for place in where:
                body[place : place + 16] = fresh[at : at + 16]
            at += 16
        now = time.time_ns()
        for number, where in enumerate(self.spans):
            for place in where:
                body[place : place + 8] = fresh[at : at + 8]
            trace = 16 * (number // SPANS_PER_TRACE)
            ids.append(fresh[trace : trace + 16] + fresh[at : at + 8])
            at += 8
            start, end = self.times[number]
            struct.pack_into("<Q", body, start, now + number * 1_000_000)
            struct.pack_into("<Q", body, end, now + number * 1_000_000 + 840_000)
        return body, ids

    def requests(self, until: float) -> Iterator[tuple[bytearray, list[bytes]]]:
        """Requests with new ids until a moment of `time.perf_counter`."""
        while time.perf_counter() < until:
            yield self.fill()


def conversation_requests(seed: int) -> list[tuple[bytes, list[bytes]]]:
    """The requests that export one conversation, with the ids of their spans."""
    draw = random.Random(seed)
    trace_id, root = draw.randbytes(16), draw.randbytes(8)
    now = time.time_ns()
    requests: list[tuple[bytes, list[bytes]]] = []
    for some in conversations.in_requests(conversations.conversation(seed)):
        request, scope = empty_request()
        ids: list[bytes] = []
        for one in some:
            now += 1_000_000
            span_id = root if one.parent else draw.randbytes(8)
            scope.spans.add(
                trace_id=trace_id,
                span_id=span_id,
                parent_span_id=b"" if one.parent else root,
                name=one.name,
                kind=3,
                start_time_unix_nano=now,
                end_time_unix_nano=now + 840_000,
                attributes=pairs(one.attributes),
                status={"code": 1},
            )
            ids.append(trace_id + span_id)
        requests.append((request.SerializeToString(), ids))
    return requests


def places(body: bytes, wanted: bytes) -> list[int]:
    """Offsets of every occurrence of the bytes."""
    found = []
    at = body.find(wanted)
    while at >= 0:
        found.append(at)
        at = body.find(wanted, at + 1)
    return found


@dataclass
class Outcome:
    """What a client measured."""

    spans: int = 0
    """Acknowledged."""
    requests: int = 0
    refused: int = 0
    """Requests that were answered with anything but success."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    ids: list[str] = field(default_factory=list)
    """Of the acknowledged spans, when they are kept: trace and span in one, hexadecimal."""


async def send(
    port: int,
    requests: Iterable[tuple[bytes | bytearray, list[bytes]]],
    headers: str,
    outcome: Outcome,
    keep: bool,
) -> None:
    """Send requests over one connection, one after another."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /v1/traces HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{headers}"
        f"content-type: application/x-protobuf\r\ncontent-length: "
    ).encode()
    with suppress(OSError, asyncio.IncompleteReadError):
        for body, ids in requests:
            begun = time.perf_counter()
            writer.write(b"%s%d\r\n\r\n" % (head, len(body)))
            writer.write(body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in answer.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            said = await reader.readexactly(length) if length else b""
            outcome.slowest_s = max(outcome.slowest_s, time.perf_counter() - begun)
            outcome.requests += 1
            # A body reports rejected spans or a failure.
            if answer.startswith(b"HTTP/1.1 200") and b"rejected" not in said:
                outcome.spans += len(ids)
                if keep:
                    outcome.ids.extend(each.hex() for each in ids)
            else:
                outcome.refused += 1
    writer.close()


async def load(
    port: int, count: int, seconds: float, chats: int, headers: str, keep: bool
) -> Outcome:
    """Run all connections: for some seconds, or until so many conversations are sent."""
    template = Template.of(count)
    # Serialised before the clock starts; a conversation's requests go over one connection.
    prepared = [conversation_requests(seed) for seed in range(chats)]
    outcome = Outcome()
    begun, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for number in range(CONNECTIONS):
            requests: Iterable[tuple[bytes | bytearray, list[bytes]]]
            requests = template.requests(begun + seconds)
            if chats:
                requests = chain.from_iterable(prepared[number::CONNECTIONS])
            group.create_task(send(port, requests, headers, outcome, keep))
    outcome.wall_s = time.perf_counter() - begun
    outcome.cpu_s = time.process_time() - cpu
    return outcome


def main() -> None:
    """Run the client process: it prints that it begins, and writes its outcome to a file."""
    port, count, seconds, chats, headers, keep, saw = json.loads(sys.argv[1])
    print(json.dumps("begun"), flush=True)
    outcome = uvloop.run(load(port, count, seconds, chats, headers, keep))
    Path(saw).write_text(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
