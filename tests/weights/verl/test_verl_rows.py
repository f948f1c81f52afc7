"""Rows and advantages as verl gets them; needs neither verl nor torch."""

import numpy as np
import pytest

from ratchet.types import InputError, Transition, pack_floats, pack_ids
from ratchet.weights.advantage import group_advantages
from ratchet.weights.sampler import GradedRollout
from ratchet.weights.verl.rows import Credit, decode_index, encode_index, group_rows


def _call(rollout: str, place: int, prompt: list[int], response: list[int]) -> Transition:
    return Transition(
        id=f"{rollout}-{place}",
        rollout_id=rollout,
        fence=1,
        call_index=place,
        prompt_ids=pack_ids(prompt),
        response_ids=pack_ids(response),
        logprobs=pack_floats([-0.5] * len(response)),
        started_ns=place,
        ended_ns=place + 1,
    )


def _rollout(name: str, reward: float | None, *calls: tuple[list[int], list[int]]) -> GradedRollout:
    made = tuple(_call(name, i, prompt, response) for i, (prompt, response) in enumerate(calls))
    return GradedRollout(rollout_id=name, task_id="task", reward=reward, transitions=made)


CONVERSATION = (([1, 2], [3, 4]), ([1, 2, 3, 4, 5, 6], [7]))
BRANCH = ([9, 9], [8, 8, 8])


def test_a_continued_conversation_is_one_row_whose_prompt_ends_at_the_first_response() -> None:
    (rows,) = group_rows([_rollout("a", 1.0, *CONVERSATION)], vocabulary=10, credit=Credit())
    (row,) = rows
    assert row.prompt.tolist() == [1, 2]
    assert row.response.tolist() == [3, 4, 5, 6, 7]
    assert row.mask.tolist() == [1, 1, 0, 0, 1]
    assert row.logprobs.tolist() == [-0.5, -0.5, 0, 0, -0.5]
    assert [span[:2] for span in row.spans] == [(0, 2), (4, 5)]
    assert row.calls == 2


def test_a_branch_is_a_row_of_its_own_and_the_rollout_counts_once() -> None:
    group = [
        _rollout("a", 1.0, *CONVERSATION, BRANCH),
        _rollout("b", 0.0, *CONVERSATION),
        _rollout("c", 0.0, *CONVERSATION),
    ]
    rows = group_rows(group, vocabulary=10, credit=Credit())
    assert [len(of) for of in rows] == [2, 1, 1]
    assert [span[2] for row in rows[0] for span in row.spans] == pytest.approx([2 / 3] * 3)
    assert [span[2] for row in rows[1] for span in row.spans] == pytest.approx([-1 / 3] * 2)
    assert [row.reward for of in rows for row in of] == [1.0, 1.0, 0.0, 0.0]


def test_advantages_are_those_of_our_own_trainer_also_with_discount_and_rewards_of_calls() -> None:
    rewarded = GradedRollout(
        rollout_id="a",
        task_id="task",
        reward=1.0,
        transitions=_rollout("a", 1.0, *CONVERSATION).transitions,
        call_rewards={"a-0": 0.5},
    )
    group = [rewarded, _rollout("b", 0.0, *CONVERSATION)]
    own = group_advantages(group, discount=0.5, scale="group", call_weight=2.0).by_call
    rows = group_rows(
        group, vocabulary=10, credit=Credit(scale="group", discount=0.5, call_weight=2.0)
    )
    assert [span[2] for span in rows[0][0].spans] == [own["a-0"], own["a-1"]]
    assert [span[2] for span in rows[1][0].spans] == [own["b-0"], own["b-1"]]


def test_a_rollout_without_a_reward_has_no_rows_and_does_not_move_the_mean() -> None:
    group = [
        _rollout("a", 1.0, *CONVERSATION),
        _rollout("b", None, *CONVERSATION),
        _rollout("c", float("nan"), *CONVERSATION),
        _rollout("d", 0.0, *CONVERSATION),
        _rollout("e", 0.0),
    ]
    rows = group_rows(group, vocabulary=10, credit=Credit())
    assert [len(of) for of in rows] == [1, 0, 0, 1, 0]
    assert rows[0][0].spans[0][2] == pytest.approx(0.5)  # the rollout without calls has no role


def test_a_group_that_earned_the_same_has_no_advantage() -> None:
    group = [_rollout(name, 1.0, *CONVERSATION) for name in "ab"]
    rows = group_rows(group, vocabulary=10, credit=Credit())
    assert {span[2] for of in rows for row in of for span in row.spans} == {0.0}


def test_the_index_carries_advantages_exactly_and_that_of_padding_carries_none() -> None:
    (row,) = group_rows(
        [_rollout("a", 1 / 3, *CONVERSATION), _rollout("b", 1e-17, *CONVERSATION)],
        vocabulary=10,
        credit=Credit(),
    )[0]
    assert tuple(decode_index(encode_index("7c1b#1:2", row))) == row.spans
    assert tuple(decode_index(encode_index("7c1b", row))) == row.spans
    assert decode_index("pad0123") == []
    assert np.isclose(row.spans[0][2], (1 / 3 - 1e-17) / 2)


def test_calls_without_log_probabilities_are_refused_by_name() -> None:
    call = _call("a", 0, [1], [2])
    bare = Transition(
        id="a-0",
        rollout_id="a",
        fence=1,
        prompt_ids=call.prompt_ids,
        response_ids=call.response_ids,
        started_ns=0,
        ended_ns=1,
    )
    group = [GradedRollout(rollout_id="a", task_id="t", reward=1.0, transitions=(bare,))]
    with pytest.raises(InputError, match="a-0 of rollout a has no log-probabilities"):
        group_rows(group, vocabulary=10, credit=Credit())
