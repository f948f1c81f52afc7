"""Measures what mirroring does to the latency that users see.

    python benchmarks/mirroring.py [--quick]

A live agent answers the calls of several users in one process, recorded into a SQLite store. In
turns, its calls are mirrored to a candidate by a second process with a worker (each of them), or
not. One call in twenty has a side effect, which must not happen again. The last line printed is one
JSON object:

- p50_ratio, p99_ratio: latency of a call with all calls mirrored, over that with none
- blocked_side_effects: share of the mirrored side effects that did not act: the tool was blocked,
  or gave its recorded result
- mirrored: calls that were mirrored
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

PARTS = Path(__file__).resolve().parent / "parts" / "mirroring"
CALLS = 160
"""Calls in one turn."""

BOOKS_EACH = 20


class Part:
    """A process that answers a line with a line."""

    def __init__(self, file: str, *arguments: str, folder: str) -> None:
        environ = {**os.environ, "BOOKED": f"{folder}/booked", "RATCHET_AGENT": "bot"}
        self._process = subprocess.Popen(
            [sys.executable, str(PARTS / file), *arguments],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.read()

    def write(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def read(self) -> str:
        """The next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process of the benchmark failed")
        return line

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def measure(turns: int) -> tuple[dict[str, list[float]], int, int]:
    """Latencies with and without mirroring; calls mirrored; side effects blocked."""
    found: dict[str, list[float]] = {"off": [], "on": []}
    mirrored = blocked = 0
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        (Path(folder) / ".ratchet").mkdir(0o700)
        live = Part("live_bot.py", folder=folder)
        stack.callback(live.end)
        live.write(str(CALLS))  # a warm-up
        live.read()
        url = f"sqlite:///{folder}/.ratchet/ratchet.db"
        mirror = Part("mirror_all.py", folder, url, folder=folder)
        stack.callback(mirror.end)
        for turn in range(2 * turns):
            on = turn % 2 == 1
            if on:
                mirror.write("on")
                mirror.read()
            live.write(str(CALLS))
            found["on" if on else "off"] += json.loads(live.read())
            if on:
                mirror.write("off")
                counts = json.loads(mirror.read())
                mirrored += counts.get("pairs", 0)
                blocked += counts.get("blocked", 0)
        booked = len((Path(folder) / "booked").read_text().splitlines())
    live_calls = (2 * turns + 1) * CALLS
    if booked != live_calls // BOOKS_EACH:
        raise SystemExit(f"{booked} bookings instead of {live_calls // BOOKS_EACH}: some leaked")
    if mirrored != turns * CALLS:
        raise SystemExit(f"of {turns * CALLS} calls {mirrored} were mirrored")
    return found, mirrored, blocked


def ratio(found: dict[str, list[float]], percent: int) -> float:
    """A percentile with mirroring, over that without."""
    at = {
        name: statistics.quantiles(latencies, n=100)[percent - 1]
        for name, latencies in found.items()
    }
    print(
        f"p{percent}: {1e3 * at['on']:.2f} ms with mirroring, {1e3 * at['off']:.2f} ms without",
        file=sys.stderr,
    )
    return at["on"] / at["off"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    given = parser.parse_args()
    found, mirrored, blocked = measure(3 if given.quick else 20)
    print(
        json.dumps(
            {
                "p50_ratio": round(ratio(found, 50), 3),
                "p99_ratio": round(ratio(found, 99), 3),
                "blocked_side_effects": round(blocked / (mirrored / BOOKS_EACH), 3),
                "mirrored": mirrored,
                "quick": given.quick,
            }
        )
    )


if __name__ == "__main__":
    main()
