"""Losses: their values and gradients by hand, and that every rollout weighs as it should."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ratchet.weights.loss import (  # noqa: E402
    ScoredTokens,
    policy_loss,
    token_weights,
    value_loss,
)
from ratchet.weights.settings import PolicyLoss  # noqa: E402

pytestmark = pytest.mark.torch


def loss_of(
    settings: PolicyLoss,
    *,
    ratio: float,
    advantage: float,
    weight: float = 1.0,
    base: float | None = None,
) -> tuple[float, float, dict[str, float]]:
    """Loss of a single token, its gradient by the log-probability, and the sums."""
    logprob = torch.tensor([-1.0], requires_grad=True)
    old = torch.tensor([-1.0 - math.log(ratio)])
    tokens = ScoredTokens(
        advantages=torch.tensor([advantage]),
        old=old,
        sampler=old - math.log(weight),
        base=None if base is None else torch.tensor([-1.0 + base]),
        weights=torch.ones(1),
        call=torch.zeros(1, dtype=torch.long),
    )
    value, sums = policy_loss(logprob, tokens, settings)
    value.backward()
    return float(value.detach()), float(logprob.grad), sums


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient", "clipped"),
    [
        (1.0, 2.0, -2.0, -2.0, 0),
        (1.2, 1.0, -1.2, -1.2, 0),
        (1.3, 1.0, -1.28, 0.0, 1),  # risen enough
        (0.5, 1.0, -0.5, -0.5, 0),
        (0.7, -1.0, 0.8, 0.0, 1),  # fallen enough
        (2.0, -1.0, 2.0, 2.0, 0),
        (4.0, -1.0, 3.0, 0.0, 1),  # the dual clip
    ],
)
def test_the_clip_takes_the_gradient_where_the_ratio_went_far_enough(
    ratio: float, advantage: float, loss: float, gradient: float, clipped: int
) -> None:
    found = loss_of(PolicyLoss(), ratio=ratio, advantage=advantage)
    assert found[:2] == pytest.approx((loss, gradient), abs=1e-5)
    assert found[2]["clipped"] == clipped


def test_cispo_keeps_the_gradient_and_bounds_its_weight() -> None:
    value, gradient, sums = loss_of(PolicyLoss(name="cispo"), ratio=9.0, advantage=1.0)
    assert (value, gradient) == pytest.approx((5.0, -5.0), abs=1e-4)
    assert sums["clipped"] == 1


@pytest.mark.parametrize(("weight", "expected"), [(0.5, 0.5), (1.5, 1.5), (8.0, 2.0)])
def test_importance_weights_are_truncated_and_have_no_gradient(
    weight: float, expected: float
) -> None:
    value, gradient, sums = loss_of(PolicyLoss(), ratio=1.0, advantage=1.0, weight=weight)
    assert (value, gradient) == pytest.approx((-expected, -expected), abs=1e-5)
    assert sums["truncated"] == (weight > 2.0)
    assert sums["gap"] == pytest.approx(abs(math.log(weight)), abs=1e-5)


@pytest.mark.parametrize("distance", [-0.7, 0.0, 0.7])
def test_the_divergence_from_the_base_is_k3(distance: float) -> None:
    value, gradient, sums = loss_of(PolicyLoss(kl=0.5), ratio=1.0, advantage=0.0, base=distance)
    k3 = math.exp(distance) - distance - 1
    assert sums["kl"] == pytest.approx(k3, abs=1e-5)
    assert value == pytest.approx(0.5 * k3, abs=1e-5)
    assert gradient == pytest.approx(0.5 * (1 - math.exp(distance)), abs=1e-5)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_over_a_call() -> None:
    old = torch.tensor([-1.0, -1.0, -1.0])
    logprobs = torch.tensor([-0.9999, -0.9997, -1.5], requires_grad=True)
    tokens = ScoredTokens(
        advantages=torch.ones(3),
        old=old,
        sampler=old,
        base=None,
        weights=torch.tensor([0.25, 0.25, 0.5]),
        call=torch.tensor([0, 0, 1]),
    )
    value, sums = policy_loss(logprobs, tokens, PolicyLoss(name="sequence"))
    value.backward()
    first, second = math.exp(2e-4), math.exp(-0.5)
    assert float(value.detach()) == pytest.approx(-0.5 * first - 0.5 * second, abs=1e-6)
    assert logprobs.grad.tolist() == pytest.approx(
        [-0.25 * first, -0.25 * first, -0.5 * second], abs=1e-5
    )
    assert sums["clipped"] == 0


TOKENS, ROLLOUTS = [2, 6, 4], ["a", "b", "b"]


def test_token_mean_weighs_all_tokens_of_the_batch_alike() -> None:
    assert token_weights("token_mean", TOKENS, ROLLOUTS, 8).tolist() == [1 / 12] * 3


def test_the_critic_s_loss_is_of_the_worse_estimate() -> None:
    found = value_loss(
        torch.tensor([1.0, 0.1, 0.0]), torch.zeros(3), torch.tensor([1.0, 1.0, 0.0]), 0.2
    )
    assert found.tolist() == pytest.approx([0.5 * 0.8**2, 0.5 * 0.9**2, 0.0])


def test_a_step_down_the_loss_makes_good_tokens_likelier_and_bad_ones_less_likely() -> None:
    scores = torch.zeros(4, 3, requires_grad=True)
    chosen = torch.tensor([0, 0, 1, 1])
    advantages = torch.tensor([1.0, 1.0, -1.0, -1.0])
    logprobs = scores.log_softmax(-1)[torch.arange(4), chosen]
    old = logprobs.detach()
    tokens = ScoredTokens(advantages, old, old, None, torch.full((4,), 0.25), torch.arange(4))
    policy_loss(logprobs, tokens, PolicyLoss())[0].backward()
    moved = (scores - scores.grad).log_softmax(-1)[torch.arange(4), chosen].detach()
    assert np.sign((moved - old).numpy()).tolist() == [1, 1, -1, -1]
