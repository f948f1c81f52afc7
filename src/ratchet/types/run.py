"""Runs: one journey of `ratchet improve` around the loop, and the stage it has reached."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Stage: TypeAlias = Literal["baseline", "learn", "prove", "ship", "shipped", "no_gain", "failed"]

STAGE_TRANSITIONS: dict[Stage, frozenset[Stage]] = {
    "baseline": frozenset({"learn", "failed"}),
    "learn": frozenset({"prove", "no_gain", "failed"}),
    "prove": frozenset({"ship", "no_gain", "failed"}),
    "ship": frozenset({"shipped", "failed"}),
    "shipped": frozenset(),
    "no_gain": frozenset(),
    # The cause (a dirty tree, failing tests) may be mended: the same command goes on from there.
    "failed": frozenset({"baseline", "learn", "prove", "ship"}),
}
"""Which stage may follow which; a stage that nothing follows is final."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One journey around the loop. Its id is the content hash of what decides its course."""

    id: str
    agent: str
    """The agent's entry, MODULE:FUNCTION."""
    seed: int
    stage: Stage
    failed_at: str = ""
    """The stage to go on from, when the stage is `failed`."""
    created_at: float
    updated_at: float
    dataset_version: str = ""
    baseline_id: str = ""
    best_id: str = ""
    """Best candidate on val, once learning has ended."""
    experiment_id: str = ""
    release_id: str = ""
    message: str = ""
    """How it ended, in a sentence."""
