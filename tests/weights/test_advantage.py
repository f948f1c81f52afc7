"""Advantages: each rollout counts once, and what says nothing is left out and counted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.weights.advantage import group_advantages
from ratchet.weights.credit import generalized_advantages
from ratchet.weights.sampler import GradedRollout
from tests.weights.tiny import call_of


def rollout(
    name: str,
    reward: float | None,
    calls: int = 1,
    *,
    task: str = "t",
    roles: tuple[str, ...] = (),
    call_rewards: tuple[float, ...] = (),
) -> GradedRollout:
    made = [
        call_of(name, i, [1], [2], role=roles[i] if roles else "")
        for i in range(len(roles) or calls)
    ]
    earned = {f"{name}/{i}": value for i, value in enumerate(call_rewards)}
    return GradedRollout(
        rollout_id=name, task_id=task, reward=reward, transitions=tuple(made), call_rewards=earned
    )


def test_a_rollout_of_many_calls_weighs_no_more_in_the_mean_than_one_of_few() -> None:
    found = group_advantages([rollout("a", 1.0, calls=9), rollout("b", 0.0, calls=1)])
    assert found.by_call["a/0"] == found.by_call["a/8"] == 0.5
    assert found.by_call["b/0"] == -0.5


@given(
    st.lists(
        st.tuples(st.sampled_from("tuv"), st.floats(-1e3, 1e3), st.integers(1, 4)),
        min_size=1,
        max_size=12,
    )
)
def test_the_advantages_of_a_task_sum_to_zero_over_its_rollouts(drawn) -> None:
    rollouts = [rollout(str(i), r, n, task=t) for i, (t, r, n) in enumerate(drawn)]
    found = group_advantages(rollouts).by_call
    for task in "tuv":
        total = sum(found.get(f"{r.rollout_id}/0", 0.0) for r in rollouts if r.task_id == task)
        assert abs(total) < 1e-6


def test_a_role_is_compared_over_the_rollouts_in_which_it_took_part() -> None:
    rollouts = [
        rollout("a", 1.0, roles=("planner", "coder")),
        rollout("b", 0.0, roles=("planner", "coder")),
        rollout("c", 0.5, roles=("planner",)),
        rollout("d", 0.1, roles=("planner",)),
    ]
    found = group_advantages(rollouts).by_call
    assert found["a/0"] == pytest.approx(0.6)
    assert found["a/1"] == pytest.approx(0.5)
    assert found["c/0"] == pytest.approx(0.1)


def test_a_group_without_variance_is_skipped_and_counted() -> None:
    rollouts = [rollout("a", 1.0), rollout("b", 1.0), rollout("c", 1.0, task="u")]
    found = group_advantages(rollouts)
    assert found.by_call == {}
    assert (found.groups, found.skipped_groups) == (2, 2)


@pytest.mark.parametrize("reward", [None, math.nan, math.inf])
def test_a_missing_reward_is_excluded_and_not_taken_for_zero(reward: float | None) -> None:
    found = group_advantages([rollout("a", 1.0), rollout("b", 0.5), rollout("c", reward)])
    assert found.by_call == {"a/0": 0.25, "b/0": -0.25}
    assert found.excluded_rollouts == 1


def test_a_reward_of_a_call_that_is_not_a_number_excludes_the_rollout() -> None:
    rollouts = [rollout("a", 1.0), rollout("b", 0.5), rollout("c", 0.0, call_rewards=(math.nan,))]
    assert group_advantages(rollouts).excluded_rollouts == 1


def test_a_rollout_in_which_no_model_was_called_says_nothing_about_the_model() -> None:
    found = group_advantages([rollout("a", 1.0), rollout("b", 0.5), rollout("c", 0.0, calls=0)])
    assert found.by_call == {"a/0": 0.25, "b/0": -0.25}


def test_rewards_of_calls_are_compared_at_the_same_place_of_the_role() -> None:
    rollouts = [
        rollout("a", 1.0, 2, call_rewards=(1.0, 0.0)),
        rollout("b", 1.0, 2, call_rewards=(0.0, 0.0)),
    ]
    found = group_advantages(rollouts)
    assert found.by_call == {"a/0": 0.5, "a/1": 0.0, "b/0": -0.5, "b/1": 0.0}
    assert found.skipped_groups == 0  # the rollouts' rewards are equal, those of the calls are not
    heavier = group_advantages(rollouts, call_weight=2.0).by_call
    assert heavier["a/0"] == 1.0


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=6),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_generalized_advantages_are_the_weighted_sum_of_the_errors(drawn, discount, trace) -> None:
    rewards, values = np.array(drawn).T
    found = generalized_advantages(rewards, values, discount=discount, trace=trace)
    following = np.append(values[1:], 0.0)
    errors = rewards + discount * following - values
    direct = [
        sum((discount * trace) ** (k - t) * errors[k] for k in range(t, len(errors)))
        for t in range(len(errors))
    ]
    assert found == pytest.approx(direct, abs=1e-9)
