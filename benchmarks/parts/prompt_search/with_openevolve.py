"""`openevolve` on the room-booking prompt as a file; this file is its evaluator too."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from booking import COACH, Agent, done, job

SHOWN = 6
"""Failures that are told as an artifact."""
JOB = "PROMPT_SEARCH_JOB"

_agent: Agent | None = None


def evaluate(program_path: str) -> Any:
    """Evaluate a prompt for openevolve's workers."""
    from openevolve.evaluation_result import EvaluationResult

    global _agent
    given = json.loads(Path(os.environ[JOB]).read_text())
    if _agent is None:
        _agent = Agent(given["base_url"], given["concurrency"] // given["options"]["workers"])
    booked = _agent.run(Path(program_path).read_text(), given["tasks"])
    failures = [one for one in booked if one.score < 1][:SHOWN]
    feedback = "\n\n".join(
        f"Request: {one.task['input']['request']}\nAnswer: {one.answer}\n"
        f"Score {one.score}. {one.rationale}"
        for one in failures
    )
    mean = sum(one.score for one in booked) / len(booked)
    return EvaluationResult(metrics={"combined_score": mean}, artifacts={"feedback": feedback})


def main() -> None:
    from openevolve import run_evolution
    from openevolve.config import Config, LLMModelConfig

    given = job()
    options = given["options"]
    with tempfile.TemporaryDirectory() as folder:
        # One evaluation is a rollout on each of the same tasks; the rest of the split is not used.
        given["tasks"] = [*given["val"], *given["train"]][: options["tasks"]]
        (Path(folder) / "job.json").write_text(json.dumps(given))
        os.environ[JOB] = str(Path(folder) / "job.json")
        program = Path(folder) / "prompt.txt"
        program.write_text(given["prompt"])
        config = Config()
        model = {"name": COACH, "api_base": given["base_url"], "api_key": "none", "weight": 1.0}
        config.llm.models = [LLMModelConfig(**model)]
        config.llm.evaluator_models = [LLMModelConfig(**model)]
        config.llm.update_model_params(
            {"temperature": 1.0, "max_tokens": 4096, "timeout": 60, "retries": 2, "retry_delay": 1}
        )
        config.language = "text"
        config.file_suffix = ".txt"
        config.random_seed = given["seed"]
        config.log_level = "ERROR"
        config.diff_based_evolution = options["diff"]
        config.max_iterations = given["budget"] // options["tasks"] - 1
        config.checkpoint_interval = 10_000
        config.database.num_islands = options["islands"]
        config.database.random_seed = given["seed"]
        config.evaluator.cascade_evaluation = False
        config.evaluator.parallel_evaluations = options["workers"]
        config.prompt.system_message = (
            "You are an expert prompt engineer. Improve the prompt of an assistant so that its"
            " score rises. Keep placeholders in curly brackets."
        )
        began = time.perf_counter()
        result = run_evolution(
            str(program),
            evaluator=str(Path(__file__).resolve()),
            config=config,
            output_dir=str(Path(folder) / "out"),
        )
        done(result.best_code, began)


if __name__ == "__main__":
    main()
