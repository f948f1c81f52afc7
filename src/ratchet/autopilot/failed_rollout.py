"""What failed rollouts say: the agent's error, and the model call that failed in it."""

from __future__ import annotations

from collections.abc import Sequence

from ratchet.learn.work import failure_sentence
from ratchet.store import Store
from ratchet.types import AgentError, Rollout
from ratchet.types.wording import counted


def failure_of(rollout: Rollout, store: Store) -> str:
    """The rollout's error; with the failed model call's, which many programs do not print."""
    return failure_sentence(rollout, store.spans.of(rollout.id))


def require_success(rollouts: Sequence[Rollout], store: Store, noun: str = "task") -> None:
    """Check that the agent did not fail on every task.

    Args:
        rollouts: One for each task.
        store: The store of their model calls.
        noun: What the tasks are, such as "val task".

    Raises:
        AgentError: It did; the message has the first failure.
    """
    if any(rollout.status == "succeeded" for rollout in rollouts):
        return
    first = rollouts[0]
    raise AgentError(
        f"The agent failed on all {counted(len(rollouts), noun)}. The first ({first.task_id}):"
        f" {failure_of(first, store)}",
        hint="Run one by hand: ratchet run.",
    )
