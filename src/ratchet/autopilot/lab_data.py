"""What a model may learn from an agent's rollouts in a lab: answers to imitate, and pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from ratchet.autopilot.training_rewards import evaluate_to_train, rewards
from ratchet.learn import Evaluation, Lab
from ratchet.types import Task
from ratchet.weights.export.checks import fault_of_example, fault_of_pair
from ratchet.weights.recorded_chat import ChatExample, ChatMessage, ChatPair, recorded_chat
from ratchet.weights.selection import first_difference, is_answer


async def demonstrations(
    lab: Lab, tasks: Sequence[Task], min_score: float, left_out: Counter[str]
) -> list[ChatExample]:
    """Conversations to imitate, of the baseline's rollouts.

    Where the agent returns what its model answered in a single call, and the task's expected answer
    is a text, that is the answer to learn. Of other agents, rollouts that scored well are learned.

    Args:
        lab: The lab.
        tasks: The tasks.
        min_score: Least score of a rollout whose own answers are learned.
        left_out: Counts rollouts that cannot be used, by reason.

    Raises:
        BudgetExhausted: The budget does not cover a rollout of each task.
    """
    examples: list[ChatExample] = []
    for evaluation in await lab.evaluate(lab.baseline, tasks):
        own = await _whole_answer(lab, evaluation)
        if own is not None:
            learned = [_corrected(own, evaluation.task.expected)]
        elif evaluation.worth < min_score:
            left_out[f"it scored below {min_score:g}, and no text is expected"] += 1
            continue
        else:
            learned = await _chat(lab, evaluation, left_out)
        for example in learned:
            if fault := fault_of_example(example):
                left_out[fault] += 1
            else:
                examples.append(msgspec.structs.replace(example, task_id=evaluation.task.id))
    return examples


async def preferences(
    lab: Lab, tasks: Sequence[Task], repetitions: int, gap: float, left_out: Counter[str]
) -> list[ChatPair]:
    """Pairs of answers, of several rollouts of the baseline on each task.

    The best and the worst rollout of a task, where they part. Where the agent returns what its
    model answered in a single call, and a text is expected: that text and a wrong answer.

    Args:
        lab: The lab.
        tasks: The tasks.
        repetitions: Rollouts of each task.
        gap: Least difference between the scores of a pair.
        left_out: Counts tasks that give no pair, by reason.

    Raises:
        BudgetExhausted: The budget does not cover the rollouts.
    """
    rounds = [
        await evaluate_to_train(lab, lab.baseline, tasks, repetition=number)
        for number in range(repetitions)
    ]
    pairs: list[ChatPair] = []
    for group in zip(*rounds, strict=True):
        scored = [(reward, at) for at, reward in enumerate(rewards(group))]
        (low, worst), (high, best) = min(scored), max(scored)
        own = await _whole_answer(lab, group[worst]) if low <= 1.0 - gap else None
        if own is not None:
            pair: ChatPair | None = ChatPair(
                messages=own.messages[:-1],
                chosen=_corrected(own, group[worst].task.expected).messages[-1],
                rejected=own.messages[-1],
                tools=own.tools,
            )
        elif high - low < gap:
            left_out[f"its task's rollouts score within {gap:g} of one another"] += 1
            continue
        else:
            pair = first_difference(
                await _chat(lab, group[best], left_out), await _chat(lab, group[worst], left_out)
            )
        if pair is None:
            left_out["the best and the worst rollout of its task have no common beginning"] += 1
        elif fault := fault_of_pair(pair):
            left_out[fault] += 1
        else:
            pairs.append(msgspec.structs.replace(pair, task_id=group[0].task.id))
    return pairs


async def _chat(lab: Lab, evaluation: Evaluation, left_out: Counter[str]) -> list[ChatExample]:
    chat = recorded_chat(await lab.spans(evaluation))
    left_out += chat.left_out
    if not chat.examples and not chat.left_out:
        left_out["no model call was recorded"] += 1
    return chat.examples


async def _whole_answer(lab: Lab, evaluation: Evaluation) -> ChatExample | None:
    """The conversation of a rollout whose only model call gave the agent's whole answer, where a
    text is expected; None of another."""
    expected, output = evaluation.task.expected, evaluation.rollout.output
    if not isinstance(expected, str) or output is None:
        return None
    chat = recorded_chat(await lab.spans(evaluation), truncated=True).examples
    if len(chat) != 1 or len(chat[0].learned) != 1:
        return None
    return chat[0] if is_answer(output, chat[0].messages[-1]) else None


def _corrected(example: ChatExample, expected: str) -> ChatExample:
    right: ChatMessage = {"role": "assistant", "content": expected}
    return msgspec.structs.replace(example, messages=(*example.messages[:-1], right))
