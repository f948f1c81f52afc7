"""Trains the model of an agent with verl, on a machine with GPUs: not part of `make bench`.

    .venv-verl/bin/python benchmarks/gpu/verl_training.py --model FOLDER [--steps N] [--gpus N]

The agent asks twice, and earns one for each letter from a to m in its answers
(tests/weights/verl/agent.py), so that any model can learn it. Needs the extra verl with vLLM. The
last line printed is one JSON object:

- exit_code: verl's
- steps: steps that its log has
- reward_first, reward_last: mean reward of the first and last tenth of the steps
- seconds: of the whole
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--gpus", type=int, default=1)
    given = parser.parse_args()
    os.chdir(ROOT)
    from ratchet.weights.verl.launch import main as launch

    log = ROOT / ".bench" / "verl" / f"{time.time():.0f}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    os.environ["VERL_FILE_LOGGER_PATH"] = str(log)
    begin = time.monotonic()
    code = launch(
        [
            "tests.weights.verl.agent:open_sampler",
            "--model",
            given.model,
            "trainer.logger=[console,file]",
            f"trainer.n_gpus_per_node={given.gpus}",
            f"trainer.total_training_steps={given.steps}",
            "data.train_batch_size=2",
            "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        ]
    )
    rewards = _rewards(log)
    tenth = max(1, len(rewards) // 10)
    print(
        json.dumps(
            {
                "exit_code": code,
                "steps": len(rewards),
                "reward_first": _mean(rewards[:tenth]),
                "reward_last": _mean(rewards[-tenth:]),
                "seconds": round(time.monotonic() - begin, 1),
            }
        )
    )
    return code


def _rewards(log: Path) -> list[float]:
    """Mean reward of each step in the file that verl's file logger writes."""
    if not log.exists():
        return []
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    key = "critic/rewards/mean"
    return [float(step["data"][key]) for step in steps if key in step.get("data", {})]


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


if __name__ == "__main__":
    sys.exit(main())
