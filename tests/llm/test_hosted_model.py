"""The hosted models that texts name: those that their providers still offer, one for OpenAI's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from genai_prices.data import providers

from ratchet.llm.hosted_model import HOSTED_MODEL

ROOT = Path(__file__).parents[2]

FAMILIES = {
    "openai": re.compile(r"gpt-(?P<version>\d+(?:\.\d+)*)o?(?:-(?P<kind>[a-z]+))?"),
    "anthropic": re.compile(r"claude-(?P<kind>[a-z]+)-(?P<version>\d{1,2}(?:[.-]\d{1,2})*)"),
}
"""A model's version and family by provider: 5.4 and `mini` of gpt-5.4-mini."""

NAMED = {
    "openai": re.compile(r"\bgpt-\d[\w.-]*\b"),
    "anthropic": re.compile(r"\bclaude-[a-z]+-\d[\w.-]*\b"),
}
"""What looks like a model's name in a text."""

TEXTS = (
    "README.md", "CONTRIBUTING.md", "llms.txt", "docs/*.md", "skills/**/*.md", "src/**/*.py",
    "examples/**/*.py", "examples/**/*.md", "examples/**/*.toml", "examples/**/*.js",
    "examples/**/*.ts", "javascript/*.md",
)  # fmt: skip
"""Where a reader may take a name from. Tests and benchmarks hold recorded calls of older models."""


def why_outdated(name: str, provider: str = "openai") -> str:
    """What the price list says against a model; empty for nothing.

    These providers' models carry no flag there when their end is announced: what tells is a newer
    one of the same family.
    """
    family = FAMILIES[provider]
    asked = family.fullmatch(name)
    if asked is None:
        return "it has no version"
    listed = {
        (match["kind"], version(match["version"])): model
        for maker in providers
        if maker.id == provider
        for model in maker.models
        if (match := family.fullmatch(model.id))
    }
    kind, number = asked["kind"], version(asked["version"])
    if (kind, number) not in listed:
        return "it is not listed"
    if listed[kind, number].deprecated:
        return "it is deprecated"
    newer = [model.id for (of, at), model in listed.items() if of == kind and at > number]
    return f"{', '.join(newer)} superseded it" if newer else ""


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.split(r"[.-]", text)))


def names(provider: str) -> Iterator[tuple[str, str]]:
    """The provider's models that texts name, with the text's path."""
    for pattern in TEXTS:
        for path in sorted(ROOT.glob(pattern)):
            if not {"node_modules", ".venv"} & set(path.parts):
                for name in NAMED[provider].findall(path.read_text(encoding="utf-8")):
                    yield name, str(path.relative_to(ROOT))


def test_the_model_that_texts_name_is_current_in_the_price_list() -> None:
    assert why_outdated(HOSTED_MODEL) == ""


@pytest.mark.parametrize("name", ["gpt-5-mini", "gpt-4o", "gpt-4o-mini", "gpt-4.1-mini", "gpt-5"])
def test_models_whose_end_is_announced_are_not_taken_for_current(name: str) -> None:
    assert "superseded" in why_outdated(name)


def test_no_text_names_another_hosted_model_of_openai() -> None:
    assert [named for named in names("openai") if named[0] != HOSTED_MODEL] == []


def test_what_texts_name_of_anthropic_is_current() -> None:
    assert "superseded" in why_outdated("claude-haiku-4.5", "anthropic")
    assert [named for named in names("anthropic") if why_outdated(named[0], "anthropic")] == []
