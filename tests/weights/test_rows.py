"""Rows: each generated token is trained exactly once, with what the sampler said of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet.types import InputError, Transition, unpack_floats, unpack_ids
from ratchet.weights.rows import TrainingRow, rows_of
from ratchet.weights.sampler import GradedRollout
from tests.weights.tiny import call_of

TOKENS = st.lists(st.integers(0, 2), max_size=4)


def rollout_of(*calls: Transition) -> GradedRollout:
    return GradedRollout(rollout_id="r", task_id="t", reward=1.0, transitions=calls)


def rows(*calls: Transition, **options: bool) -> list[TrainingRow]:
    return rows_of(rollout_of(*calls), vocabulary=100, **options)


@st.composite
def conversations(draw: st.DrawFn) -> list[Transition]:
    """Calls that extend, rewrite, repeat or branch off earlier ones."""
    calls: list[Transition] = []
    for index in range(draw(st.integers(1, 6))):
        prompt = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
        if calls and draw(st.booleans()):
            earlier = draw(st.sampled_from(calls))
            prompt = [*unpack_ids(earlier.prompt_ids + earlier.response_ids), *draw(TOKENS)]
        response = draw(TOKENS)
        logprobs = [-(index + 1) - place / 16 for place in range(len(response))]
        calls.append(call_of("r", index, prompt, response, logprobs))
    return calls


@given(conversations(), st.randoms(use_true_random=False))
def test_every_generated_token_is_trained_exactly_once(calls, dice) -> None:
    shuffled = list(calls)
    dice.shuffle(shuffled)
    found = rows(*shuffled)
    spans = {call.transition_id: (row, call) for row in found for call in row.calls}
    assert len(spans) == sum(len(row.calls) for row in found)
    assert set(spans) == {call.id for call in calls if call.response_ids}
    for call in calls:
        if call.response_ids:
            row, span = spans[call.id]
            assert list(row.ids[: span.start]) == list(unpack_ids(call.prompt_ids))
            assert list(row.ids[span.start : span.stop]) == list(unpack_ids(call.response_ids))
            assert list(row.logprobs[span.start : span.stop]) == list(unpack_floats(call.logprobs))


@given(conversations())
def test_the_mask_covers_the_calls_of_the_row_and_nothing_else(calls) -> None:
    for row in rows(*calls):
        covered = np.zeros(len(row.ids), int)
        for span in row.calls:
            covered[span.start : span.stop] += 1
        assert covered.max() == 1
        assert (covered == row.mask).all()
        assert not row.mask[0]
        assert (row.logprobs[~row.mask] == 0).all()


def test_a_conversation_that_grows_is_one_row_with_its_observations_masked() -> None:
    (row,) = rows(call_of("r", 0, [1, 2], [3]), call_of("r", 1, [1, 2, 3, 9, 9], [4, 5]))
    assert list(row.ids) == [1, 2, 3, 9, 9, 4, 5]
    assert list(row.mask) == [False, False, True, False, False, True, True]


def test_a_second_continuation_of_a_call_is_a_branch_that_does_not_train_it_again() -> None:
    calls = [
        call_of("r", 0, [1], [2]),
        call_of("r", 1, [1, 2, 5], [6]),
        call_of("r", 2, [1, 2, 7], [8]),
    ]
    main, branch = rows(*calls)
    assert list(main.mask) == [False, True, False, True]
    assert list(branch.mask) == [False, False, False, True]


def test_a_call_continues_the_longest_row_that_it_can() -> None:
    calls = [
        call_of("r", 0, [1], [2]),
        call_of("r", 1, [1, 2, 3, 4], [5]),
        call_of("r", 2, [1, 2], [9]),
        call_of("r", 3, [1, 2, 3, 4, 5, 6], [7]),
    ]
    assert [len(row.ids) for row in rows(*calls)] == [7, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (call_of("r", 0, [1], [2], []), "has no log-probabilities for its 1 token"),
        (call_of("r", 0, [1], [2, 3], [-1.0]), "has 1 log-probabilities for 2 tokens"),
        (call_of("r", 0, [1], [2], [float("nan")]), "that is above 0 or not a number"),
        (call_of("r", 0, [1], [2], [0.5]), "that is above 0 or not a number"),
        (call_of("r", 0, [], [2]), "has no prompt tokens"),
        (call_of("r", 0, [1], [100]), "has token 100, but the vocabulary is only 0 to 99"),
        (call_of("r", 0, [-1], [2]), "has token -1"),
    ],
)
def test_a_call_that_cannot_be_trained_is_named(call: Transition, message: str) -> None:
    with pytest.raises(InputError, match="Call r/0 of rollout r") as raised:
        rows(call)
    assert message in raised.value.message
