"""Names of the queues of a fleet, and what a runner and `improve` read from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ratchet.run.fleet_queue import AgentBuild, FleetQueue, entry_prefix, read_queue
from ratchet.worker.agent import AgentSpec, load_agent


@pytest.mark.parametrize("place", ["plain", "sandbox"])
@pytest.mark.parametrize("entry", ["my.agent:answer", "größe:antwort"])
def test_a_queue_states_the_build_and_the_place(entry: str, place: str) -> None:
    build = AgentBuild(entry=entry, source="a" * 32, python="3.12")
    name = build.queue("run-1", place)  # type: ignore[arg-type]
    assert read_queue(name) == FleetQueue(build=build, place=place)  # type: ignore[arg-type]
    assert name.startswith(entry_prefix(entry))
    assert name.isascii()


@pytest.mark.parametrize("name", ["default", "a/b", "a:b@c/py3.12/elsewhere/run", "a:b@c/plain/r"])
def test_other_names_state_nothing(name: str) -> None:
    assert read_queue(name) is None


def test_modules_imported_after_the_agent_do_not_change_its_build(tmp_path: Path) -> None:
    (tmp_path / "fleet_agent_of_a_build.py").write_text("def answer(x):\n    return x\n")
    (tmp_path / "fleet_evaluators_of_a_build.py").write_text("")
    spec = AgentSpec(entry="fleet_agent_of_a_build:answer", root=str(tmp_path))
    agent = load_agent(spec)
    before, source = AgentBuild.of(agent), agent.source_version()
    assert before.source == source
    __import__("fleet_evaluators_of_a_build")
    assert AgentBuild.of(agent) == before
    assert agent.source_version() != source
    (tmp_path / "fleet_agent_of_a_build.py").write_text("def answer(x):\n    return 1\n")
    assert AgentBuild.of(agent) != before
    assert agent.source_version() not in (source, before.source)
