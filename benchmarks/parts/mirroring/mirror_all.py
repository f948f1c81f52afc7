"""Mirrors every live call of the agent in `live_bot.py`, while it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from ratchet.autopilot.shadow import NICENESS, Mirror, MirrorBounds, ShadowStage
from ratchet.evaluate import evaluator
from ratchet.run import Runner, WorkerExecutor
from ratchet.store.local_agents import open_with_agents
from ratchet.types import Candidate, PromptTemplate
from ratchet.worker.agent import AgentSpec

SETTLE_S = 3.0
"""A call is mirrored so long after its start, in seconds: by then its trace is stored."""

BOUNDS = MirrorBounds(share=1.0, per_minute=1e9, dollars=1e9)


@evaluator
def greets(output: str) -> float:
    return float(output.startswith("Hello"))


async def main(folder: Path, url: str) -> None:
    os.nice(NICENESS)
    source = Candidate.of({"greeting": PromptTemplate("Hello {name}")})
    better = source.derive({"greeting": PromptTemplate("Hello, {name}!")}, algorithm="apo")
    with open_with_agents(url) as store:
        for candidate in (source, better):
            store.candidates.put(candidate)
        executor = WorkerExecutor(
            AgentSpec(entry="live_bot:answer", root=str(Path(__file__).parent)),
            store_url=url,
            state=folder,
            slots=16,
            workers=1,
            timeout_s=30.0,
            memory_bytes=2**31,
            niceness=NICENESS,
        )
        stage = ShadowStage(
            experiment_id="bench",
            agent="bot",
            candidate=better,
            release=source,
            queue="bench",
            max_attempts=1,
            settle_s=SETTLE_S,
        )
        async with Runner(store, "bench", executor) as runner:
            mirror = Mirror(store, runner, greets, stage, BOUNDS)
            print("ready", flush=True)
            while True:
                line = await asyncio.to_thread(sys.stdin.readline)
                if not line:
                    return
                print(json.dumps(await mirrored(mirror)), flush=True)


async def mirrored(mirror: Mirror) -> dict[str, int]:
    """Mirror what is called from now until the next line of input, and all of that."""
    since = time.time()
    print("on", flush=True)
    off = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
    counts: Counter[str] = Counter()
    cursor: str | None = None
    until = float("inf")
    while True:
        now = time.time()
        found = await mirror.some(cursor, since=since, now=now)
        cursor = found.cursor
        counts["pairs"] += len(found.pairs)
        counts["blocked"] += sum(found.blocked.values()) + sum(found.replayed.values())
        if off.done() and until == float("inf"):
            until = now + SETTLE_S
        if not found.pairs:
            if now > until:
                return dict(counts)
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
