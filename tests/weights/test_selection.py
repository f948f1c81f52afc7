from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ratchet.store import Store
from ratchet.types import Feedback, InputError, Split
from ratchet.weights.selection import Selected, TrainingSelection
from tests.weights.recorded import WEATHER, add_rollout, asked, call


def splits(inputs: Sequence[Any]) -> list[Split]:
    known: dict[Any, Split] = {"held out": "test", "check": "val"}
    return [known.get(one, "train") for one in inputs]


def selected(store: Store, **options: Any) -> Selected:
    return Selected(store, TrainingSelection(**{"evaluator": "reward", **options}), splits)


def answers(chosen: Selected) -> list[tuple[Split, str]]:
    return [(split, one.messages[-1]["content"]) for split, one in chosen.examples()]


def test_rollouts_that_scored_well_are_selected_and_others_counted(store: Store) -> None:
    add_rollout(store, asked("a", "good"), task="a", score=0.9)
    add_rollout(store, asked("b", "bad"), task="b", score=0.1)
    add_rollout(store, asked("c", "unscored"), task="c", score=None)
    add_rollout(store, asked("d", "failed"), task="d", succeeds=False)
    add_rollout(store, [], task="e")
    chosen = selected(store)
    assert answers(chosen) == [("train", "good")]
    assert chosen.left_out == {
        "it scored below 0.8": 1,
        "it has no score of reward": 1,
        "it did not succeed": 1,
        "no model call was recorded": 1,
    }


def test_tasks_held_out_for_proof_never_go_out(store: Store) -> None:
    add_rollout(store, asked("q", "test"), given="held out")
    add_rollout(store, asked("q", "proof"), purpose="prove/run")
    add_rollout(store, asked("q", "server's proof"), purpose="fleet/prove/run")
    rollout = add_rollout(store, asked("q", "bad"), given="held out", output="bad", score=0.0)
    corrected = Feedback(id="f", kind="correction", rollout_id=rollout, content="right")
    store.feedback.add([corrected], 1.0)
    for found in (list(selected(store).examples()), list(selected(store).pairs())):
        assert found == []


def test_the_best_of_a_task_are_kept_and_the_same_answer_once(store: Store) -> None:
    for score, answer in ((0.8, "fair"), (1.0, "best"), (0.9, "good")):
        add_rollout(store, asked("q", answer), score=score)
    add_rollout(store, asked("q", "best"), task="twin", score=0.85)
    chosen = selected(store, best=2)
    assert sorted(answers(chosen)) == [("train", "best"), ("train", "good")]
    assert chosen.left_out["2 rollouts of its task scored as well or better"] == 1
    assert chosen.left_out["it teaches the same as another"] == 1


def test_a_pair_is_where_the_best_and_the_worst_of_a_task_part(store: Store) -> None:
    ask = {"role": "user", "content": "Rain?"}

    def asks(city: str) -> dict[str, Any]:
        function = {"name": "weather", "arguments": f'{{"city":"{city}"}}'}
        made = [{"id": "c", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": made}

    for score, city in ((1.0, "Oslo"), (0.0, "Rome"), (0.5, "Bern")):
        result = {"role": "tool", "tool_call_id": "c", "content": city}
        calls = [
            call([ask], asks(city), tools=[WEATHER], reason="tool_calls"),
            call([ask, asks(city), result], f"In {city}.", tools=[WEATHER]),
        ]
        add_rollout(store, calls, score=score)
    ((split, pair),) = selected(store).pairs()
    assert split == "train"
    assert pair.messages == (ask,)
    assert (pair.chosen, pair.rejected) == (asks("Oslo"), asks("Rome"))


def test_rollouts_that_score_alike_make_no_pair(store: Store) -> None:
    for score, answer in ((0.5, "a"), (0.6, "b")):
        add_rollout(store, asked("q", answer), score=score)
    chosen = selected(store)
    assert list(chosen.pairs()) == []
    assert chosen.left_out == {"its task's rollouts score within 0.2 of one another": 2}


def test_a_correction_is_an_example_and_a_pair(store: Store) -> None:
    rollout = add_rollout(store, asked("2+2", "5"), output="5", score=0.0)
    store.feedback.add([Feedback(id="f", kind="correction", rollout_id=rollout, content="4")], 1.0)
    assert answers(selected(store)) == [("train", "4")]
    ((_, pair),) = selected(store).pairs()
    assert (pair.chosen["content"], pair.rejected["content"]) == ("4", "5")


def test_a_correction_of_a_call_ends_the_conversation_there(store: Store) -> None:
    ask = {"role": "user", "content": "a"}
    first = call([ask], "one")
    second = call(
        [ask, {"role": "assistant", "content": "one"}, {"role": "user", "content": "b"}], "two"
    )
    rollout = add_rollout(store, [first, second], output="else", score=0.0)
    item = Feedback(
        id="f", kind="correction", rollout_id=rollout, span_id=first.span_id, content="1"
    )
    store.feedback.add([item], 1.0)
    ((_, example),) = selected(store).examples()
    assert list(example.messages) == [ask, {"role": "assistant", "content": "1"}]


def test_a_preference_on_a_live_trace_is_a_pair(store: Store) -> None:
    (span,) = asked("q", "long answer")
    store.spans.add(None, 0, [span])
    content = {"chosen": "short", "rejected": "long answer"}
    item = Feedback(id="f", kind="preference", trace_id=span.trace_id, content=content)
    whole = Feedback(id="g", kind="preference", conversation_id="c", content=content)
    store.feedback.add([item, whole], 1.0)
    chosen = selected(store)
    ((_, pair),) = chosen.pairs()
    assert pair.chosen == {"role": "assistant", "content": "short"}
    assert chosen.left_out == {"the feedback is about a conversation, not one answer": 1}


@pytest.mark.parametrize("options", [{"best": 0}, {"gap": 0.0}])
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        TrainingSelection(evaluator="reward", **options)
