"""What a command may spend: every model call of Ratchet's own counts, judges' too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.cli.conftest import MakeProject, Project
from tests.llm.endpoint import Endpoint, Reaction, Request, answer

AGENT = """
import ratchet

KNOBS = ratchet.params("knobs", style=ratchet.Choice("short", ["short", "full", "odd"]))


@ratchet.agent
def answer(number):
    return f"{KNOBS.style} {number}"


@ratchet.evaluator
def styled(output):
    return {"short": 0.3, "odd": 0.5, "full": 1.0}[output.split()[0]]
"""

CONFIG = """
[agent]
entry = "agent:answer"

[objective]
evaluator = "{objective}"

[[evaluators]]
use = "agent:styled"
vouched = true

[[evaluators]]
use = "judge"
name = "helpful"
vouched = true
criteria = ["Is it full?"]
model = "dear"
base_url = "{url}"
key_env = ""
input_price = 10000
output_price = 0

[improve]
algorithm = "tune"

[improve.options]
max_trials = 3

[improve.budget]
dollars = {dollars}

[prove]
repetitions = 1

[[guardrails]]
metric = "latency"
off = true

[run]
executor = "inline"
"""


def graded(request: Request) -> Reaction:
    """A judge at a dollar a call: 100 tokens at 10,000 dollars a million."""
    verdict = "yes" if "full" in request.said else "no"
    return answer(json.dumps({"c1": {"reason": "So.", "verdict": verdict}}), model="dear")


@pytest.fixture
def dear() -> Iterator[Endpoint]:
    with Endpoint(graded) as endpoint:
        yield endpoint


def project_of(
    make_project: MakeProject, endpoint: Endpoint, *, dollars: float, objective: str = "styled"
) -> Project:
    config = CONFIG.format(url=endpoint.url, dollars=dollars, objective=objective)
    project: Project = make_project(agent=AGENT, config=config, tasks=120)
    return project


@pytest.mark.parametrize("objective", ["styled", "helpful"])
def test_improve_spends_no_more_on_a_judge_than_its_budget(
    make_project: MakeProject, dear: Endpoint, objective: str
) -> None:
    project = project_of(make_project, dear, dollars=5, objective=objective)
    done = project.ratchet("improve")
    assert done.returncode == 2, done.stdout + done.stderr
    said = " ".join(done.stderr.split())
    assert re.search(r"budget .*of \$5 is spent: \$5\.00 so far.* What was paid for is kept", said)
    assert "Raise dollars under [improve.budget]" in said
    assert len(dear.requests) <= 9
    asked = len(dear.requests)
    assert project.ratchet("improve").returncode == 2
    assert len(dear.requests) == asked  # spent is spent, also after a new start
    told = project.json("status")["newest_run"]
    assert isinstance(told, dict)
    assert (told["judge_calls"], told["judge_dollars"]) == (asked, float(asked))


def test_the_proof_is_paid_for_before_learning_may_spend(
    make_project: MakeProject, dear: Endpoint
) -> None:
    project = project_of(make_project, dear, dollars=60)
    done = project.ratchet("improve")
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2
    # Only val tasks were judged; the test tasks would have to be judged for both sides.
    assert f"leaves nothing for learning: ${len(dear.requests)}.00 is spent" in said
    test = re.search(r"the proof, of (\d+) rollouts at about \$1\.00 each", said)
    assert test is not None
    assert len(dear.requests) + int(test[1]) > 60


def test_what_is_kept_for_the_proof_pays_for_it(make_project: MakeProject, dear: Endpoint) -> None:
    project = project_of(make_project, dear, dollars=600)
    done = project.ratchet("improve")
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 0, said
    assert re.search(r"Of \$600, about \$\d+\.00 is kept for the proof", said)
    assert "Proved better" in said, said
    assert re.search(r"Spent: \d+ rollouts of the agent; \d+ judge calls for \$\d+\.00", said)
    assert len(dear.requests) <= 604


def test_checking_a_judge_stops_at_the_budget(make_project: MakeProject, dear: Endpoint) -> None:
    project = project_of(make_project, dear, dollars=5)
    (project.root / "ratchet.toml").rename(project.root / "kept.toml")
    kept = (project.root / "kept.toml").read_text()
    project.write("ratchet.toml", kept[: kept.index('[[evaluators]]\nuse = "judge"')] + INLINE)
    assert project.ratchet("eval").returncode == 0
    project.write("ratchet.toml", kept)
    done = project.ratchet("evaluators", "check", "helpful")
    said = " ".join(done.stderr.split())
    assert done.returncode == 2, said
    assert re.search(
        r"report card of 'helpful' will make about \d{3} model calls, for at most", said
    )
    # The first five answers tell what a call costs.
    asked = len(dear.requests)
    assert asked == 5
    refused = re.search(
        r"There is no report card of 'helpful': 5 of (\d+) answers are stored; the other (\d+) cost"
        r" about \$(\d+)\.00, but \$0\.0000 is left",
        said,
    )
    assert refused is not None, said
    answers, missing, dollars = map(int, refused.groups())
    assert missing == dollars == answers - 5
    again = project.ratchet("evaluators", "check", "helpful")
    assert again.returncode == 2
    assert "5 of " in again.stderr
    assert len(dear.requests) == asked, "it is refused before another call is paid for"
    enough = kept.replace("dollars = 5.0", f"dollars = {missing}").replace(
        "dollars = 5\n", f"dollars = {missing}\n"
    )
    project.write("ratchet.toml", enough)
    finished = project.ratchet("evaluators", "check", "helpful")
    assert finished.returncode == 0, finished.stderr
    assert len(dear.requests) == answers


def test_checking_a_judge_whose_calls_become_dearer_says_how_many_are_left(
    make_project: MakeProject, dear: Endpoint
) -> None:
    project = project_of(make_project, dear, dollars=5)
    kept = (project.root / "ratchet.toml").read_text()
    project.write("ratchet.toml", kept[: kept.index('[[evaluators]]\nuse = "judge"')] + INLINE)
    assert project.ratchet("eval").returncode == 0
    project.write("ratchet.toml", kept.replace("dollars = 5\n", "dollars = 1000\n"))

    def dearer(request: Request) -> Reaction:
        tokens = 100 if len(dear.requests) <= 5 else 5_000
        text = json.dumps({"c1": {"reason": "So.", "verdict": "yes"}})
        usage = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
        return answer(text, model="dear", usage=usage)

    dear.react = dearer
    done = project.ratchet("evaluators", "check", "helpful")
    said = " ".join(done.stderr.split())
    assert done.returncode == 2, said
    told = re.search(
        r"What was paid for is kept\. Run the same command again to make the remaining calls, about"
        r" (\d+)\.",
        said,
    )
    assert told is not None, said
    assert int(told[1]) > 100


def test_scoring_by_a_judge_stops_at_the_budget(make_project: MakeProject, dear: Endpoint) -> None:
    project = project_of(make_project, dear, dollars=5)
    done = project.ratchet("eval")
    assert done.returncode == 2
    assert "of $5 is spent" in done.stderr
    assert 5 <= len(dear.requests) <= 9


INLINE = """
[run]
executor = "inline"
"""
