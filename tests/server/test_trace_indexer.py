"""How the background indexer shares the machine with ingest."""

from __future__ import annotations

import pytest

from ratchet.server.trace_indexer import EVERY_S, SHARE, pause_s
from ratchet.store.trace_index import COMPLETE, IndexState


def test_while_spans_arrive_indexing_takes_its_share_and_no_more() -> None:
    pause = pause_s(IndexState(1.0, 20), 10, 0.1)
    assert 0.1 / (0.1 + pause) == pytest.approx(SHARE)


def test_what_has_been_left_is_indexed_without_a_pause_once_nothing_arrives() -> None:
    assert pause_s(IndexState(1.0, 20), 20, 0.1) == 0.0
    assert pause_s(IndexState(1.0, 20), None, 0.1) == 0.0


def test_a_complete_index_is_looked_at_again_soon_but_traces_under_way_get_their_share_only() -> (
    None
):
    assert pause_s(COMPLETE, 20, 0.001) == EVERY_S
    assert pause_s(COMPLETE, 20, 0.5) == pytest.approx(0.5 * (1 / SHARE - 1))
