"""Importer for trajectories: conversations with rewards.

Each becomes a finished rollout with its trace, and a score for each reward.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

SOURCE = "trajectories"

_LISTS = ("trajectories", "rollouts", "samples", "group")
_REWARDS = ("reward", "score", "return")
_MANY = ("rewards", "scores")


def matches(value: Any) -> bool:
    """Whether a value looks like a trajectory, or a list of them."""
    if isinstance(value, list):
        return bool(value) and all(matches(each) for each in value[:5])
    if not isinstance(value, Mapping):
        return False
    if any(isinstance(value.get(key), list) for key in _LISTS):
        return True
    # Without a reward it is an ordinary conversation.
    return has_messages(value) and any(value.get(key) is not None for key in (*_REWARDS, *_MANY))


def read(value: Any, context: ImportContext) -> ImportedRecords:
    """Convert trajectories to rollouts, or to spans and feedback where rollouts are not accepted.

    Raises:
        FormatMismatch: There is no trajectory in it.
    """
    found = ImportedRecords()
    skipped: list[str] = []
    trajectories = _listed(value)
    for position, one in enumerate(trajectories, start=1):
        try:
            records = _read_one(one, position if len(trajectories) > 1 else 0, context)
        except FormatMismatch as unfit:
            if len(trajectories) == 1:
                raise
            skipped.append(f"trajectory {position}: {unfit}")
            continue
        found = ImportedRecords(
            spans=(*found.spans, *records.spans),
            feedback=(*found.feedback, *records.feedback),
            rollouts=(*found.rollouts, *records.rollouts),
            scores=(*found.scores, *records.scores),
        )
    if not found.spans:
        raise FormatMismatch(skipped[0] if skipped else "it contains no trajectories")
    return ImportedRecords(
        spans=found.spans,
        feedback=found.feedback,
        rollouts=found.rollouts,
        scores=found.scores,
        skipped=tuple(skipped),
    )


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        for key in _LISTS:
            if isinstance(value.get(key), list):
                shared = {name: each for name, each in value.items() if name != key}
                return [
                    {**shared, **one} if isinstance(one, Mapping) else {**shared, "messages": one}
                    for one in value[key]
                ]
        return [value]
    raise FormatMismatch("it is not a trajectory: it is neither an object nor a list")


def _read_one(value: Any, position: int, context: ImportContext) -> ImportedRecords:
    if not isinstance(value, Mapping):
        raise FormatMismatch("it is not an object with messages and a reward")
    rewards = _rewards(value)
    # Equal trajectories of a group are separate samples, and all count.
    numbered = {**value, "position": position} if position else value
    conversation = ImportedConversation(numbered, SOURCE)
    if not context.rollouts:
        return ImportedRecords(
            spans=conversation.spans(context),
            feedback=tuple(
                score_feedback(
                    SOURCE,
                    [conversation.trace_id, name],
                    name,
                    reward,
                    trace_id=conversation.trace_id,
                    conversation_id=conversation.id,
                )
                for name, reward in rewards.items()
            ),
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
        task_id=str(value.get("task_id") or digest(SOURCE, "task", input_)[:12])[:200],
        input=input_,
        expected=value.get("expected", value.get("reference")),
        metadata={"import": SOURCE, "conversation_id": conversation.id},
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
    return ImportedRecords(spans=spans, rollouts=(rollout,), scores=scores)


def _rewards(value: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for key in _REWARDS:
        if key in value:
            reward = number(value[key])
            if reward is None:
                raise FormatMismatch(f"its {key} is not a number")
            found["reward"] = reward
            break
    for key in _MANY:
        many = value.get(key)
        if isinstance(many, Mapping):
            for name, each in many.items():
                reward = number(each)
                if reward is not None:
                    found.setdefault(str(name)[:200], reward)
        elif isinstance(many, list) and many:
            # Of a reward per step, the sum is used.
            steps = [number(each) for each in many]
            if any(step is None for step in steps):
                raise FormatMismatch(f"its {key} are not all numbers")
            found.setdefault("reward", sum(step for step in steps if step is not None))
    if not found:
        raise FormatMismatch("it has no reward")
    return found


def _input(prompt: list[Any]) -> Any:
    """Input of the agent: the user's text if that is all, else the messages."""
    users = [message for message in prompt if message["role"] == "user"]
    if len(users) == 1 and all(part.get("type") == "text" for part in users[0]["parts"]):
        return message_text(users[0])
    return [{"role": each["role"], "parts": each["parts"]} for each in prompt]
