"""Importer for trajectories: conversations with rewards.

Each becomes a finished rollout with its trace, and a score for each reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ratchet.curate.importing.cell_values import structured
from ratchet.curate.importing.conversations import ImportedConversation, has_messages, message_text
from ratchet.curate.importing.records import (
    FormatMismatch,
    ImportContext,
    ImportedRecords,
    digest,
    number,
    score_feedback,
)
from ratchet.types import Rollout, Score

TRAJECTORIES_SOURCE = "trajectories"

_LISTS = ("trajectories", "rollouts", "samples", "group")
_REWARDS = ("reward", "score", "return")
_MANY = ("rewards", "scores")

REWARD_KEYS = frozenset({*_REWARDS, *_MANY})
"""Keys of rewards."""


def matches(value: Any) -> bool:
    """Whether a value looks like a trajectory, or a list of them."""
    if isinstance(value, list):
        return bool(value) and all(matches(trajectory) for trajectory in value[:5])
    if not isinstance(value, Mapping):
        return False
    if any(isinstance(structured(value.get(key)), list) for key in _LISTS):
        return True
    # Without a reward it is an ordinary conversation.
    return has_messages(value) and any(value.get(key) is not None for key in (*_REWARDS, *_MANY))


def read(value: Any, context: ImportContext) -> ImportedRecords:
    """Convert trajectories to rollouts, or to spans and feedback where rollouts are not accepted.

    Raises:
        FormatMismatch: There is no trajectory in it.
    """
    merged = ImportedRecords()
    skipped: list[str] = []
    trajectories = _listed(value)
    for position, trajectory in enumerate(trajectories, start=1):
        try:
            records = _read_one(trajectory, position if len(trajectories) > 1 else 0, context)
        except FormatMismatch as unfit:
            if len(trajectories) == 1:
                raise
            skipped.append(f"trajectory {position}: {unfit}")
            continue
        where = f"trajectory {position}: " if len(trajectories) > 1 else ""
        skipped += [f"{where}{why}" for why in records.skipped]
        merged = ImportedRecords(
            spans=(*merged.spans, *records.spans),
            feedback=(*merged.feedback, *records.feedback),
            rollouts=(*merged.rollouts, *records.rollouts),
            scores=(*merged.scores, *records.scores),
        )
    if not merged.spans:
        raise FormatMismatch(skipped[0] if skipped else "it contains no trajectories")
    return ImportedRecords(
        spans=merged.spans,
        feedback=merged.feedback,
        rollouts=merged.rollouts,
        scores=merged.scores,
        skipped=tuple(skipped),
    )


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        for key in _LISTS:
            listed = structured(value.get(key))
            if isinstance(listed, list):
                shared = {name: field for name, field in value.items() if name != key}
                return [
                    {**shared, **trajectory}
                    if isinstance(trajectory, Mapping)
                    else {**shared, "messages": trajectory}
                    for trajectory in listed
                ]
        return [value]
    raise FormatMismatch("it is not a trajectory: it is neither an object nor a list")


def _read_one(value: Any, position: int, context: ImportContext) -> ImportedRecords:
    if not isinstance(value, Mapping):
        raise FormatMismatch("it is not an object with messages and a reward")
    rewards, dropped = _rewards(value)
    # Equal trajectories of a group are separate samples, and all count.
    numbered = {**value, "position": position} if position else value
    conversation = ImportedConversation(numbered, TRAJECTORIES_SOURCE)
    if not context.rollouts:
        return ImportedRecords(
            spans=conversation.spans(context),
            feedback=tuple(
                score_feedback(
                    TRAJECTORIES_SOURCE,
                    [conversation.trace_id, name],
                    name,
                    reward,
                    trace_id=conversation.trace_id,
                    conversation_id=conversation.id,
                )
                for name, reward in rewards.items()
            ),
            skipped=dropped,
        )
    rollout_id = conversation.digest[:32]
    spans = conversation.spans(context, rollout_id)
    agent = context.agent_name(value.get("agent"), value.get("agent_name"))
    prompt = conversation.prompt
    input_ = _input(prompt)
    begun, ended = spans[0].span.start_ns / 1e9, spans[0].span.end_ns / 1e9
    rollout = Rollout(
        id=rollout_id,
        queue=agent,
        candidate_id="",
        task_id=str(value.get("task_id") or digest(TRAJECTORIES_SOURCE, "task", input_)[:12])[:200],
        input=input_,
        expected=value.get("expected", value.get("reference")),
        metadata={"import": TRAJECTORIES_SOURCE, "conversation_id": conversation.id},
        purpose=f"import/{agent}",
        status="succeeded",
        fence=1,
        created_at=begun,
        started_at=begun,
        ended_at=ended,
        output=conversation.answer,
        duration_s=max(ended - begun, 0.0),
    )
    scores = tuple(
        (
            rollout_id,
            Score(
                evaluator=name,
                version="import",
                value=reward,
                # A score without a unit is in [0, 1].
                unit="" if 0.0 <= reward <= 1.0 else "points",
            ),
        )
        for name, reward in rewards.items()
    )
    return ImportedRecords(spans=spans, rollouts=(rollout,), scores=scores, skipped=dropped)


def _rewards(value: Mapping[str, Any]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Rewards by name, and a clause for each one left out because it is not a number."""
    rewards: dict[str, float] = {}
    dropped: list[str] = []
    for key in _REWARDS:
        if value.get(key) is not None:
            rewards["reward"] = _reward(key, value[key])
            break
    for key in _MANY:
        many = structured(value.get(key))
        if isinstance(many, Mapping):
            for name, reward in many.items():
                if reward is None:
                    continue  # it was not measured
                try:
                    rewards.setdefault(str(name)[:200], _reward(f"{key}.{name}", reward))
                except FormatMismatch as unfit:
                    dropped.append(str(unfit))
        elif isinstance(many, list) and many:
            # Of a reward per step, the sum is used.
            total = sum(
                _reward(f"{key}[{step}]", step_reward) for step, step_reward in enumerate(many)
            )
            rewards.setdefault("reward", total)
        elif many is not None and many != []:
            rewards.setdefault("reward", _reward(key, many))
    if not rewards:
        raise FormatMismatch(dropped[0] if dropped else "it has no reward")
    return rewards, tuple(dropped)


def _reward(name: str, value: Any) -> float:
    """A reward.

    Raises:
        FormatMismatch: It is not a finite number.
    """
    reward = number(value)
    if reward is None:
        raise FormatMismatch(f"its {name} is not a finite number: {str(value)[:40]}")
    return reward


def _input(prompt: list[Any]) -> Any:
    """Input of the agent: the user's text if there is only that, otherwise the messages."""
    users = [message for message in prompt if message["role"] == "user"]
    if len(users) == 1 and all(part.get("type") == "text" for part in users[0]["parts"]):
        return message_text(users[0])
    return [{"role": message["role"], "parts": message["parts"]} for message in prompt]
