"""Advantages: how much better each call did than those in the other rollouts of its task."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ratchet.types import Transition
from ratchet.weights.credit import returns, shares
from ratchet.weights.sampler import GradedRollout

Scale: TypeAlias = Literal["none", "group"]

_EPSILON = 1e-4
"""Added to the standard deviation of a group, as in TRL."""
_EQUAL = 1e-9
"""Rewards that differ by less count as equal; a group of equal rewards teaches nothing."""


class GroupAdvantages(NamedTuple):
    """The advantage of each call, and the numbers of tasks and rollouts without one."""

    by_call: dict[str, float]
    """By transition id. Calls of groups without variance and of rollouts without a reward are
    absent."""
    groups: int
    """Number of tasks with a usable reward."""
    skipped_groups: int
    """Number of these tasks whose rollouts all earned the same."""
    excluded_rollouts: int
    """Number of rollouts whose reward, or a call's, is missing or not finite."""


def usable(rollout: GradedRollout) -> bool:
    """Whether the rewards of a rollout are finite numbers."""
    rewards = (rollout.reward, *rollout.call_rewards.values())
    return all(reward is not None and math.isfinite(reward) for reward in rewards)


def group_advantages(
    rollouts: Sequence[GradedRollout],
    *,
    discount: float = 1.0,
    scale: Scale = "none",
    call_weight: float = 1.0,
) -> GroupAdvantages:
    """Compare the rollouts of each task with one another.

    A_i = R_i − mean of R over the task's rollouts in which the role took part, each counted once
    however many calls it made; divided by the standard deviation with `scale="group"`. Call t of T
    gets γ^(T−t)·A_i. Where calls have rewards, call t gets besides
    ω·(G_it − mean of G over the calls of the same task, role and place among the role's calls).

    Sources: Shao et al., "DeepSeekMath", 2024 (groups); Liu et al., "Understanding R1-Zero-like
    training", 2025 (why not to divide: it favours tasks that are nearly solved or nearly hopeless).

    Args:
        rollouts: All rollouts of all tasks, before any is dropped for another reason.
        discount: γ, a call.
        scale: `group` divides by the sample standard deviation of the group.
        call_weight: ω, the weight of rewards of single calls.
    """
    graded = [rollout for rollout in rollouts if usable(rollout)]
    by_task: dict[str, list[GradedRollout]] = defaultdict(list)
    for rollout in graded:
        by_task[rollout.task_id].append(rollout)
    by_call: dict[str, float] = {}
    skipped = 0
    for group in by_task.values():
        advantages = _of_group(group, discount, scale, call_weight)
        if all(abs(advantage) < _EQUAL for advantage in advantages.values()):
            skipped += 1
        else:
            by_call |= advantages
    return GroupAdvantages(by_call, len(by_task), skipped, len(rollouts) - len(graded))


def _of_group(
    group: Sequence[GradedRollout], discount: float, scale: Scale, call_weight: float
) -> dict[str, float]:
    roles = sorted({call.role for rollout in group for call in rollout.transitions})
    calls = [in_order(rollout) for rollout in group]
    by_call: dict[str, float] = {}
    for role in roles:
        members = [
            i
            for i, transitions in enumerate(calls)
            if any(call.role == role for call in transitions)
        ]
        rewards = np.array([group[i].reward for i in members], np.float64)
        advantages = rewards - rewards.mean()
        if scale == "group" and len(members) > 1:
            advantages /= rewards.std(ddof=1) + _EPSILON
        for i, advantage in zip(members, advantages, strict=True):
            for call, share in zip(calls[i], shares(len(calls[i]), discount), strict=True):
                if call.role == role:
                    by_call[call.id] = float(share * advantage)
    if call_weight and any(rollout.call_rewards for rollout in group):
        for call_id, advantage in _of_call_rewards(group, calls, discount).items():
            by_call[call_id] += call_weight * advantage
    return by_call


def _of_call_rewards(
    group: Sequence[GradedRollout], calls: Sequence[Sequence[Transition]], discount: float
) -> dict[str, float]:
    """Returns of the calls minus the mean return at the same position among the role's calls."""
    at_place: dict[tuple[str, int], list[tuple[str, float]]] = defaultdict(list)
    for rollout, transitions in zip(group, calls, strict=True):
        rewards = np.array([rollout.call_rewards.get(call.id, 0.0) for call in transitions])
        place: dict[str, int] = defaultdict(int)
        for call, earned in zip(transitions, returns(rewards, discount), strict=True):
            at_place[call.role, place[call.role]].append((call.id, float(earned)))
            place[call.role] += 1
    advantages: dict[str, float] = {}
    for earned_there in at_place.values():
        mean = sum(earned for _, earned in earned_there) / len(earned_there)
        advantages |= {call_id: earned - mean for call_id, earned in earned_there}
    return advantages


def in_order(rollout: GradedRollout) -> list[Transition]:
    """The calls of a rollout in the order of their starts."""
    return sorted(rollout.transitions, key=lambda call: call.call_index)
