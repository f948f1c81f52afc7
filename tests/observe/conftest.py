"""Fixtures of the room: a rollout's collector around what a test does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from ratchet.observe import Collector, collecting

Rollout = Callable[[], AbstractContextManager[Collector]]


@pytest.fixture
def rollout() -> Rollout:
    """Opens a rollout: what is done inside is recorded in its collector."""

    @contextmanager
    def opened() -> Iterator[Collector]:
        collector = Collector()
        token = collecting.set(collector)
        try:
            yield collector
        finally:
            collecting.reset(token)
            collector.over = True

    return opened
