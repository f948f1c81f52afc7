"""Measures the speed of rollouts, for agents that return at once and that wait, and its growth.

    python benchmarks/rollouts.py [--quick]

Every rollout goes through the real queue, runner, executor, spans, evaluator and scores, persisted
in a SQLite file. Only the agents are simulated: they do nothing or sleep. The last line printed is
one JSON object:

- rollouts_per_s: constant agent, in this process
- efficiency_50ms: ideal wall time over the measured one, 50 ms of sleep at concurrency 64
- workers: event loops of the async executor
- workers_rollouts_per_s: constant agent there
- workers_gain: seconds in this process over seconds there, for an agent that computes for 5 ms, as
  a model's client library does, and sleeps for 50
- peak_mb: peak memory of the process after the growth series
- seconds_per_1000_at_1000, seconds_per_1000_at_100000: with so many rollouts in the store
- status_s: `ratchet status` over that store, the best of three
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ratchet
from ratchet.evaluate import Scorer, ScoreStream, exact_match
from ratchet.run import Executor, Runner, WorkerExecutor, workers_for
from ratchet.store import Store
from ratchet.types import Candidate, Rollout, content_hash
from ratchet.worker.agent import Agent, AgentSpec
from ratchet.worker.inprocess import AsyncExecutor

SPEC = AgentSpec(entry="benchmark:agent", root=".")
SOURCE = Candidate.of({})


@ratchet.agent
async def constant(number: int) -> str:
    return "always"


@ratchet.agent
async def waits(number: int) -> str:
    await asyncio.sleep(0.05)
    return "always"


@ratchet.agent
async def computes(number: int) -> str:
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass
    await asyncio.sleep(0.05)
    return "always"


def inline(function: Any, slots: int) -> Executor:
    """Runs one of these agents in this process."""
    return AsyncExecutor(Agent(SPEC, function), slots=slots, timeout_s=30)


def in_workers(name: str, url: str, folder: Path, slots: int) -> Executor:
    """Runs one of these agents as `improve` does."""
    return WorkerExecutor(
        AgentSpec(entry=f"{Path(__file__).stem}:{name}", root=str(Path(__file__).parent)),
        store_url=url,
        state=folder,
        slots=slots,
        workers=workers_for(slots, os.cpu_count() or 1),
        timeout_s=30,
        memory_bytes=2**30,
    )


def make_rollouts(queue: str, count: int) -> list[Rollout]:
    """Rollouts with ids like those of the lab: content hashes, unordered."""
    return [
        Rollout(
            id=content_hash([queue, number]),
            queue=queue,
            candidate_id=SOURCE.id,
            task_id=str(number),
            input=number,
            expected="always",
            purpose="benchmark",
        )
        for number in range(count)
    ]


async def measure(store: Store, executor: Executor, count: int, batch: int) -> float:
    """Seconds to queue, run, store and score `count` rollouts, once the workers have started."""
    scorer = Scorer(store, [exact_match()])
    queue = f"benchmark-{time.time()}"
    rollouts = make_rollouts(queue, count)
    async with Runner(store, queue, executor) as runner:
        begin = time.perf_counter()
        for start in range(0, count, batch):
            part = rollouts[start : start + batch]
            async with ScoreStream(scorer) as stream:
                await runner.run(part, [SOURCE], stream.add)
                scores = await stream.scores()
            good = sum(1 for each in scores.values() if each["exact_match"].value == 1.0)
            if good != len(part):
                raise SystemExit(f"only {good} of {len(part)} rollouts scored 1")
        return time.perf_counter() - begin


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def status_seconds(folder: Path) -> float:
    """Wall time of `ratchet status` over the store of the growth series, in seconds."""
    (folder / "ratchet.toml").write_text('[agent]\nentry = "benchmark:agent"\n')
    command = [sys.executable, "-m", "ratchet", "status", "--project", str(folder)]
    store = {**os.environ, "RATCHET_STORE": f"sqlite:///{folder / 'growth.db'}"}
    begin = time.perf_counter()
    subprocess.run(command, env=store, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def check_stored(store: Store, expected: int) -> None:
    counted = store.rollouts.counts().get("succeeded", 0)
    if counted != expected:
        raise SystemExit(f"{counted} rollouts are in the store where {expected} ran")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    quick = parser.parse_args().quick
    throughput_count, growth = (2_000, 10_000) if quick else (10_000, 100_000)
    waiting_count, slots = (640, 64) if quick else (2_000, 64)
    with tempfile.TemporaryDirectory() as folder:
        with Store.open(f"sqlite:///{Path(folder) / 'speed.db'}") as store:
            asyncio.run(measure(store, inline(constant, 64), 500, 500))  # imports, caches
            took = asyncio.run(measure(store, inline(constant, 64), throughput_count, 1000))
            per_s = throughput_count / took
            check_stored(store, throughput_count + 500)
            say(f"constant agent: {per_s:,.0f} rollouts/s")
            took = asyncio.run(measure(store, inline(waits, slots), waiting_count, waiting_count))
            ideal = 0.05 * -(-waiting_count // slots)
            efficiency = ideal / took
            say(f"50 ms agent, {slots} at once: {took:.2f} s where {ideal:.2f} s is ideal")
        url = f"sqlite:///{Path(folder) / 'workers.db'}"
        with Store.open(url) as store:
            there = in_workers("constant", url, Path(folder), 64)
            workers_per_s = throughput_count / asyncio.run(
                measure(store, there, throughput_count, 1000)
            )
            here_s = asyncio.run(
                measure(store, inline(computes, slots), waiting_count, waiting_count)
            )
            there = in_workers("computes", url, Path(folder), slots)
            there_s = asyncio.run(measure(store, there, waiting_count, waiting_count))
            workers = workers_for(slots, os.cpu_count() or 1)
            say(
                f"{workers} workers: {workers_per_s:,.0f} rollouts/s; an agent that computes for"
                f" 5 ms: {there_s:.2f} s where one loop takes {here_s:.2f} s"
            )
        with Store.open(f"sqlite:///{Path(folder) / 'growth.db'}") as store:
            small = asyncio.run(measure(store, inline(constant, 64), 1_000, 1_000))
            memory_small = peak_mb()
            asyncio.run(measure(store, inline(constant, 64), growth - 2_000, 1_000))
            large = asyncio.run(measure(store, inline(constant, 64), 1_000, 1_000))
            check_stored(store, growth)
            say(
                f"1,000 rollouts: {small:.2f} s in an empty store,"
                f" {large:.2f} s in one of {growth:,}"
            )
        status_s = min(status_seconds(Path(folder)) for _ in range(3))
        say(f"`ratchet status` with {growth:,} rollouts: {status_s:.2f} s")
    print(
        json.dumps(
            {
                "rollouts_per_s": round(per_s, 1),
                "efficiency_50ms": round(efficiency, 4),
                "workers": workers,
                "workers_rollouts_per_s": round(workers_per_s, 1),
                "workers_gain": round(here_s / there_s, 3),
                "peak_mb": round(peak_mb(), 1),
                "peak_mb_after_1000": round(memory_small, 1),
                "seconds_per_1000_at_1000": round(small, 4),
                f"seconds_per_1000_at_{growth}": round(large, 4),
                "status_s": round(status_s, 3),
                "stored": growth,
                "quick": quick,
            }
        )
    )


if __name__ == "__main__":
    main()
