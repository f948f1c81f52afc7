"""Starts verl's trainer with rollouts of Ratchet: `python -m ratchet.weights.verl.launch`.

    python -m ratchet.weights.verl.launch my_agent.training:open_sampler --model FOLDER [KEY=VALUE]

Further KEY=VALUE are verl's own settings and win over those made here.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

MANAGER = "ratchet.weights.verl.manager.Manager"
ESTIMATOR = "ratchet.weights.verl.estimator"


def overrides(model: str, train: Path, val: Path, *, lora_rank: int = 16) -> list[str]:
    """verl's settings for rollouts of Ratchet.

    Args:
        model: Folder or name of the model, as verl takes it.
        train: Data set of train tasks.
        val: Data set of val tasks.
        lora_rank: Rank of the adapter; 0 trains all weights.
    """
    return [
        "trainer.use_v1=true",
        f"data.train_files={train}",
        f"data.val_files={val}",
        "data.train_batch_size=8",
        f"actor_rollout_ref.model.path={model}",
        f"actor_rollout_ref.model.lora_rank={lora_rank}",
        f"+actor_rollout_ref.rollout.agent.agent_loop_manager_class={MANAGER}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.n=8",
        # The gateway keeps log-probabilities; sampling is from the model's own distribution.
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "actor_rollout_ref.rollout.temperature=1.0",
        "actor_rollout_ref.rollout.top_p=1.0",
        "actor_rollout_ref.actor.loss_agg_mode=token-mean",
        "actor_rollout_ref.actor.clip_ratio_low=0.2",
        "actor_rollout_ref.actor.clip_ratio_high=0.28",
        "algorithm.adv_estimator=ratchet",
        "algorithm.use_kl_in_reward=false",
    ]


def environment(sampler: str, run: str, base: Mapping[str, str]) -> dict[str, str]:
    """Environment of verl's processes.

    Args:
        sampler: `module:function` that opens the sampler.
        run: Name of the run.
        base: The present environment.
    """
    return {
        **base,
        "VERL_USE_EXTERNAL_MODULES": ESTIMATOR,
        "RATCHET_VERL_SAMPLER": sampler,
        "RATCHET_VERL_RUN": run,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the datasets and run verl; returns its exit code."""
    parser = argparse.ArgumentParser(
        description="Train an agent's model with verl.",
        prog="python -m ratchet.weights.verl.launch",
    )
    parser.add_argument("sampler", help="module:name of a VerlRollouts")
    parser.add_argument("--model", required=True, help="folder or name of the model")
    parser.add_argument("--run", default="", help="name of the run; the same name replays rollouts")
    parser.add_argument("--data", type=Path, default=Path(".ratchet/verl"), help="for the datasets")
    parser.add_argument("--lora-rank", type=int, default=16, help="0 trains all weights")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="verl's own settings")
    options = parser.parse_args(arguments)
    sys.path.insert(0, os.getcwd())
    module, _, name = options.sampler.partition(":")
    train, val = getattr(importlib.import_module(module), name).write_tasks(options.data)
    settings = overrides(options.model, train.resolve(), val.resolve(), lora_rank=options.lora_rank)
    run = options.run or time.strftime("%Y%m%d-%H%M%S")
    command = [sys.executable, "-m", "verl.trainer.main_ppo", *settings, *options.settings]
    return subprocess.run(command, env=environment(options.sampler, run, os.environ)).returncode


if __name__ == "__main__":
    sys.exit(main())
