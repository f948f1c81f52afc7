"""TRL's GRPO on the drawers; runs in TRL's own environment.

    python with_trl.py JOB.json

Rollouts come from a `rollout_func` that generates the same call of all rollouts at once. The last
line printed is one JSON object; see `drawers_curves.py`.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch
from drawers import CALLS, END, LONGEST, PAD, tokenizer
from drawers import tasks as make_tasks
from peft import PeftModel
from transformers import LlamaForCausalLM, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from datasets import Dataset

job = json.loads(Path(sys.argv[1]).read_text())
folder = Path(job["folder"])
pool = make_tasks(job["pool"], job["seed"])
batch = job["tasks"] * job["group"]
rewards: list[float] = []
ended_s: list[float] = []
tokens, took = 0, 0.0


def sample(prompts: list[Any], trainer: Any) -> dict[str, Any]:
    """Play a rollout for each prompt, which is the number of a task."""
    global tokens, took
    began = time.perf_counter()
    policy = trainer.model
    policy.eval()
    playing = [pool[int(prompt)] for prompt in prompts]
    contexts = [task.prompt() for task in playing]
    begins = [list(context) for context in contexts]
    masks: list[list[int]] = [[] for _ in playing]
    said: list[list[list[int]]] = [[] for _ in playing]
    for call in range(CALLS):
        widest = max(map(len, contexts))
        ids = torch.tensor([[PAD] * (widest - len(c)) + c for c in contexts])
        seen = torch.tensor([[0] * (widest - len(c)) + [1] * len(c) for c in contexts])
        with torch.inference_mode():
            out = policy.generate(
                input_ids=ids,
                attention_mask=seen,
                do_sample=True,
                temperature=1.0,
                top_p=1.0,
                top_k=0,
                max_new_tokens=LONGEST,
                eos_token_id=END,
                pad_token_id=PAD,
            )
        for i, row in enumerate(out[:, widest:].tolist()):
            response = row[: row.index(END) + 1] if END in row else row
            tokens += len(response)
            said[i].append(response)
            observed = playing[i].observed(call, response) if call < CALLS - 1 else []
            contexts[i] += [*response, *observed]
            masks[i] += [1] * len(response) + [0] * len(observed)
    policy.train()
    earned = [sum(task.rewards(calls)) for task, calls in zip(playing, said, strict=True)]
    rewards.append(sum(earned) / len(earned))
    took += time.perf_counter() - began
    ended_s.append(time.perf_counter())
    completions = [c[len(b) :] for c, b in zip(contexts, begins, strict=True)]
    return {
        "prompt_ids": begins,
        "completion_ids": completions,
        "logprobs": [[0.0] * len(c) for c in completions],  # TRL reads them only beside vLLM
        "env_mask": masks,
        "earned": earned,
    }


def reward(completions: list[Any], earned: list[float], **_: Any) -> list[float]:
    return earned


torch.set_num_threads(1)
model = PeftModel.from_pretrained(
    LlamaForCausalLM.from_pretrained(folder / "model"), str(folder / "adapter"), is_trainable=True
)
trainer = GRPOTrainer(
    model=model,
    reward_funcs=reward,
    args=GRPOConfig(
        output_dir=str(folder / job["name"]),
        per_device_train_batch_size=batch,
        num_generations=job["group"],
        max_steps=job["steps"],
        learning_rate=job["rate"],
        lr_scheduler_type="constant",
        adam_beta2=0.95,
        weight_decay=0.0,
        max_grad_norm=1.0,
        loss_type="dapo",
        scale_rewards="none",
        epsilon=0.2,
        epsilon_high=0.28,
        beta=0.0,
        max_completion_length=64,
        shuffle_dataset=False,
        seed=job["seed"],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_strategy="no",
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_dict({"prompt": [str(i) for i in job["order"]]}),
    processing_class=tokenizer(),
    rollout_func=sample,
)
trainer.remove_callback(PrinterCallback)
gc.freeze()  # what the libraries loaded is not searched again and again
began, cpu = time.perf_counter(), time.process_time()
trainer.train()
wall = time.perf_counter() - began
gc.unfreeze()
print(
    json.dumps(
        {
            "rewards": rewards,
            "at_s": [at - began for at in ended_s],
            "wall_s": wall,
            "cpu_s": time.process_time() - cpu,
            "generate_s": took,
            "tokens": tokens,
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )
)
