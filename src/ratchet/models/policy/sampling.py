"""Chooses the next token of each sequence, and returns its probability."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec


class SamplingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling settings. The defaults draw from the model's own distribution."""

    temperature: float = 1.0
    """0 takes the most probable token."""
    top_p: float = 1.0
    top_k: int = 0
    """0 for all."""
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}

    @property
    def changes_scores(self) -> bool:
        """Whether a row must be treated separately."""
        return (
            self.top_p < 1
            or self.top_k > 0
            or self.frequency_penalty != 0
            or self.presence_penalty != 0
            or self.repetition_penalty != 1
            or bool(self.logit_bias)
        )


class SampledRow(msgspec.Struct, frozen=True):
    """The state of a sequence from which its next token is chosen."""

    request: SamplingRequest
    chance: random.Random
    """Its own source of randomness: one number for each token."""
    prompt: Sequence[int]
    response: Sequence[int]


def sample(logits: Any, rows: Sequence[SampledRow]) -> tuple[Any, Any, Any]:
    """Choose a token for each row.

    A row's result is a function of its own scores and its own randomness.

    Args:
        logits: Scores, float32. [n, vocabulary]
        rows: The n rows.

    Returns:
        The tokens [n], their log-probabilities [n], and those of all tokens [n, vocabulary]: of
        the model's own distribution, before temperature, penalties and truncation.
    """
    import torch

    logprobs = torch.log_softmax(logits, -1)
    greedy = [row.request.temperature == 0 for row in rows]
    special = [row.request.changes_scores for row in rows]
    scores = logits
    if any(special):
        scores = logits.clone()
        for number, row in enumerate(rows):
            if special[number]:
                _penalize(scores[number], row)
    if all(greedy):
        tokens = scores.argmax(-1)
        return tokens, logprobs.gather(1, tokens[:, None])[:, 0], logprobs
    temperatures = [row.request.temperature or 1.0 for row in rows]
    if any(temperature != 1 for temperature in temperatures):
        scores = scores / torch.tensor(temperatures, device=logits.device)[:, None]
    if any(special):
        for number, row in enumerate(rows):
            _truncate(scores[number], row.request)
    # Inverse of the distribution function: the first token whose sum exceeds the drawn number.
    sums = torch.softmax(scores, -1).cumsum(-1)
    draws = torch.tensor([[row.chance.random()] for row in rows], device=logits.device)
    tokens = torch.searchsorted(sums, draws * sums[:, -1:], right=True)[:, 0]
    tokens = tokens.clamp_max(logits.shape[1] - 1)
    if any(greedy):
        is_greedy = torch.tensor(greedy, device=logits.device)
        tokens = torch.where(is_greedy, scores.argmax(-1), tokens)
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0], logprobs


def _penalize(scores: Any, row: SampledRow) -> None:
    """Change scores in place, depending on the tokens written before."""
    import torch

    request = row.request
    if request.repetition_penalty != 1 and (used_ids := {*row.prompt, *row.response}):
        ids = torch.tensor(sorted(used_ids), device=scores.device)
        own = scores[ids]
        penalty = request.repetition_penalty
        scores[ids] = torch.where(own > 0, own / penalty, own * penalty)
    if (request.frequency_penalty or request.presence_penalty) and row.response:
        counts = Counter(row.response)
        ids = torch.tensor(list(counts), device=scores.device)
        times = torch.tensor(list(counts.values()), dtype=scores.dtype, device=scores.device)
        scores[ids] -= request.frequency_penalty * times + request.presence_penalty
    for token, bias in request.logit_bias.items():
        if 0 <= token < len(scores):
            scores[token] += bias


def _truncate(scores: Any, request: SamplingRequest) -> None:
    """Leave only the tokens that top_k and top_p allow, in place."""
    import torch

    if 0 < request.top_k < len(scores):
        threshold = scores.topk(request.top_k).values[-1]
        scores[scores < threshold] = -torch.inf
    if request.top_p < 1:
        ordered, places = scores.sort(descending=True)
        shares = ordered.softmax(-1)
        # A token stays while those before it are not yet enough.
        beyond = shares.cumsum(-1) - shares >= request.top_p
        beyond[0] = False
        scores[places[beyond]] = -torch.inf
