"""Measures the overhead of the gateway on a model call, compared with the LiteLLM proxy.

    python benchmarks/gateway.py [--quick] [--peer | --no-peer]

A stub upstream answers immediately. The same 16 connections call it directly, through `ratchet
serve` with a store in a SQLite file, and through the LiteLLM proxy, one request at a time each; all
run on this machine and share its cores. Ratchet records every call, the peer records none. Both are
one process and warmed up. The peer is installed into .bench/litellm on first use. The last line
printed is one JSON object:

- requests_per_s: through the gateway
- added_p50_ms: median latency through the gateway minus that of the stub alone
- peer_requests_per_s, ratio: the peer's, and ours over the peer's
- sent, answered, recorded: calls sent through the gateway, those answered with 200, and spans of
  them in the database afterwards; all three are the same, or it fails
- waited, waited_s, waited_worst_s: calls that waited for a place for their recording, how long they
  did on average, and an upper bound of the longest wait
- growth_mb: memory growth of the server over 100,000 calls (6,000 with --quick) after a warm-up
  long enough to fill the database's cache of 16 MB
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import uvloop

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "parts"))

from environments import bin_of  # noqa: E402

PEER = "litellm[proxy]==1.106.2"
CONNECTIONS = 16

REQUEST = json.dumps(
    {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": "You answer questions about bookings of rooms. " * 12},
            {"role": "user", "content": "Is a room for ten people free on Friday at nine? " * 9},
        ],
        "temperature": 0.2,
    }
).encode()

ANSWER = json.dumps(
    {
        "id": "chatcmpl-BdT0aKQ9",
        "object": "chat.completion",
        "created": 1760000000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Room A2 is free on Friday. " * 8},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 231, "completion_tokens": 56, "total_tokens": 287},
    }
).encode()


class Stub(asyncio.Protocol):
    """An upstream that answers every request with the same completion."""

    answer = (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % len(ANSWER)
    ) + ANSWER

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while True:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return
            whole = end + 4 + length_of(self.received[:end])
            if len(self.received) < whole:
                return
            self.received = self.received[whole:]
            self.transport.write(self.answer)  # type: ignore[attr-defined]


def length_of(head: bytes) -> int:
    """Content length by the head of a message; -1 when the body is chunked."""
    lower = head.lower()
    found = lower.find(b"content-length:")
    if found >= 0:
        return int(lower[found + 15 :].split(b"\r\n", 1)[0])
    return -1 if b"transfer-encoding: chunked" in lower else 0


async def serve_stub() -> None:
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def load(url: str, count: int, seconds: float) -> dict[str, Any]:
    """Call an address from all connections, for a number of calls or seconds."""
    host, _, path = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    head = (
        f"POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer sk-benchmark\r\ncontent-length: {len(REQUEST)}\r\n\r\n"
    )
    request = head.encode() + REQUEST
    took: list[float] = []
    left = count
    answered = 0
    deadline = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal left, answered
        reader, writer = await asyncio.open_connection(name, int(port))
        while left > 0 and time.perf_counter() < deadline:
            left -= 1
            begin = time.perf_counter()
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            answered += b" 200 " in answer[:20]
            length = length_of(answer)
            if length >= 0:
                await reader.readexactly(length)
            else:
                while size := int(await reader.readline(), 16):
                    await reader.readexactly(size + 2)
                await reader.readline()
            took.append(time.perf_counter() - begin)
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    seconds = time.perf_counter() - begin
    took.sort()
    return {
        "count": len(took),
        "answered": answered,
        "per_s": len(took) / seconds,
        "p50_ms": took[len(took) // 2] * 1e3,
        "p99_ms": took[int(len(took) * 0.99)] * 1e3,
    }


def call(url: str, count: int, seconds: float = 3600.0) -> dict[str, Any]:
    """Call an address from another process, so that no measured process makes the load."""
    command = [sys.executable, __file__, "--load", url, str(count), str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


@contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def stub() -> Iterator[str]:
    with running([sys.executable, __file__, "--stub"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"


@contextmanager
def ratchet(folder: Path, upstream: str) -> Iterator[tuple[str, int]]:
    """Run `ratchet serve`; yields its address and its process."""
    (folder / "ratchet.toml").write_text(
        # One client represents many, so the limits of a single one are lifted.
        "[server.limits]\nrequests_per_s = 1_000_000\nburst = 1_000_000\n"
        f'[upstreams.stub]\ndialect = "openai"\nbase_url = "{upstream}"\n'
    )
    store = f"sqlite:///{folder / 'ratchet.db'}"
    command = [sys.executable, "-m", "ratchet", "serve", "--project", str(folder)]
    command += ["--store", store, "--port", "0", "--json"]
    with running(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield f"{said['url']}/gateway/benchmark/openai/v1/chat/completions", said["pid"]


@contextmanager
def litellm(folder: Path, upstream: str) -> Iterator[str]:
    """Run the LiteLLM proxy with the least work that it can be configured to."""
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list:\n- model_name: gpt-4o-mini\n  litellm_params:\n"
        f"    model: openai/gpt-4o-mini\n    api_base: {upstream}\n    api_key: sk-stub\n"
        "litellm_settings:\n  telemetry: false\n  set_verbose: false\n"
    )
    port = free_port()
    environment = {
        **os.environ,
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        # It requires no key, like Ratchet on loopback.
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    command = [str(bin_of("litellm", PEER) / "litellm"), "--config", str(config)]
    command += ["--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1"]
    with (
        (folder / "litellm.log").open("w") as log,
        running(command, env=environment, cwd=folder, stdout=log, stderr=log) as process,
    ):
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit((folder / "litellm.log").read_text()[-3000:]) from None
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1/chat/completions"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def waits(address: str) -> dict[str, Any]:
    """How many calls waited for a place for their recording, and how long, by the metrics."""
    url = f"{address.partition('/gateway/')[0]}/metrics"
    name = "ratchet_gateway_recording_wait_seconds"
    with urllib.request.urlopen(url) as answer:
        lines = answer.read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if line.startswith(name))
    count = float(values[f"{name}_count"])
    worst = next(
        key.partition('le="')[2].partition('"')[0]
        for key, value in values.items()
        if "_bucket" in key and float(value) == count
    )
    return {
        "waited": int(count),
        "waited_s": round(float(values[f"{name}_sum"]) / count, 3) if count else 0.0,
        "waited_worst_s": worst if count else "0",
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def resident_mb(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss / 1e6)


def recorded(database: Path) -> int:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        found = connection.execute("SELECT count(*) FROM spans WHERE agent = 'benchmark'")
        return int(found.fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="measure the peer too; by default unless --quick, since it has to be installed",
    )
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--load", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stub:
        uvloop.run(serve_stub())
        return
    if given.load:
        url, count, seconds = given.load
        print(json.dumps(uvloop.run(load(url, int(count), float(seconds)))))
        return

    warm, measured, growth = (10_000, 4_000, 6_000) if given.quick else (30_000, 20_000, 100_000)
    peer_seconds = 8.0 if given.quick else 30.0
    with_peer = not given.quick if given.peer is None else given.peer
    if with_peer:
        bin_of("litellm", PEER)
    with tempfile.TemporaryDirectory() as home, stub() as upstream:
        folder = Path(home)
        call(f"{upstream}/chat/completions", measured)
        alone = call(f"{upstream}/chat/completions", measured)
        show("stub alone", alone)
        with ratchet(folder, upstream) as (address, pid):
            memory = [resident_mb(pid)]
            first = call(address, warm)
            memory.append(resident_mb(pid))
            ours = call(address, measured)
            show("ratchet", ours)
            rest = call(address, growth - measured)
            sent = first["count"] + ours["count"] + rest["count"]
            answered = first["answered"] + ours["answered"] + rest["answered"]
            waited = waits(address)
            memory.append(resident_mb(pid))
        # The server has ended, so the database is complete.
        found = recorded(folder / "ratchet.db")
        say(f"sent {sent:,}, answered {answered:,}, recorded {found:,}")
        say(
            f"{waited['waited']:,} calls waited for a place, on average {waited['waited_s']} s,"
            f" at most {waited['waited_worst_s']} s"
        )
        say(
            f"memory: {memory[0]:.0f} MB idle, {memory[1]:.0f} after {warm:,} calls,"
            f" {memory[2]:.0f} after {growth:,} more"
        )
        peer = {"per_s": 0.0}
        if with_peer:
            with litellm(folder, upstream) as address:
                call(address, 300 if given.quick else 1_000)
                peer = call(address, 10**9, peer_seconds)
            show("litellm", peer)
    print(
        json.dumps(
            {
                "requests_per_s": round(ours["per_s"], 1),
                "added_p50_ms": round(ours["p50_ms"] - alone["p50_ms"], 3),
                "peer_requests_per_s": round(peer["per_s"], 1) if with_peer else None,
                "ratio": round(ours["per_s"] / peer["per_s"], 1) if peer["per_s"] else None,
                "sent": sent,
                "answered": answered,
                "recorded": found,
                **waited,
                "growth_mb": round(memory[2] - memory[1], 1),
                "idle_mb": round(memory[0], 1),
                "p99_ms": round(ours["p99_ms"], 2),
                "stub_p50_ms": round(alone["p50_ms"], 3),
                "quick": given.quick,
            }
        )
    )
    if not sent == answered == found:
        raise SystemExit(f"{sent} calls were sent, {answered} answered, {found} are recorded")


def show(name: str, measured: dict[str, Any]) -> None:
    say(
        f"{name}: {measured['per_s']:,.0f} requests/s,"
        f" p50 {measured['p50_ms']:.2f} ms, p99 {measured['p99_ms']:.2f} ms"
    )


if __name__ == "__main__":
    main()
