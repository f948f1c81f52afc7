"""The process executor: real agents that crash, hang, eat and flood, while others go on."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.run.executing import execute, started, use
from tests.waiting import alive

from ratchet.run import Runner, WorkerExecutor
from ratchet.store import Store
from ratchet.types import AgentError, Candidate, Claim, Outcome, Rollout
from ratchet.worker.agent import AgentSpec

WriteAgent = Callable[..., AgentSpec]
Claims = Callable[..., list[Claim]]
Pool = Callable[..., WorkerExecutor]
Rollouts = Callable[..., list[Rollout]]
Attempts = Callable[..., list[Outcome]]

AGENT = """
    import ctypes, multiprocessing, os, subprocess, sys, threading, time
    from pathlib import Path
    import ratchet
    from ratchet.bind import current_seed
    KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))
    HERE = Path(__file__).parent

    class NoRoom(MemoryError):
        pass  # as that of numpy

    def knob(queue):
        queue.put(KNOBS.k)

    def note(name, text):
        with open(HERE / name, "a") as file:
            file.write(text + "\\n")

    @ratchet.tool(side_effects=True)
    def pay():
        note("paid", "paid")

    def child_pays():
        try:
            pay()
        except ratchet.RatchetError:
            pass

    def run(x):
        kind, *rest = x if isinstance(x, list) else [x]
        note("started", f"{kind}")
        if kind == "exit":
            print("about to die")
            os._exit(7)
        if kind == "segfault":
            print("into the void", file=sys.stderr)
            ctypes.string_at(0)
        if kind == "loop":
            while True:
                pass
        if kind == "pid":
            return os.getpid()
        if kind == "array":
            raise NoRoom("no room for the array")
        if kind == "flood":
            line = "x" * 65536
            for _ in range(rest[0]):
                print(line)
            while os.fstat(1).st_size > 2**20:
                os.sched_yield()  # what is printed while the log is being emptied may be lost
            print("the last line")
            os._exit(1)
        if kind == "subprocess":
            code = ("import ratchet; from ratchet.bind import current_seed;"
                    "KNOBS = ratchet.params('knobs', k=ratchet.Int(5, 1, 20));"
                    "print(KNOBS.k, current_seed())")
            return subprocess.check_output([sys.executable, "-c", code], text=True).strip()
        if kind == "spawn":
            context = multiprocessing.get_context("spawn")
            queue = context.SimpleQueue()
            process = context.Process(target=knob, args=(queue,))
            process.start()
            process.join()
            return queue.get()
        if kind == "spawn pays":
            process = multiprocessing.get_context("spawn").Process(target=child_pays)
            process.start()
            process.join()
            return process.exitcode
        if kind == "thread":
            found = []
            thread = threading.Thread(target=lambda: found.append(KNOBS.k))
            thread.start()
            thread.join()
            return found
        if kind == "leaves":
            child = subprocess.Popen(["sleep", "600"])
            note("children", str(child.pid))
            if rest:
                os._exit(3)
            return child.pid
        if kind == "daemon and die":
            # os.system runs no hook of Python's, and the daemon leaves the worker's session.
            os.system("setsid sh -c 'echo $$ > " + str(HERE / "daemon") + "; exec sleep 600' &")
            while not ((HERE / "daemon").exists() and (HERE / "daemon").read_text()):
                os.sched_yield()
            os._exit(6)
        if kind == "fork and die":
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.read(reader, 1)
                os._exit(0)
            note("children", str(child))
            os._exit(5)
        if kind == "dies later":
            gate = open(HERE / "gate", "rb", buffering=0)
            threading.Thread(target=lambda: (gate.read(1), os._exit(9)), daemon=True).start()
            return "answered"
        if kind == "seed":
            return [current_seed(), KNOBS.k]
        return x
"""


@pytest.fixture
def agent(write_agent: WriteAgent) -> AgentSpec:
    return write_agent(AGENT)


@pytest.fixture
def attempts(agent: AgentSpec, pool: Pool, claims: Claims, candidate: Candidate) -> Attempts:
    """How attempts on these inputs end that begin at once; options are those of the executor."""

    def run(*inputs: Any, **options: Any) -> list[Outcome]:
        return execute(pool(agent, **options), claims(*inputs), candidate)

    return run


def children(agent: AgentSpec) -> list[int]:
    return [int(line) for line in (Path(agent.root) / "children").read_text().split()]


def test_crashes_stay_alone_say_how_and_what_was_printed_and_others_run_once(
    attempts: Attempts, agent: AgentSpec
) -> None:
    inputs = ["a", "exit", "b", "segfault", "c", ["fork and die"], "d", "e"]
    outcomes = attempts(*inputs)
    by_input = {str(i): o for i, o in zip(inputs, outcomes, strict=True)}
    assert by_input["exit"].status == by_input["segfault"].status == "crashed"
    assert "ended with exit code 7" in by_input["exit"].error
    assert "about to die" in by_input["exit"].error
    assert "was killed by SIGSEGV" in by_input["segfault"].error
    assert "into the void" in by_input["segfault"].error
    assert "in run" in by_input["segfault"].error, "where it was, as faulthandler tells"
    assert "ended with exit code 5" in by_input["['fork and die']"].error
    for plain in "abcde":
        assert (by_input[plain].status, by_input[plain].output) == ("succeeded", plain)
    assert sorted(started(agent)) == sorted([*"abcde", "exit", "segfault", "fork and die"])
    assert not any(map(alive, children(agent)))


def test_an_infinite_loop_is_killed_at_its_time_out(attempts: Attempts) -> None:
    outcomes = attempts("a", "loop", "b", "c", timeout_s=0.5)
    assert [o.status for o in outcomes] == ["succeeded", "timed_out", "succeeded", "succeeded"]
    assert outcomes[1].error == "No answer within 0.5 s."
    assert outcomes[1].duration_s >= 0.5


def test_who_asked_for_too_much_memory_leaves_a_fresh_process_behind_however_its_error_is_called(
    attempts: Attempts,
) -> None:
    outcomes = attempts("pid", "array", "pid", slots=1)
    assert (outcomes[1].status, outcomes[1].cause) == ("failed", "memory")
    assert outcomes[0].output != outcomes[2].output


def test_a_flood_of_output_is_bounded_and_its_end_is_shown(
    attempts: Attempts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ratchet.run.worker_pool.WATCH_S", 0.01)
    monkeypatch.setattr("ratchet.run.worker_process.LOG_BYTES", 2**20)
    outcomes = attempts("a", ["flood", 8000], "b", "c")
    assert [o.output for o in outcomes] == ["a", None, "b", "c"]
    assert "the last line" in outcomes[1].error
    size = sum(f.stat().st_size for f in (tmp_path / "state" / "logs").iterdir())
    assert size < 400 * 2**20, "half a gigabyte was printed"


def test_threads_and_processes_of_an_agent_see_its_candidate_and_seed(
    attempts: Attempts, tmp_path: Path
) -> None:
    outcomes = attempts("thread", "spawn", "subprocess", "seed")
    assert [o.output for o in outcomes] == [[9], 9, "9 1002", [1003, 9]], [
        o.error for o in outcomes
    ]
    assert not list((tmp_path / "state" / "tmp").iterdir())


def test_a_child_process_may_not_act_either_and_makes_the_rollout_inconclusive(
    attempts: Attempts, agent: AgentSpec
) -> None:
    outcomes = attempts("a", "spawn pays", "b", slots=1)
    assert [o.status for o in outcomes] == ["succeeded", "inconclusive", "succeeded"]
    assert "'pay' has side effects" in outcomes[1].error
    assert not (Path(agent.root) / "paid").exists()


def test_what_an_agent_leaves_running_ends_with_its_worker(
    attempts: Attempts, agent: AgentSpec
) -> None:
    outcomes = attempts(["leaves"], ["leaves", "and dies"], "a")
    assert [o.status for o in outcomes] == ["succeeded", "crashed", "succeeded"]
    assert len(children(agent)) == 2
    deadline = time.monotonic() + 20  # a killed process is gone when the kernel gets to it
    while any(map(alive, children(agent))) and time.monotonic() < deadline:
        os.sched_yield()
    assert not any(map(alive, children(agent)))


def test_a_crash_is_seen_at_once_though_a_daemon_of_the_agents_lives_on(
    attempts: Attempts, agent: AgentSpec
) -> None:
    try:
        (outcome,) = attempts("daemon and die", slots=1)
    finally:
        os.kill(int((Path(agent.root) / "daemon").read_text()), signal.SIGKILL)
    assert outcome.status == "crashed"
    assert "ended with exit code 6" in outcome.error


def test_a_worker_that_ends_between_two_attempts_fails_neither(
    write_agent: WriteAgent, claims: Claims, pool: Pool, candidate: Candidate
) -> None:
    first, second = claims("dies later", "a")
    agent = write_agent(AGENT)
    executor = pool(agent, slots=1)
    os.mkfifo(Path(agent.root) / "gate")
    # Read and write: opening a pipe of that kind at one end waits for the other.
    gate = os.open(Path(agent.root) / "gate", os.O_RDWR)

    async def work() -> list[str]:
        outcomes = [await executor.execute(first, candidate.resources)]
        (worker,) = executor._worker_pool._all
        os.write(gate, b"x")
        while not worker.gone():
            await asyncio.sleep(0.005)
        outcomes.append(await executor.execute(second, candidate.resources))
        return [outcome.status for outcome in outcomes]

    assert use(executor, work) == ["succeeded", "succeeded"]
    os.close(gate)


def test_an_output_nested_almost_too_deep_harms_nobody(
    write_agent: WriteAgent, rollouts: Rollouts, candidate: Candidate, pool: Pool, lite: Store
) -> None:
    agent = write_agent("""
        def run(x):
            nested = 1
            for _ in range(x):
                nested = [nested]
            return nested
    """)
    wanted = rollouts(*range(500, 1100, 7))

    async def main() -> Mapping[str, Rollout]:
        lite.candidates.put(candidate)
        async with Runner(lite, "agent", pool(agent)) as runner:
            return await runner.run(wanted, [candidate])

    assert {r.status for r in asyncio.run(main()).values()} == {"succeeded"}
    assert isinstance(lite.rollouts.get(["r0"])["r0"].output, list)
    assert isinstance(lite.rollouts.get([wanted[-1].id])[wanted[-1].id].output, str)


def test_a_cancelled_attempt_is_stopped_and_its_slot_is_used_again(
    write_agent: WriteAgent, claims: Claims, pool: Pool, candidate: Candidate
) -> None:
    agent = write_agent(AGENT)
    first, second = claims("loop", "a")
    executor = pool(agent, slots=1)

    async def work() -> Outcome:
        task = asyncio.create_task(executor.execute(first, candidate.resources))
        while not (Path(agent.root) / "started").exists():
            await asyncio.sleep(0.005)
        (worker,) = executor._worker_pool._all
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not alive(worker.pid)
        return await executor.execute(second, candidate.resources)

    assert use(executor, work).output == "a"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("import no_such_dependency", "No module named 'no_such_dependency'"),
        ("import os\nprint('configuring')\nos._exit(4)", "configuring"),
    ],
)
def test_an_agent_that_does_not_load_in_a_worker_is_one_clear_error(
    write_agent: WriteAgent, pool: Pool, source: str, shown: str, tmp_path: Path
) -> None:
    executor = pool(write_agent(source))

    async def main() -> None:
        with pytest.raises(AgentError, match="agent_") as caught:
            await executor.start()
        assert shown in str(caught.value)
        assert not executor._worker_pool._all, "no worker is left"

    asyncio.run(main())


def test_a_module_of_the_users_does_not_stand_in_for_one_of_pythons(
    attempts: Attempts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("msgspec", "socket", "queue", "ratchet"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    assert attempts("a")[0].output == "a"


def test_async_agents_run_in_workers_and_time_out_there(
    write_agent: WriteAgent, claims: Claims, pool: Pool, candidate: Candidate
) -> None:
    agent = write_agent("""
        import asyncio
        async def run(x):
            if x == "hang":
                await asyncio.Event().wait()
            if x == "deaf":
                while True:
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        pass
            return x
    """)
    executor = pool(agent, timeout_s=0.3)
    outcomes = execute(executor, claims("a", "hang", "deaf", "b"), candidate)
    assert [o.status for o in outcomes] == ["succeeded", "timed_out", "timed_out", "succeeded"]


def test_a_crash_is_retried_up_to_its_limit_and_then_reported(
    write_agent: WriteAgent, rollouts: Rollouts, pool: Pool, candidate: Candidate, lite: Store
) -> None:
    agent = write_agent(AGENT)

    async def main() -> Mapping[str, Rollout]:
        lite.candidates.put(candidate)
        async with Runner(lite, "agent", pool(agent)) as runner:
            return await runner.run(rollouts("a", "exit", "b", max_attempts=3), [candidate])

    done = asyncio.run(main())
    assert [done[f"r{n}"].status for n in range(3)] == ["succeeded", "crashed", "succeeded"]
    assert (done["r1"].output, started(agent).count("exit")) == (None, 3)
    assert [a.status for a in lite.rollouts.attempts("r1")] == ["crashed"] * 3
    assert "about to die" in lite.rollouts.get(["r1"])["r1"].error
    assert started(agent).count("a") == started(agent).count("b") == 1


def test_the_lock_is_held_by_workers_alone(
    write_agent: WriteAgent, claims: Claims, pool: Pool, candidate: Candidate, tmp_path: Path
) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    agent = write_agent(f"""
        import os
        def held():
            links = []
            for fd in os.listdir("/proc/self/fd"):
                try:
                    links.append(os.readlink(f"/proc/self/fd/{{fd}}"))
                except OSError:
                    pass
            return {str(tmp_path / "lock")!r} in links
        def run(x):
            reader, writer = os.pipe()
            if os.fork() == 0:
                os.write(writer, b"1" if held() else b"0")
                os._exit(0)
            return [held(), os.read(reader, 1).decode()]
    """)
    outcomes = execute(pool(agent, slots=1, keep_open=lock), claims("a"), candidate)
    os.close(lock)
    assert outcomes[0].output == [True, "0"]
