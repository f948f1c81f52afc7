"""The Ray executor, on a real Ray of this machine: attempts end, whatever the agent does."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ratchet.types import AgentError, Candidate, Claim, ConfigError, Int, Outcome, Params, Rollout
from ratchet.worker.agent import AgentSpec

pytest.importorskip("ray", reason="Ray is not installed")

from ratchet.run.ray_executor import RayExecutor

pytestmark = [pytest.mark.xdist_group("ray"), pytest.mark.long]  # what they share is made once

SMALL = {"num_cpus": 2, "object_store_memory": 80 * 1024 * 1024}

INPUTS = ("a", "fails", "sends", "dies", "hangs", "waits", "b")

AGENT = """
    import asyncio, os
    import ratchet

    KNOBS = ratchet.params("knobs", k=ratchet.Int(5, 1, 20))

    @ratchet.tool
    def look(x):
        return x

    @ratchet.tool(side_effects=True)
    def send(x):
        raise AssertionError("it acted")

    @ratchet.agent
    async def run(x):
        if x == "hangs":
            while True:
                pass
        if x == "waits":
            await asyncio.Event().wait()
        if x == "dies":
            os._exit(3)
        if x == "fails":
            raise ValueError("no")
        if x == "sends":
            send(x)
        return [look(x), KNOBS.k, os.environ["OPENAI_BASE_URL"]]
"""


class Ran(NamedTuple):
    outcomes: dict[str, Outcome]
    """By input."""
    error: AgentError
    """Of an agent that does not import."""
    left: bool
    """Whether Ray still ran afterwards."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """What came of attempts on a Ray; one for all tests, since starting it takes seconds."""
    import ray

    root = tmp_path_factory.mktemp("project")
    (root / "agent_on_ray.py").write_text(textwrap.dedent(AGENT))
    (root / "agent_broken.py").write_text("import not_there\n")
    candidate = Candidate.of({"knobs": Params({"k": Int(5, 1, 20)}, {"k": 9})})

    def executor(entry: str) -> RayExecutor:
        spec = AgentSpec(entry=entry, root=str(root))
        return RayExecutor(
            spec,
            address="local",
            slots=2,
            timeout_s=2.0,
            gateway="http://server",
            cpus=0.5,  # room for two executors
            options=SMALL,
        )

    def claim(number: int, given: str) -> Claim:
        rollout = Rollout(
            id=f"r{number}", queue="q", candidate_id=candidate.id, task_id=given, input=given
        )
        return Claim(rollout, 1, 1e12)

    async def main() -> tuple[list[Outcome], AgentError]:
        good = executor("agent_on_ray:run")
        await good.start()
        try:
            with pytest.raises(AgentError) as broken:
                await executor("agent_broken:run").start()
            claims = [claim(number, given) for number, given in enumerate(INPUTS)]
            async with asyncio.timeout(60):
                ended = await asyncio.gather(
                    *(good.execute(each, candidate.resources) for each in claims)
                )
        finally:
            await good.close()
        return ended, broken.value

    before = dict(os.environ)
    outcomes, error = asyncio.run(main())
    yield Ran(dict(zip(INPUTS, outcomes, strict=True)), error, ray.is_initialized())
    os.environ.clear()
    os.environ.update(before)


def test_attempts_run_with_their_candidate_and_are_traced(ran: Ran) -> None:
    for number, given in ((0, "a"), (6, "b")):
        outcome = ran.outcomes[given]
        assert (outcome.rollout_id, outcome.status) == (f"r{number}", "succeeded")
        answer, knob, gateway = outcome.output
        assert (answer, knob) == (given, 9), "the candidate's 9, not the source's 5"
        assert gateway == f"http://server/gateway/r{number}@1/openai/v1"
        assert [span.name for span in outcome.spans] == ["look", "run"]


@pytest.mark.parametrize(
    ("given", "status", "error"),
    [
        ("fails", "failed", "ValueError: no"),
        ("sends", "inconclusive", "'send' has side effects"),
        ("dies", "crashed", "The Ray actor running the agent was lost"),
        ("hangs", "timed_out", "No answer within 2 s"),
        ("waits", "timed_out", "No answer within 2 s"),
    ],
)
def test_an_attempt_that_goes_wrong_ends_as_what_it_was(
    ran: Ran, given: str, status: str, error: str
) -> None:
    assert ran.outcomes[given].status == status
    assert error in ran.outcomes[given].error


def test_an_agent_that_does_not_import_is_told_before_anything_runs(ran: Ran) -> None:
    assert "not_there" in str(ran.error)


def test_a_cluster_that_is_not_there_is_a_clear_error() -> None:
    executor = RayExecutor(
        AgentSpec(entry="a:b", root="."), address="127.0.0.1:1", slots=1, timeout_s=1
    )
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1.*cannot be used"):
        asyncio.run(executor.start())
