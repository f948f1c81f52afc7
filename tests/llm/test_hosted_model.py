"""The hosted model that texts name: one that its provider still offers, and the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from genai_prices.data import providers

from ratchet.llm.hosted_model import HOSTED_MODEL

ROOT = Path(__file__).parents[2]

FAMILY = re.compile(r"gpt-(?P<version>\d+(?:\.\d+)*)o?(?:-(?P<kind>[a-z]+))?")
"""An OpenAI model's version and family: 5.4 and `mini` of gpt-5.4-mini."""

NAMED = re.compile(r"\bgpt-\d[\w.-]*\b")

TEXTS = (
    "README.md", "CONTRIBUTING.md", "llms.txt", "docs/*.md", "skills/**/*.md", "src/**/*.py",
    "examples/**/*.py", "examples/**/*.md", "examples/**/*.toml", "examples/**/*.js",
    "examples/**/*.ts", "javascript/*.md",
)  # fmt: skip
"""Where a reader may take a name from. Tests and benchmarks hold recorded calls of older models."""


def why_outdated(name: str) -> str:
    """What the price list says against a model of OpenAI's; empty for nothing.

    OpenAI's models carry no flag when their end is announced: what tells is a newer one of the
    same family.
    """
    models = {m.id: m for provider in providers if provider.id == "openai" for m in provider.models}
    if name not in models:
        return "it is not listed"
    if models[name].deprecated:
        return "it is deprecated"
    asked = FAMILY.fullmatch(name)
    if asked is None:
        return "it has no version"
    newer = [
        other
        for other in models
        if (match := FAMILY.fullmatch(other))
        and match["kind"] == asked["kind"]
        and version(match["version"]) > version(asked["version"])
    ]
    return f"{', '.join(newer)} superseded it" if newer else ""


def version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_the_model_that_texts_name_is_current_in_the_price_list() -> None:
    assert why_outdated(HOSTED_MODEL) == ""


@pytest.mark.parametrize("name", ["gpt-5-mini", "gpt-4o", "gpt-4o-mini", "gpt-4.1-mini", "gpt-5"])
def test_models_whose_end_is_announced_are_not_taken_for_current(name: str) -> None:
    assert "superseded" in why_outdated(name)


def test_no_text_names_another_hosted_model_of_openai() -> None:
    others = [
        f"{path.relative_to(ROOT)}: {name}"
        for pattern in TEXTS
        for path in sorted(ROOT.glob(pattern))
        if "node_modules" not in path.parts and ".venv" not in path.parts
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
        if name != HOSTED_MODEL
    ]
    assert not others
