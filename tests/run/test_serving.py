"""A runner that serves a queue, of a server or of a store, whatever happens to either."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.serving import RunningServer
from tests.waiting import until_async

import ratchet
from ratchet.run import RetryingTransport, Runner, RunnerWatcher, ServerTransport
from ratchet.run import retries as patience_module
from ratchet.run.pending import UNANSWERED_S, Idleness
from ratchet.server.limits import ServerLimits
from ratchet.server.serve import ServeSettings
from ratchet.store import Store
from ratchet.types import (
    AgentError,
    Candidate,
    Claim,
    ConfigError,
    Outcome,
    Rollout,
    RolloutStatus,
    StoreError,
)
from ratchet.worker.agent import AgentSpec, load_agent
from ratchet.worker.inprocess import AsyncExecutor

WriteAgent = Callable[..., AgentSpec]
Serving = Callable[..., RunningServer]

AGENT = """
    import asyncio
    import ratchet

    KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))
    calls = []
    gate = asyncio.Event()

    @ratchet.agent
    async def run(x):
        calls.append(x)
        if x == "waits":
            await gate.wait()
        if x == "for ever":
            await asyncio.Event().wait()
        if x == "large":
            return "x" * 200_000
        return [x, KNOBS.k]
"""


class Watcher(RunnerWatcher):
    """Remembers what it heard."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str, RolloutStatus | None]] = []
        self.heard: list[str] = []
        self.taken = 0
        self.lost_ones = 0

    def claimed(self, number: int) -> None:
        self.taken += number

    def ended(self, outcome: Outcome, status: RolloutStatus | None) -> None:
        self.ends.append((outcome.rollout_id, outcome.status, status))

    def lost(self, number: int) -> None:
        self.lost_ones += number

    def away(self, error: StoreError) -> None:
        self.heard.append("away")

    def back(self, after_s: float) -> None:
        self.heard.append("back")


class Setting:
    """An agent in this process, and runners for it at a server."""

    def __init__(self, spec: AgentSpec, server: RunningServer) -> None:
        self.agent = load_agent(spec)
        self.server = server
        self.watcher = Watcher()
        module: dict[str, Any] = inspect.unwrap(self.agent.function).__globals__  # type: ignore[attr-defined]
        self.calls: list[Any] = module["calls"]
        self.gate: asyncio.Event = module["gate"]

    def runner(self, client: ratchet.AsyncClient, slots: int = 4, **options: Any) -> Runner:
        line = RetryingTransport(ServerTransport(client), self.watcher)
        executor = options.pop("executor", None)
        executor = executor or AsyncExecutor(self.agent, slots=slots, timeout_s=30)
        return Runner(line, "agent", executor, watcher=self.watcher, **options)

    def serve(
        self, meanwhile: Callable[[Runner, asyncio.Event], Awaitable[None]], **options: Any
    ) -> None:
        """Serve the queue until `meanwhile` is over."""

        async def main() -> None:
            stop = asyncio.Event()
            async with (
                asyncio.timeout(40),
                ratchet.AsyncClient(self.server.url, patience_s=0.0) as client,
                self.runner(client, **options) as runner,
            ):
                serving = asyncio.create_task(runner.serve(stop))
                try:
                    await meanwhile(runner, stop)
                finally:
                    stop.set()
                    await serving

        asyncio.run(main())

    def with_runner(
        self, work: Callable[[Runner], Awaitable[Any]], key: str = "", **options: Any
    ) -> Any:
        """What `work` returns of a runner."""

        async def main() -> Any:
            async with (
                asyncio.timeout(20),
                ratchet.AsyncClient(self.server.url, key) as client,
                self.runner(client, **options) as runner,
            ):
                return await work(runner)

        return asyncio.run(main())

    @property
    def store(self) -> Store:
        store: Store = self.server.app.services.store
        return store


def rollout(id: str, given: Any = "x", candidate_id: str = "", **fields: Any) -> Rollout:
    return Rollout(
        id=id, queue="agent", candidate_id=candidate_id, task_id="t", input=given, **fields
    )


def numbered(*numbers: int, **fields: Any) -> list[Rollout]:
    return [rollout(f"r{number}", number, **fields) for number in numbers]


@pytest.fixture
def setting(write_agent: WriteAgent, server: RunningServer) -> Setting:
    return Setting(write_agent(AGENT), server)


def test_a_runner_serves_what_is_queued_until_it_is_told_to_stop(
    setting: Setting, candidate: Candidate
) -> None:
    setting.store.candidates.put(candidate)
    ends = setting.watcher.ends

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        with ratchet.Client(setting.server.url) as client:
            for numbers in (range(20), range(20, 40)):
                new = numbered(*numbers, candidate_id=candidate.id)
                await asyncio.to_thread(client.rollouts.create, new)
                await until_async(lambda so_far=numbers[-1] + 1: len(ends) == so_far)  # type: ignore[misc]

    setting.serve(meanwhile)
    assert setting.store.rollouts.counts() == {"succeeded": 40}
    assert Counter(setting.calls) == Counter(range(40))
    assert setting.store.rollouts.get(["r3"])["r3"].output == [3, 9], "the candidate's 9"
    assert setting.watcher.taken == 40
    assert setting.watcher.heard == []


def test_a_candidate_that_cannot_be_had_fails_its_rollout_and_the_rest_goes_on(
    setting: Setting,
) -> None:
    # By way of the store: the API takes no rollout of a candidate that it does not know.
    lost = rollout("lost", candidate_id="nowhere", max_attempts=1)
    setting.store.rollouts.create([lost, *numbered(1, 2)], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: len(setting.watcher.ends) == 3)

    setting.serve(meanwhile)
    assert setting.store.rollouts.counts() == {"failed": 1, "succeeded": 2}
    assert "no candidate 'nowhere'" in setting.store.rollouts.get(["lost"])["lost"].error


def test_outcomes_that_end_while_the_server_is_away_are_reported_when_it_is_back(
    write_agent: WriteAgent, serving: Serving, sqlite_url: str
) -> None:
    server = serving(sqlite_url)
    setting = Setting(write_agent(AGENT), server)
    setting.store.rollouts.create([*numbered(1, 2), rollout("waits", "waits")], 0.0)
    watcher = setting.watcher

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: "waits" in setting.calls and len(watcher.ends) == 2)
        await asyncio.to_thread(server.stop)
        await until_async(lambda: watcher.heard == ["away"])
        setting.gate.set()
        await until_async(lambda: runner._batcher.pending)
        port = int(server.url.rpartition(":")[2])
        again = await asyncio.to_thread(serving, sqlite_url, ServeSettings(port=port))
        await until_async(lambda: len(watcher.ends) == 3)
        again.app.services.store.rollouts.create(numbered(7), 0.0)
        await until_async(lambda: len(watcher.ends) == 4)

    setting.serve(meanwhile)
    assert watcher.heard == ["away", "back"], "each is said once"
    assert Counter(setting.calls) == Counter([1, 2, "waits", 7]), "nothing is run twice"
    with Store.open(sqlite_url) as store:
        assert store.rollouts.counts() == {"succeeded": 4}
        assert len(store.rollouts.attempts("waits")) == 1


def test_an_attempt_whose_lease_was_lost_is_dropped(setting: Setting) -> None:
    setting.store.rollouts.create([rollout("mine", "for ever"), *numbered(1)], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: "for ever" in setting.calls and len(setting.watcher.ends) == 1)
        assert setting.store.rollouts.cancel(["mine"], 0.0) == 1
        await until_async(lambda: setting.watcher.lost_ones == 1)

    setting.serve(meanwhile, lease_s=1.0)
    assert setting.store.rollouts.counts() == {"succeeded": 1, "cancelled": 1}
    assert setting.watcher.ends == [("r1", "succeeded", "succeeded")], "its outcome has no takers"


def test_a_report_of_an_attempt_that_was_taken_away_is_refused(setting: Setting) -> None:
    setting.store.rollouts.create([rollout("mine", "waits")], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: "waits" in setting.calls)
        # In one transaction, long after its lease: the runner itself would be quick to claim it.
        (claim,) = setting.store.rollouts.claim("agent", "another", 1, 60.0, time.time() + 9_999)
        setting.gate.set()
        await until_async(lambda: bool(setting.watcher.ends))
        assert claim.fence == 2

    setting.serve(meanwhile)
    assert setting.watcher.ends == [("mine", "succeeded", None)]
    assert setting.store.rollouts.counts() == {"running": 1}


def test_draining_gives_back_what_has_not_begun_and_finishes_what_runs(setting: Setting) -> None:
    waiting = [rollout(f"w{n}", "waits") for n in range(4)]
    setting.store.rollouts.create([*waiting, *numbered(*range(9))], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: setting.calls.count("waits") == 4)
        stop.set()
        asyncio.get_running_loop().call_later(0.05, setting.gate.set)

    setting.serve(meanwhile, drain_s=20.0)
    assert setting.store.rollouts.counts() == {"queued": 9, "succeeded": 4}
    assert setting.calls == ["waits"] * 4, "nothing begins once it is told to stop"


def test_a_drain_that_is_cut_gives_back_what_runs(setting: Setting) -> None:
    setting.store.rollouts.create([rollout("a", "for ever"), *numbered(1)], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: "for ever" in setting.calls and len(setting.watcher.ends) == 1)
        stop.set()
        asyncio.get_running_loop().call_later(0.05, runner.cut)

    setting.serve(meanwhile, drain_s=600.0)
    assert setting.store.rollouts.counts() == {"queued": 1, "succeeded": 1}
    assert setting.store.rollouts.get(["a"])["a"].failures == 0


def test_slow_work_is_not_claimed_ahead(setting: Setting) -> None:
    setting.store.rollouts.create([rollout(f"w{n}", "waits") for n in range(10)], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: setting.calls.count("waits") == 2)
        # Another machine with free slots finds all the rest.
        others = setting.store.rollouts.claim("agent", "another", 10, 60.0, time.time())
        assert len(others) == 8
        setting.gate.set()
        await until_async(lambda: len(setting.watcher.ends) == 2)

    setting.serve(meanwhile, slots=2)


def test_a_runner_without_work_ends_when_it_was_told_how_long_to_wait(setting: Setting) -> None:
    setting.store.rollouts.create(numbered(1), 0.0)

    setting.with_runner(lambda runner: runner.serve(asyncio.Event(), max_idle_s=0.2))
    assert setting.store.rollouts.counts() == {"succeeded": 1}


def test_a_runner_whose_first_claim_is_answered_late_does_not_end_before(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.store.rollouts.create(numbered(1), 0.0)
    asked = ServerTransport.claim
    claims: list[float] = []

    async def late(self: ServerTransport, *args: Any, **options: Any) -> list[Claim]:
        claims.append(1.0)
        if len(claims) == 1:
            await asyncio.sleep(0.3)  # six times as long as it may be idle
        return await asked(self, *args, **options)

    monkeypatch.setattr(ServerTransport, "claim", late)

    setting.with_runner(lambda runner: runner.serve(asyncio.Event(), max_idle_s=0.05))
    assert setting.store.rollouts.counts() == {"succeeded": 1}


def test_idleness_is_known_once_somebody_said_that_there_is_nothing_to_do() -> None:
    now = [100.0]
    idleness = Idleness(lambda: now[0])
    now[0] += 30.0
    assert idleness.left_s(2.0) == UNANSWERED_S + 2.0 - 30.0
    idleness.claimed_nothing()
    assert idleness.left_s(2.0) == 0.0
    idleness.busy()
    idleness.claimed_nothing()
    assert idleness.left_s(2.0) == 2.0
    idleness.busy()
    now[0] += UNANSWERED_S + 2.0
    assert idleness.left_s(2.0) == 0.0, "nobody answers: it ends all the same"


def test_an_outcome_that_the_server_does_not_take_fails_and_the_others_are_kept(
    write_agent: WriteAgent, serving: Serving, sqlite_url: str
) -> None:
    server = serving(sqlite_url, ServeSettings(port=0, limits=ServerLimits(body_bytes=100_000)))
    setting = Setting(write_agent(AGENT), server)
    large = rollout("large", "large", max_attempts=1)
    setting.store.rollouts.create([large, *numbered(*range(6))], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: len(setting.watcher.ends) == 7)

    setting.serve(meanwhile)
    assert setting.store.rollouts.counts() == {"succeeded": 6, "failed": 1}
    error = setting.store.rollouts.get(["large"])["large"].error
    assert "Its outcome (succeeded) was refused" in error
    assert "the limit is 100000" in error


def test_a_key_that_is_refused_ends_the_runner_with_a_reason(setting: Setting) -> None:
    with pytest.raises(ConfigError, match="refused the key"):
        setting.with_runner(lambda runner: runner.serve(asyncio.Event()), key="rk_" + "x" * 40)


class Broken(AsyncExecutor):
    """Loses its workers for good after the first attempt."""

    ran = 0

    async def execute(self, claim: Claim, resources: Any) -> Outcome:
        self.ran += 1
        if self.ran > 1:
            raise AgentError("No worker loads the agent any more.")
        return await super().execute(claim, resources)


def test_an_executor_that_is_broken_ends_the_runner_and_gives_back_what_it_held(
    setting: Setting,
) -> None:
    setting.store.rollouts.create(numbered(*range(5)), 0.0)

    broken = Broken(setting.agent, slots=1, timeout_s=30)
    with pytest.raises(AgentError, match="any more"):
        setting.with_runner(lambda runner: runner.serve(asyncio.Event()), executor=broken)
    assert setting.store.rollouts.counts() == {"queued": 4, "succeeded": 1}


def test_leaving_while_the_server_is_away_ends_in_an_error_and_no_hang(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience_module, "HURRY_S", 0.2)
    setting.store.rollouts.create([rollout("a", "for ever")], 0.0)

    async def meanwhile(runner: Runner, stop: asyncio.Event) -> None:
        await until_async(lambda: "for ever" in setting.calls)
        await asyncio.to_thread(setting.server.stop)

    with pytest.raises(StoreError, match="cannot be reached"):
        setting.serve(meanwhile, drain_s=0.1)
    with Store.open(setting.server.store_url) as store:
        assert store.rollouts.counts() == {"running": 1}, "its lease runs out"


def test_a_store_is_served_as_a_server_is(
    write_agent: WriteAgent, server: RunningServer, lite: Store
) -> None:
    setting = Setting(write_agent(AGENT), server)

    async def main() -> None:
        executor = AsyncExecutor(setting.agent, slots=2, timeout_s=30)
        stop = asyncio.Event()
        async with Runner(lite, "agent", executor, watcher=setting.watcher) as runner:
            serving = asyncio.create_task(runner.serve(stop))
            lite.rollouts.create(numbered(*range(5)), 0.0)
            await until_async(lambda: len(setting.watcher.ends) == 5)
            stop.set()
            await serving

    asyncio.run(main())
    assert lite.rollouts.counts() == {"succeeded": 5}


def test_a_server_can_be_asked_for_rollouts_of_ones_own(setting: Setting) -> None:
    done = setting.with_runner(lambda runner: runner.run(numbered(*range(5)), []))
    assert {each.output[0] for each in done.values()} == set(range(5))
    assert setting.store.rollouts.counts() == {"succeeded": 5}
