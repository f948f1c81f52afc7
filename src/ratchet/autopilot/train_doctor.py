"""Checks that a model can be trained here, before an hour is spent on it.

The most important one: that new weights reach the model that answers. An adapter that changes every
layer is made, and the model that answers must give the same log-probabilities with it as the
trainer, and others than the base.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ratchet.types import InputError, RatchetError
from ratchet.types.wording import counted
from ratchet.weights.settings import LoRA, Optimizer

if TYPE_CHECKING:
    from ratchet.models.policy import Base, PolicyServer

MAX_LOGPROB_GAP = {"float32": 1e-4, "float16": 0.1, "bfloat16": 0.5}
"""Largest difference of log-probabilities between trainer and sampler, in nats, by the type of the
base's numbers. They compute in another order: in bfloat16 a token of SmolLM2 differs by up to 0.4.
"""

MIN_ADAPTER_EFFECT = 1e-3
"""Minimum change of log-probabilities that the check's adapter must cause, in nats."""

PROBE = "probe"

TALK = [
    {"role": "user", "content": "What is the capital of Norway?"},
    {"role": "assistant", "content": "Oslo."},
    {"role": "user", "content": "And of Sweden?"},
]


class TrainingCheck(NamedTuple):
    """The result of a check."""

    name: str
    passed: bool
    sentence: str


def check_training(
    source: str, *, device: str = "cpu", dtype: str = "float32"
) -> Iterator[TrainingCheck]:
    """Check a model; stops at a failed check without which later checks are meaningless.

    Args:
        source: As `load_base` takes it.
        device: PyTorch's name of the device that it is trained and served on.
        dtype: Type of the base's numbers.

    Raises:
        ModelUnavailable: The model cannot be loaded or served.
    """
    from ratchet.models.policy import PolicyServer, load_base

    base = load_base(source, device=device, dtype=dtype)
    yield TrainingCheck(
        "model", True, f"{base.name}, with {counted(base.context, 'token')} of context"
    )
    template = _template(base)
    yield template
    if not template.passed:
        return
    served = PolicyServer(source, device=device, dtype=dtype)
    with served as server, tempfile.TemporaryDirectory() as scratch:
        tokens = _tokens(server)
        yield tokens
        if tokens.passed:
            yield from _weights(base, server, Path(scratch))


def _template(base: Base) -> TrainingCheck:
    try:
        first = base.tokenizer.render_text(TALK[:1])
        conversation = base.tokenizer.render_text(TALK)
    except InputError as error:
        return TrainingCheck("template", False, str(error))
    if conversation.startswith(first):
        return TrainingCheck("template", True, "a continued conversation keeps its beginning")
    return TrainingCheck(
        "template", True, "it rewrites earlier turns, so each call becomes a separate row"
    )


def _tokens(server: PolicyServer) -> TrainingCheck:
    answer = _ask(
        server,
        "chat/completions",
        {
            "model": server.name,
            "messages": TALK,
            "max_tokens": 8,
            "logprobs": True,
            "return_token_ids": True,
        },
    )
    choice = answer["choices"][0]
    ids = choice.get("token_ids") or []
    logprobs = (choice.get("logprobs") or {}).get("content") or []
    if not ids or not answer.get("prompt_token_ids") or len(ids) != len(logprobs):
        counts = f"{len(ids)} ids and {len(logprobs)} log-probabilities"
        return TrainingCheck("tokens", False, f"an answer came with {counts}")
    return TrainingCheck("tokens", True, f"{len(ids)} ids, and as many log-probabilities")


def _weights(base: Base, server: PolicyServer, scratch: Path) -> Iterator[TrainingCheck]:
    import torch

    from ratchet.weights.examples import TokenExample
    from ratchet.weights.learner import Learner

    ids = base.tokenizer.render(TALK)
    row = TokenExample(ids, [False] + [True] * (len(ids) - 1))
    learner = Learner(base, lora=LoRA(rank=4, alpha=8), optimizer=Optimizer(learning_rate=1e-4))
    near = MAX_LOGPROB_GAP[server.settings.dtype]
    gap = _gap(learner.evaluate([row]).logprobs[0], _logprobs(server, server.name, ids))
    yield TrainingCheck(
        "sampler", gap < near, f"log-probabilities of trainer and sampler differ by {gap:.1e} nats"
    )
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in base.model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=random))
    learner.export(scratch / PROBE)
    _ask(server, "load_lora_adapter", {"lora_name": PROBE, "lora_path": str(scratch / PROBE)})
    trained, served = learner.evaluate([row]).logprobs[0], _logprobs(server, PROBE, ids)
    moved = _gap(served, _logprobs(server, server.name, ids))
    gap = _gap(trained, served)
    yield TrainingCheck(
        "new weights",
        gap < near and moved > max(MIN_ADAPTER_EFFECT, 2 * gap),
        f"new weights moved the sampler by {moved:.1e} nats, to within {gap:.1e} of the trainer",
    )


def _gap(expected: Any, actual: Any) -> float:
    return max(abs(float(a) - float(b)) for a, b in zip(expected, actual, strict=True))


def _logprobs(server: PolicyServer, model: str, ids: list[int]) -> list[float]:
    """Log-probability of each token but the first, from the serving model."""
    body = {"model": model, "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0}
    answer = _ask(server, "completions", body)
    logprobs: list[float] = answer["choices"][0]["logprobs"]["token_logprobs"][1:]
    return logprobs


def _ask(server: PolicyServer, path: str, body: dict[str, Any]) -> Any:
    from ratchet._http import httpx2

    try:
        answer = httpx2.post(
            f"{server.base_url}/{path}",
            json=body,
            headers={"Authorization": f"Bearer {server.key}"},
            timeout=120.0,
            trust_env=False,
        )
    except httpx2.HTTPError as error:
        raise RatchetError(f"The model's server does not answer: {error}.") from None
    if answer.status_code >= 400:
        raise RatchetError(f"The model's server refuses a request: {answer.text[:500]}")
    return answer.json()
