"""How many commands run at once is measured on the first of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ratchet.run.measured_slots import MeasuredSlots, slots_for

BUSY = "import time\nwhile time.process_time() < 0.5: pass"


@pytest.mark.parametrize(
    ("cpu_s", "wall_s", "slots"),
    [(1.0, 1.0, 2), (4.0, 1.0, 1), (0.6, 1.0, 3), (0.1, 1.0, 8), (0.0, 1.0, 8), (1.0, 0.0, 2)],
    ids=["busy", "several threads", "half busy", "waits", "idle", "no time"],
)
def test_as_many_run_as_the_cores_keep_up_with(cpu_s: float, wall_s: float, slots: int) -> None:
    assert slots_for(cpu_s, wall_s, cores=2, most=8) == slots


def test_the_first_commands_run_one_per_core_and_decide() -> None:
    measured = MeasuredSlots(cores=2, most=8)
    assert measured.slots == 2
    for _ in range(2):
        subprocess.run([sys.executable, "-c", BUSY], check=True)
        measured.ended(0.5)  # as on a core of its own, whatever else runs on this machine
    assert measured.slots == 2
    waiting = MeasuredSlots(cores=2, most=8)
    for _ in range(2):
        waiting.ended(9.0)
    assert waiting.slots == 8
    assert MeasuredSlots(cores=os.cpu_count() or 1, most=1).slots == 1
