"""The async executor: many attempts in one process, none of which harms another."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.run.executing import execute

from ratchet.run import Runner
from ratchet.store import Store
from ratchet.types import Candidate, Claim, Rollout
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor

WriteAgent = Callable[..., AgentSpec]
Claims = Callable[..., list[Claim]]
Rollouts = Callable[..., list[Rollout]]


KNOBS = """
    import asyncio, threading, time, ratchet
    from concurrent.futures import ThreadPoolExecutor
    from ratchet.bind import current_seed
    KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))
"""


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_attempts_see_the_candidate_their_seed_and_nothing_of_each_other(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate, kind: str
) -> None:
    pause = "await asyncio.sleep(0)" if "async" in kind else "time.sleep(0)"
    agent = load_agent(
        write_agent(
            KNOBS
            + f"""
    {kind} run(x):
        {pause}
        with ThreadPoolExecutor(1) as pool:
            return [x, current_seed(), KNOBS.k, pool.submit(lambda: KNOBS.k).result()]
"""
        )
    )
    outcomes = execute(AsyncExecutor(agent, slots=8, timeout_s=10), claims(*range(8)), candidate)
    assert [o.output for o in outcomes] == [[n, 1000 + n, 9, 9] for n in range(8)]
    assert all(len(o.spans) == 1 for o in outcomes)


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_no_more_attempts_run_at_once_than_there_are_slots(
    write_agent: WriteAgent, rollouts: Rollouts, candidate: Candidate, lite: Store, kind: str
) -> None:
    pause = "await asyncio.sleep(0.005)" if "async" in kind else "time.sleep(0.005)"
    agent = load_agent(
        write_agent(f"""
    import asyncio, threading, time
    lock, now, most = threading.Lock(), 0, 0
    {kind} run(x):
        global now, most
        with lock:
            now += 1
            most = max(most, now)
        {pause}
        with lock:
            now -= 1
        return most
""")
    )

    async def main() -> dict[str, Rollout]:
        executor = AsyncExecutor(agent, slots=3, timeout_s=10)
        async with Runner(lite, "agent", executor) as runner:
            lite.candidates.put(candidate)
            return await runner.run(rollouts(*range(30)), [candidate])

    done = asyncio.run(main())
    assert max(r.output for r in done.values()) == 3


HANGS = {
    "async": "async def run(x):\n    if x: return x\n    await asyncio.Event().wait()",
    "sync": "def run(x):\n    if x: return x\n    GATE.wait()",
    "swallows once": (
        "async def run(x):\n    if x: return x\n"
        "    try: await asyncio.Event().wait()\n    except asyncio.CancelledError: return 'late'"
    ),
    "raises instead": (
        "async def run(x):\n    if x: return x\n"
        "    try: await asyncio.Event().wait()\n    finally: raise ValueError('cleaning up')"
    ),
    "swallows for good": (
        "async def run(x):\n    if x: return x\n    while True:\n"
        "        try: await asyncio.Event().wait()\n        except asyncio.CancelledError: pass"
    ),
}


@pytest.mark.parametrize("kind", HANGS)
def test_a_hang_ends_as_timed_out_and_the_others_go_on(
    write_agent: WriteAgent,
    claims: Claims,
    candidate: Candidate,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ratchet.worker.inprocess.GRACE_S", 0.1)
    spec = write_agent("import asyncio, threading\nGATE = threading.Event()\n" + HANGS[kind])
    agent = load_agent(spec)
    executor = AsyncExecutor(agent, slots=4, timeout_s=0.3)
    hung, *others = execute(executor, claims(0, 1, 2, 3), candidate)
    assert (hung.status, hung.cause) == ("timed_out", "timeout")
    assert hung.error == "No answer within 0.3 s."
    assert [o.output for o in others] == [1, 2, 3]
    inspect.unwrap(agent.function).__globals__["GATE"].set()


def test_an_agent_that_swallows_its_cancellation_cannot_hold_the_one_who_cancels(
    write_agent: WriteAgent,
    claims: Claims,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("ratchet.worker.inprocess.GRACE_S", 0.1)
    agent = load_agent(write_agent("import asyncio\n" + HANGS["swallows for good"]))

    async def main() -> None:
        executor = AsyncExecutor(agent, slots=1, timeout_s=60)
        task = asyncio.create_task(executor.execute(claims(0)[0], {}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with caplog.at_level(logging.ERROR):
        ended = threading.Event()
        thread = threading.Thread(target=lambda: (asyncio.run(main()), ended.set()), daemon=True)
        thread.start()
        assert ended.wait(60), "asyncio.run waits for the agent"
    assert not caplog.records


def test_a_failure_of_one_attempt_harms_no_other(
    write_agent: WriteAgent, claims: Claims, candidate: Candidate
) -> None:
    agent = load_agent(write_agent("def run(x):\n    if x % 2: raise SystemExit(x)\n    return x"))
    outcomes = execute(AsyncExecutor(agent, slots=4, timeout_s=10), claims(*range(6)), candidate)
    expected: list[Any] = [("succeeded", 0), ("failed", None)] * 3
    assert [o.status for o in outcomes] == [status for status, _ in expected]
