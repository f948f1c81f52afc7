"""A coach that does not answer: what needs none goes on, and the end tells the truth."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.cli.conftest import MakeProject, Project
from tests.llm.endpoint import HANG, Endpoint, Reaction, Request, answer, error

AGENT = """
import ratchet

SYSTEM = ratchet.prompt("system", "Double the number.")


@ratchet.agent
def answer(number):
    return 2 * number if {solves} else 0
"""

CONFIG = """
[agent]
entry = "agent:answer"

[[evaluators]]
use = "exact_match"

[coach]
model = "gpt-4o-mini"
base_url = "{url}"
key_env = ""
timeout_s = {timeout_s}
total_s = 3
retries = 2

[improve]
algorithm = "{algorithm}"

[improve.budget]
rollouts = 400

[prove]
repetitions = 1

[[guardrails]]
metric = "latency"
off = true

[run]
executor = "inline"
"""

HELPED = "len(SYSTEM.format()) > 40"
"""Whether the prompt has examples."""

HOPELESS = "number % 2"
"""Whatever the prompt says."""


def silent(_: Request) -> Reaction:
    return Reaction(how=HANG)


def project_of(
    make_project: MakeProject,
    url: str,
    *,
    solves: str,
    algorithm: str = "auto",
    wait_s: float = 0.2,
) -> Project:
    config = CONFIG.format(url=url, algorithm=algorithm, timeout_s=wait_s)
    project: Project = make_project(agent=AGENT.format(solves=solves), config=config, tasks=0)
    tasks = [{"id": f"t{n}", "input": n, "expected": 2 * n} for n in range(1, 161)]
    project.write("tasks.jsonl", "\n".join(map(json.dumps, tasks)) + "\n")
    project.write("ratchet.toml", config + "\n[tasks]\nnear_duplicates = false\n")
    project.commit()
    return project


def text_of(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stdout + done.stderr).split())


def test_auto_promotes_without_a_coach_that_hangs_and_names_it(make_project: MakeProject) -> None:
    with Endpoint(silent) as endpoint:
        project = project_of(make_project, endpoint.url, solves=HELPED)
        done = project.ratchet("improve")
        said = text_of(done)
        assert done.returncode == 0, said
        assert "did not answer within 0 s" in said
        assert "auto continues without the coach" in said
        assert "Next, few_shot on 'system'" in said
        assert "Found without the coach: The coach is unavailable" in said
        assert len(endpoint.requests) == 2  # asked twice, not for ten minutes
        told: dict[str, Any] = project.json("improve")
        assert (told["verdict"], told["stage"]) == ("promote", "shipped")
        assert "found without the coach" in told["message"]


def test_auto_without_a_coach_and_without_a_gain_ends_with_8(make_project: MakeProject) -> None:
    with Endpoint(silent) as endpoint:
        project = project_of(make_project, endpoint.url, solves=HOPELESS)
        done = project.ratchet("improve")
        said = text_of(done)
        assert done.returncode == 8, said
        assert "Next, few_shot on 'system'" in said
        assert "Nothing better was found without it" in said
        assert "No significant gain" not in said
        # The coach answers again: the same command goes on where it was lost.
        endpoint.react = lambda request: answer("NO CHANGE")
        again = project.ratchet("improve")
        assert again.returncode == 0, text_of(again)
        assert "No significant gain" in text_of(again)


@pytest.mark.parametrize("dies", ["at once", "half way"])
def test_an_algorithm_that_needs_a_coach_which_hangs_ends_with_8(
    make_project: MakeProject, dies: str
) -> None:
    with Endpoint(silent) as endpoint:
        if dies == "half way":

            def react(_: Request) -> Reaction:
                return answer("ready") if len(endpoint.requests) == 1 else silent(_)

            endpoint.react = react
        project = project_of(make_project, endpoint.url, solves=HELPED, algorithm="apo")
        done = project.ratchet("improve")
        assert done.returncode == 8, text_of(done)
        assert "did not answer" in text_of(done)


def broken(kind: str) -> Any:
    """How an endpoint reacts that never gives an answer."""
    if kind == "garbage":
        return lambda _: Reaction(body=b"<html>hello</html>")
    return lambda _: error(int(kind), "No.", {"Retry-After": "0"})


@pytest.mark.parametrize("kind", ["429", "garbage"])
def test_a_coach_that_answers_nothing_usable_is_named_at_the_end(
    make_project: MakeProject, kind: str
) -> None:
    with Endpoint(broken(kind)) as endpoint:
        project = project_of(make_project, endpoint.url, solves=HOPELESS)
        done = project.ratchet("improve")
        said = text_of(done)
        assert done.returncode == 8, said
        assert "Next, few_shot on 'system'" in said
        assert "The coach is unavailable" in done.stderr


@pytest.mark.parametrize("algorithm", ["apo", "gepa"])
def test_a_coach_whose_answers_are_all_unusable_ends_as_a_dead_one(
    make_project: MakeProject, algorithm: str
) -> None:
    if algorithm == "gepa":
        pytest.importorskip("gepa", reason="the extra gepa is not installed")
    lorem = "```\nLorem {ipsum} dolor sit amet.\n```"  # a placeholder that the prompt has not
    with Endpoint(lambda _: answer(lorem)) as endpoint:
        project = project_of(
            make_project, endpoint.url, solves=HOPELESS, algorithm=algorithm, wait_s=5
        )
        done = project.ratchet("improve")
        said = text_of(done)
        assert done.returncode == 8, said
        assert "none of its answers could be used (the last: " in said
        assert "No significant gain" not in said
        if algorithm != "gepa":  # it has no answer that changes nothing
            endpoint.react = lambda request: answer("NO CHANGE")
            again = project.ratchet("improve", "--seed", "1")
            assert again.returncode == 0, text_of(again)
