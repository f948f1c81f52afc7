"""Measures many machines: the share of the ideal that runners of one server reach.

    python benchmarks/fleet.py [--quick]

`ratchet serve` on SQLite and 1, 2 and 4 `ratchet runner` are processes of this machine, 16 slots
each. The agent sleeps for 200 ms. Rollouts go the way of `ratchet improve --server`: from a local
store through the fleet executor to the server, to a runner, and back. All processes share this
machine's cores; the load is stated. The last line printed is one JSON object:

- efficiency_1, efficiency_2, efficiency_4: ideal wall time over the measured one, by runners
- server_ms_per_rollout: CPU time of the server for a rollout, with 4 runners
- runner_ms_per_rollout, improve_ms_per_rollout: the same of the runners and of this process
- load_before: the machine's load in the minute before, in processes; cores: its cores
- further keys: growth with the number of rollouts, as `benchmarks/parts/growth.py` describes them
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop

import ratchet
from ratchet.run import Runner
from ratchet.run.fleet_executor import FleetExecutor
from ratchet.run.fleet_queue import AgentBuild
from ratchet.store import Store
from ratchet.types import Candidate, Rollout, content_hash
from ratchet.worker.agent import AgentSpec, load_agent

PARTS = Path(__file__).parent / "parts"
SLOTS = 16
SLEEP_S = 0.2
RUNNERS = (1, 2, 4)
SOURCE = Candidate.of({})

AGENT = f"""
import asyncio


async def answer(number):
    await asyncio.sleep({SLEEP_S})
    return number
"""

CONFIG = f"""
[agent]
entry = "agent:answer"

[run]
executor = "inline"
concurrency = {SLOTS}
"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def ratchet_process(
    arguments: Sequence[str], folder: Path, **streams: Any
) -> Iterator[subprocess.Popen[str]]:
    """A `ratchet` process, ended afterwards."""
    command = [sys.executable, "-m", "ratchet", *arguments]
    process = subprocess.Popen(command, cwd=folder, text=True, **streams)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def cpu_s(pids: Sequence[int]) -> float:
    """CPU time of processes so far, in seconds."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def make_rollouts(queue: str, name: str, count: int) -> list[Rollout]:
    return [
        Rollout(
            id=content_hash([queue, name, number]),
            queue=queue,
            candidate_id=SOURCE.id,
            task_id=str(number),
            input=number,
            max_attempts=1,
        )
        for number in range(count)
    ]


async def run(
    store: Store, url: str, build: AgentBuild, count: int, groups: dict[str, list[int]]
) -> dict[str, float]:
    """Run rollouts, once all runners are there and warm.

    Returns:
        Seconds from the first rollout queued to the last one ended, as `wall`, and the CPU seconds
        meanwhile of each group of processes.
    """
    runners = len(groups["runner"])
    async with ratchet.AsyncClient(url) as client:
        async with asyncio.timeout(120):
            while len(await client.fleet.runners()) < runners:
                await asyncio.sleep(0.1)
    queue = f"runners-{runners}"
    # Twice the slots of all runners, so that work waits at the server whenever a slot is free.
    executor = FleetExecutor(
        url, build=build, source={}, slots=2 * SLOTS * runners, attempts=1, say=say
    )
    async with asyncio.timeout(300), Runner(store, queue, executor) as runner:
        await runner.run(make_rollouts(queue, "warm", SLOTS * runners), [SOURCE])
        before = {name: cpu_s(pids) for name, pids in groups.items()}
        begin = time.perf_counter()
        ended = await runner.run(make_rollouts(queue, "measured", count), [SOURCE])
        took = time.perf_counter() - begin
        spent = {name: cpu_s(pids) - before[name] for name, pids in groups.items()}
    good = sum(one.status == "succeeded" and one.output == one.input for one in ended.values())
    if good != count:
        raise SystemExit(f"{good} of {count} rollouts ended well")
    return {"wall": took, **spent}


def measure(folder: Path, runners: int, rounds: int) -> dict[str, float]:
    """Efficiency of so many runners, and CPU milliseconds for a rollout of everybody."""
    count = rounds * SLOTS * runners
    home = folder / f"with-{runners}"
    home.mkdir()
    (home / "agent.py").write_text(AGENT)
    (home / "ratchet.toml").write_text(CONFIG)
    build = AgentBuild.of(load_agent(AgentSpec(entry="agent:answer", root=str(home))))
    del sys.modules["agent"]
    sys.path.remove(str(home))
    with ExitStack() as stack, Store.open(f"sqlite:///{home}/local.db") as store:
        serve = ["serve", "--store", f"sqlite:///{home}/server.db", "--port", "0", "--json"]
        server = stack.enter_context(ratchet_process(serve, home, stdout=subprocess.PIPE))
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        log = stack.enter_context(open(home / "runners.log", "w"))
        started = [
            stack.enter_context(
                ratchet_process(["runner", "--server", url], home, stdout=log, stderr=log)
            )
            for _ in range(runners)
        ]
        groups = {
            "server": [server.pid],
            "runner": [process.pid for process in started],
            "improve": [os.getpid()],
        }
        spent = uvloop.run(run(store, url, build, count, groups))
    ideal, took = rounds * SLEEP_S, spent.pop("wall")
    say(f"{runners} runners: {count} rollouts in {took:.2f} s, {ideal:.2f} s at best")
    return {
        "efficiency": ideal / took,
        **{f"{name}_ms": 1000 * value / count for name, value in spent.items()},
    }


def growth(quick: bool) -> dict[str, Any]:
    """The figures of `parts/growth.py`."""
    sys.path.insert(0, str(PARTS))
    from growth import growth as measured

    figures: dict[str, Any] = measured(quick)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    quick = parser.parse_args().quick
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as home:
        found = {count: measure(Path(home), count, 8 if quick else 50) for count in RUNNERS}
    most = found[RUNNERS[-1]]
    figures = {
        **{f"efficiency_{count}": round(one["efficiency"], 3) for count, one in found.items()},
        **{
            f"{name}_ms_per_rollout": round(most[f"{name}_ms"], 2)
            for name in ("server", "runner", "improve")
        },
        "load_before": round(load, 2),
        "cores": os.cpu_count(),
        "quick": quick,
        **growth(quick),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
