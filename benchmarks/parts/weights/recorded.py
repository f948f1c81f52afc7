"""A recorded batch of rollouts, and the model that made it: made by ours, read by the peer too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

VOCABULARY, TASKS, REPETITIONS = 64, 4, 8
PROMPT, LONGEST = 6, 24


def record(folder: Path) -> None:
    """Write a small Llama with random weights and a batch of its rollouts into a folder.

    Responses have different lengths. The log-probabilities are the model's own, so that the
    sampler and the trainer have the same weights.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            initializer_range=0.2,
        )
    ).eval()
    model.save_pretrained(folder / "model")
    dice = random.Random(0)
    rollouts: list[dict[str, Any]] = []
    for task in range(TASKS):
        prompt = [dice.randrange(3, VOCABULARY) for _ in range(PROMPT)]
        for _ in range(REPETITIONS):
            ids, logprobs = list(prompt), []
            for _ in range(dice.randrange(2, LONGEST)):
                with torch.no_grad():
                    scores = model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
                token = int(torch.multinomial(scores.exp(), 1))
                ids.append(token)
                logprobs.append(float(scores[token]))
            rollouts.append(
                {
                    "task": task,
                    "prompt": prompt,
                    "response": ids[PROMPT:],
                    "logprobs": logprobs,
                    "reward": dice.randrange(5) / 4,
                }
            )
    (folder / "rollouts.json").write_text(json.dumps(rollouts))
