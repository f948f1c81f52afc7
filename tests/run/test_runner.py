"""The runner: rollouts of a queue run to their ends, once, whoever else is at it."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until_async

from ratchet.run import FileLock, Runner, WorkerExecutor
from ratchet.run import runner as runner_module
from ratchet.store import Store
from ratchet.types import Candidate, Claim, Conflict, Outcome, Rollout, StoreError
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor

WriteAgent = Callable[..., AgentSpec]
Rollouts = Callable[..., list[Rollout]]

COUNTS = """
    import asyncio
    calls = []
    waiting = asyncio.Event()
    async def run(x):
        calls.append(x)
        if x == "waits":
            await asyncio.Event().wait()
        if x == "fails":
            raise ValueError(x)
        return x
"""


class Agents:
    """An agent in this process whose calls are counted."""

    def __init__(self, spec: AgentSpec) -> None:
        self.agent = load_agent(spec)
        self.calls: list[Any] = inspect.unwrap(self.agent.function).__globals__["calls"]  # type: ignore[attr-defined]

    def executor(self, slots: int = 4) -> AsyncExecutor:
        return AsyncExecutor(self.agent, slots=slots, timeout_s=30)

    def run(
        self,
        store: Store,
        rollouts: list[Rollout],
        candidates: list[Candidate],
        told: Callable[[Rollout], Any] = lambda _: None,
        slots: int = 4,
    ) -> dict[str, Rollout]:
        """The ends of rollouts in a runner."""

        async def main() -> dict[str, Rollout]:
            async with Runner(store, "agent", self.executor(slots)) as runner:
                assert runner.slots == slots
                return await runner.run(rollouts, candidates, told)

        return asyncio.run(main())


@pytest.fixture
def agents(write_agent: WriteAgent) -> Agents:
    return Agents(write_agent(COUNTS))


@pytest.fixture
def known(lite: Store, candidate: Candidate) -> Store:
    lite.candidates.put(candidate)
    return lite


def test_rollouts_run_to_their_ends_and_are_told_as_they_finish(
    agents: Agents, known: Store, rollouts: Rollouts, candidate: Candidate
) -> None:
    told: list[str] = []
    wanted = rollouts(*range(20), "fails")

    done = agents.run(known, wanted, [candidate], lambda r: told.append(r.id))
    assert [done[f"r{n}"].output for n in range(20)] == list(range(20))
    assert done["r20"].status == "failed"
    assert sorted(told) == sorted(done) == sorted(known.rollouts.get(list(done)))
    stored = known.rollouts.get(list(done))
    assert {r.id: (r.status, r.output, r.error) for r in stored.values()} == {
        r.id: (r.status, r.output, r.error) for r in done.values()
    }


def test_what_ended_before_is_not_run_again(
    agents: Agents, known: Store, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> None:
        async with Runner(known, "agent", agents.executor()) as runner:
            first = await runner.run(rollouts(*range(10), "fails"), [candidate])
            again = await runner.run(rollouts(*range(10), "fails"), [candidate])
            assert {r.id: r.output for r in again.values()} == {
                r.id: r.output for r in first.values()
            }
        async with Runner(known, "agent", agents.executor()) as other:
            await other.run(rollouts(*range(10), "fails"), [candidate])

    asyncio.run(main())
    assert Counter(agents.calls) == Counter([*range(10), "fails"])


def test_tasks_that_want_the_same_rollouts_share_them(
    agents: Agents, known: Store, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> None:
        async with Runner(known, "agent", agents.executor()) as runner:
            both = await asyncio.gather(
                runner.run(rollouts(*range(10)), [candidate]),
                runner.run(rollouts(*range(15)), [candidate]),
            )
            assert [len(done) for done in both] == [10, 15]

    asyncio.run(main())
    assert Counter(agents.calls) == Counter(range(15))


def test_two_runners_on_one_queue_share_the_work_and_run_nothing_twice(
    agents: Agents, known: Store, rollouts: Rollouts, candidate: Candidate, sqlite_url: str
) -> None:
    met: set[AsyncExecutor] = set()

    class Meeting(AsyncExecutor):
        """Begins when the other one has work too: a fast one would do all of it meanwhile."""

        async def execute(self, *args: Any) -> Outcome:
            met.add(self)
            await until_async(lambda: len(met) == 2)
            return await super().execute(*args)

    async def main() -> list[int]:
        wanted = rollouts(*range(60))
        with Store.open(sqlite_url) as second:
            async with (
                Runner(known, "agent", Meeting(agents.agent, slots=2, timeout_s=30)) as one,
                Runner(second, "agent", Meeting(agents.agent, slots=2, timeout_s=30)) as other,
            ):
                ended = await asyncio.gather(
                    one.run(wanted, [candidate]), other.run(wanted, [candidate])
                )
        return [len(each) for each in ended]

    assert asyncio.run(main()) == [60, 60]
    assert Counter(agents.calls) == Counter(range(60))
    workers = {known.rollouts.attempts(f"r{n}")[0].worker for n in range(60)}
    assert len(workers) == 2


def test_leaving_in_the_middle_gives_rollouts_back_uncounted(
    agents: Agents,
    known: Store,
    rollouts: Rollouts,
    candidate: Candidate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner_module, "DRAIN_TIMEOUT_S", 0.05)
    wanted = rollouts("a", *["waits"] * 20)

    async def main() -> None:
        async with Runner(known, "agent", agents.executor()) as runner:
            task = asyncio.create_task(runner.run(wanted, [candidate]))
            await until_async(lambda: agents.calls.count("waits") == 4)
            task.cancel()

    asyncio.run(main())
    assert known.rollouts.counts() == {"queued": 20, "succeeded": 1}
    assert agents.calls.count("waits") == 4, "nothing begins while the runner is being left"
    stored = known.rollouts.get([r.id for r in wanted]).values()
    assert {r.failures for r in stored} == {0}
    assert not known.rollouts.running()


def test_a_claim_under_way_when_the_runner_is_left_is_given_back(
    agents: Agents,
    known: Store,
    rollouts: Rollouts,
    candidate: Candidate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    begun, go = threading.Event(), threading.Event()
    claim = known.rollouts.claim

    def slow(*args: Any) -> list[Claim]:
        begun.set()
        assert go.wait(60)
        return claim(*args)

    monkeypatch.setattr(known.rollouts, "claim", slow)

    async def main() -> None:
        async with Runner(known, "agent", agents.executor()) as runner:
            task = asyncio.create_task(runner.run(rollouts("a", "b"), [candidate]))
            await until_async(begun.is_set)
            task.cancel()
            asyncio.get_running_loop().call_soon(go.set)

    asyncio.run(main())
    assert known.rollouts.counts() == {"queued": 2}


def test_what_running_attempts_still_finish_is_kept(
    write_agent: WriteAgent, known: Store, rollouts: Rollouts, candidate: Candidate
) -> None:
    spec = write_agent("""
        import asyncio
        calls, gate = [], asyncio.Event()
        async def run(x):
            calls.append(x)
            await gate.wait()
            return x
    """)
    agents = Agents(spec)
    gate = inspect.unwrap(agents.agent.function).__globals__["gate"]  # type: ignore[attr-defined]

    async def main() -> None:
        async with Runner(known, "agent", agents.executor(1)) as runner:
            task = asyncio.create_task(runner.run(rollouts("a", "b", "c"), [candidate]))
            await until_async(lambda: len(agents.calls) == 1)
            task.cancel()
            asyncio.get_running_loop().call_later(0.02, gate.set)

    asyncio.run(main())
    assert known.rollouts.counts() == {"queued": 2, "succeeded": 1}
    assert agents.calls == ["a"]


def test_an_attempt_whose_lease_is_lost_is_stopped_and_run_anew(
    agents: Agents, known: Store, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> None:
        runner = Runner(known, "agent", agents.executor(), lease_s=0.2)
        async with runner:
            task = asyncio.create_task(runner.run(rollouts("waits"), [candidate]))
            await until_async(lambda: len(agents.calls) >= 1)
            (attempt,) = known.rollouts.running()
            before = len(agents.calls)
            known.rollouts.expire(0.0, dead_workers=[attempt.worker])
            await until_async(lambda: len(agents.calls) > before)
            known.rollouts.cancel(["r0"], 0.0)
            done = await task
            assert done["r0"].status == "cancelled"

    asyncio.run(main())
    *lost, last = [a.status for a in known.rollouts.attempts("r0")]
    assert last == "cancelled"
    assert set(lost) == {"expired"}  # more than one where the machine stood still for a lease


def test_recover_requeues_what_dead_runners_left(
    agents: Agents, known: Store, rollouts: Rollouts, candidate: Candidate
) -> None:
    wanted = rollouts(*range(4))
    known.rollouts.create(wanted, 0.0)
    known.rollouts.claim("agent", "host/1/dead", 2, 1e9, 0.0)

    async def main() -> None:
        async with Runner(known, "agent", agents.executor()) as runner:
            assert runner.recover() == 2
            assert runner.recover() == 0
            done = await runner.run(wanted, [candidate])
            assert {r.status for r in done.values()} == {"succeeded"}
            assert {r.failures for r in done.values()} == {0}

    asyncio.run(main())
    assert Counter(agents.calls) == Counter(range(4))


@pytest.mark.parametrize("method", ["claim", "finish", "create", "heartbeat"])
def test_a_failing_store_is_an_error_and_no_hang(
    agents: Agents,
    known: Store,
    rollouts: Rollouts,
    candidate: Candidate,
    method: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner_module, "DRAIN_TIMEOUT_S", 0.05)

    works = getattr(known.rollouts, method)

    def fail(*_: Any) -> None:
        raise StoreError("The disk is full.")

    async def main() -> None:
        async with asyncio.timeout(20):
            async with Runner(known, "agent", agents.executor(), lease_s=0.2) as runner:
                monkeypatch.setattr(known.rollouts, method, fail)
                with pytest.raises(StoreError, match="disk is full"):
                    await runner.run(
                        rollouts("waits" if method == "heartbeat" else "a"), [candidate]
                    )
                with pytest.raises(StoreError, match="disk is full"):
                    await runner.run(rollouts("waits", "later"), [candidate])
                monkeypatch.setattr(known.rollouts, method, works)

    asyncio.run(main())
    assert "running" not in known.rollouts.counts()


def test_leaving_the_block_leaves_no_child_process(
    write_agent: WriteAgent,
    known: Store,
    rollouts: Rollouts,
    candidate: Candidate,
    pool: Callable[..., WorkerExecutor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import psutil

    monkeypatch.setattr(runner_module, "DRAIN_TIMEOUT_S", 0.05)
    spec = write_agent("""
        from pathlib import Path
        def run(x):
            with open(Path(__file__).parent / "started", "a") as file:
                file.write(x)
            while x == "w":
                pass
    """)
    started = Path(spec.root) / "started"

    async def main() -> list[psutil.Process]:
        async with Runner(known, "agent", pool(spec)) as runner:
            task = asyncio.create_task(runner.run(rollouts(*"awwww"), [candidate]))
            await until_async(lambda: started.exists() and started.read_text().count("w") == 2)
            workers = [p for p in psutil.Process().children() if "ratchet.worker" in p.cmdline()]
            task.cancel()
        return workers

    workers = asyncio.run(main())
    assert len(workers) == 2
    assert not any(worker.is_running() for worker in workers)
    assert known.rollouts.counts() == {"queued": 4, "succeeded": 1}


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "lock"
    first, second = FileLock(path, "The thing"), FileLock(path, "The thing")
    with first:
        with pytest.raises(Conflict, match=r"The thing is already running \(process \d+\)"):
            second.acquire()
        with pytest.raises(Conflict, match="in this process"):
            first.acquire()
    with second:
        pass
    second.release()


def test_a_lock_in_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be created"):
        FileLock(tmp_path / "file" / "lock", "The thing").acquire()


def test_a_lock_is_held_as_long_as_a_child_that_inherited_it_lives(tmp_path: Path) -> None:
    import subprocess
    import sys

    lock = FileLock(tmp_path / "lock", "The thing")
    descriptor = lock.acquire()
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[descriptor]
    )
    lock.release()
    other = FileLock(tmp_path / "lock", "The thing")
    with pytest.raises(Conflict):
        other.acquire()
    child.communicate(b"\n", timeout=30)
    other.acquire(wait=True)
    other.release()


def test_a_retried_rollout_is_returned_as_it_is_stored_with_what_all_attempts_cost(
    write_agent: WriteAgent, known: Store, rollouts: Rollouts, candidate: Candidate
) -> None:
    agents = Agents(
        write_agent("""
            import ratchet
            calls = []
            def run(x):
                calls.append(x)
                with ratchet.trace("call") as step:
                    step.set("ratchet.cost_usd", 1.0)
                if len(calls) == 1:
                    raise ValueError(x)
                return x
        """)
    )

    done = agents.run(known, rollouts("a", max_attempts=2), [candidate], slots=1)
    stored = known.rollouts.get(["r0"])["r0"]
    assert stored.cost_usd == 2.0
    assert done["r0"] == stored


def test_a_rollout_whose_agent_was_never_called_has_no_duration(
    agents: Agents, lite: Store, rollouts: Rollouts
) -> None:
    done = agents.run(lite, rollouts("a", candidate_id="c" * 64), [])
    assert (done["r0"].status, done["r0"].duration_s) == ("failed", None)
    assert done["r0"] == lite.rollouts.get(["r0"])["r0"]
