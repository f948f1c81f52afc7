"""Labels and report cards in the store."""

from __future__ import annotations

from ratchet.store import Store
from ratchet.types import CardCheck, Label, ReportCard


def test_labels_come_back_in_the_order_given_and_by_what_they_are_about(store: Store) -> None:
    first = Label(id="a", value=1.0, rollout_id="r1", drawn="random", labeller="kim")
    second = Label(id="b", value=0.0, trace_id="t1", criterion="tone")
    store.labels.add([first, second], now=5.0)
    assert [label.id for label in store.labels.list()] == ["a", "b"]
    assert store.labels.list(rollout_id="r1")[0].created_at == 5.0
    assert [label.id for label in store.labels.list(trace_id="t1")] == ["b"]
    assert [label.id for label in store.labels.list(criterion="")] == ["a"]


def test_a_label_sent_again_replaces_the_earlier_and_a_removed_one_is_gone(store: Store) -> None:
    store.labels.add([Label(id="a", value=1.0, rollout_id="r1")], now=1.0)
    store.labels.add([Label(id="a", value=0.0, rollout_id="r1")], now=2.0)
    assert [label.value for label in store.labels.list()] == [0.0]
    assert store.labels.remove("a")
    assert not store.labels.remove("a")
    assert store.labels.list() == []


def test_the_newest_card_of_an_evaluators_version_holds(store: Store) -> None:
    check = CardCheck(name="corruptions", value=0.98, low=0.93, n=100, verdict="decides")
    old = ReportCard(
        id="1", evaluator="judge", version="v1", verdict="advises", checks=(check,), created_at=1.0
    )
    new = ReportCard(id="2", evaluator="judge", version="v1", verdict="decides", created_at=2.0)
    other = ReportCard(id="3", evaluator="judge", version="v2", verdict="rejected", created_at=3.0)
    for card in (new, old, other):
        store.report_cards.put(card)
    assert store.report_cards.latest("judge", "v1") == new
    assert store.report_cards.latest("judge", "v3") is None
    assert [card.id for card in store.report_cards.list(evaluator="judge")] == ["3", "2", "1"]
    assert store.report_cards.list(version="v1")[1] == old
