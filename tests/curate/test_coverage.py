"""What live traffic asks for that a dataset lacks, and whether it drifts."""

from __future__ import annotations

from ratchet.curate.refinement.coverage import MIN_LIVE_INPUTS, measure_coverage
from ratchet.curate.refinement.live_inputs import live_inputs
from ratchet.store import Store
from ratchet.types import Span, SpanRecord

BOOKING = [f"Book a meeting room for {n} people in building {n % 7}" for n in range(60)]
REFUND = [f"I want my money back for order {n}, the parcel never arrived" for n in range(60)]


def mixed(one: list[str], other: list[str]) -> list[str]:
    return [text for pair in zip(one, other, strict=True) for text in pair]


def test_what_the_dataset_lacks_is_a_gap() -> None:
    found = measure_coverage(mixed(BOOKING, REFUND), BOOKING[:20])
    assert found is not None
    assert found.gaps
    words = {word for gap in found.gaps for word in gap.words}
    assert words & {"money", "order", "parcel", "arrived", "refund", "back", "want"}
    assert sum(cluster.tasks for cluster in found.clusters) == 20
    assert found.distance > 0.4


def test_traffic_that_changes_its_subject_drifts_and_mixed_traffic_does_not() -> None:
    changed = measure_coverage([*BOOKING, *REFUND], BOOKING)
    steady = measure_coverage(mixed(BOOKING, REFUND), BOOKING)
    assert changed is not None
    assert steady is not None
    assert changed.drift > 0.9
    assert changed.drift_p < 0.01
    assert steady.drift_p > 0.05


def test_too_few_inputs_say_nothing() -> None:
    assert measure_coverage(BOOKING[: MIN_LIVE_INPUTS - 1], BOOKING) is None


def test_inputs_that_are_all_equal_are_one_cluster() -> None:
    found = measure_coverage(["same"] * MIN_LIVE_INPUTS, ["same"])
    assert found is not None
    assert len(found.clusters) == 1
    assert found.drift == 0


def test_live_inputs_are_those_that_capture_would_make_tasks_of(store: Store) -> None:
    def span(number: int, parent: str | None = None, **attributes: str) -> SpanRecord:
        return SpanRecord(
            span=Span(
                trace_id=f"{number:032x}",
                span_id=f"{number:016x}",
                parent_id=parent,
                name="answer",
                start_ns=number * 10**9,
                end_ns=number * 10**9 + 5,
                attributes={name.replace("__", "."): text for name, text in attributes.items()},
            ),
            agent="helper",
        )

    said = '[{"role": "user", "parts": [{"type": "text", "content": "Where is it?"}]}]'
    store.spans.put(
        [
            span(3, gen_ai__input__messages=said),
            span(2, ratchet__input='{"question": "When?"}'),
            span(4),
            span(5, "00000000000000ff", ratchet__input='"a child"'),
        ]
    )
    assert live_inputs(store) == ["When?", "Where is it?", "a child"]
    assert live_inputs(store, limit=2) == ["Where is it?", "a child"]


def test_clusters_with_words_in_common_lie_near_one_another() -> None:
    rooms = [f"Book a meeting room with a screen on floor {n}" for n in range(40)]
    halls = [f"Book a meeting hall with a stage on floor {n}" for n in range(40)]
    found = measure_coverage([*rooms, *halls, *REFUND], [])
    assert found is not None
    booked = [c.place for c in found.clusters if "Book" in str(c.examples[0])]
    refunds = [c.place for c in found.clusters if "money" in str(c.examples[0])]
    assert booked
    assert refunds

    def apart(one: tuple[float, float], other: tuple[float, float]) -> float:
        return abs(complex(*one) - complex(*other))

    assert max(apart(a, b) for a in booked for b in booked) < min(
        apart(a, b) for a in booked for b in refunds
    )
