"""Tests of live stages that are fed from a list."""

from __future__ import annotations

from collections.abc import Iterable

from ratchet.prove import CanaryPlan, CanaryTest, ShadowPair, ShadowPlan, ShadowTest
from ratchet.prove.watch import WatchPlan, WatchTest
from ratchet.types import LiveOutcome


def replay_canary(plan: CanaryPlan, outcomes: Iterable[LiveOutcome]) -> CanaryTest:
    """A canary with these outcomes; those after its verdict are ignored."""
    test = CanaryTest.begin(plan)
    any(test.add(outcome) is not None for outcome in outcomes)
    return test


def replay_shadow(plan: ShadowPlan, pairs: Iterable[ShadowPair]) -> ShadowTest:
    """A shadow test with these pairs; those after its verdict are ignored."""
    test = ShadowTest.begin(plan)
    any(test.add(pair) is not None for pair in pairs)
    return test


def replay_watch(plan: WatchPlan, outcomes: Iterable[LiveOutcome]) -> WatchTest:
    """A watch with these outcomes; those after its verdict are ignored."""
    test = WatchTest.begin(plan)
    any(test.add(outcome) is not None for outcome in outcomes)
    return test
