"""Dollars of calls."""

from __future__ import annotations

import socket
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from ratchet.llm import ModelPrice, Usage, dollars, load, prices, set_prices


def test_a_known_model_has_its_published_price() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=200_000)
    assert dollars("openai", "gpt-4o-mini", usage) == pytest.approx(
        0.8 * 0.15 + 0.2 * 0.075 + 0.1 * 0.6
    )
    assert dollars("https://api.openai.com/v1", "gpt-4o-mini", usage) == dollars(
        "openai", "gpt-4o-mini", usage
    )


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "no-such-model"),
        ("nobody", "gpt-4o-mini"),
        ("http://127.0.0.1:8000/v1", "gpt-4o-mini"),
        ("openai", ""),
        ("openai", "m" * 100_000),
        ("openai", "\x00\ud800"),
    ],
)
def test_what_nobody_prices_costs_nothing_known(provider: str, model: str) -> None:
    assert dollars(provider, model, Usage(input_tokens=1)) is None


def test_a_configured_price_comes_before_a_published_one_and_is_known_for_any_provider() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_read_tokens=500_000)
    published = dollars("openai", "gpt-4o-mini", usage)
    try:
        set_prices(
            {
                "gpt-4o-mini": ModelPrice(input=2.0, output=10.0, cache_read=1.0),
                "local/small": ModelPrice(input=0.0, output=0.0),
            }
        )
        assert dollars("openai", "gpt-4o-mini", usage) == pytest.approx(1.0 + 0.5 + 1.0)
        assert dollars("", "local/small", usage) == 0.0
    finally:
        set_prices({})
    assert dollars("openai", "gpt-4o-mini", usage) == published


@pytest.mark.parametrize("model", ["local", "local/qwen2.5-coder-0.5b"])
def test_a_local_model_costs_nothing_by_its_own_and_its_requested_name(model: str) -> None:
    assert dollars("openai", model, Usage(input_tokens=1)) == 0.0


TOKENS = st.integers(0, 400_000)


@given(
    model=st.sampled_from(
        [
            ("openai", "gpt-4o-mini"),
            ("openai", "gpt-5"),
            ("openai", "o3"),
            ("anthropic", "claude-sonnet-4-5"),
            ("anthropic", "claude-opus-4-1"),
            ("google", "gemini-2.5-pro"),
            ("groq", "llama-3.3-70b-versatile"),
        ]
    ),
    fresh=TOKENS,
    read=TOKENS,
    output=TOKENS,
)
def test_the_price_is_the_librarys_own(
    model: tuple[str, str], fresh: int, read: int, output: int
) -> None:
    provider, name = model
    ours = dollars(
        provider,
        name,
        Usage(input_tokens=fresh + read, output_tokens=output, cache_read_tokens=read),
    )
    theirs = calc_price(
        TheirUsage(input_tokens=fresh + read, output_tokens=output, cache_read_tokens=read or None),
        name,
        provider_id=provider,
    )
    assert ours == pytest.approx(float(theirs.total_price))


def test_an_older_library_that_knows_no_tiers_still_has_the_standard_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Older:
        def find_provider_model(self, *asked: Any) -> Any:
            return None, self

        def get_prices(self, request_timestamp: Any) -> Any:
            return SimpleNamespace(input_mtok=Decimal(2), output_mtok=Decimal(4))

    monkeypatch.setattr(prices, "_snapshot", Older())
    monkeypatch.setattr(prices, "_cached", {})
    usage = Usage(input_tokens=1_000_000)
    assert [dollars("openai", "m", usage, tier) for tier in ("", "default")] == [2.0, 2.0]
    assert dollars("openai", "m", usage, "priority") is None


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(prices, "_snapshot", None)
    prices._cached.clear()
    load()
    assert dollars("openai", "gpt-4o-mini", Usage(input_tokens=1)) is not None


def test_names_that_clients_make_up_take_a_bounded_room() -> None:
    for number in range(prices.MAX_CACHED + 10):
        dollars("openai", f"made-up-{number}", Usage(input_tokens=1))
    assert len(prices._cached) <= prices.MAX_CACHED
