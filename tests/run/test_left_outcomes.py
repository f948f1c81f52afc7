"""Outcomes that workers left on disk: they are stored, and a damaged file holds up no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.run.left_outcomes import OUTBOX, store_left_outcomes
from ratchet.store import Store
from ratchet.types import Candidate, Outcome, Rollout
from ratchet.worker.outbox import leave


@pytest.mark.parametrize(
    "damage", [b"", b"[", b"{}", b'[{"rollout_id": 1}]', b"\xff\xfe", b"[" * 100_000, None]
)
def test_a_damaged_file_stays_and_the_others_are_stored(
    damage: bytes | None,
    tmp_path: Path,
    lite: Store,
    rollouts: Callable[..., list[Rollout]],
    candidate: Candidate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lite.candidates.put(candidate)
    lite.rollouts.create(rollouts(1), now=1.0)
    (claim,) = lite.rollouts.claim("agent", "w", 1, 60.0, now=1.0)
    outcome = Outcome(
        rollout_id="r0",
        fence=claim.fence,
        status="succeeded",
        started_at=1.0,
        ended_at=2.0,
        duration_s=1.0,
        output=5,
    )
    leave([outcome], tmp_path / OUTBOX)
    damaged = tmp_path / OUTBOX / "0.outcomes"
    damaged.mkdir() if damage is None else damaged.write_bytes(damage)
    store_left_outcomes(lite, tmp_path)
    assert lite.rollouts.get(["r0"])["r0"].output == 5
    assert list((tmp_path / OUTBOX).iterdir()) == [damaged]
    assert str(damaged) in caplog.text
