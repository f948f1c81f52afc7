"""What failed rollouts say: the agent's error, and the model call that failed in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ratchet.learn.work import failure_sentence
from ratchet.observe.system_prompts import is_model_call
from ratchet.store import Store
from ratchet.types import AgentError, Rollout, Span


def failure_of(rollout: Rollout, store: Store) -> str:
    """The rollout's error; with the failed model call's, which many programs do not print."""
    return failure_sentence(rollout, store.spans.of(rollout.id))


def failed_call_in(spans: Iterable[Span]) -> str:
    """The first error of an attempt whose model calls all failed; empty for any other."""
    calls = [span for span in spans if is_model_call(span.attributes)]
    if not calls or any(call.status != "error" for call in calls):
        return ""
    return calls[0].message or "its error has no text"


def require_success(rollouts: Sequence[Rollout], store: Store, noun: str = "task") -> None:
    """Check that the agent did not fail on every task, and that some task reached its model.

    Args:
        rollouts: One for each task.
        store: The store of their model calls.
        noun: What the tasks are, such as "val task".

    Raises:
        AgentError: All failed, or all model calls did; the message has the first failure.
    """
    succeeded = [rollout for rollout in rollouts if rollout.status == "succeeded"]
    first = rollouts[0]
    tasks = f"all {len(rollouts)} {noun}s" if len(rollouts) > 1 else f"the one {noun}"
    if not succeeded:
        raise AgentError(
            f"The agent failed on {tasks}. The first ({first.task_id}): {failure_of(first, store)}",
            hint="Run one by hand: ratchet run.",
        )
    errors = []
    for rollout in succeeded:
        error = failed_call_in(store.spans.of(rollout.id))
        if not error:
            return
        errors.append(error)
    raise AgentError(
        f"All model calls failed on {tasks}, but the agent answered without them, so its answers "
        f"say nothing about it. The first error: {errors[0]}",
        hint="Check the key and the address of the model, then run one by hand: ratchet run.",
    )
