"""`gepa`, through an adapter like those that its users write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gepa
from data import PublicTask
from gepa.core.adapter import EvaluationBatch
from openai import OpenAI
from peer import Job, done, job, run


class Adapter:
    """Runs the agent, and reports what is wrong with each answer."""

    propose_new_texts = None

    def __init__(self, job: Job) -> None:
        self._job = job

    def evaluate(
        self, batch: list[PublicTask], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Any, Any]:
        answers = run(self._job, candidate["instruction"], batch)
        scored = [
            self._job.dataset.score(answer, task)
            for answer, task in zip(answers, batch, strict=True)
        ]
        traces = list(zip(batch, answers, scored, strict=True)) if capture_traces else None
        return EvaluationBatch(
            outputs=answers, scores=[score.value for score in scored], trajectories=traces
        )

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: EvaluationBatch[Any, Any],
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        records = [
            {"Inputs": task.input, "Generated Outputs": answer, "Feedback": score.why}
            for task, answer, score in eval_batch.trajectories or []
        ]
        return dict.fromkeys(components_to_update, records)


def main() -> None:
    asked = job()
    coach = OpenAI(base_url=asked.coach_url, api_key="none", timeout=1800)

    def reflect(prompt: Any) -> str:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        answer = coach.chat.completions.create(model="coach", messages=messages, max_tokens=800)
        return answer.choices[0].message.content or ""

    # A third of val: with all of it, 250 calls are two or three candidates.
    found = gepa.optimize(
        seed_candidate={"instruction": asked.dataset.prompt},
        trainset=asked.train,
        valset=asked.val[: max(10, len(asked.val) // 3)],
        adapter=Adapter(asked),
        reflection_lm=reflect,
        max_metric_calls=asked.calls,
        seed=asked.seed,
    ).best_candidate["instruction"]
    done(run(asked, found, asked.test), found)


if __name__ == "__main__":
    main()
