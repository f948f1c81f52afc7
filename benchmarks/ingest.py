"""How fast spans are stored, and whether what was acknowledged survives: OTLP over HTTP.

    python benchmarks/ingest.py [--quick] [--seconds N] [--without-peer]

A client process sends realistic spans of agents (three dialects, messages, tools, usage) to
`ratchet serve` on SQLite over several connections, protobuf, 100 and then 10 spans a request, every
id new. The two share the machine. What counts is what lies in the database afterwards. Then the
server is killed with SIGKILL in the middle of the load, and each span that it had acknowledged is
looked for. MLflow's server gets the same requests in the same run; its environment is built under
.bench/mlflow on first use. The last line printed is one JSON object:

- spans_per_s_100, spans_per_s_10: spans persisted per second, by spans a request
- peer_spans_per_s: MLflow's, at 100 spans a request
- ratio: ours over theirs at 100 spans a request
- acknowledged, found_after_kill: spans that were acknowledged before the kill, and found after it
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / ".bench" / "mlflow"
PEER_VERSION = "3.17.0"

CONNECTIONS = 8
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
    """A call of a model as OpenTelemetry's conventions have it."""
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
    """A call of a model as OpenInference's instrumentation of openai writes it."""
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
    """A call of a model as Traceloop's instrumentation of openai writes it."""
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
    """A call of a tool as OpenInference has it."""
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


@dataclass
class Template:
    """A request in bytes, whose ids and times are written anew for each use.

    To serialise each request would measure the client.
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
        """A request of `count` spans, in traces of ten."""
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
        """A request with ids and times of its own, and the ids: trace and span in one."""
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


def places(body: bytes, wanted: bytes) -> list[int]:
    """Every place where bytes stand."""
    found = []
    at = body.find(wanted)
    while at >= 0:
        found.append(at)
        at = body.find(wanted, at + 1)
    return found


@dataclass
class Outcome:
    """What a client saw."""

    spans: int = 0
    """Acknowledged."""
    requests: int = 0
    refused: int = 0
    """Requests that were answered with anything but success."""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    ids: list[bytes] = field(default_factory=list)
    """Of the acknowledged spans, when they are kept."""


async def send(
    port: int, template: Template, headers: str, until: float, outcome: Outcome, keep: bool
) -> None:
    """One connection, which sends request after request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /v1/traces HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{headers}"
        f"content-type: application/x-protobuf\r\ncontent-length: {len(template.body)}\r\n\r\n"
    ).encode()
    with suppress(OSError, asyncio.IncompleteReadError):
        while time.perf_counter() < until:
            body, ids = template.fill()
            begun = time.perf_counter()
            writer.write(head)
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
            # A body tells of spans that were not taken, or of a failure.
            if answer.startswith(b"HTTP/1.1 200") and b"rejected" not in said:
                outcome.spans += len(ids)
                if keep:
                    outcome.ids.extend(ids)
            else:
                outcome.refused += 1
    writer.close()


async def load(port: int, count: int, seconds: float, headers: str, keep: bool) -> Outcome:
    """All connections, for some seconds."""
    template = Template.of(count)
    outcome = Outcome()
    begun, cpu = time.perf_counter(), time.process_time()
    until = begun + seconds
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(send(port, template, headers, until, outcome, keep))
    outcome.wall_s = time.perf_counter() - begun
    outcome.cpu_s = time.process_time() - cpu
    return outcome


def client(
    pipe: Connection, port: int, count: int, seconds: float, headers: str, keep: bool
) -> None:
    """The client process."""
    pipe.send(uvloop.run(load(port, count, seconds, headers, keep)))


def run_client(
    port: int,
    count: int,
    seconds: float,
    *,
    headers: str = "",
    kill: tuple[int, float] | None = None,
) -> Outcome:
    """Run a client in a process of its own.

    Args:
        port: Of the server.
        count: Spans a request.
        seconds: How long.
        headers: Further header lines.
        kill: A process to kill in the middle, and after how many seconds.
    """
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(
        target=client, args=(theirs, port, count, seconds, headers, kill is not None)
    )
    process.start()
    theirs.close()
    if kill is not None:
        wait_for_requests(kill[1])
        os.kill(kill[0], signal.SIGKILL)
    try:
        outcome: Outcome = mine.recv()
    except EOFError:
        raise SystemExit("the client process failed") from None
    process.join()
    return outcome


def wait_for_requests(seconds: float) -> None:
    # Spawning a client takes a moment, in which nothing is sent yet.
    time.sleep(1.0 + seconds)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rows(path: Path) -> int:
    """Spans in a database."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return int(database.execute("SELECT count(*) FROM spans").fetchone()[0])


def memory_mb(pid: int) -> float:
    """Resident memory of a process and its children."""
    import psutil

    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return float(sum(each.memory_info().rss for each in family)) / 1e6


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@contextmanager
def ratchet_server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """`ratchet serve` on a new SQLite file: the process, its port, the file."""
    path = folder / "ratchet.db"
    command = [sys.executable, "-m", "ratchet", "serve", "--json", "--port", "0"]
    command += ["--store", f"sqlite:///{path}"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("`ratchet serve` did not start")
        yield process, int(json.loads(line)["url"].rsplit(":", 1)[1]), path
    finally:
        process.terminate()
        process.wait(30)


def measure_ours(count: int, seconds: float) -> float:
    """Spans persisted per second, with so many in a request."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ratchet_server(Path(folder)) as (process, port, path),
    ):
        run_client(port, count, 1.0)  # imports, caches
        before, cpu_s = rows(path), cpu_seconds(process.pid)
        outcome = run_client(port, count, seconds)
        cpu_s = cpu_seconds(process.pid) - cpu_s
        persisted = rows(path) - before
        if outcome.refused or persisted != outcome.spans:
            raise SystemExit(
                f"{persisted} spans are stored, {outcome.spans} were acknowledged,"
                f" {outcome.refused} requests were refused"
            )
        per_s = persisted / outcome.wall_s
        say(
            f"ratchet, {count} spans a request: {per_s:,.0f} spans/s persisted"
            f" ({cpu_s / persisted * 1e6:.0f} µs of the server's CPU time each);"
            f" slowest request {outcome.slowest_s * 1000:.0f} ms,"
            f" server {memory_mb(process.pid):.0f} MB,"
            f" client {outcome.cpu_s / outcome.wall_s:.0%} of a core"
        )
        return per_s


def measure_kill(seconds: float) -> tuple[int, int]:
    """Spans acknowledged before the server was killed, and how many of them are there."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ratchet_server(Path(folder)) as (process, port, path),
    ):
        outcome = run_client(port, 10, seconds * 10, kill=(process.pid, seconds))
        with sqlite3.connect(path) as database:
            stored = {
                bytes.fromhex(trace_id + span_id)
                for trace_id, span_id in database.execute("SELECT trace_id, span_id FROM spans")
            }
    found = sum(1 for each in outcome.ids if each in stored)
    say(
        f"killed under load: {len(outcome.ids)} spans were acknowledged, {found} of them are stored"
    )
    return len(outcome.ids), found


def build_peer() -> Path:
    """MLflow's command, in an environment of its own."""
    command = PEER / "bin" / "mlflow"
    done = PEER / f"built-{PEER_VERSION}"
    if done.exists():
        return command
    say(f"building the peer's environment: mlflow {PEER_VERSION} in {PEER.relative_to(ROOT)}")
    shutil.rmtree(PEER, ignore_errors=True)
    beside = Path(sys.executable).with_name("uv")
    uv = shutil.which("uv") or (str(beside) if beside.exists() else None)
    python = str(PEER / "bin" / "python")
    if uv:
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(PEER)], check=True)
        install = [uv, "pip", "install", "-q", "--python", python]
    else:
        subprocess.run([sys.executable, "-m", "venv", str(PEER)], check=True)
        install = [python, "-m", "pip", "install", "-q"]
    subprocess.run([*install, f"mlflow=={PEER_VERSION}"], check=True)
    done.touch()
    return command


@contextmanager
def mlflow_server(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path, str]]:
    """MLflow's server on a new SQLite file: process, port, file, and an experiment's id."""
    command, path, port = build_peer(), folder / "mlflow.db", free_port()
    log = (folder / "log").open("wb")
    arguments = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    arguments += ["--backend-store-uri", f"sqlite:///{path}"]
    arguments += ["--default-artifact-root", str(folder / "artifacts")]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    process = subprocess.Popen(
        [str(command), *arguments], cwd=folder, env=environment, stdout=log, stderr=log,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not answers(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"MLflow did not start:\n{(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.2)
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/create",
            json.dumps({"name": "ingest"}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            yield process, port, path, json.load(answer)["experiment_id"]
    finally:
        # Its workers are children of their own, in a session that is theirs alone.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        log.close()


def measure_peer(seconds: float) -> float:
    """Spans that MLflow persists per second, at 100 spans a request."""
    with tempfile.TemporaryDirectory() as folder, mlflow_server(Path(folder)) as started:
        process, port, path, experiment = started
        headers = f"x-mlflow-experiment-id: {experiment}\r\n"
        run_client(port, 100, 1.0, headers=headers)
        before = rows(path)
        outcome = run_client(port, 100, seconds, headers=headers)
        persisted = rows(path) - before
        per_s = persisted / outcome.wall_s
        say(
            f"MLflow {PEER_VERSION}, 100 spans a request: {per_s:,.0f} spans/s persisted"
            f" ({outcome.spans} acknowledged, {outcome.refused} requests refused),"
            f" server {memory_mb(process.pid):.0f} MB"
        )
        if not persisted:
            raise SystemExit("MLflow persisted nothing: there is nothing to compare with")
        return per_s


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument("--seconds", type=float, help="length of each load")
    parser.add_argument("--without-peer", action="store_true", help="leave MLflow out")
    options = parser.parse_args()
    seconds = options.seconds or (3.0 if options.quick else 15.0)
    by_hundreds = measure_ours(100, seconds)
    by_tens = measure_ours(10, seconds)
    acknowledged, found = measure_kill(min(seconds, 5.0) / 2)
    peer = None if options.without_peer else measure_peer(seconds)
    print(
        json.dumps(
            {
                "spans_per_s_100": round(by_hundreds, 1),
                "spans_per_s_10": round(by_tens, 1),
                "peer_spans_per_s": round(peer, 1) if peer else None,
                "ratio": round(by_hundreds / peer, 2) if peer else None,
                "acknowledged": acknowledged,
                "found_after_kill": found,
                "quick": options.quick,
            }
        )
    )
    if not acknowledged or found != acknowledged:
        raise SystemExit("what was acknowledged is not there")


if __name__ == "__main__":
    main()
