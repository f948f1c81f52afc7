"""One import per candidate: what is read at import is the candidate's."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.run.executing import started, use
from tests.waiting import alive

from ratchet.run import WorkerExecutor
from ratchet.run.choice import executor_for
from ratchet.source.prompt_files import declared_prompts
from ratchet.types import (
    Claim,
    ConfigError,
    Outcome,
    PromptFile,
    PromptTemplate,
    Resource,
    Rollout,
)
from ratchet.worker.agent import AgentSpec, load_agent

WriteAgent = Callable[..., AgentSpec]
Pool = Callable[..., WorkerExecutor]

AGENT = """
    import os
    import subprocess
    import sys
    from pathlib import Path

    import ratchet
    from wording import *

    HERE = Path(__file__).parent
    with open(HERE / "started", "a") as file:
        file.write(f"{os.getpid()}\\n")

    class Planner:
        text = str(ratchet.prompt("planner", "Plan."))

    CAPTURED = PLAN + "!"
    if "refuse" in PLAN:
        raise ValueError("this wording cannot be parsed")

    def own(kind):
        if kind == "child":
            code = "from wording import PLAN; print(PLAN, end='')"
            run = [sys.executable, "-c", code]
            return subprocess.run(run, capture_output=True, text=True, cwd=HERE).stdout
        if kind == "die":
            os._exit(3)
        return [CAPTURED, Planner.text, os.getpid()]
"""
WORDING = """
    import ratchet
    PLAN = str(ratchet.prompt("plan", "Think {first}.", engine="plain"))
"""
SYNC = AGENT + "\n    def run(x):\n        return own(x)\n"
ASYNC = AGENT + "\n    async def run(x):\n        return own(x)\n"


def texts(plan: str, planner: str = "Plan.") -> dict[str, Resource]:
    return {"plan": PromptTemplate(plan, "plain"), "planner": PromptTemplate(planner)}


SOURCE = texts("Think {first}.")


@pytest.fixture
def agent(write_agent: WriteAgent) -> AgentSpec:
    spec = write_agent(SYNC)
    write_wording(spec)
    return spec


def write_wording(spec: AgentSpec) -> None:
    (Path(spec.root) / "wording.py").write_text(textwrap.dedent(WORDING))


def claim(number: int, candidate: str, given: Any = "") -> Claim:
    rollout = Rollout(
        id=f"r{number}",
        queue="q",
        candidate_id=candidate,
        task_id=f"t{number}",
        input=given,
        max_attempts=1,
    )
    return Claim(rollout, 1, 1e12)


def answers(
    executor: WorkerExecutor, work: list[tuple[Claim, Mapping[str, Resource]]], together: bool
) -> list[Outcome]:
    async def run() -> list[Outcome]:
        if together:
            return await asyncio.gather(*(executor.execute(*each) for each in work))
        return [await executor.execute(*each) for each in work]

    outcomes: list[Outcome] = use(executor, run)
    return outcomes


def test_a_constant_and_a_class_attribute_are_those_of_the_candidate(
    agent: AgentSpec, pool: Pool
) -> None:
    work = [
        (claim(1, "", ""), {}),
        (claim(2, "baseline"), SOURCE),
        (claim(3, "a"), texts("A {x", "P")),
        (claim(4, "baseline"), SOURCE),
        (claim(5, "a"), texts("A {x", "P")),
        (claim(6, "a", "child"), texts("A {x", "P")),
    ]
    outcomes = answers(pool(agent, source=SOURCE), work, together=False)
    assert [o.error for o in outcomes] == [""] * 6
    *read, child = [o.output for o in outcomes]
    assert [each[:2] for each in read] == [
        ["Think {first}.!", "Plan."],
        ["Think {first}.!", "Plan."],
        ["A {x!", "P"],
        ["Think {first}.!", "Plan."],
        ["A {x!", "P"],
    ]
    assert child == "A {x"  # a child process imports the candidate's, too
    assert read[0][2] == read[1][2] == read[3][2]  # the source's worker serves the baseline
    assert read[2][2] == read[4][2]
    assert len(started(agent)) == 2  # an import for each candidate and worker


def test_more_candidates_than_workers_take_turns_and_the_number_alive_is_bounded(
    agent: AgentSpec, pool: Pool
) -> None:
    work = [(claim(10 * n + m, f"c{n}"), texts(f"C{n}")) for m in range(2) for n in range(4)]
    executor = pool(agent, source=SOURCE)

    async def run() -> tuple[list[Outcome], list[int]]:
        outcomes = await asyncio.gather(*(executor.execute(*each) for each in work))
        executor.stored(outcomes)
        await asyncio.sleep(0)
        last = [await executor.execute(*each) for each in work[:2]]
        executor.stored(last)
        return [*outcomes, *last], [pid for pid in map(int, started(agent)) if alive(pid)]

    outcomes, living = use(executor, run)
    assert [o.output[0] for o in outcomes] == [f"C{n}!" for n in (0, 1, 2, 3) * 2] + ["C0!", "C1!"]
    assert len(living) <= 3  # two, and one that was killed a moment ago
    assert not any(alive(int(pid)) for pid in started(agent))


def test_many_attempts_of_an_async_agent_share_the_worker_of_their_candidate(
    write_agent: WriteAgent, pool: Pool
) -> None:
    spec = write_agent(ASYNC)
    write_wording(spec)
    executor = pool(spec, source=SOURCE, slots=4, workers=2, capacity=4)
    work = [(claim(n, f"c{n % 2}"), texts(f"C{n % 2}")) for n in range(8)]
    outcomes = answers(executor, work, together=True)
    assert [o.output[0] for o in outcomes] == ["C0!", "C1!"] * 4
    assert len({o.output[2] for o in outcomes}) == 2


def test_a_candidate_that_does_not_import_fails_alone(agent: AgentSpec, pool: Pool) -> None:
    work = [(claim(1, "bad"), texts("refuse")), (claim(2, "good"), texts("Good"))]
    bad, good = answers(pool(agent, source=SOURCE), work, together=True)
    assert bad.status == "failed"
    assert "The agent does not load with this candidate" in bad.error
    assert "this wording cannot be parsed" in bad.error
    assert good.output[0] == "Good!"


def test_a_crash_ends_one_attempt_and_the_next_one_has_the_same_candidate(
    agent: AgentSpec, pool: Pool
) -> None:
    work = [(claim(1, "a", "die"), texts("A")), (claim(2, "a"), texts("A"))]
    died, after = answers(pool(agent, source=SOURCE), work, together=False)
    assert died.status == "crashed"
    assert after.output[0] == "A!"


def test_a_worker_that_holds_an_unstored_outcome_is_not_ended(agent: AgentSpec, pool: Pool) -> None:
    executor = pool(agent, source=SOURCE, slots=1)

    async def run() -> tuple[bool, bool]:
        first = await executor.execute(claim(1, "a"), texts("A"))
        await executor.execute(claim(2, "b"), texts("B"))
        pid = first.output[2]
        before = alive(pid)
        executor.stored([first])
        for _ in range(500):
            if not alive(pid):
                break
            await asyncio.sleep(0.01)
        return before, alive(pid)

    assert use(executor, run) == (True, False)


def test_reading_at_import_is_noticed_and_the_declared_texts_stay_the_sources(
    agent: AgentSpec,
) -> None:
    declared = load_agent(agent).declarations
    assert {name: each.read_at_import for name, each in declared.items()} == {
        "plan": True,
        "planner": True,
    }
    assert {name: each.resource for name, each in declared.items()} == SOURCE


@pytest.mark.parametrize("kind", ["inline", "ray"])
def test_executors_that_import_once_refuse(agent: AgentSpec, tmp_path: Path, kind: Any) -> None:
    with pytest.raises(ConfigError, match=f'executor = "{kind}" and import_per_candidate'):
        executor_for(
            kind,
            load_agent(agent),
            agent,
            state=tmp_path,
            store_url="",
            concurrency=1,
            timeout_s=1.0,
            memory_mb=None,
            import_per_candidate=True,
        )


def test_a_file_of_prompts_is_the_candidates_however_it_is_read(
    write_agent: WriteAgent, pool: Pool
) -> None:
    spec = write_agent(
        """
        import io
        from pathlib import Path

        HERE = Path(__file__).parent
        AT_IMPORT = (HERE / "agents.yaml").read_bytes().decode()

        def run(x):
            with open("agents.yaml", newline="") as file, (HERE / "link.yaml").open() as link:
                return [AT_IMPORT, file.read(), link.read(), io.open(HERE / "other.md").read()]
        """
    )
    root = Path(spec.root)
    text = "# who\r\nwriter:\r\n  goal: 'Write {topic}.' # aim\r\n  age: 3\r\n"
    (root / "agents.yaml").write_bytes(text.encode())
    (root / "link.yaml").symlink_to("agents.yaml")
    (root / "other.md").write_text("---\nname: x\n---\nHello.\n")
    files = (PromptFile("agents.yaml", ("writer.goal",)), PromptFile("other.md"))
    in_files = tuple(declared_prompts(root, files).values())
    spec = AgentSpec(entry=spec.entry, root=spec.root, in_files=in_files)
    source = {name: each.resource for name, each in load_agent(spec).declarations.items()}
    assert source == {
        "agents.writer.goal": PromptTemplate("Write {topic}."),
        "other": PromptTemplate("Hello.\n", "plain"),
    }
    other: dict[str, Resource] = {
        "agents.writer.goal": PromptTemplate("Don't: {topic}."),
        "other": PromptTemplate("Bye.\n", "plain"),
    }
    here = os.getcwd()
    os.chdir(root)
    try:
        work = [(claim(1, "a"), source), (claim(2, "b"), other)]
        own, changed = answers(pool(spec, source=source), work, together=False)
    finally:
        os.chdir(here)
    assert own.output == [text, text, text.replace("\r\n", "\n"), "---\nname: x\n---\nHello.\n"]
    made = text.replace("Write {topic}.", "Don''t: {topic}.")
    assert changed.output == [made, made, made.replace("\r\n", "\n"), "---\nname: x\n---\nBye.\n"]
    assert (root / "agents.yaml").read_bytes() == text.encode()
