"""`gepa` on the room-booking prompt, through an adapter like those its users write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import gepa
from booking import Agent, Booked, done, job
from gepa.core.adapter import EvaluationBatch


class Adapter:
    """Runs the agent, and reports the verdict's message."""

    propose_new_texts = None

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def evaluate(
        self, batch: list[Any], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Any, Any]:
        booked = self._agent.run(candidate["system"], batch)
        return EvaluationBatch(
            outputs=[one.answer for one in booked],
            scores=[one.score for one in booked],
            trajectories=booked if capture_traces else None,
        )

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[Any, Any],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        booked: list[Booked] = eval_batch.trajectories or []
        records = [
            {
                "Inputs": one.task["input"]["request"],
                "Generated Outputs": one.answer,
                "Feedback": f"Score {one.score}. {one.rationale}",
            }
            for one in booked
        ]
        return dict.fromkeys(components_to_update, records)


class Quiet:
    """A logger that logs nothing."""

    def log(self, message: str) -> None: ...


def main() -> None:
    given = job()
    agent = Agent(given["base_url"], given["concurrency"])

    def reflect(prompt: Any) -> str:
        if isinstance(prompt, str):
            return agent.coach([{"role": "user", "content": prompt}])
        return agent.coach(prompt)

    began = time.perf_counter()
    result = gepa.optimize(
        seed_candidate={"system": given["prompt"]},
        trainset=given["train"],
        valset=given["val"],
        adapter=Adapter(agent),
        reflection_lm=reflect,
        max_metric_calls=given["budget"],
        seed=given["seed"],
        logger=Quiet(),
        **given["options"],
    )
    done(result.best_candidate["system"], began)


if __name__ == "__main__":
    main()
