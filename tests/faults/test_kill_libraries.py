"""`kill -9` of a run that a library drives, or that evolves code: nothing is paid for twice."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.faults.coached import (
    CHECK,
    GEPA,
    RULES,
    SAME,
    asked,
    assert_nothing_was_paid_twice,
    finish,
    kill_on_the_way,
    make_project,
    start,
)
from tests.llm.endpoint import Endpoint, Reaction, Request, answer

LONG = bool(os.environ.get("RATCHET_LONG_FAULTS"))
KILLS = 4

CODE_AGENT = """
import ratchet

RULES = ("capacity", "equipment", "distance", "access", "ties", "floor", "light", "noise")


@ratchet.evolve
def minded() -> str:
    rules = ""
    return rules


@ratchet.agent
def answer(number):
    return 1.0 if RULES[number % len(RULES)] in minded() else 0.0


@ratchet.evaluator
def obeys(output):
    return output
"""


def code_coach(request: Request) -> Reaction:
    """The longest function that it is shown with one more rule; its luck is the question's."""
    said = "\n".join(message["content"] for message in request.body["messages"])
    found = re.findall(r'rules = "([a-z ]*)"', said)
    luck = random.Random(said)
    rules = f"{max(found, key=len, default='')} {luck.choice(RULES)}".strip()
    made = answer(f'```python\ndef minded() -> str:\n    rules = "{rules}"\n    return rules\n```')
    return msgspec.structs.replace(made, delay_s=luck.uniform(0.0, 0.03))


CASES: dict[str, tuple[str, str, str, Callable[[Request], Reaction]]] = {
    "gepa rewrites code": ("gepa", GEPA, CODE_AGENT, code_coach),
}

TRIED = sorted(CASES)


@pytest.mark.long
@pytest.mark.parametrize("name", TRIED)
def test_killed_and_started_again_it_ends_the_same_and_pays_nothing_twice(
    tmp_path: Path, name: str
) -> None:
    algorithm, options, agent, answers = CASES[name]
    if find_spec(algorithm) is None:
        pytest.skip(f"the extra {algorithm} is not installed")

    def project(folder: str, url: str) -> Path:
        return make_project(
            tmp_path / folder,
            url,
            count=240,
            rollouts=600,
            algorithm=algorithm,
            options=options,
            agent=agent,
        )

    with Endpoint(answers) as endpoint:
        whole = finish(start(project("whole", endpoint.url)))
        whole_asked = asked(endpoint)
        since = len(endpoint.requests)
        killed = project("killed", endpoint.url)
        moments = random.Random(int(os.environ.get("RATCHET_TEST_SEED", "1")))
        under_way = kill_on_the_way(killed, endpoint, KILLS, moments)
        found = finish(start(killed))
        made = asked(endpoint, since)
    assert whole["coach_calls"] >= 8, whole
    assert {key: found[key] for key in SAME} == {key: whole[key] for key in SAME}
    assert_nothing_was_paid_twice(made, whole_asked, under_way, KILLS)
    # The library's own process does not outlive the one that was killed.
    assert not [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == str(killed)]


@pytest.mark.long
def test_a_search_that_asks_several_at_once_repeats_only_what_was_under_way(
    tmp_path: Path,
) -> None:
    with Endpoint(code_coach) as endpoint:
        project = make_project(
            tmp_path / "project",
            endpoint.url,
            rollouts=600,
            algorithm="evolve",
            options='{ proposers = ["llm"] }',
            agent=CODE_AGENT,
        )
        moments = random.Random(int(os.environ.get("RATCHET_TEST_SEED", "1")))
        kill_on_the_way(project, endpoint, KILLS, moments)
        found = finish(start(project))
        made = asked(endpoint)
        at_once = endpoint.most_at_once
    repeated = Counter({body: times - 1 for body, times in made.items() if times > 1})
    checks = sum(times for body, times in repeated.items() if CHECK in body)
    assert repeated.total() - checks <= KILLS * at_once
    assert found["stage"] in ("shipped", "no_gain")
    paid = made.total() - repeated.total()
    assert found["coach_calls"] == paid - 2  # the check of each model is none of the run's calls
