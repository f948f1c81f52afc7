"""What a judge reads: a long trace keeps its failing steps, and says what it left out."""

from __future__ import annotations

from ratchet.evaluate.judges import condensed
from ratchet.types import Span


def step(number: int, text: str, error: str = "") -> Span:
    return Span(
        trace_id="t",
        span_id=f"{number:016x}",
        parent_id="p",
        name=f"step_{number}",
        start_ns=number,
        end_ns=number + 1,
        status="error" if error else "ok",
        message=error,
        attributes={"ratchet.input": "x", "ratchet.output": text},
    )


def test_a_long_trace_keeps_its_failing_steps_and_their_neighbours() -> None:
    steps = [step(n, f"{n:03d} " + "word " * 40) for n in range(200)]
    steps[90] = step(90, "tried", error="ConnectionError: the calendar is away")
    text = condensed(steps, set(), limit=3_000)
    assert "step_90 failed: ConnectionError: the calendar is away" in text
    assert all(f"step_{n}:" in text for n in (0, 88, 89, 91, 92, 199))
    assert "step_50:" not in text
    assert "steps left out ...]" in text
    assert len(text) < 3_200


def test_a_failing_step_longer_than_the_room_is_cut_and_kept() -> None:
    steps = [step(0, "ok"), step(1, "word " * 3_000, error="boom"), step(2, "ok")]
    text = condensed(steps, set(), limit=1_000)
    assert "step_1" in text
    assert "characters left out" in text
    assert len(text) < 1_200
