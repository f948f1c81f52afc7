"""The gradients that TRL computes of a recorded batch; runs in TRL's own environment.

    python trl_gradients.py FOLDER

TRL's trainer itself samples (from the record), rewards, compares and backpropagates: what its
optimizer would have been given is written to FOLDER/trl.safetensors.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from peft import LoraConfig, PeftModel
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from datasets import Dataset

folder = Path(sys.argv[1])
rollouts = json.loads((folder / "rollouts.json").read_text())
groups = 1 + max(rollout["task"] for rollout in rollouts)
each = len(rollouts) // groups


def tokenizer() -> PreTrainedTokenizerFast:
    words = {f"t{i}": i for i in range(64)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="t0")),
        pad_token="t0",
        eos_token="t1",
    )


def sample(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """The record's rollouts of the tasks asked for, whose number is the prompt."""
    used = {task: iter([r for r in rollouts if r["task"] == task]) for task in range(groups)}
    found = [next(used[int(prompt)]) for prompt in prompts]
    return {
        "prompt_ids": [rollout["prompt"] for rollout in found],
        "completion_ids": [rollout["response"] for rollout in found],
        "logprobs": [rollout["logprobs"] for rollout in found],
        "recorded": [rollout["reward"] for rollout in found],
    }


def reward(completions: list[Any], recorded: list[float], **_: Any) -> list[float]:
    return recorded


class Keep(TrainerCallback):
    def on_pre_optimizer_step(self, *_: Any, model: Any = None, **__: Any) -> None:
        save_file(
            {
                name.removeprefix("module."): parameter.grad.contiguous().clone()
                for name, parameter in model.named_parameters()
                if parameter.grad is not None
            },
            folder / "trl.safetensors",
        )


torch.set_num_threads(1)
model = PeftModel.from_pretrained(
    LlamaForCausalLM.from_pretrained(folder / "model"), str(folder / "adapter"), is_trainable=True
)
assert isinstance(model.peft_config["default"], LoraConfig)
settings = GRPOConfig(
    output_dir=str(folder / "trl"),
    per_device_train_batch_size=len(rollouts),
    num_generations=each,
    max_steps=1,
    loss_type="dapo",
    scale_rewards="group",
    epsilon=0.2,
    epsilon_high=0.2,
    beta=0.0,
    max_grad_norm=0.0,
    max_completion_length=64,
    use_cpu=True,
    bf16=False,
    gradient_checkpointing=False,
    report_to=[],
    save_strategy="no",
)
trainer = GRPOTrainer(
    model=model,
    reward_funcs=reward,
    args=settings,
    train_dataset=Dataset.from_dict({"prompt": [str(task) for task in range(groups)]}),
    processing_class=tokenizer(),
    rollout_func=sample,
    callbacks=[Keep()],
)
trainer.train()
