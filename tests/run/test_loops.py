"""The async executor over processes: many attempts at once in each, and what one does to others."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.run.executing import execute, started, use
from tests.waiting import alive

from ratchet.run import Runner, WorkerExecutor, workers_for
from ratchet.store import Store
from ratchet.types import Candidate, Claim, Int, Outcome, Params, Rollout
from ratchet.worker.agent import AgentSpec
from ratchet.worker.messages import KNOWN_CANDIDATES

WriteAgent = Callable[..., AgentSpec]
Claims = Callable[..., list[Claim]]
Rollouts = Callable[..., list[Rollout]]
Loops = Callable[..., WorkerExecutor]
Attempts = Callable[..., list[Outcome]]

AGENT = """
    import asyncio, ctypes, os, subprocess, sys
    from pathlib import Path
    import ratchet
    from ratchet.bind import current_seed
    KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))
    HERE = Path(__file__).parent
    met, meeting = 0, asyncio.Event()

    @ratchet.tool(side_effects=True)
    def pay():
        (HERE / "paid").touch()

    async def meet(count):
        global met
        met += 1
        if met >= count:
            meeting.set()
        await meeting.wait()

    async def run(x):
        kind, *rest = x if isinstance(x, list) else [x]
        with open(HERE / "started", "a") as file:
            file.write(f"{kind}\\n")
        if kind == "pid":
            return os.getpid()
        if kind == "meet":
            await meet(rest[0])
            return "met"
        if kind == "knob":
            await asyncio.sleep(0)
            return [KNOBS.k, current_seed()]
        if kind == "rests":
            # The first time only: beside the one that crashes.
            if not (HERE / "rested").exists():
                (HERE / "rested").touch()
                await asyncio.Event().wait()
            return "rested"
        if kind in ("exit", "segfault"):
            while rest and not (HERE / "rested").exists():
                await asyncio.sleep(0.001)
            print("about to die")
            ctypes.string_at(0) if kind == "segfault" else os._exit(7)
        if kind == "block":
            while True:
                pass
        if kind == "eat":
            while rest and not (HERE / "rested").exists():
                await asyncio.sleep(0.001)
            eaten = []
            while True:
                eaten.append(bytearray(8 * 2**20))
        if kind == "forever":
            try:
                await asyncio.Event().wait()
            finally:
                (HERE / "cancelled").touch()
        if kind == "child pays":
            code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import {__name__} as a; a.pay()"
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, stderr=asyncio.subprocess.DEVNULL
            )
            return await child.wait()
        return x
"""


@pytest.fixture
def loops(tmp_path: Path, sqlite_url: str) -> Loops:
    """An executor for the agent; its workers end with the test."""

    def make(agent: AgentSpec, **options: Any) -> WorkerExecutor:
        given: dict[str, Any] = {"slots": 8, "workers": 1, "timeout_s": 30, "memory_bytes": 2**31}
        given |= options
        return WorkerExecutor(agent, store_url=sqlite_url, state=tmp_path / "state", **given)

    return make


@pytest.fixture
def agent(write_agent: WriteAgent) -> AgentSpec:
    return write_agent(AGENT)


@pytest.fixture
def attempts(agent: AgentSpec, loops: Loops, claims: Claims, candidate: Candidate) -> Attempts:
    """How attempts on these inputs end that begin at once; options are those of the executor."""

    def run(*inputs: Any, **options: Any) -> list[Outcome]:
        return execute(loops(agent, **options), claims(*inputs), candidate)

    return run


def test_attempts_of_one_worker_run_at_the_same_time(attempts: Attempts) -> None:
    outcomes = attempts(*[["meet", 8]] * 8)
    assert [o.output for o in outcomes] == ["met"] * 8


def test_attempts_are_spread_over_the_workers_that_are_there(
    write_agent: WriteAgent, claims: Claims, loops: Loops, candidate: Candidate
) -> None:
    executor = loops(write_agent(AGENT), workers=2)

    async def work() -> list[Outcome]:
        while not all(slot.ready for slot in executor._worker_slots):
            await asyncio.sleep(0.005)
        return await asyncio.gather(
            *(executor.execute(c, candidate.resources) for c in claims(*["pid"] * 8))
        )

    counts = Counter(o.output for o in use(executor, work))
    assert sorted(counts.values()) == [4, 4]
    assert os.getpid() not in counts


def test_attempts_see_their_own_candidate_and_seed_however_many_there_are(
    write_agent: WriteAgent, loops: Loops, rollouts: Rollouts, lite: Store
) -> None:
    # More candidates than a worker remembers, in turns, twice.
    many = [
        Candidate.of({"knobs": Params({"k": Int(5, 1, 99)}, {"k": 1 + k})})
        for k in range(KNOWN_CANDIDATES + 8)
    ]
    made = rollouts(*["knob"] * (2 * len(many)))
    mine = [
        msgspec.structs.replace(r, candidate_id=many[n % len(many)].id) for n, r in enumerate(made)
    ]

    async def main() -> dict[str, Rollout]:
        for one in many:
            lite.candidates.put(one)
        async with Runner(lite, "agent", loops(write_agent(AGENT))) as runner:
            return await runner.run(mine, many)

    done = asyncio.run(main())
    assert [done[r.id].output for r in mine] == [
        [1 + n % len(many), 1000 + n] for n in range(len(mine))
    ]


@pytest.mark.parametrize(
    ("kind", "how"), [("exit", "ended with exit code 7"), ("segfault", "was killed by SIGSEGV")]
)
def test_a_crash_is_the_culprits_alone_and_what_ran_beside_it_runs_again(
    attempts: Attempts, kind: str, how: str, agent: AgentSpec
) -> None:
    other, culprit, after = attempts("rests", [kind, 1], "a")
    assert (other.output, after.output) == ("rested", "a")
    assert culprit.status == "crashed"
    assert how in culprit.error
    assert "about to die" in culprit.error
    assert started(agent).count("rests") == 2


def test_a_task_that_ended_a_process_runs_alone_from_then_on(
    write_agent: WriteAgent, loops: Loops, candidate: Candidate, rollouts: Rollouts
) -> None:
    agent = write_agent(AGENT)
    executor = loops(agent)

    def claim(number: int, task: str, given: Any) -> Claim:
        (rollout,) = rollouts(given, id=f"x{number}", task_id=task)
        return Claim(rollout, number, 1e12)

    async def work() -> tuple[list[Outcome], list[Outcome]]:
        async def both(number: int) -> list[Outcome]:
            pair = (claim(number, "bad", "exit"), claim(number + 1, "good", "knob"))
            return await asyncio.gather(*(executor.execute(c, candidate.resources) for c in pair))

        return await both(1), await both(3)

    for bad, good in use(executor, work):
        assert (bad.status, good.status) == ("crashed", "succeeded")
    # Shared, alone, and then alone only; the other was never disturbed by the second.
    assert started(agent).count("exit") == 3
    assert started(agent).count("knob") <= 3


def test_a_loop_that_an_agent_blocks_times_that_agent_out_alone(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.run.worker_pool.ANSWER_GRACE_S", 0.2)
    outcomes = attempts("a", "block", "b", "c", timeout_s=0.5)
    assert [o.status for o in outcomes] == ["succeeded", "timed_out", "succeeded", "succeeded"]
    assert outcomes[1].error == "No answer within 0.5 s."


def test_an_attempt_that_waits_too_long_times_out_without_the_others(
    attempts: Attempts, agent: AgentSpec
) -> None:
    outcomes = attempts("a", "forever", "pid", timeout_s=0.5)
    assert [o.status for o in outcomes] == ["succeeded", "timed_out", "succeeded"]
    assert (Path(agent.root) / "cancelled").exists()
    assert sorted(started(agent)) == ["a", "forever", "pid"], "no process was ended for it"


def test_a_memory_eater_fails_alone(attempts: Attempts) -> None:
    outcomes = attempts("a", "eat", "b", "knob", memory_bytes=400 * 2**20)
    assert [o.status for o in outcomes if o is not outcomes[1]] == ["succeeded"] * 3
    assert outcomes[1].status in ("failed", "crashed")
    assert "MemoryError" in outcomes[1].error


@pytest.mark.long
def test_who_runs_beside_a_memory_eater_is_not_blamed_and_the_eater_runs_alone_from_then_on(
    write_agent: WriteAgent, claims: Claims, loops: Loops, candidate: Candidate
) -> None:
    agent = write_agent(AGENT)
    executor = loops(agent, memory_bytes=400 * 2**20)
    eater, beside, later = claims(["eat", "rests"], "rests", "a")

    async def work() -> list[Outcome]:
        return [
            *await asyncio.gather(
                *(executor.execute(claim, candidate.resources) for claim in (eater, beside))
            ),
            *await asyncio.gather(
                *(executor.execute(claim, candidate.resources) for claim in (eater, later))
            ),
        ]

    ends = [(o.status, o.output) for o in use(executor, work)]
    assert ends == [("failed", None), ("succeeded", "rested"), ("failed", None), ("succeeded", "a")]
    # Shared, alone, and then alone only.
    assert started(agent).count("eat") == 3
    assert started(agent).count("a") == 1


def test_a_cancelled_attempt_is_stopped_where_it_runs_and_the_worker_goes_on(
    write_agent: WriteAgent, claims: Claims, loops: Loops, candidate: Candidate
) -> None:
    agent = write_agent(AGENT)
    first, second, third = claims("forever", "pid", "pid")
    executor = loops(agent)

    async def work() -> list[Any]:
        before = await executor.execute(second, candidate.resources)
        task = asyncio.create_task(executor.execute(first, candidate.resources))
        while "forever" not in started(agent):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not (Path(agent.root) / "cancelled").exists():
            await asyncio.sleep(0.005)
        after = await executor.execute(third, candidate.resources)
        return [before.output, after.output]

    before, after = use(executor, work)
    assert before == after, "the same process"
    assert not alive(after)


def test_a_child_process_may_not_act(attempts: Attempts, agent: AgentSpec) -> None:
    (outcome,) = attempts("child pays")
    assert outcome.output != 0, "the tool refused"
    assert not (Path(agent.root) / "paid").exists()


def test_a_sync_agent_runs_in_threads_of_the_workers(
    write_agent: WriteAgent, claims: Claims, loops: Loops, candidate: Candidate
) -> None:
    source = """
        import os, threading
        barrier = threading.Barrier(4)
        def run(x):
            barrier.wait()
            return os.getpid()
    """
    outcomes = execute(loops(write_agent(source)), claims(*range(4)), candidate)
    (pid,) = {o.output for o in outcomes}
    assert pid != os.getpid()


def test_with_one_slot_an_attempt_has_its_process_to_itself_and_its_child_processes_the_candidate(
    write_agent: WriteAgent, claims: Claims, loops: Loops, candidate: Candidate
) -> None:
    agent = write_agent("""
        import asyncio, sys
        CHILD = '''
        import ratchet
        from ratchet.bind import current_seed
        print(ratchet.params("knobs", k=ratchet.Int(5, 1, 20)).k, current_seed())
        '''.replace(" " * 8, "")

        async def run(x):
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, stdout=asyncio.subprocess.PIPE
            )
            return (await child.communicate())[0].decode().strip()
    """)
    (outcome,) = execute(loops(agent, slots=1), claims("a"), candidate)
    assert outcome.output == "9 1000", outcome.error


@pytest.mark.parametrize(
    ("slots", "cores", "workers"), [(1, 8, 1), (8, 8, 1), (9, 8, 2), (16, 2, 2), (256, 4, 4)]
)
def test_there_are_as_many_loops_as_slots_and_cores_make_sense_of(
    slots: int, cores: int, workers: int
) -> None:
    assert workers_for(slots, cores) == workers
