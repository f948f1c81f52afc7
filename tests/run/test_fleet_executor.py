"""The fleet executor: rollouts of a local store that run at the runners of a real server."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from tests.serving import RunningServer
from tests.waiting import until_async

import ratchet
from ratchet.run import Runner, ServerTransport
from ratchet.run import fleet_executor as fleet_module
from ratchet.run import retries as retries_module
from ratchet.run.fleet_executor import FleetExecutor, unrecorded_usd
from ratchet.run.fleet_queue import AgentBuild
from ratchet.store import Store
from ratchet.types import (
    Candidate,
    Code,
    InputError,
    Rollout,
    Span,
    StoreError,
)
from ratchet.worker.agent import Agent, AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor

AGENT = """
    import ratchet

    KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))
    calls = []

    @ratchet.tool
    def look(x):
        return x

    @ratchet.rollout
    async def run(task):
        calls.append(task)
        if task == "fails":
            raise ValueError("no")
        look(task)
        return 0.5 if KNOBS.k == 9 else 0.25
"""


class Fleet:
    """A local store, a server, and an agent."""

    def __init__(self, store: Store, server: RunningServer, agent: Agent) -> None:
        self.store = store
        self.server = server
        self.agent = agent
        self.build = AgentBuild.of(agent)
        module: dict[str, Any] = inspect.unwrap(agent.function).__globals__  # type: ignore[attr-defined]
        self.calls: list[Any] = module["calls"]
        self.said: list[str] = []

    def executor(self, **changes: Any) -> FleetExecutor:
        given: dict[str, Any] = {"build": self.build, "source": {}, "slots": 8, "attempts": 2}
        return FleetExecutor(self.server.url, **{**given, **changes}, say=self.said.append)

    @asynccontextmanager
    async def runner(self, build: AgentBuild | None = None, **options: Any) -> AsyncIterator[None]:
        """A runner at the server, in this process."""
        stop = asyncio.Event()
        queues = (build or self.build).queues(["plain"])
        executor = AsyncExecutor(self.agent, slots=4, timeout_s=30)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(ratchet.AsyncClient(self.server.url))
            runner = Runner(ServerTransport(client), queues, executor, **options)
            await stack.enter_async_context(runner)
            serving = asyncio.create_task(runner.serve(stop))
            try:
                yield
            finally:
                stop.set()
                await serving

    async def run(
        self, rollouts: list[Rollout], candidate: Candidate, executor: FleetExecutor | None = None
    ) -> dict[str, Rollout]:
        """The ends of rollouts of the local store."""
        async with asyncio.timeout(40):
            runner = Runner(self.store, "agent", executor or self.executor())
            await asyncio.to_thread(runner.recover)
            async with runner:
                return await runner.run(rollouts, [candidate])


@pytest.fixture
def fleet(
    tmp_path: Path, server: RunningServer, write_agent: Callable[..., AgentSpec]
) -> Iterator[Fleet]:
    with Store.open(f"sqlite:///{tmp_path}/local.db") as store:
        yield Fleet(store, server, load_agent(write_agent(AGENT)))


def at_server(fleet: Fleet) -> Store:
    store: Store = fleet.server.app.services.store
    return store


Rollouts = Callable[..., list[Rollout]]


def test_rollouts_end_here_as_they_ended_there(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> dict[str, Rollout]:
        async with fleet.runner():
            return await fleet.run(rollouts("a", "b", "fails", expected="secret"), candidate)

    ended = asyncio.run(main())
    assert [ended[f"r{n}"].status for n in range(3)] == ["succeeded", "succeeded", "failed"]
    assert "ValueError: no" in ended["r2"].error
    for id in ("r0", "r1"):
        assert ended[id].cost_usd == 0.0
        assert ended[id].duration_s is not None
        assert [s.value for s in fleet.store.scores.of([id])[id]] == [0.5]
        assert {s.name for s in fleet.store.spans.of(id)} >= {"look"}
    there = at_server(fleet).rollouts.list()[0][0]
    assert there.queue == fleet.build.queue("agent", "plain")
    assert there.expected is None, "the expected answer stays where the evaluators are"


def test_the_server_retries_and_the_local_rollout_ends_once(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> dict[str, Rollout]:
        async with fleet.runner():
            return await fleet.run(rollouts("fails"), candidate)

    ended = asyncio.run(main())
    assert ended["r0"].status == "failed"
    assert fleet.calls == ["fails", "fails"]
    (there,), _ = at_server(fleet).rollouts.list()
    assert len(at_server(fleet).rollouts.attempts(there.id)) == 2
    assert len(fleet.store.rollouts.attempts("r0")) == 1


def test_what_ended_at_the_server_is_not_run_again(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate
) -> None:
    """As after a kill: the local store knows nothing of what was paid for."""

    async def main() -> dict[str, Rollout]:
        interrupted = asyncio.create_task(fleet.run(rollouts("a", "b"), candidate))
        await until_async(lambda: bool(at_server(fleet).rollouts.counts().get("queued", 0) == 2))
        interrupted.cancel()
        await asyncio.gather(interrupted, return_exceptions=True)
        assert fleet.store.rollouts.counts() == {"queued": 2}
        async with fleet.runner():
            await until_async(lambda: at_server(fleet).rollouts.counts() == {"succeeded": 2})
        return await fleet.run(rollouts("a", "b"), candidate)

    ended = asyncio.run(main())
    assert {one.status for one in ended.values()} == {"succeeded"}
    assert sorted(fleet.calls) == ["a", "b"]


def test_the_store_of_the_server_may_be_that_of_the_project(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> dict[str, Rollout]:
        async with fleet.runner():
            return await fleet.run(rollouts("a", "b", purpose="eval"), candidate)

    with Store.open(fleet.server.store_url) as shared:
        fleet.store = shared
        ended = asyncio.run(main())
        assert {one.status for one in ended.values()} == {"succeeded"}
        assert shared.rollouts.counts(purpose="eval") == {"succeeded": 2}, "counted once"
    assert sorted(fleet.calls) == ["a", "b"]


def test_pending_rollouts_share_requests(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> tuple[int, int]:
        executor = fleet.executor(slots=200)
        requests = {"create": 0, "wait": 0}

        def counted(name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
            async def counting(*args: Any, **options: Any) -> Any:
                requests[name] += 1
                return await call(*args, **options)

            return counting

        client = executor._client
        monkeypatch.setattr(client.fleet, "wait", counted("wait", client.fleet.wait))
        monkeypatch.setattr(client.rollouts, "create", counted("create", client.rollouts.create))
        async with fleet.runner():
            await fleet.run(rollouts(*range(200)), candidate, executor)
        return requests["create"], requests["wait"]

    created, waited = asyncio.run(main())
    assert created < 20
    assert waited < 100


def test_a_second_improve_is_not_behind_the_first_ones_rollouts(
    fleet: Fleet, candidate: Candidate, tmp_path: Path
) -> None:
    def of(queue: str, count: int) -> list[Rollout]:
        return [
            Rollout(
                id=f"{queue}{n}",
                queue=queue,
                candidate_id=candidate.id,
                task_id=str(n),
                input=[queue, n],
            )
            for n in range(count)
        ]

    async def improve(queue: str, count: int) -> None:
        with Store.open(f"sqlite:///{tmp_path}/{queue}.db") as store:
            async with Runner(store, queue, fleet.executor(slots=count)) as runner:
                await runner.run(of(queue, count), [candidate])

    async def main() -> None:
        first = asyncio.create_task(improve("first", 300))
        await until_async(lambda: at_server(fleet).rollouts.counts() == {"queued": 300})
        second = asyncio.create_task(improve("second", 20))
        await until_async(lambda: at_server(fleet).rollouts.counts() == {"queued": 320})
        async with fleet.runner(), asyncio.timeout(40):
            await asyncio.gather(first, second)

    asyncio.run(main())
    assert len(fleet.calls) == 320
    last = max(at for at, (queue, _) in enumerate(fleet.calls) if queue == "second")
    assert last < 60, "each of the two gets every other slot"


def test_a_rollout_that_the_server_refuses_ends_the_run_with_its_reason(
    fleet: Fleet, candidate: Candidate
) -> None:
    rollout = Rollout(id="r", queue="agent", candidate_id=candidate.id, task_id="t" * 3000, input=1)
    with pytest.raises(InputError, match="task_id"):
        asyncio.run(fleet.run([rollout], candidate))


def test_runners_of_another_source_take_nothing_and_both_are_named(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "NOTICE_S", 0.05)
    other = AgentBuild(entry=fleet.build.entry, source="f" * 32, python="3.99")

    async def main() -> dict[str, Rollout]:
        async with fleet.runner(other):
            running = asyncio.create_task(fleet.run(rollouts("a"), candidate))
            await until_async(lambda: any("another version" in one for one in fleet.said))
            await until_async(lambda: bool(at_server(fleet).rollouts.counts()))
            assert fleet.calls == []
            assert at_server(fleet).rollouts.counts() == {"queued": 1}
            async with fleet.runner():
                return await running

    ended = asyncio.run(main())
    assert ended["r0"].status == "succeeded"
    told = [one for one in fleet.said if "another version" in one]
    assert len(told) == len(set(told)), "each is said once"
    assert (
        f"another version of {fleet.build.entry}: version ffffffffffff of its source and"
        in (told[-1])
    )
    assert "Python 3.99" in told[-1]
    assert f"Wanted: version {fleet.build.source[:12]}" in told[-1]


def test_without_a_runner_it_is_said_how_to_start_one(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> None:
        executor = fleet.executor()
        await executor.start()
        await executor.close()

    asyncio.run(main())
    (sentence,) = fleet.said
    assert sentence.startswith(f"No runner at {fleet.server.url} has {fleet.build.entry}")
    assert f"ratchet runner --server {fleet.server.url}" in sentence


def test_candidates_with_code_wait_for_runners_with_a_sandbox(
    fleet: Fleet, rollouts: Rollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "NOTICE_S", 0.05)
    source = Code("def f(x):\n    return x\n", "f")
    same = Candidate.of({"f": Code('def f(x):\n    """Told."""\n    return x\n', "f")})
    changed = Candidate.of({"f": Code("def f(x):\n    return 2\n", "f")})
    one, two = rollouts("a", "b")
    queued = [
        ratchet.Rollout(id=r.id, queue="agent", candidate_id=c.id, task_id="t", input=r.input)
        for r, c in ((one, same), (two, changed))
    ]

    async def main() -> None:
        async with fleet.runner():
            executor = fleet.executor(source={"f": source})
            async with Runner(fleet.store, "agent", executor) as runner:
                running = asyncio.create_task(runner.run(queued, [same, changed]))
                await until_async(lambda: any("sandbox" in said for said in fleet.said))
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())
    listed, _ = at_server(fleet).rollouts.list()
    there = {one.input: one for one in listed}
    assert (there["a"].status, there["b"].status) == ("succeeded", "queued")
    assert there["b"].queue == fleet.build.queue("agent", "sandbox")
    assert "has a sandbox, which candidates with code need (1 runner without" in (fleet.said[-1])


def test_a_server_that_lost_a_rollout_gets_it_again(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate
) -> None:
    async def main() -> dict[str, Rollout]:
        running = asyncio.create_task(fleet.run(rollouts("a"), candidate))
        await until_async(lambda: at_server(fleet).rollouts.counts() == {"queued": 1})
        with closing(sqlite3.connect(fleet.server.store_url.removeprefix("sqlite:///"))) as raw:
            raw.execute("DELETE FROM rollouts")
            raw.execute("DELETE FROM candidates")
            raw.commit()
        async with fleet.runner():
            return await running

    assert asyncio.run(main())["r0"].status == "succeeded"
    assert fleet.calls == ["a"]


def test_a_server_that_stays_away_ends_the_run_with_what_to_do(
    fleet: Fleet, rollouts: Rollouts, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "GIVE_UP_S", 0.3)
    monkeypatch.setattr(fleet_module, "RETRY_S", 0.0)
    monkeypatch.setattr(retries_module, "FIRST_PAUSE_S", 0.05)

    async def main() -> None:
        running = asyncio.create_task(fleet.run(rollouts("a"), candidate))
        await until_async(lambda: at_server(fleet).rollouts.counts() == {"queued": 1})
        await asyncio.to_thread(fleet.server.stop)
        await running

    with pytest.raises(StoreError) as raised:
        asyncio.run(main())
    assert "When it is back, run the same command" in str(raised.value)
    assert len([one for one in fleet.said if "Trying again" in one]) == 1


def test_a_wrong_key_is_refused_at_once(
    serving: Callable[..., RunningServer], sqlite_url: str, lite: Store, fleet: Fleet
) -> None:
    lite.keys.create("somebody", ("develop",), time.time())
    guarded = serving(sqlite_url)

    async def main() -> None:
        executor = FleetExecutor(
            guarded.url,
            build=fleet.build,
            source={},
            slots=1,
            attempts=1,
            say=fleet.said.append,
            key="ra_wrong",
        )
        try:
            await executor.start()
        finally:
            await executor.close()

    with pytest.raises(ratchet.RatchetError, match="key"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("cost", "known", "unpriced", "expected"),
    [(0.75, 0.75, {}, 0.25), (None, 0.75, {}, None), (None, 0.5, {"m": 1}, None)],
)
def test_only_dollars_that_no_span_records_are_reported(
    cost: float | None, known: float, unpriced: dict[str, int], expected: float | None
) -> None:
    call = Span(
        trace_id="a" * 32,
        span_id="b" * 16,
        name="chat",
        start_ns=1,
        end_ns=2,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.input_tokens": 1,
            "ratchet.cost_usd": 0.5,
        },
    )
    rollout = Rollout(
        id="r",
        queue="q",
        candidate_id="",
        task_id="t",
        input=1,
        cost_usd=cost,
        known_usd=known,
        unpriced=unpriced,
    )
    assert unrecorded_usd(rollout, [call]) == expected
