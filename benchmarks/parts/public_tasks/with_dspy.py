"""DSPy's optimisers, on a program of one prediction; the third argument names the optimiser."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy
from data import PublicTask
from peer import Job, done, job


def compiled(asked: Job, optimiser: str, coach: Any) -> Any:
    """The program after an optimiser has spent about the calls that it may."""
    program = dspy.Predict(dspy.Signature("question -> answer", asked.dataset.prompt))

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        task = PublicTask("", example.question, example.answer, example.metadata)
        return asked.dataset.score(str(prediction.answer or ""), task).value

    train, val = (
        [
            dspy.Example(
                question=task.input, answer=task.expected, metadata=task.metadata
            ).with_inputs("question")
            for task in tasks
        ]
        for tasks in (asked.train, asked.val)
    )
    if optimiser == "random":
        programs = max(1, asked.calls // (2 * len(val)))
        search = dspy.BootstrapFewShotWithRandomSearch(
            metric, num_candidate_programs=programs, num_threads=asked.at_once
        )
        return search.compile(program, trainset=train, valset=val)
    # Half of the calls for trials of 20 tasks, the rest for demonstrations and whole evaluations.
    search = dspy.MIPROv2(
        metric,
        prompt_model=coach,
        auto=None,
        num_candidates=3,
        num_threads=asked.at_once,
        seed=asked.seed,
    )
    trials = max(2, asked.calls // 40)
    return search.compile(
        program,
        trainset=train,
        valset=val[:30],
        num_trials=trials,
        minibatch_size=20,
        seed=asked.seed,
    )


def main() -> None:
    asked = job()
    options = {"api_key": "none", "cache": False, "num_retries": 0}
    task = dspy.LM(
        "openai/task",
        api_base=asked.task_url,
        temperature=0.0,
        max_tokens=asked.dataset.max_tokens,
        **options,
    )
    coach = dspy.LM("openai/coach", api_base=asked.coach_url, max_tokens=800, **options)
    dspy.configure(lm=task)
    program = compiled(asked, sys.argv[3], coach)

    def answer(test: PublicTask) -> str:
        try:
            with dspy.context(lm=task):
                return str(program(question=test.input).answer or "")
        except Exception:  # its parser refuses the model's answer
            return ""

    with ThreadPoolExecutor(asked.at_once) as pool:
        answers = list(pool.map(answer, asked.test))
    demos = len(program.demos)
    done(answers, f"{program.signature.instructions} ({demos} demonstrations)")


if __name__ == "__main__":
    main()
