"""A tiny language model, and a sampler that makes rollouts with it, for tests of training."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ratchet.models.policy import Base, adapter_hash
from ratchet.types import Task, Transition, pack_floats, pack_ids
from ratchet.weights.sampler import GradedRollout

VOCABULARY = 24
GOOD = frozenset(range(4, 12))
"""Tokens that the reward counts."""


def tiny_base(seed: int = 0, *, context: int = 128) -> Base:
    """A Llama of about 10,000 weights, the same for the same seed."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=VOCABULARY,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=context,
                initializer_range=0.3,
            )
        ).eval()
    model.requires_grad_(False)
    return Base(
        model=model,
        tokenizer=None,  # type: ignore[arg-type]
        name=f"tiny-{seed}",
        fingerprint=f"tiny-{seed}",
        tokenizer_hash="",
        template_hash="",
        context=context,
        stop_ids=frozenset(),
    )


def tiny_tasks(count: int) -> list[Task]:
    return [Task(f"task-{i}", [1, 12 + i % 12, 2]) for i in range(count)]


def call_of(
    rollout: str,
    index: int,
    prompt: Sequence[int],
    response: Sequence[int],
    logprobs: Sequence[float] | None = None,
    **more: Any,
) -> Transition:
    """A call of a rollout, with log-probabilities of −1 unless others are given."""
    return Transition(
        id=f"{rollout}/{index}",
        rollout_id=rollout,
        fence=1,
        call_index=index,
        model="tiny",
        prompt_ids=pack_ids(prompt),
        response_ids=pack_ids(response),
        logprobs=pack_floats([-1.0] * len(response) if logprobs is None else logprobs),
        started_ns=index,
        ended_ns=index,
        **more,
    )


class TinySampler:
    """Two calls a rollout, three tokens each, sampled by the adapter that is asked for.

    Randomness follows from the batch, task and repetition: asked again, it answers the same.

    Args:
        seed: Of the base model.
        reward: Reward of a rollout's generated tokens; the share of `GOOD` ones by default.
        states_version: Whether calls say which weights answered.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        reward: Callable[[str, Sequence[int]], float | None] | None = None,
        states_version: bool = True,
    ) -> None:
        self._seed = seed
        self._reward = reward or (lambda _, ids: sum(token in GOOD for token in ids) / len(ids))
        self._states_version = states_version
        self.asked: list[tuple[str, str | None]] = []
        """Batch and name of the adapter, in the order of the requests."""

    async def collect(
        self, adapter: Path | None, tasks: Sequence[Task], repetitions: int, *, batch: str
    ) -> list[GradedRollout]:
        self.asked.append((batch, adapter and adapter.name))
        model, version = self._weights(adapter)
        return [
            self._rollout(model, version, task, f"{batch}/{task.id}/{repetition}")
            for task in tasks
            for repetition in range(repetitions)
        ]

    def _weights(self, adapter: Path | None) -> tuple[Any, str]:
        from peft import PeftModel

        base = tiny_base(self._seed)
        if adapter is None:
            return base.model, base.fingerprint
        return PeftModel.from_pretrained(base.model, str(adapter)).eval(), adapter_hash(adapter)

    def _rollout(self, model: Any, version: str, task: Task, name: str) -> GradedRollout:
        import torch

        dice = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        prompt, generated, calls = list(task.input), [], []
        for index in range(2):
            ids, logprobs = list(prompt), []
            for _ in range(3):
                with torch.no_grad():
                    scores = model(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
                token = int(torch.multinomial(scores.exp(), 1, generator=dice))
                ids.append(token)
                logprobs.append(float(scores[token]))
            response = ids[len(prompt) :]
            known = version if self._states_version else ""
            calls.append(
                call_of(
                    name,
                    index,
                    prompt,
                    response,
                    logprobs,
                    version_first=known,
                    version_last=known,
                )
            )
            generated += response
            prompt = [*ids, 3]
        return GradedRollout(
            rollout_id=name,
            task_id=task.id,
            reward=self._reward(name, generated),
            transitions=tuple(calls),
            candidate_id=version,
            purpose=f"train/run/{name.partition('/')[0]}",
        )
