"""A judge as what a lab runs: its questions are the candidate's, its verdicts the rollouts."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.evaluate.conftest import ended
from tests.simulator import SimulatorThread

from ratchet.autopilot.judge_wording import JudgeRunner, agreement_with, worded
from ratchet.evaluate import Scorer, make_evaluator
from ratchet.evaluate.judges import JudgeEvaluator
from ratchet.evaluate.judges.realign import LabelledRollout
from ratchet.store import Store
from ratchet.types import Candidate, PromptTemplate, Rollout, Task

OAK, ELM = "Does the answer name 'Oak'?", "Does the answer {still} name 'Elm'?"


def candidate(question: str) -> Candidate:
    text = question.replace("{", "{{").replace("}", "}}")
    return Candidate.of({"question_1": PromptTemplate(text)})


def test_verdicts_of_a_candidates_questions_are_kept_and_scored_by_agreement(
    sqlite_url: str,
) -> None:
    cases = [
        LabelledRollout(ended("Elm", id="a"), 1.0),
        LabelledRollout(ended("Oak", id="b"), 0.0, "The wrong room."),
    ]

    def rollout(case: LabelledRollout, of: Candidate) -> Rollout:
        task = Task(case.rollout.id, {})
        return Rollout.of(
            task, of.id, scope=["run"], seed_parts=[0], queue="q", purpose="align", max_attempts=1
        )

    with SimulatorThread() as simulator, Store.open(sqlite_url) as store:
        options = {"model": "simulated-judge", "base_url": simulator.url, "key_env": ""}
        judge = make_evaluator("judge", {**options, "criteria": [OAK]})
        assert isinstance(judge, JudgeEvaluator)
        runner = JudgeRunner(judge.judge, cases, lambda _: [], store)

        async def agreements(of: Candidate) -> tuple[list[Any], list[str]]:
            done = await runner.run([rollout(case, of) for case in cases], [of])
            scorer = Scorer(store, [agreement_with(cases)])
            scores = await scorer.score(done.values())
            found = [each["agreement"] for each in scores.values()]
            return [each.value for each in found], [each.rationale for each in found]

        values, said = asyncio.run(agreements(candidate(OAK)))
        assert values == [0.0, 0.0]
        assert any("A person's comment: The wrong room." in each for each in said)
        assert asyncio.run(agreements(candidate(ELM)))[0] == [1.0, 1.0]
        calls = judge.judge.spending.calls
        assert asyncio.run(agreements(candidate(ELM)))[0] == [1.0, 1.0]
        assert judge.judge.spending.calls == calls
        assert worded(judge.judge, candidate(ELM)).spec.criteria[0].question == ELM
