"""Models that end: by any of their names, at their own provider, and never by a guess."""

from __future__ import annotations

from datetime import date

import pytest

from ratchet.llm.endings import ending_of

TODAY = date(2026, 11, 26)

ENDS = {
    ("gpt-5-mini", ""): "gpt-5-mini ends on 11 December 2026, in 15 days.",
    ("gpt-5-mini-2025-08-07", "openai"): "gpt-5-mini-2025-08-07 ends on 11 December 2026, in 15",
    ("openai/gpt-4o", ""): "ends on 14 January 2027, in 49 days.",
    ("openai:gpt-4.1-mini", ""): "ends on 14 January 2027",
    ("gpt-4o", "https://api.openai.com/v1"): "ends on 14 January 2027",
    ("GPT-4o", "OpenAI"): "ends on 14 January 2027",
    ("ft:gpt-4o-2024-08-06:acme::9x", ""): "ends on 14 January 2027",
    ("gpt-4o-2024-05-13", ""): "gpt-4o-2024-05-13 ended on 23 October 2026.",
    ("models/gemini-1.5-pro", ""): "ended on 29 September 2025.",
    ("gemini-2.5-pro", "gcp.gemini"): "ends on 1 December 2026",
    ("claude-sonnet-4-5", "anthropic"): "ends on 30 November 2026, in 4 days.",
    ("openrouter/anthropic/claude-sonnet-4.5:beta", ""): "ends on 30 November 2026",
    ("grok-2-latest", "x_ai"): "grok-2-latest is deprecated; when it ends is not known here.",
}

SILENT = [
    ("gpt-6-luna", "openai"),
    ("gpt-4o-2031-01-01", "openai"),
    ("my-gpt-4o-deployment", "azure.ai.openai"),
    ("gpt-4o", "azure.ai.openai"),
    ("gpt-4o", "https://acme.openai.azure.com/openai"),
    ("azure/gpt-4o", ""),
    ("gemini-2.5-pro", "gcp.vertex_ai"),
    ("vertex_ai/gemini-2.5-pro", ""),
    ("claude-sonnet-4-5@20250929", ""),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", "aws.bedrock"),
    ("local:qwen2.5-0.5b", ""),
    ("qwen2.5-coder", "openai"),
    ("", ""),
    ("gpt-4o" * 100, ""),
]


@pytest.mark.parametrize(("model", "provider"), ENDS)
def test_a_model_that_ends_is_known_by_its_names(model: str, provider: str) -> None:
    end = ending_of(model, provider)
    assert end is not None
    assert ENDS[model, provider] in end.sentence(TODAY)
    assert (end.model, bool(end.source)) == (model, True)


@pytest.mark.parametrize(("model", "provider"), SILENT)
def test_nothing_is_said_of_other_models_and_other_sellers(model: str, provider: str) -> None:
    assert ending_of(model, provider) is None


def test_the_command_moves_to_what_the_provider_recommends_and_quotes_names() -> None:
    end = ending_of("gpt-5-mini")
    assert end is not None
    assert end.command() == "ratchet migrate --from gpt-5-mini --to gpt-6.1-terra"
    hostile = ending_of("aya-expanse-8b; rm -rf ~", "cohere")
    assert hostile is not None
    assert "--from 'aya-expanse-8b; rm -rf ~' --to MODEL" in hostile.command()


def test_a_model_ends_at_the_beginning_of_its_day() -> None:
    end = ending_of("gpt-5-mini")
    assert end is not None
    assert end.on == date(2026, 12, 11)
    assert [end.is_past(date(2026, 12, day)) for day in (10, 11)] == [False, True]
    assert "in 1 day." in end.sentence(date(2026, 12, 10))
