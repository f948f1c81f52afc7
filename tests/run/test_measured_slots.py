"""How many commands run at once is measured on the first of them."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from ratchet.run.measured_slots import MeasuredSlots, busy_s


@pytest.mark.parametrize(
    ("busy", "slots"),
    [(2.0, 2), (1.8, 2), (1.2, 3), (0.2, 8), (0.0, 8)],
    ids=["busy", "almost", "half busy", "waits", "idle"],
)
def test_as_many_commands_run_as_the_cores_keep_up_with(busy: float, slots: int) -> None:
    """Two commands of ten seconds on two cores, which are busy for `busy` of every second."""
    now = [100.0]
    measured = MeasuredSlots(2, 8, busy_s=lambda: now[0] * busy, clock=lambda: now[0])
    assert measured.slots == 2
    with ExitStack() as later:
        with measured.running():
            later.enter_context(measured.running())
            now[0] += 10
        with measured.running():
            now[0] += 10
        assert measured.slots == slots
        now[0] += 1_000
    assert measured.slots == slots, "once decided, it stays"


def test_a_single_slot_stays_one() -> None:
    measured = MeasuredSlots(4, 1)
    for _ in range(4):
        with measured.running():
            pass
    assert measured.slots == 1


def test_the_machine_says_how_busy_it_was() -> None:
    before = busy_s()
    while busy_s() <= before:
        sum(range(10_000))
    assert busy_s() > before
