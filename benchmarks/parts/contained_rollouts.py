"""What containment adds to a rollout in a warm worker."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ratchet.run import WorkerExecutor
from ratchet.sandbox.containment import AgentContainment, Allowance
from ratchet.types import Claim, Rollout
from ratchet.worker.agent import AgentSpec

AGENT = """
import pathlib, tempfile

def run(task):
    if task["write"]:
        for folder in (pathlib.Path.home(), pathlib.Path(tempfile.gettempdir())):
            (folder / f"ratchet-benchmark-{task['number']}").write_text("x")
    return task["number"]
"""


async def overhead_ms(level: str, rollouts: int, *, write: bool) -> float:
    """Median time of a contained rollout, less that of one that is not, in milliseconds.

    The two alternate, so that other load affects both alike.

    Args:
        level: The sandbox level.
        rollouts: How many of each are timed.
        write: The agent writes to its home and to the temporary folder, so that both are renewed.
    """
    before = os.environ.get("HOME")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "project"
        root.mkdir()
        (root / "contained_benchmark_agent.py").write_text(AGENT)
        os.environ["HOME"] = str(root.parent / "home")
        os.mkdir(os.environ["HOME"])
        contained = AgentContainment(Allowance(), root=root, level=level)
        executors = [
            WorkerExecutor(
                AgentSpec(entry="contained_benchmark_agent:run", root=str(root)),
                store_url="sqlite:///unused.db",
                state=root.parent / f"state-{number}",
                slots=1,
                timeout_s=60.0,
                memory_bytes=2**31,
                containment=containment,
            )
            for number, containment in enumerate((None, contained))
        ]
        took: list[list[float]] = [[], []]
        try:
            for executor in executors:
                await executor.start()
            for number in range(rollouts + 5):
                for times, executor in zip(took, executors, strict=True):
                    claim = _claim({"write": write, "number": number})
                    begun = time.perf_counter()
                    outcome = await executor.execute(claim, {})
                    times.append(time.perf_counter() - begun)
                    assert outcome.output == number, outcome
        finally:
            await asyncio.gather(*(executor.close() for executor in executors))
            if before is not None:
                os.environ["HOME"] = before
    usual, inside = (statistics.median(times[5:]) for times in took)
    return 1000 * (inside - usual)


def _claim(given: dict[str, Any]) -> Claim:
    rollout = Rollout(
        id=f"r{given['number']}",
        queue="benchmark",
        candidate_id="c",
        task_id="t",
        input={"task": given},
        seed=given["number"],
        max_attempts=1,
    )
    return Claim(rollout, 1, 1e12)
