from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tests.weights.recorded import asked

from ratchet.autopilot.algorithms import make_algorithm
from ratchet.autopilot.lab_data import demonstrations
from ratchet.autopilot.weights_algorithm import WeightsAlgorithm, trainable_resource
from ratchet.learn import BudgetExhausted, Evaluation
from ratchet.types import Candidate, ConfigError, InputError, Model, Rollout, Score, Span, Task


class RecordedLab:
    """Evaluations of the baseline, with the spans of their rollouts."""

    def __init__(self, *rounds: Sequence[tuple[Any, str, Any, float | None]]) -> None:
        """Each round has a task's expected answer, the model's answer, the output and the score."""
        self.baseline = Candidate.of({"model": Model("local")})
        self._spans: dict[str, list[Span]] = {}
        self._rounds: list[list[Evaluation]] = []
        for repetition, given in enumerate(rounds):
            made = []
            for number, (expected, answer, output, score) in enumerate(given):
                task = Task(f"t{number}", f"q{number}", expected)
                rollout = Rollout(
                    id=f"{repetition}/{number}",
                    queue="q",
                    candidate_id=self.baseline.id,
                    task_id=task.id,
                    input=task.input,
                    status="succeeded",
                    output=output,
                )
                scores = {"s": Score(evaluator="s", version="1", value=score)}
                made.append(Evaluation(task=task, rollout=rollout, value=score, scores=scores))
                self._spans[rollout.id] = asked(f"q{number}", answer)
            self._rounds.append(made)

    async def evaluate(
        self,
        candidate: Candidate,
        tasks: Sequence[Task],
        *,
        repetition: int = 0,
        training: str = "",
    ) -> list[Evaluation]:
        if repetition < 0:
            raise BudgetExhausted("Nothing is made anew.")
        return self._rounds[repetition]

    async def spans(self, evaluation: Evaluation) -> list[Span]:
        return self._spans[evaluation.rollout.id]


def shown(lab: Any, min_score: float = 0.8) -> tuple[list[str], Counter[str]]:
    left_out: Counter[str] = Counter()
    found = asyncio.run(demonstrations(lab, [], min_score, left_out))
    return [one.messages[-1]["content"] for one in found], left_out


def test_the_expected_answer_is_learned_where_the_model_answers_the_task_itself() -> None:
    lab = RecordedLab([("right", "Wrong", "Wrong", 0.0), ("yes", "yes", "yes", 1.0)])
    assert shown(lab)[0] == ["right", "yes"]


def test_other_agents_learn_from_rollouts_that_scored_well() -> None:
    lab = RecordedLab(
        [
            ({"a": 1}, "good", "good", 0.9),
            ({"a": 1}, "bad", "bad", 0.1),
            ("yes", "Answer: no", "no", 0.0),
        ]
    )
    found, left_out = shown(lab)
    assert found == ["good"]
    assert left_out == {"it scored below 0.8, and no text is expected": 2}


def test_one_model_is_trained() -> None:
    model = Model("local")
    assert trainable_resource(Candidate.of({"m": model})) == ("m", model)
    for resources, said in (({}, "no model"), ({"a": model, "b": Model("c")}, "2 models")):
        with pytest.raises(InputError, match=said):
            trainable_resource(Candidate.of(resources))


@pytest.mark.parametrize("name", ["sft", "dpo", "grpo", "ppo"])
def test_the_options_are_checked(name: str) -> None:
    algorithm = make_algorithm(name, {"rank": 4, "seed": 1})
    assert isinstance(algorithm, WeightsAlgorithm)
    assert algorithm.name == name
    with pytest.raises(ConfigError, match="no such option"):
        make_algorithm(name, {"ranks": 2})
    for wrong in ({"rank": 0}, {"learning_rate": -1.0}, {"alpha": "much"}):
        with pytest.raises(ConfigError):
            make_algorithm(name, wrong)


@pytest.mark.parametrize("name", ["sft", "dpo"])
def test_numbers_of_fine_tuning_are_checked(name: str) -> None:
    for wrong in ({"epochs": 0}, {"gap": 0.0}, {"repetitions": 0}):
        with pytest.raises(InputError):
            make_algorithm(name, wrong)
