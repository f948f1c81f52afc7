"""Measures the cost of tracing a call in Node, compared with plain OpenTelemetry and Langfuse.

    python benchmarks/javascript.py [--quick] [--no-peer]

One process for each tracer calls the same function with the same argument, capturing input and
output (see parts/traced_calls.mjs). The processes take turns, a burst of calls each, so that other
load affects all alike. Ratchet sends to `ratchet serve` in a process of its own; the exporters of
the others do nothing. The cold start is a process that loads a package, sets it up and ends. The
last line printed is one JSON object:

- ratio_on: wall time of a call traced by Ratchet over that of one with a plain OpenTelemetry span
- off_us: microseconds that Ratchet's mark adds to a call when nothing is recorded
- cold_ms: milliseconds that loading Ratchet and `init` add to the start of a process
- cold_ratio: the same over loading and setting up OpenTelemetry's SDK by hand
- peers: by name, wall time of a call traced by Ratchet over the peer's; below 1 Ratchet is faster
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.javascript.built import built
from tests.node_packages import installed

PARTS = Path(__file__).resolve().parent / "parts"
CALLS = "traced_calls.mjs"
BURST = 400
"""Calls in a burst: fewer than start an export in any tracer."""
WARM = 20
"""Warm-up bursts, which are not counted: the compiler of Node works for some thousand calls."""

COLD = {
    "bare": "",
    "plain": (
        "const {context, trace} = require('@opentelemetry/api');"
        "const {AsyncLocalStorageContextManager} = require('@opentelemetry/context-async-hooks');"
        "const {BatchSpanProcessor, TracerProvider} = require('@opentelemetry/sdk-trace');"
        "context.setGlobalContextManager(new AsyncLocalStorageContextManager());"
        "const exporter = {export: (s, done) => done({code: 0}), shutdown: async () => {}};"
        "const spanProcessors = [new BatchSpanProcessor({exporter})];"
        "trace.setGlobalTracerProvider(new TracerProvider({spanProcessors}));"
        "process.exit(0)"
    ),
    "ours": (
        "require('agent-ratchet').init({agent: 'cold', server: 'http://127.0.0.1:9'});"
        "process.exit(0)"
    ),
}


class Traced:
    """A process that traces calls with one tracer."""

    def __init__(self, way: str, folder: Path, address: str) -> None:
        self._way = way
        self._process = subprocess.Popen(
            ["node", CALLS, way, address],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        self._read()

    def burst(self, count: int) -> float:
        """Make it run a burst of calls; microseconds a call."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        return float(self._read()) / count * 1e6

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


def _environment() -> dict[str, str]:
    ours = ("RATCHET_", "OTEL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


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


def measure(rounds: int, ours: Path, peers: dict[str, Path]) -> dict[str, list[float]]:
    """Microseconds a call of every tracer, burst by burst, in turns.

    Args:
        rounds: Bursts of each that are counted.
        ours: Folder of Ratchet's package, which has those of OpenTelemetry.
        peers: Folders of the peers' packages, by name.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(ratchet_server(folder))
        traced: dict[str, Traced] = {}
        for way in ("bare", "off", "plain", "ours", *peers):
            traced[way] = Traced(way, peers.get(way, ours), server)
            stack.callback(traced[way].end)
        found: dict[str, list[float]] = {way: [] for way in traced}
        for number in range(WARM + rounds):
            for way, process in traced.items():
                microseconds = process.burst(BURST)
                if number >= WARM:
                    found[way].append(microseconds)
    return found


def cold_starts(rounds: int, folder: Path) -> dict[str, list[float]]:
    """Milliseconds of a process that loads and sets up each package, in turns."""
    found: dict[str, list[float]] = {way: [] for way in COLD}
    for _ in range(rounds):
        for way, source in COLD.items():
            begun = time.perf_counter()
            command = ["node", "-e", source]
            subprocess.run(command, cwd=folder, check=True, env=_environment())
            found[way].append((time.perf_counter() - begun) * 1e3)
    return found


def ratio(over: list[float], under: list[float]) -> float:
    """Median ratio of one tracer to another, burst by burst."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def added(over: list[float], under: list[float]) -> float:
    """Median difference, burst by burst."""
    return statistics.median(a - b for a, b in zip(over, under, strict=True))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="measure Langfuse too; by default unless --quick, since it has to be installed",
    )
    given = parser.parse_args()
    if shutil.which("npm") is None:
        print(json.dumps({"skipped": "Node is not installed", "quick": given.quick}))
        return
    with_peers = not given.quick if given.peer is None else given.peer
    folder = built()
    try:
        shutil.copy(PARTS / CALLS, folder)
        peers = {}
        if with_peers:
            peers["langfuse"] = installed(PARTS / "javascript_peers")
            shutil.copy(PARTS / CALLS, peers["langfuse"])
        found = measure(30 if given.quick else 150, folder, peers)
        cold = cold_starts(10 if given.quick else 30, folder)
    finally:
        shutil.rmtree(folder)
    for way, microseconds in found.items():
        say(f"{way:>10}: {statistics.median(microseconds):8.2f} µs a call")
    for way, milliseconds in cold.items():
        say(f"{way:>10}: {statistics.median(milliseconds):8.1f} ms to start and end")
    print(
        json.dumps(
            {
                "ratio_on": round(ratio(found["ours"], found["plain"]), 3),
                "off_us": round(added(found["off"], found["bare"]), 3),
                "cold_ms": round(added(cold["ours"], cold["bare"]), 1),
                "cold_ratio": round(
                    added(cold["ours"], cold["bare"]) / added(cold["plain"], cold["bare"]), 2
                ),
                "peers": {name: round(ratio(found["ours"], found[name]), 3) for name in peers},
                "quick": given.quick,
            }
        )
    )


if __name__ == "__main__":
    main()
