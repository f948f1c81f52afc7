"""`openevolve` on one function; this file is its evaluator too. Runs in the peer's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
JOB = "CODE_SEARCH_JOB"
TIMEOUT_S = 20


def evaluate(program_path: str) -> Any:
    """Evaluate a program for openevolve, in its own process, since it may hang."""
    from openevolve.evaluation_result import EvaluationResult

    command = [sys.executable, str(Path(__file__).resolve()), program_path]
    with open(os.environ[JOB] + ".count", "a") as counted:
        counted.write("1\n")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        mean, said = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        mean, said = 0.0, ["It failed, or took too long."]
    shown = "\n".join(said[:6])
    return EvaluationResult(metrics={"combined_score": mean}, artifacts={"feedback": shown})


def one(program_path: str) -> None:
    """Score one program."""
    from held_out import mean_of

    given = json.loads(Path(os.environ[JOB]).read_text())
    problem = import_module(f"optimisations.{given['problem']}")
    try:
        found = mean_of(problem, Path(program_path).read_text(), given["tasks"])
    except Exception as error:
        found = 0.0, [f"{type(error).__name__}: {error}"]
    print(json.dumps(found))


def main() -> None:
    from openevolve import run_evolution
    from openevolve.config import Config, LLMModelConfig

    given = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[JOB] = str(Path(folder) / "job.json")
        Path(os.environ[JOB]).write_text(json.dumps(given))
        program = Path(folder) / "program.py"
        program.write_text(
            f"# EVOLVE-BLOCK-START\n{given['source'].rstrip()}\n# EVOLVE-BLOCK-END\n"
        )
        config = Config()
        model = {"name": given["model"], "api_base": given["base_url"], "api_key": "none"}
        config.llm.models = [LLMModelConfig(**model, weight=1.0)]
        config.llm.evaluator_models = [LLMModelConfig(**model, weight=1.0)]
        config.llm.update_model_params(
            {"temperature": 1.0, "max_tokens": 4096, "timeout": 60, "retries": 1, "retry_delay": 1}
        )
        config.random_seed = given["seed"]
        config.log_level = "ERROR"
        config.diff_based_evolution = False
        config.max_iterations = given["evaluations"] - 1
        config.checkpoint_interval = 100_000
        config.database.num_islands = 2
        config.database.random_seed = given["seed"]
        config.evaluator.cascade_evaluation = False
        config.evaluator.parallel_evaluations = 2
        began = time.perf_counter()
        result = run_evolution(
            str(program),
            evaluator=str(Path(__file__).resolve()),
            config=config,
            output_dir=str(Path(folder) / "out"),
        )
        wall_s = time.perf_counter() - began
        counted = len(Path(os.environ[JOB] + ".count").read_text().splitlines())
    found = {"source": result.best_code, "wall_s": wall_s, "evaluations": counted}
    print(json.dumps(found))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one(sys.argv[1])
    else:
        main()
