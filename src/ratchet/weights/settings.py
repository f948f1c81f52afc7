"""Settings of training: what is adapted, how it is optimised, and the settings of each method."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec

from ratchet.types import ConfigError
from ratchet.weights.setting_checks import (
    check_known,
    check_positive,
    check_whole,
    check_within,
)

LossName: TypeAlias = Literal["token_mean", "rollout_mean", "constant", "sequence", "cispo"]

CLIPS: dict[LossName, tuple[float, float]] = {
    "token_mean": (0.2, 0.28),
    "rollout_mean": (0.2, 0.28),
    "constant": (0.2, 0.28),
    "sequence": (3e-4, 4e-4),
    "cispo": (1.0, 4.0),
}
"""Default clips of the ratio below and above 1, for each loss. Sources: DAPO (2025)
for the first three, GSPO (2025), and MiniMax-M1 (2025) for cispo, which has no lower bound."""


class LoRA(msgspec.Struct, frozen=True, kw_only=True):
    """The adapter: low-rank changes of all linear layers (Hu et al., ICLR 2022)."""

    rank: int = 16
    alpha: int = 32
    """Scale; the change is multiplied by alpha / rank."""

    def __post_init__(self) -> None:
        check_whole(self, rank=1, alpha=1)


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """AdamW, and how a batch is split to fit into memory."""

    learning_rate: float
    warmup_steps: int = 0
    """Number of steps over which the learning rate rises linearly to its value."""
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    max_gradient_norm: float = 1.0
    """Maximum norm of the gradient; larger gradients are clipped to it."""
    micro_tokens: int = 4096
    """Tokens computed at a time, including padding; halved when memory runs out."""

    def __post_init__(self) -> None:
        check_positive(self, "learning_rate", "max_gradient_norm")
        check_whole(self, warmup_steps=0, micro_tokens=1)
        check_within(self, 0.0, math.inf, "weight_decay")
        if not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ConfigError(f"betas is {self.betas}; both must be at least 0 and below 1.")


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """How long to train, and when to validate."""

    steps: int
    """Number of optimizer batches."""
    validate_every: int = 10
    """Steps between validations; the first is before training, the last after its end."""
    save_every: int = 1
    """Steps between checkpoints. A killed run repeats at most this many."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole(self, steps=1, validate_every=1, save_every=1, seed=0)


class PolicyLoss(msgspec.Struct, frozen=True, kw_only=True):
    """The objective of reinforcement learning; see `ratchet.weights.loss`."""

    name: LossName = "token_mean"
    clip_low: float | None = None
    """How far below 1 a ratio may be before it is clipped. None: as in `CLIPS`."""
    clip_high: float | None = None
    """How far above 1 a ratio may be before it is clipped. None: as in `CLIPS`."""
    dual_clip: float | None = 3.0
    """Largest ratio that counts where the advantage is negative. None: no bound."""
    max_weight: float | None = 2.0
    """Bound of the importance weights between sampler and trainer. None: no weights."""
    kl: float = 0.0
    """Weight of the divergence from the base model."""
    length: int = 1024
    """Divisor of the loss `constant`, in tokens per rollout."""

    def __post_init__(self) -> None:
        check_known(self, name=tuple(CLIPS))
        check_within(self, 0.0, 1.0, "clip_low")
        check_within(self, 0.0, math.inf, "clip_high", "kl")
        check_within(self, 1.0, math.inf, "dual_clip", "max_weight")
        check_whole(self, length=1)

    @property
    def clip(self) -> tuple[float, float]:
        """The lowest and the highest ratio that counts."""
        low, high = CLIPS[self.name]
        low = low if self.clip_low is None else self.clip_low
        high = high if self.clip_high is None else self.clip_high
        return 1.0 - low, 1.0 + high


class GRPO(msgspec.Struct, frozen=True, kw_only=True):
    """Reinforcement learning by comparing the rollouts of a task with one another."""

    schedule: Schedule = Schedule(steps=100)
    lora: LoRA = LoRA()
    optimizer: Optimizer = Optimizer(learning_rate=2e-5)
    loss: PolicyLoss = PolicyLoss()
    tasks: int = 8
    """Tasks per step."""
    repetitions: int = 8
    """Number of rollouts per task, which form a group."""
    mini_batches: int = 1
    """Optimizer steps per batch; the rollouts are spread over them."""
    discount: float = 1.0
    """Factor by which the advantage shrinks for each call further from the end."""
    scale: Literal["none", "group"] = "none"
    """`group` divides advantages by the standard deviation of the group's rewards."""
    call_weight: float = 1.0
    """Weight of rewards of single calls."""
    mask_truncated: bool = False
    """Do not train responses that were cut off for length."""
    staleness: int = 1
    """Number of steps by which rollouts may lag behind the weights: that many batches are
    sampled ahead while the weights are trained. 0: sampling and training take turns."""
    val_repetitions: int = 1
    """Rollouts per val task."""
    patience: int = 10
    """Number of batches in a row in which every group earned the same, after which training
    ends."""

    def __post_init__(self) -> None:
        check_whole(self, tasks=1, repetitions=2, mini_batches=1, staleness=0)
        check_whole(self, val_repetitions=1, patience=1)
        check_within(self, 0.0, 1.0, "discount")
        check_within(self, 0.0, math.inf, "call_weight")
        check_known(self, scale=("none", "group"))


class PPO(msgspec.Struct, frozen=True, kw_only=True):
    """Reinforcement learning with a critic that estimates what a rollout will earn."""

    schedule: Schedule = Schedule(steps=100)
    lora: LoRA = LoRA()
    optimizer: Optimizer = Optimizer(learning_rate=2e-5)
    loss: PolicyLoss = PolicyLoss()
    tasks: int = 64
    """Tasks per step."""
    repetitions: int = 1
    """Rollouts per task."""
    mini_batches: int = 1
    """Optimizer steps per batch; the rollouts are spread over them."""
    discount: float = 1.0
    """γ, per call."""
    trace: float = 1.0
    """λ of generalized advantage estimation, per call."""
    normalize: bool = True
    """Normalise the advantages of a batch to mean 0 and standard deviation 1."""
    critic_learning_rate: float = 1e-3
    """Learning rate of the value head; the layers below it use the optimizer's rate."""
    critic_weight: float = 0.5
    """Weight of the critic's loss relative to the policy's."""
    critic_clip: float = 0.2
    """How far an estimate may move from its value before the batch."""
    mask_truncated: bool = False
    """Do not train responses that were cut off for length."""
    staleness: int = 1
    """As for GRPO."""
    val_repetitions: int = 1
    """Rollouts per val task."""

    def __post_init__(self) -> None:
        check_whole(self, tasks=1, repetitions=1, mini_batches=1, staleness=0, val_repetitions=1)
        check_within(self, 0.0, 1.0, "discount", "trace")
        check_positive(self, "critic_learning_rate", "critic_weight", "critic_clip")


class SFT(msgspec.Struct, frozen=True, kw_only=True):
    """Imitation: the tokens of good examples become more likely."""

    schedule: Schedule = Schedule(steps=100, save_every=10)
    lora: LoRA = LoRA()
    optimizer: Optimizer = Optimizer(learning_rate=2e-4)
    batch: int = 16
    """Examples per step."""

    def __post_init__(self) -> None:
        check_whole(self, batch=1)


class DPO(msgspec.Struct, frozen=True, kw_only=True):
    """Preferences: the better of two answers becomes more likely than the worse."""

    schedule: Schedule = Schedule(steps=100, save_every=10)
    lora: LoRA = LoRA()
    optimizer: Optimizer = Optimizer(learning_rate=1e-5)
    batch: int = 16
    """Pairs per step."""
    beta: float = 0.1
    """How closely the model is held to the base; smaller values let it move further."""
    nll: float = 0.0
    """Weight of the chosen answer's own likelihood, so that it rises, and not only the
    difference."""

    def __post_init__(self) -> None:
        check_whole(self, batch=1)
        check_positive(self, "beta")
        check_within(self, 0.0, math.inf, "nll")
