"""Measures the ingest of spans over OTLP/HTTP, and whether acknowledged spans survive a kill.

    python benchmarks/ingest.py [--quick] [--seconds N] [--peer | --no-peer]

A client process sends realistic agent spans (three dialects, messages, tools, usage) to `ratchet
serve` on SQLite over several connections, in protobuf, 100 and then 10 spans per request, every id
new. Both share the machine. Only spans in the database count. Then the server is killed with
SIGKILL during the load, and the database is searched for each span it had acknowledged. MLflow's
server gets the same requests in the same run; its environment is built under .bench/mlflow on first
use. The last line printed is one JSON object:

- spans_per_s_100, spans_per_s_10: spans persisted per second, by spans per request
- peer_spans_per_s: MLflow's, at 100 spans per request
- ratio: ours over the peer's at 100 spans per request
- real_spans_per_s, real_peer_spans_per_s, real_ratio: the same for spans of conversations, ten
  per request: a system prompt of 6 KB, 20 model calls that each carry the history, and results of
  tools as JSON in strings
- real_bytes_ratio: bytes of the SQLite file over bytes of the conversations' distinct texts (each
  message and each other attribute's value, once); after a checkpoint of the log, without VACUUM
- acknowledged, found_after_kill: spans acknowledged before the kill, and found after it
"""

from __future__ import annotations

import argparse
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
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

PARTS = Path(__file__).resolve().parent / "parts"
sys.path.insert(0, str(PARTS))

import conversations  # noqa: E402  (they lie beside, in no package)
from environments import bin_of  # noqa: E402
from otlp_load import Outcome  # noqa: E402

PEER_VERSION = "3.17.0"

CONVERSATIONS, QUICK_CONVERSATIONS = 160, 32
"""Of the load of whole conversations; 34 spans and 400 KB each."""


def run_client(
    port: int,
    count: int,
    seconds: float,
    *,
    chats: int = 0,
    headers: str = "",
    kill: tuple[int, float] | None = None,
) -> Outcome:
    """Run a client in a process of its own.

    Args:
        port: Of the server.
        count: Spans per request.
        seconds: Duration of the load.
        chats: Conversations to send instead of these.
        headers: Further header lines.
        kill: A process to kill during the load, and after how many seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        saw = Path(folder) / "saw.json"  # a long line through a pipe has arrived truncated
        given = json.dumps([port, count, seconds, chats, headers, kill is not None, str(saw)])
        command = [sys.executable, str(PARTS / "otlp_load.py"), given]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()  # it begins
            if kill is not None:
                time.sleep(kill[1])
                os.kill(kill[0], signal.SIGKILL)
        if process.returncode:
            raise SystemExit("the client process failed")
        return Outcome(**json.loads(saw.read_text()))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rows(path: Path) -> int:
    """Number of spans in a database."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return int(database.execute("SELECT count(*) FROM spans").fetchone()[0])


def memory_mb(pid: int) -> float:
    """Resident memory of a process and its children."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return float(sum(each.memory_info().rss for each in family)) / 1e6


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
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
    """Spans persisted per second, with `count` in a request."""
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


def measure_real(chats: int) -> tuple[float, float]:
    """Spans of whole conversations persisted per second, and bytes stored per byte of text."""
    with tempfile.TemporaryDirectory() as folder:
        with ratchet_server(Path(folder)) as (process, port, path):
            cpu_s = cpu_seconds(process.pid)
            outcome = run_client(port, 1, 0.0, chats=chats)
            cpu_s = cpu_seconds(process.pid) - cpu_s
            persisted, memory = rows(path), memory_mb(process.pid)
        if outcome.refused or persisted != outcome.spans:
            raise SystemExit(f"{persisted} of {outcome.spans} spans of conversations are stored")
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        stored = path.stat().st_size
    text = conversations.unique_bytes([conversations.conversation(seed) for seed in range(chats)])
    per_s = persisted / outcome.wall_s
    say(
        f"ratchet, {chats} conversations: {per_s:,.0f} spans/s persisted"
        f" ({cpu_s / persisted * 1e6:.0f} µs of the server's CPU time each);"
        f" {stored / 1e6:.1f} MB are stored for {text / 1e6:.1f} MB of text,"
        f" server {memory:.0f} MB"
    )
    return per_s, stored / text


def measure_kill(seconds: float) -> tuple[int, int]:
    """Spans acknowledged before the server was killed, and the number of them stored."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ratchet_server(Path(folder)) as (process, port, path),
    ):
        outcome = run_client(port, 10, seconds * 10, kill=(process.pid, seconds))
        with sqlite3.connect(path) as database:
            stored = {each for (each,) in database.execute("SELECT trace_id || span_id FROM spans")}
    found = sum(1 for each in outcome.ids if each in stored)
    say(
        f"killed under load: {len(outcome.ids)} spans were acknowledged, {found} of them are stored"
    )
    return len(outcome.ids), found


@contextmanager
def mlflow_server(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path, str]]:
    """MLflow's server on a new SQLite file: process, port, file, and an experiment's id."""
    command = bin_of("mlflow", f"mlflow=={PEER_VERSION}") / "mlflow"
    path, port = folder / "mlflow.db", free_port()
    log = (folder / "log").open("wb")
    arguments = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    arguments += ["--backend-store-uri", f"sqlite:///{path}"]
    arguments += ["--default-artifact-root", str(folder / "artifacts")]
    environment = {
        **os.environ,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # Its workers for other jobs would only cost CPU time.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
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
        # Its workers are child processes in a session of their own.
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


def measure_real_peer(chats: int) -> float:
    """Spans of whole conversations that MLflow persists per second."""
    with tempfile.TemporaryDirectory() as folder, mlflow_server(Path(folder)) as started:
        process, port, path, experiment = started
        headers = f"x-mlflow-experiment-id: {experiment}\r\n"
        run_client(port, 100, 1.0, headers=headers)
        before = rows(path)
        outcome = run_client(port, 1, 0.0, chats=chats, headers=headers)
        persisted = rows(path) - before
        per_s = persisted / outcome.wall_s
        say(
            f"MLflow {PEER_VERSION}, {chats} conversations: {per_s:,.0f} spans/s persisted"
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
    parser.add_argument(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="measure the peer too; by default unless --quick, since it has to be installed",
    )
    options = parser.parse_args()
    seconds = options.seconds or (3.0 if options.quick else 15.0)
    by_hundreds = measure_ours(100, seconds)
    by_tens = measure_ours(10, seconds)
    acknowledged, found = measure_kill(min(seconds, 5.0) / 2)
    with_peer = not options.quick if options.peer is None else options.peer
    chats = QUICK_CONVERSATIONS if options.quick else CONVERSATIONS
    real, bytes_ratio = measure_real(chats)
    peer = measure_peer(seconds) if with_peer else None
    real_peer = measure_real_peer(chats) if with_peer else None
    print(
        json.dumps(
            {
                "spans_per_s_100": round(by_hundreds, 1),
                "spans_per_s_10": round(by_tens, 1),
                "peer_spans_per_s": round(peer, 1) if peer else None,
                "ratio": round(by_hundreds / peer, 2) if peer else None,
                "real_spans_per_s": round(real, 1),
                "real_peer_spans_per_s": round(real_peer, 1) if real_peer else None,
                "real_ratio": round(real / real_peer, 2) if real_peer else None,
                "real_bytes_ratio": round(bytes_ratio, 2),
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
