"""Models that agents called: each once, as it was asked for, without Ratchet's own."""

from __future__ import annotations

from tests.store.test_traces import SECOND, chat, put, span

from ratchet.store import Store


def test_models_are_listed_once_as_they_were_asked_for(store: Store) -> None:
    answered = {"gen_ai.response.model": "dated-2026-01-01"}
    put(
        store,
        span("a" * 32, start=1.0, attributes=chat("old")),
        span("b" * 32, start=5.0, attributes=chat("alias", **answered)),
        span("c" * 32, start=7.0, attributes=chat("alias", **answered)),
        span("d" * 32, start=8.0, attributes={"no": "call"}),
    )
    put(store, span("e" * 32, start=9.0, attributes=chat("judge-model")), agent="judge")
    called = store.called_models.list(3 * SECOND)
    assert [(model.agent, model.model, model.last_ns) for model in called] == [
        ("bot", "alias", 7 * SECOND)
    ]
