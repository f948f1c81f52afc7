"""Measures the cost of tracing a call, compared with plain OpenTelemetry and four other tracers.

    python benchmarks/tracing.py [--quick] [--no-peer]

One process for each tracer calls the same function with the same arguments, capturing input and
output. The processes take turns, a burst of calls each, so that other load affects all alike.
Ratchet is configured as by `ratchet.init`, with redaction, and sends to `ratchet serve` in a
process of its own; the exporter of the plain span does nothing, those of the peers as little as
they allow (see parts/traced_calls.py). The peers are installed into .bench/tracing-NAME on first
use. The last line printed is one JSON object:

- ratio_on: wall time of a call traced by Ratchet over that of one with a plain OpenTelemetry span
- off_us: microseconds that Ratchet's decorator adds to a call when nothing is captured
- cpu_ratio: CPU time of the whole process for a call traced by Ratchet, until its span is stored at
  the server, over that of a plain span that is not exported
- peers: by name, wall time of a call traced by Ratchet over the peer's; below 1 Ratchet is faster
"""

from __future__ import annotations

import argparse
import json
import socketserver
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

PARTS = Path(__file__).resolve().parent / "parts"
sys.path.insert(0, str(PARTS))

from environments import bin_of  # noqa: E402

PART = PARTS / "traced_calls.py"
PEERS = {
    "openinference": "openinference-instrumentation==0.1.72",
    "langfuse": "langfuse==5.0.4",
    "opik": "opik==2.2.122",
    # Only MLflow's tracing package: the whole of MLflow is no faster and takes a gigabyte.
    "mlflow": "mlflow-tracing==3.17.2",
}
BURST = 400
"""Calls in a burst: fewer than start an export in any tracer."""
STORED = "SELECT count(*) FROM spans WHERE attributes LIKE '%on Friday at nine%calendar%'"
"""Spans with the beginning of their input and the end of their output."""
WARM = 5
"""Warm-up bursts, which are not counted."""


class Burst(NamedTuple):
    """Duration of a burst, in microseconds per call."""

    wall_us: float
    cpu_us: float


class Traced:
    """A process that traces calls with one tracer."""

    def __init__(self, way: str, python: str, address: str, folder: str) -> None:
        self._way = way
        self._process = subprocess.Popen(
            [python, str(PART), way, address],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

    def burst(self, count: int) -> Burst:
        """Make it run a burst of calls."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        wall_s, cpu_s = json.loads(self._read())
        return Burst(wall_s / count * 1e6, cpu_s / count * 1e6)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of {self._way} failed")
        return line


class _Yes(BaseHTTPRequestHandler):
    """Answers every request with an empty JSON object."""

    protocol_version = "HTTP/1.1"
    received = 0
    """Bytes of all requests' bodies."""

    def do_POST(self) -> None:
        _Yes.received += len(self.rfile.read(int(self.headers.get("content-length") or 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_PUT = do_PATCH = do_POST  # noqa: N815 - as the class above wants them

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def yes_server() -> Iterator[str]:
    """A server for a peer that must send to one. Its work is not measured."""

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = allow_reuse_address = True

    with Server(("127.0.0.1", 0), _Yes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def ratchet_server(folder: Path) -> Iterator[str]:
    """`ratchet serve` on a new SQLite file."""
    command = [sys.executable, "-m", "ratchet", "serve", "--json", "--port", "0"]
    command += ["--store", f"sqlite:///{folder / 'ratchet.db'}"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("`ratchet serve` did not start")
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        process.wait(30)


def measure(rounds: int, peers: dict[str, str]) -> dict[str, list[Burst]]:
    """Run bursts of every tracer, in turns.

    Args:
        rounds: Bursts of each that are counted.
        peers: Interpreters of the peers, by name.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(ratchet_server(Path(folder)))
        yes = stack.enter_context(yes_server())
        traced: dict[str, Traced] = {}
        for way in ("bare", "plain", "off", "ours", *peers):
            python = peers.get(way, sys.executable)
            traced[way] = Traced(way, python, server if way == "ours" else yes, folder)
            stack.callback(traced[way].end)
        found: dict[str, list[Burst]] = {way: [] for way in traced}
        for number in range(WARM + rounds):
            for way, process in traced.items():
                burst = process.burst(BURST)
                if number >= WARM:
                    found[way].append(burst)
        # Compression works well on identical texts.
        if "opik" in peers and _Yes.received < rounds * BURST * 20:
            raise SystemExit(f"Opik sent {_Yes.received} bytes: that cannot be all of its calls")
        with sqlite3.connect(f"file:{folder}/ratchet.db?mode=ro", uri=True) as database:
            stored = database.execute(STORED).fetchone()[0]
        if stored != 1 + (WARM + rounds) * BURST:
            raise SystemExit(f"of {1 + (WARM + rounds) * BURST} spans {stored} are stored")
    return found


def ratio(over: list[float], under: list[float]) -> float:
    """Median ratio of one tracer to another, burst by burst."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="measure the peers too; by default unless --quick, since they have to be installed",
    )
    given = parser.parse_args()
    with_peers = not given.quick if given.peer is None else given.peer
    peers = (
        {name: str(bin_of(f"tracing-{name}", PEERS[name]) / "python") for name in PEERS}
        if with_peers
        else {}
    )
    found = measure(20 if given.quick else 80, peers)
    wall = {way: [burst.wall_us for burst in bursts] for way, bursts in found.items()}
    cpu = {way: [burst.cpu_us for burst in bursts] for way, bursts in found.items()}
    for way in found:
        say(
            f"{way:>14}: {statistics.median(wall[way]):8.2f} µs a call,"
            f" {statistics.median(cpu[way]):8.2f} µs of CPU time"
        )
    added = [a - b for a, b in zip(wall["off"], wall["bare"], strict=True)]
    print(
        json.dumps(
            {
                "ratio_on": round(ratio(wall["ours"], wall["plain"]), 3),
                "off_us": round(statistics.median(added), 3),
                "cpu_ratio": round(ratio(cpu["ours"], cpu["plain"]), 3),
                "peers": {name: round(ratio(wall["ours"], wall[name]), 3) for name in peers},
                "quick": given.quick,
            }
        )
    )


if __name__ == "__main__":
    main()
