"""Measures what the sandbox contains, and what an evaluation and a contained rollout cost.

    python benchmarks/sandbox.py [--quick]

Runs the hostile programs of tests/sandbox at every level that this machine supports (`--quick`:
only at the strongest). Then calls a small function many times, alternating between this process and
a sandbox with a warm interpreter, so that other load affects both alike; and starts sandboxes until
they have answered a first call. The last line printed is one JSON object:

- contained, programs: hostile programs contained at the strongest level, and their total
- warm_ms: median overhead of a call in a warm sandbox over one in this process
- cold_ms: median time from nothing to the first answer of a sandbox
- rollout_ms, rollout_written_ms: median of what containment adds to a rollout of your own agent in
  a warm worker; the second where the rollout wrote to its home and to the temporary folder
- level: the strongest level of this machine, at which these were measured
- levels: the same figures by level
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.parts.contained_rollouts import overhead_ms  # noqa: E402
from tests.sandbox.suite import measured  # noqa: E402

from ratchet.sandbox import SandboxLimits, best_level, call, function_pool  # noqa: E402
from ratchet.sandbox.levels import why_no_bubblewrap, why_no_landlock  # noqa: E402

SOURCE = """
def rank(query, documents):
    words = set(query.split())
    return sorted(documents, key=lambda text: -len(words & set(text.split())))
"""
ARGUMENTS = ["a room for ten people", [f"room {n} holds {n} people" for n in range(20)]]


async def warm_ms(level: str, calls: int) -> float:
    """Overhead of a call in a warm sandbox over one in this process."""
    here: dict[str, Any] = {}
    inside, outside = [], []
    async with function_pool(slots=1, level=level, limits=SandboxLimits()) as pool:
        for _ in range(calls + 5):
            start = time.perf_counter()
            exec(compile(SOURCE, "rank", "exec"), here)
            expected = here["rank"](*ARGUMENTS)
            between = time.perf_counter()
            called = await call(SOURCE, "rank", ARGUMENTS, pool=pool)
            inside.append(time.perf_counter() - between)
            outside.append(between - start)
            assert called.value == expected, called
    return 1000 * (statistics.median(inside[5:]) - statistics.median(outside[5:]))


async def cold_ms(level: str, starts: int) -> float:
    """Time from nothing to the first answer of a sandbox."""
    took = []
    for _ in range(starts + 1):
        start = time.perf_counter()
        async with function_pool(slots=1, level=level) as pool:
            called = await call(SOURCE, "rank", ARGUMENTS, pool=pool)
            took.append(time.perf_counter() - start)
            assert called.status == "ok", called
    return 1000 * statistics.median(took[1:])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the strongest level, fewer calls")
    quick = parser.parse_args().quick
    best = best_level()
    if best == "none":
        print(f"No sandbox here: {why_no_bubblewrap()}; {why_no_landlock()}.", file=sys.stderr)
        return 1
    here = [best]
    if not quick and best == "bubblewrap" and not why_no_landlock():
        here.append("landlock")
    rollouts = 50 if quick else 300
    levels: dict[str, dict[str, float]] = {}
    for level in here:
        outcomes = asyncio.run(measured(level))
        contained = sum(o is not None and o.contained for o in outcomes.values())
        for name, outcome in outcomes.items():
            if outcome is None or not outcome.contained:
                print(f"{level}: {name} was not contained: {outcome and outcome.why}")
        levels[level] = {
            "contained": contained,
            "programs": len(outcomes),
            "warm_ms": round(asyncio.run(warm_ms(level, 50 if quick else 300)), 2),
            "cold_ms": round(asyncio.run(cold_ms(level, 5 if quick else 25)), 1),
        }
        for name, write in (("rollout_ms", False), ("rollout_written_ms", True)):
            took = asyncio.run(overhead_ms(level, rollouts, write=write))
            levels[level][name] = round(took, 2)
        row = levels[level]
        print(
            f"{level}: {contained} of {len(outcomes)} contained, warm call + {row['warm_ms']} ms, "
            f"cold start {row['cold_ms']} ms; contained rollout + {row['rollout_ms']} ms, "
            f"{row['rollout_written_ms']} ms with files written",
            flush=True,
        )
    print(json.dumps({**levels[best], "level": best, "levels": levels}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
