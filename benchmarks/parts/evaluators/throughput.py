"""Part: time and memory of scoring many rollouts with cheap evaluators."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ratchet.evaluate import Scorer, contains, exact_match, latency, length, numeric
from ratchet.store import Store
from ratchet.types import Rollout

PART = 1_000
"""Rollouts that are scored at once."""


def rollouts(first: int, count: int) -> list[Rollout]:
    """Rollouts that have ended, each with an answer of its own."""
    return [
        Rollout(
            id=f"r{n}", queue="q", candidate_id="c", task_id=f"t{n % 500}", input=f"What is {n}?",
            status="succeeded", expected=f"{n % 97}", started_at=1.0, ended_at=2.0,
            duration_s=0.1 + n % 7,
            output=f"{n % 13} and {n % 17} were added. The answer is {n % 97}." + " So it is." * 5,
        )
        for n in range(first, first + count)
    ]  # fmt: skip


def scoring(quick: bool) -> dict[str, Any]:
    """Figures of a process of its own, whose memory nothing else has used."""
    count = 10_000 if quick else 100_000
    ran = subprocess.run(
        [sys.executable, __file__, str(count)], stdout=subprocess.PIPE, check=True, text=True
    )
    made: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    print(f"scoring: {made}", file=sys.stderr, flush=True)
    return made


def _measured(count: int) -> dict[str, Any]:
    evaluators = [exact_match(), contains(), numeric(), length(at_most=50), latency(within=5)]
    seconds, memory = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(f"sqlite:///{Path(folder) / 'scores.db'}") as store,
    ):
        scorer = Scorer(store, evaluators)
        for part in _parts(count):
            store.rollouts.create(part, 1.0)
            begun = time.process_time()
            asyncio.run(scorer.score(part))
            seconds.append(time.process_time() - begun)
            memory.append(_resident_mb())
    fifth = max(1, len(seconds) // 5)
    first, last = seconds[:fifth], seconds[-fifth:]
    return {
        "scored": count,
        "score_per_s": round(count * len(evaluators) / sum(seconds)),
        "score_slope": round(min(last) / min(first), 3),
        "score_growth_mb": round(memory[-1] - memory[fifth - 1], 1),
        "score_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _parts(count: int) -> Iterator[list[Rollout]]:
    for first in range(0, count, PART):
        yield rollouts(first, min(PART, count - first))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    print(json.dumps(_measured(int(sys.argv[1]))))
